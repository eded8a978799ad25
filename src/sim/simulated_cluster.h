// sim/cluster.h
//
// The cluster of a trace in the ledger that the extender also uses: GPUs of 1,000 units, one for each
// thousandth, and nobody else's books beside it.
//
//   SimulatedCluster cluster(trace, kinds, scenario);
//   const std::optional<alloc::Choice> choice = policy.choose(cluster, shape);
//   cluster.allocate(*choice, shape);
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "alloc/choice.h"
#include "alloc/ledger.h"
#include "alloc/request.h"
#include "sim/scenario.h"
#include "sim/trace.h"

namespace tessera::sim {

// Pods that are placed alike: same amounts, same models.
struct PodShape {
  std::int64_t cpu_milli = 0;
  std::int64_t memory_bytes = 0;
  std::uint32_t gpus = 0;
  std::uint32_t gpu_milli = 0;
  std::vector<std::string> models{};

  [[nodiscard]] bool is_share() const { return gpus > 0 && gpu_milli < kGpuMilli; }
  [[nodiscard]] std::int64_t requested_gpu_milli() const { return std::int64_t{gpus} * gpu_milli; }
  [[nodiscard]] alloc::Request request() const;

  friend auto operator<=>(const PodShape&, const PodShape&) = default;
};

// All shapes of a trace, worked out once for all runs.
struct Shapes {
  std::vector<PodShape> all;
  std::vector<std::uint32_t> of_pod;  // by place in Trace::pods

  explicit Shapes(const std::vector<TracePod>& pods);
};

class SimulatedCluster {
 public:
  // The empty cluster, its nodes in the order of the scenario.
  SimulatedCluster(const Trace& trace, const Scenario& scenario, const Shapes& shapes);

  [[nodiscard]] const alloc::Ledger& ledger() const { return ledger_; }
  // In the order in which nodes are tried.
  [[nodiscard]] std::span<const alloc::NodeId> nodes() const { return nodes_; }

  [[nodiscard]] std::size_t shape_count() const { return shapes_.all.size(); }
  [[nodiscard]] const PodShape& shape(std::uint32_t shape) const { return shapes_.all[shape]; }
  [[nodiscard]] const alloc::Request& request(std::uint32_t shape) const { return requests_[shape]; }
  // Whether GPUs of this model will do.
  [[nodiscard]] bool allows(std::uint32_t shape, alloc::ModelId model) const;
  // Whether CPU, memory and GPUs suffice now.
  [[nodiscard]] bool fits(std::uint32_t shape, alloc::NodeId node) const;

  // The decision to give these GPUs of a node to a pod of this shape.
  [[nodiscard]] alloc::Choice choice(std::uint32_t shape, alloc::NodeId node, alloc::GpuMask gpus) const;
  // Writes it down. Fails only when the choice was wrong, and then nothing is written.
  Status allocate(std::uint32_t shape, const alloc::Choice& choice);

  [[nodiscard]] std::int64_t capacity_milli() const { return capacity_milli_; }
  // Of all GPUs, given to pods.
  [[nodiscard]] std::int64_t allocated_milli() const { return allocated_milli_; }

 private:
  const Shapes& shapes_;
  alloc::Ledger ledger_;
  std::vector<alloc::NodeId> nodes_;
  std::vector<alloc::Request> requests_;                   // by shape
  std::vector<std::vector<std::uint8_t>> models_allowed_;  // by shape, then model; empty: any
  std::int64_t capacity_milli_ = 0;
  std::int64_t allocated_milli_ = 0;
  std::uint64_t placed_ = 0;
};

// Which models of the ledger is among `wanted`, by id; empty when any will do.
std::vector<std::uint8_t> allowed_models(const alloc::Ledger& ledger, const std::vector<std::string>& wanted);

}  // namespace tessera::sim
