// agent/grant_strategy.h
//
// How a container comes to see its GPUs. Which GPUs it gets has been decided when a strategy is asked, and
// the environment of contract.md (NVIDIA_VISIBLE_DEVICES and the variables of the original) stands in the
// grant already; a strategy adds what makes it true:
//
//   env       nothing: the NVIDIA container runtime reads the environment
//   devices   device nodes, driver libraries
//   cdi       one CDI name for this container, whose spec file holds both
//
// All calls come on the event loop's thread, and the first one inside a kubelet call: no network, no driver
// calls, a few small files at most.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/device_kind.h"
#include "agent/pod_resources.h"
#include "alloc/inventory.h"
#include "base/result.h"

namespace tessera::agent {

// A container and the GPUs it is to see, in the order of NVML's indices.
struct ContainerGpus {
  PodName pod;
  std::string pod_uid;
  std::string container;
  std::vector<alloc::Gpu> gpus{};  // none: it must see no GPU at all
  // For before_start(): the environment of contract.md with these GPUs. Empty: what add() was told.
  std::map<std::string, std::string> env{};
  // For strategies that hand out CDI names. add(): the name to give. before_start(): all that this container
  // was given; they may carry the UID of another pod, which was taken to be asking then. Empty: the one that
  // is made of the pod's UID and the container.
  std::vector<std::string> cdi_names{};
  // For before_start(): what fixed() said of the grant. Empty: not known.
  std::string fixed{};
};

class GrantStrategy {
 public:
  virtual ~GrantStrategy() = default;

  // Adds to what the container gets. Called again for each resource that the container asks for: the same
  // question has the same answer. An error does not refuse the pod (that would be final); the container is
  // held back by it in before_start() instead.
  virtual Status add(const ContainerGpus& container, Grant& grant) = 0;

  // The container is about to start, for the first time or again. What an earlier add() prepared is made
  // sure of, or made anew for other GPUs than add() was told of. kubelet asks again after an error, which the
  // user reads.
  virtual Status before_start(const ContainerGpus& container) = 0;

  // What of a grant kubelet keeps for the life of the pod although the machine may change under it, in words.
  // before_start() is told, and holds a container for which it is not true any more. Empty: nothing.
  [[nodiscard]] virtual std::string fixed(const Grant& /*grant*/) const { return {}; }

  // Whether before_start() can still change what a container sees. Where it cannot (kubelet keeps the
  // environment of Allocate for the life of the pod), only a new pod helps.
  [[nodiscard]] virtual bool can_mend() const = 0;

  // What is kept for containers that will not start again can go: all that is not `needed`, by the pod whose
  // UID its CDI name carries, and the name.
  using Needed = std::function<bool(const std::string& pod_uid, const std::string& cdi_name)>;
  virtual void keep_only(const Needed& needed) = 0;
};

// The NVIDIA container runtime does all the rest.
class EnvStrategy final : public GrantStrategy {
 public:
  Status add(const ContainerGpus& /*container*/, Grant& /*grant*/) override { return {}; }
  Status before_start(const ContainerGpus& /*container*/) override { return {}; }
  [[nodiscard]] bool can_mend() const override { return false; }
  void keep_only(const Needed& /*needed*/) override {}
};

}  // namespace tessera::agent
