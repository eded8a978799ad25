// agent/devices/delivery_strategy.h
//
// How a container gets access to its devices. Before a strategy is called, the devices of the
// container have been decided, and the response to kubelet contains the variables that describe
// them. The strategy adds the rest:
//
//   env       nothing: the container runtime reads the variables and adds the devices, as NVIDIA's
//             runtime does for GPUs (EnvStrategy)
//   devices   device nodes and files, which kubelet passes to the runtime (DeviceStrategy)
//   cdi       one CDI name per container, whose spec file has nodes, files and variables
//             (cdi_strategy.h)
//
// There is one instance per kind of device. All calls are made on the event loop's thread. kubelet
// waits while add() runs. So add() must not use the network and may access a few small files at
// most.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "agent/devices/device.h"
#include "base/result.h"

namespace tessera::agent {

// A container and the changes to it.
struct ContainerEdits {
  std::string pod_uid;
  std::string container;
  // Variables that describe the devices.
  Env env{};
  // The changes that give access to the devices, or an error that says what is missing. Empty if
  // the strategy does not deliver devices.
  Result<Edits> edits{};
  // Used by strategies with CDI names. In add(): the one name to return to kubelet. In
  // before_start(): all names that the container got at admission. If the agent mistook the pod for
  // another one at admission, such a name contains the UID of the other pod. If this list is empty,
  // the strategy makes the name from `pod_uid` and `container`.
  std::vector<std::string> cdi_names{};
  // In before_start(): the paths that kubelet has kept since the pod's admission and that may be
  // outdated now, as text (DeliveryStrategy::fixed). Empty if there are none or they are unknown.
  std::string fixed{};
};

class DeliveryStrategy {
 public:
  virtual ~DeliveryStrategy() = default;

  // Returns whether the strategy delivers device nodes and files and so needs
  // ContainerEdits::edits.
  [[nodiscard]] virtual bool delivers_devices() const { return true; }

  // Adds to `response` what the container needs to reach its devices. Called once per resource of
  // the container. The same arguments give the same result. Returns an error if something that the
  // container needs is missing. The pod is admitted even then, because kubelet never retries a pod
  // that failed admission. before_start() blocks the container instead.
  virtual Status add(const ContainerEdits& container, ContainerResponse& response) = 0;

  // Called before each start of the container. Checks that what add() delivered is still valid. If
  // it is not and can_update() is true, delivers it again. Returns an error if the container must
  // not start. kubelet shows the error to the user and calls again.
  virtual Status before_start(const ContainerEdits& container) = 0;

  // Returns, as text, the part of `edits` that kubelet keeps for the life of the pod and that may
  // become outdated when the machine changes. Returns "" if there is no such part. before_start()
  // receives the text in ContainerEdits::fixed, and blocks the container if the text no longer
  // applies.
  [[nodiscard]] virtual std::string fixed(const Edits& /*edits*/) const { return {}; }

  // Returns whether before_start() can still change which devices a container sees. If not, a
  // change needs a new pod, because kubelet keeps the Allocate response for the life of the pod.
  [[nodiscard]] virtual bool can_update() const = 0;

  // Removes the files of containers that will not start again. `needed` returns whether to keep the
  // file of `cdi_name`; `pod_uid` is the pod UID in that name.
  using Needed = std::function<bool(const std::string& pod_uid, const std::string& cdi_name)>;
  virtual void remove_unneeded(const Needed& /*needed*/) {}
};

// Strategy `env`: the container runtime reads the variables and adds the devices.
class EnvStrategy final : public DeliveryStrategy {
 public:
  [[nodiscard]] bool delivers_devices() const override { return false; }
  Status add(const ContainerEdits& /*container*/, ContainerResponse& /*response*/) override { return {}; }
  Status before_start(const ContainerEdits& /*container*/) override { return {}; }
  [[nodiscard]] bool can_update() const override { return false; }
};

// Strategy `devices`: kubelet passes the device nodes and files to the container runtime. The
// runtime needs no support for this kind of device or for CDI.
//
// Protection: a container can open its own device nodes and no others, whatever variables its image
// or its pod sets. A container of a pod that requests no device can open none. This protection does
// not hold if the default runtime of the node obeys such variables. NVIDIA's runtime does, so do
// not make it the default one.
//
// The device nodes and files are fixed at the pod's admission. After a driver update the files may
// have other names. After a reboot a device node may belong to another device. In both cases the
// agent blocks the start of the container, and the pod must be created again.
class DeviceStrategy final : public DeliveryStrategy {
 public:
  // `many` is the plural that messages use for the devices: "GPUs".
  explicit DeviceStrategy(std::string many) : many_(std::move(many)) {}

  Status add(const ContainerEdits& container, ContainerResponse& response) override;
  Status before_start(const ContainerEdits& container) override;
  [[nodiscard]] std::string fixed(const Edits& edits) const override { return edits.fixed; }
  [[nodiscard]] bool can_update() const override { return false; }

 private:
  const std::string many_;
};

}  // namespace tessera::agent
