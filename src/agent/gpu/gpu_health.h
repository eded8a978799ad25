// agent/gpu/gpu_health.h
//
// Tells the cluster how the GPUs of this node are: what health_reporter.h does for any device, and beside it
// what the driver has to say, and the ConfigMap that old extenders read. What others changed is put right
// within a minute.
//
//   GpuHealth health(client, {.node = "gpu-a"}, tell, holders, known);
//   health.report(*driver.state());             // at every change
//   health.set_hang(driver.trouble());          // every second or so
//
// On the event loop's thread.
#pragma once

#include <chrono>
#include <string>

#include "agent/devices/health_reporter.h"
#include "agent/devices/object_keeper.h"
#include "alloc/inventory.h"
#include "gpu/driver_state.h"
#include "kube/client.h"

namespace tessera::agent {

struct GpuHealthOptions {
  std::string node;
  bool condition = true;
  bool config_map = true;
  std::string config_map_namespace = "kube-system";  // where the original looks
  std::chrono::milliseconds look_again{60'000};
  kube::BackoffOptions backoff = ObjectKeeperOptions{}.backoff;
};

// The condition GPUsHealthy. `hang`: the driver call that does not answer, in words; empty when none does.
NodeCondition gpus_condition(const gpu::DriverState& state, const std::string& hang);

class GpuHealth {
 public:
  // `before`: what the process before this one published; empty when that is not known. `client` must outlive
  // it.
  GpuHealth(kube::Client& client, GpuHealthOptions options, HealthReporter::Tell tell,
            HealthReporter::Holders holders, const alloc::Inventory& before);
  GpuHealth(const GpuHealth&) = delete;
  GpuHealth& operator=(const GpuHealth&) = delete;

  // `before` was found only now. Before the first report.
  void set_before(const alloc::Inventory& before);

  void report(const gpu::DriverState& state);
  // Whether a driver call hangs: gpu::Driver::trouble() with kTimeout. Other errors are in the state.
  void set_hang(const Status& trouble);

  // The condition and the ConfigMap: whether they are written, and if not, why.
  [[nodiscard]] const ObjectKeeper::State& condition_state() const { return reporter_.condition_state(); }
  [[nodiscard]] const ObjectKeeper::State& config_map_state() const { return config_map_keeper_.state(); }

 private:
  void set_indices(const std::string& indices, bool first);

  const GpuHealthOptions options_;
  HealthReporter reporter_;
  std::string driver_problem_;
  std::string hang_;
  gpu::DriverState state_;
  std::string indices_;
  bool began_ = false;
  ObjectKeeper config_map_keeper_;
};

}  // namespace tessera::agent
