// agent/devices/device_kind.h
//
// The interface of one kind of device, such as GPUs. To serve another kind, implement this class.
// These parts are the same for all kinds:
//
//   container_lookup.h      finds the container that a kubelet call is for
//   admission.h             allocates devices to a container
//   start_gate.h            decides whether a container may start
//   allocation_recovery.h   restores the allocations after a restart
//   plugins.h               registers with kubelet and sends the device lists
//   health_reporter.h       reports device health to the cluster
//
//   class FilesKind final : public DeviceKind { ... };    // tests/agent/devices/files_kind.h
//   FilesKind files("/dev");
//   Plugins plugins({.node = node, .kind = files, .strategy = strategy, .store = store}, options);
//
// All calls are made on the event loop's thread. During decide() and edits(), kubelet waits and
// admits no other pod. So these two functions must not use the network or the driver, and may read a few
// small files at most.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "agent/devices/allocation.h"
#include "agent/devices/device.h"
#include "agent/devices/loop_gate.h"
#include "agent/devices/node_pods.h"
#include "base/result.h"

namespace tessera::agent {

// The names of a kind of device in messages, Events, the Node condition and variables.
struct KindInfo {
  std::string one;   // "GPU"
  std::string many;  // "GPUs"
  // Reasons of Events on the node and on pods.
  std::string unhealthy;     // "GpuUnhealthy"
  std::string healthy;       // "GpuHealthy": a device has recovered
  std::string gone;          // "GpuGone"
  std::string appeared;      // "GpuAppeared"
  std::string mismatch;      // "GpuAllocationMismatch"
  std::string setup_failed;  // "GpuSetupFailed"
  // Type and reasons of the Node condition.
  std::string condition;       // "GPUsHealthy"
  std::string all_healthy;     // "AllGPUsHealthy"
  std::string some_unhealthy;  // "GPUUnhealthy"
  std::string no_devices;      // "NoGPUs"
  // The variable that lists the devices of a container ("NVIDIA_VISIBLE_DEVICES"), its value for
  // "no device" ("void"), and the prefix of a device name ("GPU-"). All three are empty if this
  // kind has no such variable.
  std::string visible_variable{};
  std::string visible_none{};
  std::string device_prefix{};

  // Returns the variables that hide all devices from a container.
  [[nodiscard]] Env no_device_env() const {
    return visible_variable.empty() ? Env{} : Env{{visible_variable, visible_none}};
  }
};

// A physical device of this node.
struct NodeDevice {
  std::string id;           // permanent, the same as DeviceShare::device
  std::string name;         // for messages: "GPU 3 (GPU-5d3c...)"
  std::string description;  // the name with the model: "GPU 3 (Tesla V100-SXM2-32GB, GPU-5d3c...)"
  std::string unhealthy{};  // why it must not be used; empty if it is healthy

  friend bool operator==(const NodeDevice&, const NodeDevice&) = default;
};

// Pairs of a device (NodeDevice::id) and the number of IDs to take from it.
using WantedIds = std::vector<std::pair<std::string, std::size_t>>;

// The devices decided for a container.
struct Decided {
  std::vector<DeviceShare> shares{};  // empty: no device
  Env env{};                          // variables that describe the shares, set by every strategy
  // Resource -> how many IDs kubelet should take from which device. For a resource without an
  // entry, kubelet may take any IDs.
  std::map<std::string, WantedIds> wanted{};
};

// The reason why a container gets no device or may not start yet.
struct StartBlock {
  std::string reason;        // of the Event: "GpuUnhealthy"
  std::string message;       // of the Event: what is wrong and what to do, without the pod's name
  std::string counted_as{};  // label `result` of tessera_agent_containers_total; used only at admission
};

using Decision = tl::expected<Decided, StartBlock>;

class DeviceKind {
 public:
  virtual ~DeviceKind() = default;

  [[nodiscard]] const KindInfo& info() const { return info_; }
  // The resources that this kind serves now.
  [[nodiscard]] const std::vector<std::string>& resources() const { return resources_; }

  // Returns the current devices as kubelet counts them: one list per resource, in the order of
  // resources().
  [[nodiscard]] virtual std::vector<ResourceList> lists() = 0;
  // Returns the current physical devices.
  [[nodiscard]] virtual std::vector<NodeDevice> devices() const = 0;
  // Returns the physical device (NodeDevice::id) that an ID in kubelet's list belongs to. Returns
  // "" if the ID has the form of this kind but the device is unknown. Returns nullopt if the ID has
  // another form. Such an ID is from another plugin that served the resource before.
  [[nodiscard]] virtual std::optional<std::string> device_of(const std::string& id) const = 0;

  // Decides which devices a container gets. Returns a StartBlock if the container cannot get them now. Called
  // for GetPreferredAllocation (with empty `ids`), at admission for each resource of the container,
  // and before each start. `ids` may contain resources of other kinds.
  [[nodiscard]] virtual Decision decide(const NodePod& pod, const std::string& container,
                                        const IdsByResource& ids) const = 0;
  // Returns the device nodes, files and variables that give access to `shares`. Called only for
  // strategies that deliver devices. The error says what is missing and how to get it.
  virtual Result<Edits> edits(const std::vector<DeviceShare>& shares) = 0;

  // Decides whether a container may start with the devices that it was admitted with (`allocated`;
  // null if unknown). Called if the strategy can no longer change these devices
  // (DeliveryStrategy::can_update). `decided` is the current decision, which may name other
  // devices. Returns the devices with which the container may start. Fails with the reason if the
  // container must not start.
  [[nodiscard]] virtual Result<Decided> accept_allocated(const NodePod& pod, const std::string& container,
                                                         const Decided& decided,
                                                         const Allocation* allocated) const;
  // Returns why a container of `pod` may not start yet although its devices are healthy. Returns
  // nullopt if it may start.
  [[nodiscard]] virtual std::optional<StartBlock> block_start(const NodePod& /*pod*/) const {
    return std::nullopt;
  }
  // Does the last work before a container starts. Called when nothing else blocks the container. If
  // `done` receives an error, the container does not start.
  virtual void before_start(const NodePod& /*pod*/, const std::string& /*container*/,
                            const Done<Status>& done) {
    done({});
  }

 protected:
  DeviceKind(KindInfo info, std::vector<std::string> resources)
      : info_(std::move(info)), resources_(std::move(resources)) {}

  // Changes the set of resources. The next Plugins::publish() registers the new resources and
  // unregisters the removed ones.
  void set_resources(std::vector<std::string> resources) { resources_ = std::move(resources); }

 private:
  const KindInfo info_;
  std::vector<std::string> resources_;
};

// Adds to `list`, as unhealthy devices, the elements of `ids` that `list` does not contain. Returns true
// if it added any.
bool add_unlisted(const std::vector<std::string>& ids, std::vector<Device>& list);

}  // namespace tessera::agent
