// agent/agent_parts.h
//
// The inside of an Agent: its parts, and what is known beside them. Only agent.cc and agent_parts.cc include
// it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/agent.h"
#include "agent/allocations.h"
#include "agent/foreign_watch.h"
#include "agent/gpu_allocator.h"
#include "agent/gpu_plugins.h"
#include "agent/grant_strategy.h"
#include "agent/health_reporter.h"
#include "agent/known_inventory.h"
#include "agent/late_file.h"
#include "agent/loop_gate.h"
#include "agent/node_pods.h"
#include "agent/node_writer.h"
#include "agent/observer.h"
#include "agent/pod_fetch.h"
#include "agent/pod_resources.h"
#include "agent/record_writer.h"
#include "gpu/driver.h"
#include "http/server.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "kube/reflector.h"

namespace tessera::agent {

struct Agent::Parts {
  Parts(http::EventLoop& loop_, Config config_, kube::Client client_);

  GpuAllocator::Edges allocator_edges();
  DevicePluginOptions plugin_options();
  Observer::Sources observer_sources();
  void add_readings(std::optional<std::chrono::nanoseconds> sample_age, Readings& readings) const;
  void load_allocations();
  void recover_known();
  void open_driver();
  void stop_waiting_for_driver();
  [[nodiscard]] bool driver_answered() const;
  [[nodiscard]] Status driver_trouble() const;
  Status serve();

  void driver_changed(const std::shared_ptr<const gpu::DriverState>& state);
  void show();
  void publish();
  [[nodiscard]] std::vector<std::pair<std::string, ObjectKeeper::State>> objects() const;
  void tell_kubelet();
  ForeignWatch::Edges foreign_edges();
  void tell_node(const std::string& reason, const std::string& message);
  void pods_synced();
  void allocations_changed();
  void tell(const NodePod& pod, const std::string& reason, const std::string& message);
  [[nodiscard]] std::vector<kube::ObjectReference> holders_of(const std::string& uuid) const;
  void look_around();
  [[nodiscard]] std::string not_ready() const;

  http::EventLoop& loop;
  Config config;
  const alloc::ResourceNames names;
  const std::string state_dir;
  LoopGate gate;
  kube::Client client;
  kube::EventRecorder recorder;
  PodResources pod_resources;
  LateFile allocation_file;
  LateFile inventory_file;
  Allocations allocations;
  alloc::Inventory known;  // what an earlier process saw
  KnownInventory known_inventory;
  std::unique_ptr<GrantStrategy> strategy;
  NodePods pods;
  PodFetch pod_fetch;
  RecordWriter record_writer;
  GpuAllocator allocator;
  ForeignWatch foreign;
  Observer observer;
  GpuPlugins plugins;  // behind what its answers are counted in
  kube::Reflector pod_watch;
  NodeWriter node_writer;
  HealthReporter health;
  std::optional<http::Server> server;
  std::shared_ptr<const gpu::DriverState> driver_state;
  std::shared_ptr<const gpu::DriverState> shown_state;  // the same, without GPUs that others hold
  bool driver_was_ready = false;
  bool serving = false;  // there are GPUs to tell of
  bool said_ready = false;
  std::string last_driver_problem;
  http::Timer grace;
  http::Timer pods_wait;  // until the pods must be known before kubelet is told of us
  http::Timer look;
  http::Timer recover;
  Clock::Steady began{};
  std::unique_ptr<gpu::Driver> driver;  // last: it calls into the others
};

}  // namespace tessera::agent
