// agent/health_reporter.h
//
// Tells the cluster when a GPU falls ill, recovers, comes or goes: an Event on the node and on each pod that
// uses the GPU, the node's condition GPUsHealthy, and the ConfigMap that old extenders read. Only changes are
// told, also across a restart of the agent.
//
//   HealthReporter health(client, {.node = "gpu-a"}, tell, holders, known);
//   health.report(*driver.state());             // at every change
//   health.set_hang(driver.trouble());          // every second or so
//
// On the event loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/health_report.h"
#include "agent/object_keeper.h"
#include "kube/client.h"
#include "kube/event_aggregator.h"

namespace tessera::agent {

struct HealthReporterOptions {
  std::string node;
  bool condition = true;
  bool config_map = true;
  std::string config_map_namespace = "kube-system";  // where the original looks
  std::chrono::milliseconds look_again{300'000};
  kube::BackoffOptions backoff = ObjectKeeperOptions{}.backoff;
};

class HealthReporter {
 public:
  using Tell = std::function<void(const kube::EventNote&)>;
  // The pods that have this GPU.
  using Holders = std::function<std::vector<kube::ObjectReference>(const std::string& gpu_uuid)>;

  // `before`: what the process before this one published; empty when that is not known. `client` must outlive
  // it.
  HealthReporter(kube::Client& client, HealthReporterOptions options, Tell tell, Holders holders,
                 alloc::Inventory before);
  HealthReporter(const HealthReporter&) = delete;
  HealthReporter& operator=(const HealthReporter&) = delete;

  // `before` was found only now. Before the first report.
  void set_before(alloc::Inventory before) { told_ = std::move(before); }

  void report(const gpu::DriverState& state);
  // Whether a driver call hangs: gpu::Driver::trouble() with kTimeout. Other errors are in the state.
  void set_hang(const Status& trouble);

  // The condition and the ConfigMap: whether they are written, and if not, why.
  [[nodiscard]] const ObjectKeeper::State& condition_state() const { return condition_keeper_->state(); }
  [[nodiscard]] const ObjectKeeper::State& config_map_state() const { return config_map_keeper_->state(); }

 private:
  void tell_node(bool warning, const std::string& reason, const std::string& message);
  void tell_change(const HealthChange& change);
  void tell_holders(const alloc::Gpu& gpu, const std::string& message);
  void set_condition(bool first);
  void set_indices(const std::string& indices, bool first);

  const HealthReporterOptions options_;
  Tell tell_;
  Holders holders_;
  alloc::Inventory told_;  // what the cluster knows of the GPUs
  std::string driver_problem_;
  std::string hang_;
  gpu::DriverState state_;
  GpusCondition condition_;
  std::string indices_;
  bool began_ = false;
  std::unique_ptr<ObjectKeeper> condition_keeper_;
  std::unique_ptr<ObjectKeeper> config_map_keeper_;
};

}  // namespace tessera::agent
