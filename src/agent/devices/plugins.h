// agent/devices/plugins.h
//
// Serves one kind of device to kubelet: one device plugin for each of its resources (for GPUs:
// gpu-mem, gpu and gpu-count), answered by Admission and StartGate.
//
//   AllocationStore store(node, GpuKind::keys(), state_dir + "/allocations.json");
//   Plugins plugins({.node = node, .kind = gpus, .strategy = strategy, .store = store}, options);
//   plugins.start();
//   plugins.publish();               // at every change of the devices or of the kind's resources
//   plugins.pods_synced();           // from a PodListener, when the kind is up to date
//
// A resource is registered with its first list that kubelet can take: an empty list would say that
// the devices of running pods do not exist. If a later list is too long, kubelet keeps the devices
// that it knows, with their current health; an Event reports it once, and each new list is tried
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
  DevicePluginOptions plugin{};  // without the resource
  Metrics* metrics = nullptr;    // counts and times kubelet's calls; must outlive the plugins
};

class Plugins final : private AllocationListener {
 public:
  Plugins(const KindContext& context, PluginsOptions options);
  ~Plugins() override;
  Plugins(const Plugins&) = delete;
  Plugins& operator=(const Plugins&) = delete;

  // From now on the first publish() waits a little for the pods of the node.
  void start();
  // Sends kubelet the current lists, if they changed, and registers and unregisters resources.
  void publish();
  // All pods of the node are known: recovers allocations, then publishes.
  void pods_synced();
  // Unregisters everything after the calls in flight are answered. Not on the loop's thread, and
  // while the loop runs.
  void leave();

  struct Resource {
    std::string name;
    DevicePluginStatus status;
    std::size_t devices = 0;
    std::size_t healthy = 0;
    std::string problem;  // why kubelet could not get the list; empty when it did
  };
  [[nodiscard]] std::vector<Resource> resources() const;
  // What is missing until kubelet knows all resources; empty when it does.
  [[nodiscard]] std::string not_ready() const;
  // Resources, and how kubelet's calls were answered.
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
  http::Timer pods_wait_;  // while it runs, the first list waits for the pods
  std::optional<std::vector<ResourceList>> published_;
  mutable std::mutex mutex_;  // plugins_, retiring_: leave() takes them away on another thread
  std::vector<std::unique_ptr<ResourcePlugin>> plugins_;
  std::vector<std::future<void>> retiring_;
  bool left_ = false;
};

// The current lists of a kind for kubelet. IDs that containers hold stay listed, as unhealthy, when
// their device is gone: kubelet does not count an ID that vanished and would allocate its place to
// others.
std::vector<ResourceList> lists_with_held(DeviceKind& kind, const Allocations& allocations);

}  // namespace tessera::agent
