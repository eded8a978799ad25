// agent/devices/device_kind.h
//
// What is special to one kind of device. Whoever serves another kind implements this; all the rest is written
// once for any kind: which pod kubelet asks for, the record of what was given, how it reaches the container,
// what survives a restart (allocator.h), registration and lists (plugins.h), what the cluster is told about
// health (health_reporter.h).
//
//   class FilesKind final : public DeviceKind { ... };    // tests/agent/devices/files_kind.h
//   FilesKind files("/dev");
//   ServedKind served(loop, pods, book, strategy, files, edges, options);
//
// All calls come on the event loop's thread, those of prefer and allocate while kubelet stands still: no
// network, no driver calls, a few small files at most.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "agent/devices/allocation.h"
#include "agent/devices/device.h"
#include "agent/devices/id_choice.h"
#include "agent/devices/node_pods.h"
#include "base/result.h"

namespace tessera::agent {

// What the cluster reads about a kind.
struct KindWords {
  std::string one;   // "GPU"
  std::string many;  // "GPUs"
  // Reasons of Events, on the node and on pods.
  std::string unhealthy;        // "GpuUnhealthy"
  std::string healthy;          // "GpuHealthy": again
  std::string gone;             // "GpuGone"
  std::string appeared;         // "GpuAppeared"
  std::string given_otherwise;  // "GpuAllocationMismatch"
  std::string not_prepared;     // "GpuSetupFailed"
  // A condition of the node: its type and its reasons.
  std::string condition;       // "GPUsHealthy"
  std::string all_healthy;     // "AllGPUsHealthy"
  std::string some_unhealthy;  // "GPUUnhealthy"
  std::string none_there;      // "NoGPUs"
};

// A device of this node, as people know it.
struct NodeDevice {
  std::string id;           // the name that lasts: Share::device
  std::string name;         // "GPU 3 (GPU-5d3c...)"
  std::string description;  // the same with more: "GPU 3 (Tesla V100-SXM2-32GB, GPU-5d3c...)"
  std::string unhealthy{};  // why it must not be used; empty: it is fit

  friend bool operator==(const NodeDevice&, const NodeDevice&) = default;
};

// What a container is to see.
struct Decided {
  std::vector<Share> shares{};  // none: no device at all
  Env env{};                    // variables that say so, handed out with any strategy
};

// Why there is nothing for a container, or why it may not start yet.
struct Hold {
  std::string reason;        // of an Event
  std::string why;           // what is wrong and what to do, without the pod's name
  std::string counted_as{};  // in tessera_agent_containers_total, when it is admitted
};

using Decision = tl::expected<Decided, Hold>;

class DeviceKind {
 public:
  virtual ~DeviceKind() = default;

  [[nodiscard]] virtual const KindWords& words() const = 0;
  // The resources that it serves; always the same.
  [[nodiscard]] virtual std::vector<std::string> resources() const = 0;

  // What is on this node now: as kubelet counts it, one list for each resource in the order of resources(),
  // and as people do.
  [[nodiscard]] virtual std::vector<ResourceList> lists() = 0;
  [[nodiscard]] virtual std::vector<NodeDevice> devices() const = 0;

  // The device that an ID is of; nothing when that is not known.
  [[nodiscard]] virtual std::optional<std::string> device_of(const std::string& id) const = 0;
  // Whether an ID is of a form that we give. Others are of a plugin that served the resource before us.
  // Also those of devices that have gone: their IDs stay listed while they are held.
  [[nodiscard]] virtual bool is_ours(const std::string& id) const = 0;

  // What a container that has these IDs is to see, as of now. Asked when it is admitted, for each of its
  // resources, and again before it starts. Resources of other kinds among `ids` are none of ours.
  [[nodiscard]] virtual Decision decide(const NodePod& pod, const std::string& container,
                                        const IdsByResource& ids) const = 0;
  // The variables of a container that must see no device.
  [[nodiscard]] virtual Env env_of_none() const { return {}; }
  // What a container sees by the variables that it was handed at its admission, where `decided` are its
  // shares by now; nothing when they do not tell.
  [[nodiscard]] virtual std::optional<std::vector<Share>> seen(const Env& handed,
                                                               const std::vector<Share>& decided) const;
  // What makes these shares reachable: device nodes, files, variables that go with them. Only asked for by
  // strategies that bring these. Fails with what is missing and how to get it.
  virtual Result<Edits> edits(const std::vector<Share>& shares) = 0;

  // So many IDs of which devices kubelet should take for the container, where more than any is wanted.
  [[nodiscard]] virtual Wanted wanted(const NodePod& /*pod*/, const std::string& /*container*/,
                                      const std::string& /*resource*/) const {
    return {};
  }
  // Where kubelet keeps what was given at admission (GrantStrategy::can_mend): what the container has, if
  // that is as good for it as what is `decided` now, else why it is not. `given`: null when not known.
  [[nodiscard]] virtual Result<Decided> as_given(const NodePod& pod, const std::string& container,
                                                 const Decided& decided, const Allocation* given) const;
  // Why a container with these shares must wait although its devices are fit.
  [[nodiscard]] virtual std::optional<Hold> objection(const NodePod& /*pod*/,
                                                      const std::vector<Share>& /*shares*/) const {
    return std::nullopt;
  }
  // All is ready, and the container starts when `done` comes without an error: once, on the loop.
  virtual void before_start(const NodePod& /*pod*/, const std::string& /*container*/,
                            std::function<void(Status)> done) {
    const std::function<void(Status)> start = std::move(done);
    start({});
  }
};

}  // namespace tessera::agent
