// agent/devices/grant_strategy.h
//
// How a container comes to see its devices. Which ones it gets has been decided when a strategy is asked, and
// the variables that say so stand in the grant already; a strategy adds what makes it true:
//
//   env       nothing: a container runtime that knows these devices reads the variables
//   devices   device nodes and files, by the means of kubelet alone (device_strategy.h)
//   cdi       one CDI name for this container, whose spec file holds both (cdi_strategy.h)
//
// One for each kind of device. All calls come on the event loop's thread, and the first one inside a kubelet
// call: no network, a few small files at most.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/devices/device.h"
#include "base/result.h"

namespace tessera::agent {

// A container and what is to be changed in it.
struct ContainerEdits {
  std::string pod_uid;
  std::string container;
  // The variables that say what it has.
  Env env{};
  // What makes that reachable, or what is missing for it. Empty where the strategy does not bring_devices().
  Result<Edits> edits{};
  // For strategies that hand out CDI names. add(): the one name to give. before_start(): all that this
  // container was given; they may carry the UID of another pod, which was taken to be asking then. Empty: the
  // one that is made of the pod's UID and the container.
  std::vector<std::string> cdi_names{};
  // For before_start(): what fixed() said of what was handed out. Empty: not known.
  std::string fixed{};
};

class GrantStrategy {
 public:
  virtual ~GrantStrategy() = default;

  // Whether it brings device nodes and files, so that it wants to be told which.
  [[nodiscard]] virtual bool brings_devices() const { return true; }

  // Adds to what the container gets. Called again for each resource that the container asks for: the same
  // question has the same answer. An error does not refuse the pod (that would be final); the container is
  // held back by it in before_start() instead.
  virtual Status add(const ContainerEdits& container, Grant& grant) = 0;

  // The container is about to start, for the first time or again. What an earlier add() prepared is made
  // sure of, or made anew for other devices than add() was told of. kubelet asks again after an error, which
  // the user reads.
  virtual Status before_start(const ContainerEdits& container) = 0;

  // What of these edits kubelet keeps for the life of the pod although the machine may change under it, in
  // words. before_start() is told, and holds a container for which it is not true any more. Empty: nothing.
  [[nodiscard]] virtual std::string fixed(const Edits& /*edits*/) const { return {}; }

  // Whether before_start() can still change what a container sees. Where it cannot (kubelet keeps the
  // environment of Allocate for the life of the pod), only a new pod helps.
  [[nodiscard]] virtual bool can_mend() const = 0;

  // What is kept for containers that will not start again can go: all that is not `needed`, by the pod whose
  // UID its CDI name carries, and the name.
  using Needed = std::function<bool(const std::string& pod_uid, const std::string& cdi_name)>;
  virtual void keep_only(const Needed& /*needed*/) {}
};

// The container runtime does all the rest.
class EnvStrategy final : public GrantStrategy {
 public:
  [[nodiscard]] bool brings_devices() const override { return false; }
  Status add(const ContainerEdits& /*container*/, Grant& /*grant*/) override { return {}; }
  Status before_start(const ContainerEdits& /*container*/) override { return {}; }
  [[nodiscard]] bool can_mend() const override { return false; }
};

}  // namespace tessera::agent
