// agent/devices/delivery_strategy.h
//
// How a container gets access to its devices. Before a strategy is called, the devices of the
// container have been decided, and the variables that describe them are in the response. The
// strategy adds the rest:
//
//   env       nothing: a container runtime that knows the devices reads the variables (EnvStrategy)
//   devices   device nodes and files, which kubelet passes to the runtime (DeviceStrategy)
//   cdi       one CDI name per container, whose spec file has nodes, files and variables
//             (cdi_strategy.h)
//
// There is one instance per kind of device. All calls are made on the event loop's thread. add()
// runs during a kubelet call, so it must not use the network and may access a few small files at
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
  // For strategies with CDI names. In add(): the one name to return to kubelet. In before_start():
  // all names that the container got at admission. A name contains the UID of another pod if
  // admission mistook the pod for that one. If this list is empty, the strategy makes the name from
  // `pod_uid` and `container`.
  std::vector<std::string> cdi_names{};
  // In before_start(): the result of fixed() at admission. Empty: unknown.
  std::string fixed{};
};

class DeliveryStrategy {
 public:
  virtual ~DeliveryStrategy() = default;

  // Returns whether the strategy delivers device nodes and files and so needs
  // ContainerEdits::edits.
  [[nodiscard]] virtual bool delivers_devices() const { return true; }

  // Adds to `response` what the container needs to reach its devices. Called once per resource of
  // the container. The same arguments give the same result. Returns an error if something is
  // missing. The pod is admitted even so, because a failed pod is never retried. before_start()
  // then blocks the container.
  virtual Status add(const ContainerEdits& container, ContainerResponse& response) = 0;

  // Called before each start of the container. Checks that the result of add() is still in place.
  // If the devices have changed since, updates it if the strategy can. Returns an error if the
  // container must not start: kubelet shows the error to the user and calls again.
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
  // file of a CDI name. Its other argument is the pod UID in that name.
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

// Strategy `devices`: kubelet passes the device nodes and files to any container runtime. The
// runtime need not know the devices or support CDI.
//
// Protection: a container can open its own device nodes and no others, whatever variables its image
// or its pod sets. A container of a pod that requests no device can open none. This does not hold
// if the node's default runtime obeys such variables, as NVIDIA's does. Do not make it the default
// runtime.
//
// The device nodes and files are fixed at the pod's admission. After a driver update the files may
// have other names. After a reboot a device node may belong to another device. In both cases the
// agent blocks the start of the container, and the pod must be created again.
class DeviceStrategy final : public DeliveryStrategy {
 public:
  // `many` names the devices in messages: "GPUs".
  explicit DeviceStrategy(std::string many) : many_(std::move(many)) {}

  Status add(const ContainerEdits& container, ContainerResponse& response) override;
  Status before_start(const ContainerEdits& container) override;
  [[nodiscard]] std::string fixed(const Edits& edits) const override { return edits.fixed; }
  [[nodiscard]] bool can_update() const override { return false; }

 private:
  const std::string many_;
};

}  // namespace tessera::agent
