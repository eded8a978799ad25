// alloc/pod.h
//
// The fields of a Pod that Tessera reads. Decoders of pods fill a PodSpec and drop all other fields.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alloc/names.h"
#include "base/quantity.h"

namespace tessera::alloc {

// Init containers run one after the other before the main containers. A sidecar is an init
// container with restartPolicy Always; it keeps running.
enum class ContainerKind : std::uint8_t { kInit, kSidecar, kMain };

// From the container's status; kNotStarted if it has no status.
enum class ContainerState : std::uint8_t { kNotStarted, kRunning, kTerminated };

struct ContainerSpec {
  std::string name;
  ContainerKind kind = ContainerKind::kMain;
  ContainerState state = ContainerState::kNotStarted;
  // An earlier run of the container has ended, whatever `state` is now.
  bool ran_before = false;
  // The container ID from the status, without the name of the runtime. Set only if PodExtras
  // requests it.
  std::string id{};
  // The limits for GPU resources, that is, those that ResourceNames::find() finds.
  std::vector<std::pair<GpuResource, Quantity>> gpu_limits;
  // Other limits by resource. Contains only the resources that PodExtras requests.
  std::vector<std::pair<std::string, Quantity>> other_limits{};
  std::int64_t cpu_milli = 0;     // requested
  std::int64_t memory_bytes = 0;  // requested
};

enum class PodPhase : std::uint8_t { kPending, kRunning, kSucceeded, kFailed, kUnknown };

using Annotations = std::map<std::string, std::string, std::less<>>;

struct PodSpec {
  std::string namespace_name;
  std::string name;
  std::string uid;
  std::string node_name;  // empty while it is not bound
  PodPhase phase = PodPhase::kPending;
  bool deleting = false;  // has a deletionTimestamp
  bool rejected = false;  // kubelet could not get its devices: status.reason UnexpectedAdmissionError
  std::int64_t priority = 0;

  // First spec.initContainers, then spec.containers, each in the order of the pod.
  std::vector<ContainerSpec> containers;
  // spec.overhead, which Kubernetes adds to the requests of the containers.
  std::int64_t overhead_cpu_milli = 0;
  std::int64_t overhead_memory_bytes = 0;

  // `annotations` has only the annotations that key::is_pod_annotation accepts. The key
  // ResourceNames::count() is kept as well: in `annotations` or in `labels`, wherever the pod has it.
  Annotations annotations;
  Annotations labels;
};

// Returns the value of an annotation; null if it is absent or empty. A Binding cannot remove an
// annotation, so the extender sets annotations that no longer apply to "".
const std::string* find_text(const Annotations& annotations, std::string_view name);

// Returns whether a GPU resource is in the limits of the pod. kube-scheduler calls the extender for
// every such pod and lets the extender bind the pod, even if the limit is 0.
bool names_gpus(const PodSpec& pod);

// Returns whether a GPU limit is greater than 0. Helm charts often write 0 for "no GPU".
bool asks_for_gpus(const PodSpec& pod);

// Returns whether a container that requests GPUs has started, now or earlier. Containers without
// GPUs do not count, because they got nothing from the agent.
bool has_started(const PodSpec& pod);

// Returns whether the pod still occupies what it requests. It does until its phase is Succeeded or
// Failed, or until the API server has removed it. The states of containers do not count, not even
// after a deletionTimestamp: a kubelet that cannot reach the API server does not know about the
// deletion and restarts a container that it has reported as terminated. kubelet reports a final
// phase, and removes the pod, only after all containers have stopped for good.
bool occupies(const PodSpec& pod);

// Returns the request of a whole pod, as Kubernetes counts it. `amount(container)` is the request
// of one container. The result is the larger of two sums: all main containers and sidecars
// together, and the largest sum of an init container and the sidecars that start before it.
template <class Container, class Amount>
std::int64_t counted(const std::vector<Container>& containers, Amount amount) {
  std::int64_t staying = 0;  // main containers and sidecars
  std::int64_t sidecars = 0;
  std::int64_t peak = 0;
  for (const Container& container : containers) {
    const std::int64_t requested = amount(container);
    switch (container.kind) {
      case ContainerKind::kInit:
        peak = std::max(peak, sidecars + requested);
        break;
      case ContainerKind::kSidecar:
        sidecars += requested;
        staying += requested;
        peak = std::max(peak, sidecars);
        break;
      case ContainerKind::kMain:
        staying += requested;
        break;
    }
  }
  return std::max(peak, staying);
}

}  // namespace tessera::alloc
