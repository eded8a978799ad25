// tests/cli/gpu_cluster.h
//
// Builds a cluster without Tessera, whose pods hold whole GPUs of NVIDIA's device plugin, and what
// was measured of them. Saves it in the files that `tessera savings` reads.
//
//   GpuCluster cluster;
//   cluster.node("a", {.gpus = 4});
//   cluster.pod("ml/infer", "a", {.memory_mib = 2048, .utilization = 10});
//   run_savings({.cluster = {.file = cluster.write()}, .usage = cluster.usage_file()}, ...);
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "../base/temporary_directory.h"
#include "saved_cluster.h"

namespace tessera::cli {

struct GpuNode {
  std::int64_t gpus = 0;
  std::string model = "Tesla-T4";   // "": no label
  std::int64_t memory_mib = 16384;  // 0: no label
  std::string pool{};               // the label of GKE
  std::string cpu = "32";
  std::string memory = "128Gi";
  std::string resource = "nvidia.com/gpu";
  Texts labels{};
  bool cordoned = false;
  std::string taint{};  // key of a NoSchedule taint
  std::optional<std::int64_t> allocatable{};
  std::string inventory{};       // of Tessera's agent
  std::int64_t mig_devices = 0;  // nvidia.com/mig-1g.5gb
};

struct GpuPod {
  std::int64_t gpus = 1;
  std::string resource = "nvidia.com/gpu";
  std::string cpu = "1";
  std::string memory{};                // requested; "": no request
  std::optional<double> memory_mib{};  // measured
  std::optional<double> utilization{};
  Texts labels{};
  Texts node_selector{};
  Texts annotations{};
  std::string toleration{};  // key of a taint
  boost::json::value affinity{};
  std::string created = "2026-01-01T00:00:00Z";
  std::string phase = "Running";
};

class GpuCluster {
 public:
  void node(const std::string& name, const GpuNode& node);
  // `name` is "namespace/name". A pod with an empty node waits.
  void pod(const std::string& name, const std::string& node, const GpuPod& pod);
  // Adds the nodes and pods of example_directory(), and takes its measurements.
  void add_example();
  // Reverses the order of all objects, as another API server might list them.
  void reverse();

  // Writes the files and returns their directory.
  std::string write() const;
  [[nodiscard]] std::string usage_file() const;  // CSV, in the same directory

 private:
  TemporaryDirectory directory_;
  boost::json::array nodes_;
  boost::json::array pods_;
  std::string usage_ = "namespace,pod,memory_mib,utilization_percent\n";
};

// Returns the directory of the example of docs/savings.md, which releases contain: three pools with
// 48 GPUs, of which 40 are held.
std::string example_directory();

}  // namespace tessera::cli
