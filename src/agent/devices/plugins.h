// agent/devices/plugins.h
//
// Serves one kind of device to kubelet with one device plugin per resource (for GPUs: gpu-mem, gpu
// and gpu-count). Admission and StartGate answer kubelet's calls.
//
//   AllocationStore store(node, GpuKind::keys(), state_dir + "/allocations.json");
//   Plugins plugins({.node = node, .kind = gpus, .strategy = strategy, .store = store}, options);
//   plugins.start();
//   plugins.publish();               // after each change of the kind's devices or resources
//   plugins.pods_synced();           // from a PodListener, once the kind is up to date
//
// A resource is registered with its first list that is short enough for kubelet. Until then it is
// not registered at all, because an empty list would mean that the devices of running pods do not
// exist. If a later list is too long, the agent sends only the devices in it that kubelet already
// knows, with their current health. An Event reports this once. The next list is tried in full
// again. A resource that the kind no longer has is unregistered.
//
// All calls are made on the event loop's thread, except leave().
#pragma once

#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/devices/admission.h"
#include "agent/devices/allocation_recovery.h"
#include "agent/devices/device_plugin.h"
#include "agent/devices/kind_context.h"
#include "agent/devices/metrics.h"
#include "agent/devices/start_gate.h"

namespace tessera::agent {

class Readings;

struct PluginsOptions {
  DevicePluginOptions plugin{};  // for each resource; the field `resource` is ignored
  Metrics* metrics = nullptr;    // counts kubelet's calls; must outlive the plugins
};

class Plugins final : private AllocationListener {
 public:
  Plugins(const KindContext& context, PluginsOptions options);
  ~Plugins() override;
  Plugins(const Plugins&) = delete;
  Plugins& operator=(const Plugins&) = delete;

  // Starts to serve. The first device list is sent as soon as the pods of the node are known. If
  // that takes longer than 350 ms, the list is sent without waiting for them.
  void start();
  // Sends kubelet the current device lists if they have changed. Registers new resources and
  // unregisters removed ones.
  void publish();
  // Recovers allocations, then publishes. Call it when all pods of the node are known.
  void pods_synced();
  // Waits for the calls in flight and unregisters all resources. Call it from another thread while
  // the loop runs.
  void leave();

  struct Resource {
    std::string name;
    DevicePluginStatus status;
    std::size_t devices = 0;
    std::size_t healthy = 0;
    std::string problem;  // why kubelet did not get the list; empty if it did
  };
  [[nodiscard]] std::vector<Resource> resources() const;
  // Returns why kubelet has not accepted all resources yet; empty if it has.
  [[nodiscard]] std::string not_ready() const;
  // Returns true if no other instance of the agent serves any of the resources.
  [[nodiscard]] bool alone() const;
  // Adds the metrics of the resources and of kubelet's calls.
  void add_readings(Readings& readings) const;

 private:
  class ResourcePlugin;

  void allocations_changed() override;
  void recover();
  void send_lists();
  void retire(std::unique_ptr<ResourcePlugin> plugin);
  [[nodiscard]] ResourcePlugin& plugin_of(const std::string& resource);

  const KindContext context_;
  const PluginsOptions options_;
  AllocationRecovery recovery_;
  Admission admission_;
  StartGate start_gate_;
  bool devices_known_ = false;
  http::Timer pods_wait_;  // while pending, the first list waits for the pods
  std::optional<std::vector<ResourceList>> published_;
  mutable std::mutex mutex_;  // guards the members below, which leave() changes on another thread
  std::vector<std::unique_ptr<ResourcePlugin>> plugins_;
  std::vector<std::future<void>> retiring_;
  bool left_ = false;
};

// Returns the devices of one kind as kubelet gets them, one list per resource. If a device is gone,
// those of its IDs that containers hold stay in the list, marked as unhealthy. If they were not in
// the list, kubelet would count them as free and allocate their capacity to other containers.
std::vector<ResourceList> lists_with_held(DeviceKind& kind, const Allocations& allocations);

}  // namespace tessera::agent
