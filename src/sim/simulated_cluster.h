// sim/simulated_cluster.h
//
// The cluster of a trace. Its state is an alloc::Ledger, the class that the extender uses. A GPU
// has 1,000 units.
//
//   SimulatedCluster cluster(trace, scenario, shapes);
//   const std::optional<alloc::Choice> choice = policy.choose(shape, random);
//   TRY(cluster.allocate(shape, *choice));
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

// The request of a pod. Pods of equal shape get equal choices.
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

// All shapes of a trace, computed once for all runs.
struct Shapes {
  std::vector<PodShape> all;
  std::vector<std::uint32_t> of_pod;  // by position in Trace::pods

  explicit Shapes(const std::vector<TracePod>& pods);
};

class SimulatedCluster {
 public:
  // Creates the empty cluster with the nodes in the order of the scenario.
  SimulatedCluster(const Trace& trace, const Scenario& scenario, const Shapes& shapes);

  [[nodiscard]] const alloc::Ledger& ledger() const { return ledger_; }
  // The nodes in the order in which they are tried.
  [[nodiscard]] std::span<const alloc::NodeId> nodes() const { return nodes_; }

  [[nodiscard]] std::size_t shape_count() const { return shapes_.all.size(); }
  [[nodiscard]] const PodShape& shape(std::uint32_t shape) const { return shapes_.all[shape]; }
  [[nodiscard]] const alloc::Request& request(std::uint32_t shape) const { return requests_[shape]; }
  // Whether the shape may use GPUs of this model.
  [[nodiscard]] bool allows(std::uint32_t shape, alloc::ModelId model) const;
  // Returns whether the node has enough free CPU, memory and GPUs now for a pod of this shape.
  [[nodiscard]] bool fits(std::uint32_t shape, alloc::NodeId node) const;

  // Returns a choice that gives the GPUs `gpus` of the node to a pod of this shape.
  [[nodiscard]] alloc::Choice choice(std::uint32_t shape, alloc::NodeId node, alloc::GpuMask gpus) const;
  // Writes a choice into the ledger. Fails, and changes nothing, if the choice does not fit.
  Status allocate(std::uint32_t shape, const alloc::Choice& choice);

  [[nodiscard]] std::int64_t capacity_milli() const { return capacity_milli_; }
  // The allocated GPU capacity, in thousandths of one GPU.
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

// Returns which models of the ledger are in `wanted`, by id; empty if any model is allowed.
std::vector<std::uint8_t> allowed_models(const alloc::Ledger& ledger, const std::vector<std::string>& wanted);

}  // namespace tessera::sim
