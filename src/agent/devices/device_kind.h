// agent/devices/device_kind.h
//
// What is special about one kind of device. To serve another kind, implement this class. Everything
// else is written once for all kinds: which pod kubelet asks for (container_lookup.h), what a
// container gets (admission.h), whether it may start (start_gate.h), what survives a restart
// (allocation_recovery.h), registration and device lists (plugins.h), health in the cluster
// (health_reporter.h).
//
//   class FilesKind final : public DeviceKind { ... };    // tests/agent/devices/files_kind.h
//   FilesKind files("/dev");
//   Plugins plugins({.node = node, .kind = files, .strategy = strategy, .store = store}, options);
//
// All calls come on the event loop's thread. During decide() and edits() kubelet waits and admits
// no other pod: no network, no driver calls, a few small files at most.
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

// How a kind appears in the cluster.
struct KindInfo {
  std::string one;   // "GPU"
  std::string many;  // "GPUs"
  // Reasons of Events, on the node and on pods.
  std::string unhealthy;     // "GpuUnhealthy"
  std::string healthy;       // "GpuHealthy": healthy again
  std::string gone;          // "GpuGone"
  std::string appeared;      // "GpuAppeared"
  std::string mismatch;      // "GpuAllocationMismatch"
  std::string setup_failed;  // "GpuSetupFailed"
  // The condition of the Node: its type and its reasons.
  std::string condition;       // "GPUsHealthy"
  std::string all_healthy;     // "AllGPUsHealthy"
  std::string some_unhealthy;  // "GPUUnhealthy"
  std::string no_devices;      // "NoGPUs"
  // The variable that lists the devices a container may use ("NVIDIA_VISIBLE_DEVICES"), its value
  // for "no device" ("void"), and how the name of a device begins ("GPU-"). Empty: this kind has no
  // such variable.
  std::string visible_variable{};
  std::string visible_none{};
  std::string device_prefix{};

  // The variables of a container that must see no device.
  [[nodiscard]] Env no_device_env() const {
    return visible_variable.empty() ? Env{} : Env{{visible_variable, visible_none}};
  }
};

// A device of this node, as people know it.
struct NodeDevice {
  std::string id;           // the permanent name: DeviceShare::device
  std::string name;         // "GPU 3 (GPU-5d3c...)"
  std::string description;  // with more detail: "GPU 3 (Tesla V100-SXM2-32GB, GPU-5d3c...)"
  std::string unhealthy{};  // why it must not be used; empty: healthy

  friend bool operator==(const NodeDevice&, const NodeDevice&) = default;
};

// This many IDs of each device.
using WantedIds = std::vector<std::pair<std::string, std::size_t>>;

// What a container is to get.
struct Decided {
  std::vector<DeviceShare> shares{};  // empty: no device at all
  Env env{};                          // variables that describe the shares, set with every strategy
  // By resource, the IDs that kubelet should take. A resource without an entry: any IDs.
  std::map<std::string, WantedIds> wanted{};
};

// Why a container gets nothing, or may not start yet.
struct StartBlock {
  std::string reason;        // of an Event
  std::string message;       // what is wrong and what to do, without the pod's name
  std::string counted_as{};  // the result in tessera_agent_containers_total, when it is admitted
};

using Decision = tl::expected<Decided, StartBlock>;

class DeviceKind {
 public:
  virtual ~DeviceKind() = default;

  [[nodiscard]] const KindInfo& info() const { return info_; }
  // The resources that it serves now.
  [[nodiscard]] const std::vector<std::string>& resources() const { return resources_; }

  // The current devices as kubelet counts them: one list for each of resources(), in the same
  // order.
  [[nodiscard]] virtual std::vector<ResourceList> lists() = 0;
  // The current devices as people know them.
  [[nodiscard]] virtual std::vector<NodeDevice> devices() const = 0;
  // The device of an ID; empty when the ID has the form of this kind but the device was never seen
  // here; nothing when the ID belongs to another plugin that served the resource before.
  [[nodiscard]] virtual std::optional<std::string> device_of(const std::string& id) const = 0;

  // Decides what a container gets. Asked when kubelet wants to know which IDs to take (`ids` is
  // then empty), for each of its resources when it is admitted, and before each start. `ids` may
  // contain resources of other kinds.
  [[nodiscard]] virtual Decision decide(const NodePod& pod, const std::string& container,
                                        const IdsByResource& ids) const = 0;
  // Returns what makes these shares reachable: device nodes, files, and variables that belong to
  // them. Called only for strategies that deliver devices. Fails with what is missing and how to
  // get it.
  virtual Result<Edits> edits(const std::vector<DeviceShare>& shares) = 0;

  // For strategies that cannot change a container after its admission
  // (DeliveryStrategy::can_update). Returns what the container has, if that is as good as what is
  // `decided` now; else fails and says why it is not. `given` is null when it is not known what the
  // container has.
  [[nodiscard]] virtual Result<Decided> accept_allocated(const NodePod& pod, const std::string& container,
                                                     const Decided& decided, const Allocation* given) const;
  // Returns why a container must wait although its devices are healthy.
  [[nodiscard]] virtual std::optional<StartBlock> block_start(const NodePod& /*pod*/) const {
    return std::nullopt;
  }
  // Called when nothing else blocks the container. It starts when `done` gets no error.
  virtual void before_start(const NodePod& /*pod*/, const std::string& /*container*/, Done<Status> done) {
    done({});
  }

 protected:
  DeviceKind(KindInfo info, std::vector<std::string> resources)
      : info_(std::move(info)), resources_(std::move(resources)) {}

  // Changes the set of resources. The next Plugins::publish() registers new ones and unregisters
  // the others.
  void set_resources(std::vector<std::string> resources) { resources_ = std::move(resources); }

 private:
  const KindInfo info_;
  std::vector<std::string> resources_;
};

// Adds those of the IDs that are missing in the list, as unhealthy. Returns whether there were any.
bool add_unlisted(const std::vector<std::string>& ids, std::vector<Device>& list);

}  // namespace tessera::agent
