// agent/gpu/node_gpus.h
//
// The GPUs of this node and everything that the agent does with them: it discovers them through the
// driver, serves them to kubelet, publishes them in the cluster, and watches their use.
//
//   NodeGpus gpus(node, strategy, options);
//   gpus.start();
//   ... every second: gpus.check() ...
//   gpus.leave();                    // on another thread: unregisters from kubelet
//
// Create it before the loop runs, and destroy it after the loop has stopped. All other calls are
// made on the loop's thread unless stated otherwise.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/devices/allocation_store.h"
#include "agent/devices/allocations_json.h"
#include "agent/devices/async_file.h"
#include "agent/devices/loop_gate.h"
#include "agent/devices/node_context.h"
#include "agent/devices/object_reconciler.h"
#include "agent/devices/plugins.h"
#include "agent/devices/readings.h"
#include "agent/gpu/foreign_watch.h"
#include "agent/gpu/gpu_health.h"
#include "agent/gpu/gpu_kind.h"
#include "agent/gpu/known_inventory.h"
#include "agent/gpu/node_writer.h"
#include "agent/gpu/record_guard.h"
#include "agent/gpu/record_writer.h"
#include "agent/gpu/usage_watch.h"
#include "gpu/driver.h"

namespace tessera::agent {

struct NodeGpusOptions {
  std::string state_dir;        // for files that survive a restart; empty: no such files
  gpu::DriverOptions driver{};  // `known` and `on_change` are ignored
  DriverFilesOptions files{};
  PluginsOptions plugins{};
  UsageWatchOptions usage{};
  NodeWriterOptions writer{};
  GpuHealthReporterOptions health{};
};

class NodeGpus final : private PodListener, private AllocationListener {
 public:
  // `node` must outlive this object.
  NodeGpus(const NodeContext& node, std::unique_ptr<DeliveryStrategy> strategy, NodeGpusOptions options);
  NodeGpus(const NodeGpus&) = delete;
  NodeGpus& operator=(const NodeGpus&) = delete;
  ~NodeGpus() override;

  void start();
  // Answers kubelet's calls in flight and then unregisters from kubelet. Call it from another
  // thread while the loop still runs.
  void leave() { plugins_.leave(); }
  // Returns whether no other instance of the agent serves the GPUs of this node.
  [[nodiscard]] bool alone() const { return plugins_.alone(); }
  // Periodic work, about once a second.
  void check();

  // Returns why pods cannot be served yet; empty if they can.
  [[nodiscard]] std::string not_ready() const;
  [[nodiscard]] AllocationStore& store() { return store_; }
  [[nodiscard]] const AllocationStore& store() const { return store_; }
  // Adds all metrics of GPUs except those of objects().
  void add_readings(Readings& readings) const;
  // The objects in the API server that this class reconciles, except those that are switched off.
  [[nodiscard]] std::vector<std::pair<std::string, ObjectReconciler::State>> objects() const;
  // The unit of shares and the allocations, for /allocations.
  [[nodiscard]] std::string unit() const;
  [[nodiscard]] ListedKind listed() const;

 private:
  void pods_synced() override;
  void allocations_changed() override;

  void recover_known();
  void open_driver();
  void stop_waiting_for_driver();
  [[nodiscard]] bool driver_answered() const;
  [[nodiscard]] Status driver_problem() const;
  void driver_changed(const std::shared_ptr<const gpu::DriverState>& state);
  void update_published_state();
  void publish();
  [[nodiscard]] ForeignWatch::Registered registered() const;

  const NodeContext& node_;
  const NodeGpusOptions options_;
  LoopGate gate_;
  AsyncFile inventory_file_;
  alloc::Inventory known_;  // as an earlier process saw it
  KnownInventory known_inventory_;
  std::unique_ptr<DeliveryStrategy> strategy_;
  ApiRecordWriter record_writer_;
  AllocationStore store_;
  Leftovers leftovers_;
  GpuKind kind_;
  RecordGuard record_guard_;
  Plugins plugins_;
  ForeignWatch foreign_;
  UsageWatch usage_;
  NodeWriter node_writer_;
  GpuHealthReporter health_;
  std::shared_ptr<const gpu::DriverState> driver_state_;
  std::shared_ptr<const gpu::DriverState>
      published_state_;  // GPUs that other plugins hold are unhealthy in it
  bool driver_was_ready_ = false;
  bool serving_ = false;  // GPUs have been published
  std::string last_driver_problem_;
  http::Timer grace_timer_;
  http::Timer recovery_timer_;
  std::unique_ptr<gpu::Driver> driver_;  // last, because it calls the other members
};

}  // namespace tessera::agent
