// agent/gpu/node_gpus.h
//
// The GPUs of this node, all that the agent does for them: found through the driver, served to kubelet, told
// to the cluster, watched for who uses them.
//
//   NodeGpus gpus(loop, client, names, pods, options, edges);
//   gpus.start();
//   ... each second: gpus.look_around() ...
//   gpus.leave();                    // another thread: kubelet sees us go
//
// Built before the loop runs and destroyed when it no longer does; all else on its thread unless told
// otherwise.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/devices/allocations_json.h"
#include "agent/devices/device_plugin.h"
#include "agent/devices/late_file.h"
#include "agent/devices/loop_gate.h"
#include "agent/devices/node_pods.h"
#include "agent/devices/object_keeper.h"
#include "agent/devices/readings.h"
#include "agent/devices/served_kind.h"
#include "agent/gpu/foreign_watch.h"
#include "agent/gpu/gpu_health.h"
#include "agent/gpu/gpu_kind.h"
#include "agent/gpu/known_inventory.h"
#include "agent/gpu/node_writer.h"
#include "agent/gpu/record_writer.h"
#include "agent/gpu/usage_watch.h"
#include "gpu/driver.h"
#include "http/event_loop.h"
#include "kube/client.h"

namespace tessera::agent {

struct NodeGpusOptions {
  std::string node;
  std::string state_dir;  // for files that survive a restart; empty: there is none
  // How to open the driver, asked for when it is: but for `known` and `on_change`.
  std::function<gpu::DriverOptions()> driver;
  DriverFilesOptions files{};  // but for `warn`
  DevicePluginOptions plugins{};
  UsageWatchOptions usage{};
  NodeWriterOptions writer{};
  GpuHealthOptions health{};
};

class NodeGpus {
 public:
  struct Edges {
    // What any kind needs to know who asks.
    Allocator::Edges kind{};
    // An Event.
    std::function<void(const kube::EventNote&)> record{};
  };

  // All must live longer.
  NodeGpus(http::EventLoop& loop, kube::Client& client, const alloc::ResourceNames& names, NodePods& pods,
           std::unique_ptr<GrantStrategy> strategy, NodeGpusOptions options, Edges edges);
  NodeGpus(const NodeGpus&) = delete;
  NodeGpus& operator=(const NodeGpus&) = delete;
  ~NodeGpus();

  void start();
  // Not the loop's thread, while the loop runs: answers what kubelet has asked and ends the plugins.
  void leave() { served_.leave(); }
  // What nobody calls us for; every second or so.
  void look_around();

  // From the book of pods.
  void pod_changed() { served_.pod_changed(); }
  void pod_ended(const std::string& uid) { served_.pod_ended(uid); }
  void pods_synced();

  // What is missing until pods can be served; empty when nothing is.
  [[nodiscard]] std::string not_ready() const;
  [[nodiscard]] const ServedKind& served() const { return served_; }
  // Containers that have something.
  [[nodiscard]] std::size_t records() const { return book_.size(); }
  // All that is to be read of GPUs, but for the state of objects().
  void add_readings(Readings& readings) const;
  // What is kept in the API server, as far as it is switched on.
  [[nodiscard]] std::vector<std::pair<std::string, ObjectKeeper::State>> objects() const;
  // For /allocations: the unit of shares, and who has which.
  [[nodiscard]] std::string unit() const;
  [[nodiscard]] ListedKind listed() const;

 private:
  GpuKind::Options kind_options();
  GpuKind::Edges kind_edges();
  ServedKind::Options served_options();
  ForeignWatch::Edges foreign_edges();
  UsageWatch::Sources usage_sources();
  void recover_known();
  void open_driver();
  void stop_waiting_for_driver();
  [[nodiscard]] bool driver_answered() const;
  [[nodiscard]] Status driver_trouble() const;
  void driver_changed(const std::shared_ptr<const gpu::DriverState>& state);
  void show();
  void publish();
  void given_changed();
  void tell_node(const std::string& reason, const std::string& message);

  http::EventLoop& loop_;
  NodePods& pods_;
  const NodeGpusOptions options_;
  const Edges edges_;
  LoopGate gate_;
  LateFile inventory_file_;
  alloc::Inventory known_;  // what an earlier process saw
  KnownInventory known_inventory_;
  std::unique_ptr<GrantStrategy> strategy_;
  RecordWriter record_writer_;
  Allocations book_{GpuKind::keys()};
  GpuKind kind_;
  ServedKind served_;
  ForeignWatch foreign_;
  UsageWatch usage_;
  NodeWriter node_writer_;
  GpuHealth health_;
  std::shared_ptr<const gpu::DriverState> driver_state_;
  std::shared_ptr<const gpu::DriverState> shown_state_;  // the same, without GPUs that others hold
  bool driver_was_ready_ = false;
  bool serving_ = false;  // there are GPUs to tell of
  std::string last_driver_problem_;
  http::Timer grace_;
  http::Timer recover_;
  std::unique_ptr<gpu::Driver> driver_;  // last: it calls into the others
};

}  // namespace tessera::agent
