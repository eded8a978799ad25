// agent/gpu/gpu_health.h
//
// Reports the health of this node's GPUs to the cluster. HealthReporter writes the Events and the
// Node condition, as for any device. GpuHealthReporter adds the state of the driver, and the
// ConfigMap that the original extenders read. If another client changes the condition or the
// ConfigMap, the change is reverted within a minute.
//
//   GpuHealthReporter health(node, allocations, {}, known);
//   health.report(*driver.state());             // on every change
//   health.set_hang(driver.problem());          // about every second
//
// Use it on the event loop's thread.
#pragma once

#include <boost/json/value.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "agent/devices/health_reporter.h"
#include "agent/devices/object_reconciler.h"
#include "alloc/inventory.h"
#include "gpu/driver_state.h"
#include "kube/request.h"

namespace tessera::agent {

struct GpuHealthReporterOptions {
  bool condition = true;
  bool config_map = true;
  std::string config_map_namespace = "kube-system";  // where the original extenders expect it
  std::chrono::milliseconds recheck_every{60'000};
  kube::BackoffOptions backoff = ObjectReconcilerOptions{}.backoff;
};

// Returns the condition GPUsHealthy. `hang` describes the driver call that does not return; empty
// if no call hangs.
NodeCondition gpus_condition(const gpu::DriverState& state, const std::string& hang);

// Returns the inventory to publish while a driver call hangs: healthy GPUs become unhealthy because
// of `hang`. Returns `inventory` unchanged if `hang` is empty.
alloc::Inventory during_hang(alloc::Inventory inventory, const std::string& hang);

class GpuHealthReporter {
 public:
  // `allocations` contains the pods that use a GPU. `before` is the inventory that an earlier
  // process published; empty if that is unknown. `node` and `allocations` must outlive this object.
  GpuHealthReporter(const NodeContext& node, const Allocations& allocations, GpuHealthReporterOptions options,
                    const alloc::Inventory& before);
  GpuHealthReporter(const GpuHealthReporter&) = delete;
  GpuHealthReporter& operator=(const GpuHealthReporter&) = delete;

  // Sets `before` after construction. Call it before the first report().
  void set_before(const alloc::Inventory& before);

  void report(const gpu::DriverState& state);
  // Handles the result of gpu::Driver::problem(). Only kTimeout matters: it means that a driver call
  // hangs. Other errors are in the state that report() gets. Returns whether a hang began or ended.
  bool set_hang(const Status& problem);
  // Returns a description of the driver call that hangs; empty if none does. The text stays
  // the same during the hang.
  [[nodiscard]] const std::string& hang() const { return hang_; }

  // Return whether the condition and the ConfigMap are up to date and, if not, why.
  [[nodiscard]] const ObjectReconciler::State& condition_state() const { return reporter_.condition_state(); }
  [[nodiscard]] const ObjectReconciler::State& config_map_state() const {
    return config_map_reconciler_.state();
  }

 private:
  void set_unhealthy_indices(const std::string& indices, bool first);
  [[nodiscard]] Result<std::optional<kube::Request>> config_map_change(
      const boost::json::value* config_map) const;

  const NodeContext& node_;
  const GpuHealthReporterOptions options_;
  HealthReporter reporter_;
  std::string driver_problem_;
  std::string hang_;
  gpu::DriverState state_;
  std::string unhealthy_indices_;  // "1,3"
  bool reported_ = false;
  ObjectReconciler config_map_reconciler_;
};

}  // namespace tessera::agent
