// sim/trace.h
//
// A cluster and its pods, in the format of the Alibaba openb traces. Columns that end in _milli
// are in thousandths: a pod with num_gpu 1 and gpu_milli 460 requests 46% of one GPU.
//
//   sn,cpu_milli,memory_mib,gpu,model
//   openb-node-0000,64000,262144,2,P100
//
//   name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,...
//   openb-pod-0001,6000,12288,1,460,,...
//
// Columns are found by their names in the first line. Other columns are ignored, and gpu_spec may
// be missing. Quotes are as in RFC 4180.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera::sim {

inline constexpr std::int64_t kGpuMilli = 1000;  // a whole GPU

struct TraceNode {
  std::string name{};
  std::int64_t cpu_milli = 0;
  std::int64_t memory_mib = 0;
  std::uint32_t gpus = 0;
  std::string model{};

  friend bool operator==(const TraceNode&, const TraceNode&) = default;
};

struct TracePod {
  std::string name{};
  std::int64_t cpu_milli = 0;
  std::int64_t memory_mib = 0;
  std::uint32_t gpus = 0;             // 0: requests none
  std::uint32_t gpu_milli = 0;        // thousandths of each GPU; 1000: the whole GPU
  std::vector<std::string> models{};  // allowed models, sorted; empty: any

  // The total over all its GPUs.
  [[nodiscard]] std::int64_t requested_gpu_milli() const { return std::int64_t{gpus} * gpu_milli; }
  [[nodiscard]] bool is_share() const { return gpus > 0 && gpu_milli < kGpuMilli; }

  friend bool operator==(const TracePod&, const TracePod&) = default;
};

struct Trace {
  std::vector<TraceNode> nodes;
  std::vector<TracePod> pods;

  [[nodiscard]] std::int64_t gpu_capacity_milli() const;
  [[nodiscard]] std::int64_t requested_gpu_milli() const;
};

// Parse the tables. Errors name line and column, counted from 1, of the first invalid field.
Result<std::vector<TraceNode>> parse_nodes(std::string_view csv);
Result<std::vector<TracePod>> parse_pods(std::string_view csv);

// Reads both files. Also fails if no node has a GPU or no pod requests one.
Result<Trace> read_trace(const std::string& nodes_path, const std::string& pods_path);

}  // namespace tessera::sim
