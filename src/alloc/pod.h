// alloc/pod.h
//
// The part of a pod that matters here, as plain fields. Whoever decodes pods fills it and drops the rest.
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

// Kubernetes starts init containers one after the other before all others; a sidecar is an init container
// with restartPolicy Always and stays.
enum class ContainerKind : std::uint8_t { kInit, kSidecar, kMain };

// From the container's status; kNotStarted also when there is none.
enum class ContainerState : std::uint8_t { kNotStarted, kRunning, kTerminated };

struct ContainerSpec {
  std::string name;
  ContainerKind kind = ContainerKind::kMain;
  ContainerState state = ContainerState::kNotStarted;
  bool ran_before = false;  // it was started once and has ended since, whatever `state` says of now; only
                            // where the decoder is asked for it
  std::string id{};  // from its status, without the runtime's name; only where the decoder is asked for it
  // Of its limits those that ResourceNames::find knows.
  std::vector<std::pair<GpuResource, Quantity>> gpu_limits;
  // Others of its limits, by resource; only those that the decoder is asked for.
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
  std::string node_name;  // empty until it is bound
  PodPhase phase = PodPhase::kPending;
  bool deleting = false;  // has a deletionTimestamp
  std::int64_t priority = 0;

  // In the order of the pod: all of spec.initContainers, then all of spec.containers.
  std::vector<ContainerSpec> containers;
  // spec.overhead, which Kubernetes adds to what the containers request.
  std::int64_t overhead_cpu_milli = 0;
  std::int64_t overhead_memory_bytes = 0;

  // Those that key::is_pod_annotation wants, and ResourceNames::count() from labels or annotations.
  Annotations annotations;
  Annotations labels;
};

// The text of one; null where there is none or it is empty. A Binding cannot take an annotation away, so one
// that must not count is emptied.
const std::string* find_text(const Annotations& annotations, std::string_view name);

// Whether the pod has any of our resources in its limits. kube-scheduler asks about every such pod and wants
// it bound by us, also with a limit of 0.
bool names_gpus(const PodSpec& pod);

// Whether it wants any: a limit of 0 is one that charts write for "none".
bool asks_for_gpus(const PodSpec& pod);

// Whether the pod still occupies what it asked for. It does until its containers have stopped: a
// deletionTimestamp only announces that, and the process may run on for the whole grace period.
bool occupies(const PodSpec& pod);

// What Kubernetes counts for a pod when `amount(container)` is the request of one: containers and sidecars
// run together, init containers run one at a time beside the sidecars started before them.
template <class Container, class Amount>
std::int64_t counted(const std::vector<Container>& containers, Amount amount) {
  std::int64_t staying = 0;  // containers and sidecars
  std::int64_t sidecars = 0;
  std::int64_t peak = 0;
  for (const Container& container : containers) {
    const std::int64_t asked = amount(container);
    switch (container.kind) {
      case ContainerKind::kInit:
        peak = std::max(peak, sidecars + asked);
        break;
      case ContainerKind::kSidecar:
        sidecars += asked;
        staying += asked;
        peak = std::max(peak, sidecars);
        break;
      case ContainerKind::kMain:
        staying += asked;
        break;
    }
  }
  return std::max(peak, staying);
}

}  // namespace tessera::alloc
