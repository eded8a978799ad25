// agent/devices/pod_resources.h
//
// Asks kubelet which device IDs it gave to which container.
//
//   PodResources resources("/var/lib/kubelet/pod-resources/kubelet.sock");
//   resources.get({"ml", "train-7"}, 100ms, [](Result<PodDevices> pod) { ... });
//
// While kubelet asks for preferred IDs or an allocation, get() answers for the pod that is being admitted
// (its containers, still without IDs) and for those before it, not for those that wait: that is how we learn
// whom we serve. Never call list() then: kubelet would forget the IDs that it is just handing out and give
// them twice. For about a second after kubelet started it knows no pod at all and says so as if it were true.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace tessera::agent {

struct PodName {
  std::string namespace_name;
  std::string name;

  friend auto operator<=>(const PodName&, const PodName&) = default;
};

struct PodDevices {
  PodName pod;
  // container -> resource -> IDs, sorted. A container without devices is there with none. Init containers
  // that have ended are not.
  std::map<std::string, std::map<std::string, std::vector<std::string>>> containers;

  friend bool operator==(const PodDevices&, const PodDevices&) = default;
};

class PodResources {
 public:
  using Milliseconds = std::chrono::milliseconds;
  template <class T>
  using Done = std::function<void(Result<T>)>;

  explicit PodResources(std::string socket);
  // Gives up what is on its way and waits until every `done` has come. Not on a thread of gRPC.
  ~PodResources();
  PodResources(const PodResources&) = delete;
  PodResources& operator=(const PodResources&) = delete;

  // Any thread. `done` comes once, on a thread of gRPC; it must not wait. Errors:
  //   kNotFound      kubelet does not know the pod (yet, or any more)
  //   kUnsupported   this kubelet has no Get (before 1.34 it is switched off)
  //   kExhausted     more than 100 calls a second
  //   kTimeout, kUnavailable
  void get(const PodName& pod, Milliseconds deadline, Done<PodDevices> done);
  void list(Milliseconds deadline, Done<std::vector<PodDevices>> done);

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace tessera::agent
