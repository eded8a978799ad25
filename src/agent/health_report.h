// agent/health_report.h
//
// What the cluster is told about the health of a node's GPUs. Pure; health_reporter.h sends it.
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "gpu/driver_state.h"
#include "kube/request.h"

namespace tessera::agent {

// What became of a GPU.
struct HealthChange {
  enum class Kind { kFellIll, kOtherReason, kRecovered, kGone, kAppeared };
  Kind kind = Kind::kFellIll;
  alloc::Gpu gpu;

  friend bool operator==(const HealthChange&, const HealthChange&) = default;
};

// From one inventory to the next, in the order of their GPUs. With an empty `before` nothing has appeared: it
// is the first look.
std::vector<HealthChange> health_changes(const alloc::Inventory& before, const alloc::Inventory& after);

// A condition of the Node, type GPUsHealthy.
struct GpusCondition {
  static constexpr const char* kType = "GPUsHealthy";

  bool healthy = false;
  std::string reason;   // AllGPUsHealthy, GPUUnhealthy, NoGPUs, DriverNotReady, DriverHangs
  std::string message;  // at most some hundred bytes

  friend bool operator==(const GpusCondition&, const GpusCondition&) = default;
};

// `hang`: the driver call that does not answer, in words; empty when none does.
GpusCondition gpus_condition(const gpu::DriverState& state, const std::string& hang);

// The strategic merge patch for /status of `node` (an API object); nothing when the condition is there.
Result<std::optional<std::string>> condition_patch(const boost::json::value& node,
                                                   const GpusCondition& condition, Clock::Wall now);

// What to do about the ConfigMap unhealthy-gpu-<node> that old extenders read (null: there is none), for
// this list of indices. It exists only while a GPU is ill: those extenders take an empty list for GPU 0. One
// that somebody else made is left alone.
Result<std::optional<kube::Request>> mend_config_map(const boost::json::value* config_map,
                                                     const std::string& namespace_name,
                                                     const std::string& node, const std::string& indices);
std::string unhealthy_config_map_name(const std::string& node);

// "GPU 3 (Tesla V100-SXM2-32GB, GPU-5d3c...)".
std::string describe(const alloc::Gpu& gpu);

}  // namespace tessera::agent
