// agent/devices/pod_resources.h
//
// Client of kubelet's podresources API: which device IDs kubelet allocated to which container.
//
//   KubeletPodResources resources("/var/lib/kubelet/pod-resources/kubelet.sock");
//   resources.get({"ml", "train-7"}, 100ms, [](Result<PodDevices> pod) { ... });
//
// During GetPreferredAllocation and Allocate, get() succeeds for the pod that is being admitted.
// The containers of that pod have no IDs yet. get() also succeeds for pods that were admitted
// earlier, but not for pods that still wait. So the agent can check whether a call is for a given
// pod.
//
// The agent does not use the API's List. A List during an admission makes kubelet forget the IDs
// that it is allocating, so that kubelet allocates them twice.
//
// During the first second after its start, kubelet knows no pod.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/devices/loop_gate.h"
#include "base/result.h"

namespace tessera::agent {

struct PodName {
  std::string namespace_name;
  std::string name;

  friend auto operator<=>(const PodName&, const PodName&) = default;
};

// A container of a pod.
struct ContainerName {
  PodName pod;
  std::string pod_uid;
  std::string container;

  friend auto operator<=>(const ContainerName&, const ContainerName&) = default;
};

struct PodDevices {
  PodName pod;
  // Container -> resource -> sorted IDs. A container without devices has an empty entry. Init
  // containers that have ended are not included.
  std::map<std::string, std::map<std::string, std::vector<std::string>>> containers;

  friend bool operator==(const PodDevices&, const PodDevices&) = default;
};

class PodResources {
 public:
  virtual ~PodResources() = default;

  // Gets the devices of a pod. Call it from any thread. Calls `done` once, on any thread; `done`
  // must not block. Errors:
  //   kNotFound      kubelet does not know the pod yet, or no longer knows it
  //   kUnsupported   kubelet has no Get (before 1.34 it is off by default)
  //   kExhausted     more than 100 calls in one second
  //   kTimeout, kUnavailable
  virtual void get(const PodName& pod, std::chrono::milliseconds deadline, Done<Result<PodDevices>> done) = 0;
};

// Calls kubelet over its podresources socket. `done` runs on a gRPC thread.
class KubeletPodResources final : public PodResources {
 public:
  explicit KubeletPodResources(std::string socket);
  // Cancels the calls in flight and waits until every `done` has run. Must not run on a gRPC
  // thread.
  ~KubeletPodResources() override;
  KubeletPodResources(const KubeletPodResources&) = delete;
  KubeletPodResources& operator=(const KubeletPodResources&) = delete;

  void get(const PodName& pod, std::chrono::milliseconds deadline, Done<Result<PodDevices>> done) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::agent
