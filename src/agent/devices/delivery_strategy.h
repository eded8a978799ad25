// agent/devices/delivery_strategy.h
//
// How a container gets to see its devices. When a strategy is asked, it has been decided which
// devices the container gets, and the variables that describe them are in the response. The
// strategy adds the rest:
//
//   env       nothing: a container runtime that knows the devices reads the variables (EnvStrategy)
//   devices   device nodes and files, through kubelet alone (DeviceStrategy)
//   cdi       one CDI name for this container; its spec file holds both (cdi_strategy.h)
//
// One instance for each kind of device. All calls come on the event loop's thread; add() runs
// during a kubelet call: no network, a few small files at most.
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
  // The variables that describe its devices.
  Env env{};
  // What makes the devices reachable, or what is missing for that. Empty if the strategy does not
  // bring_devices().
  Result<Edits> edits{};
  // For strategies with CDI names. In add(): the one name to hand out. In before_start(): all names
  // that this container has; they may carry the UID of another pod that was taken to be the one
  // that asked. Empty: the name made of the pod's UID and the container.
  std::vector<std::string> cdi_names{};
  // For before_start(): what fixed() returned for what the container got. Empty: not known.
  std::string fixed{};
};

class DeliveryStrategy {
 public:
  virtual ~DeliveryStrategy() = default;

  // Whether it delivers device nodes and files, so that it needs ContainerEdits::edits.
  [[nodiscard]] virtual bool delivers_devices() const { return true; }

  // Adds to what the container gets. Called for each resource of the container; the same arguments
  // give the same result. An error does not fail the pod (that would be final): before_start()
  // blocks the container instead.
  virtual Status add(const ContainerEdits& container, ContainerResponse& response) = 0;

  // Called before each start of the container. Makes sure that what add() prepared is in place, or
  // prepares it for other devices than at add(). After an error, which the user sees, kubelet asks
  // again.
  virtual Status before_start(const ContainerEdits& container) = 0;

  // The part of these edits that kubelet keeps for the life of the pod although the machine may
  // change, as text. before_start() gets it and blocks a container for which it is no longer true.
  // Empty: nothing.
  [[nodiscard]] virtual std::string fixed(const Edits& /*edits*/) const { return {}; }

  // Whether before_start() can still change what a container sees. If not (kubelet keeps the
  // environment of Allocate for the life of the pod), only a new pod helps.
  [[nodiscard]] virtual bool can_update() const = 0;

  // Removes everything kept for containers that will not start again: all that is not `needed`,
  // judged by the pod UID in its CDI name, and by the name.
  using Needed = std::function<bool(const std::string& pod_uid, const std::string& cdi_name)>;
  virtual void remove_unneeded(const Needed& /*needed*/) {}
};

// Strategy `env`: the container runtime does the rest.
class EnvStrategy final : public DeliveryStrategy {
 public:
  [[nodiscard]] bool delivers_devices() const override { return false; }
  Status add(const ContainerEdits& /*container*/, ContainerResponse& /*response*/) override { return {}; }
  Status before_start(const ContainerEdits& /*container*/) override { return {}; }
  [[nodiscard]] bool can_update() const override { return false; }
};

// Strategy `devices`: kubelet alone gives the container its device nodes and files. Needs neither a
// container runtime that knows the devices nor CDI.
//
// Protection: a container can open the device nodes that it got and no others, whatever its image
// or its pod sets in a variable; a pod that requests nothing has none. (If a runtime that obeys
// such variables, as NVIDIA's does, is the default runtime, it still obeys them: do not make it the
// default.)
//
// The device nodes and files are fixed at the pod's admission. After a driver update the files may
// have other names, and after a reboot a device node may belong to another device. A container that
// would start with those is blocked and needs a new pod.
class DeviceStrategy final : public DeliveryStrategy {
 public:
  // `many`: what people call the devices, "GPUs".
  explicit DeviceStrategy(std::string many) : many_(std::move(many)) {}

  Status add(const ContainerEdits& container, ContainerResponse& response) override;
  Status before_start(const ContainerEdits& container) override;
  [[nodiscard]] std::string fixed(const Edits& edits) const override { return edits.fixed; }
  [[nodiscard]] bool can_update() const override { return false; }

 private:
  const std::string many_;
};

}  // namespace tessera::agent
