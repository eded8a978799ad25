#include "alloc/pod.h"

#include <algorithm>

namespace tessera::alloc {

const std::string* find_text(const Annotations& annotations, std::string_view name) {
  const auto found = annotations.find(name);
  return found == annotations.end() || found->second.empty() ? nullptr : &found->second;
}

bool occupies(const PodSpec& pod) {
  if (pod.phase == PodPhase::kSucceeded || pod.phase == PodPhase::kFailed) {
    return false;
  }
  // Without a deletionTimestamp kubelet restarts what has terminated, and keeps its devices until then.
  if (!pod.deleting) {
    return true;
  }
  const auto may_still_run = [](const ContainerSpec& container) {
    return container.kind == ContainerKind::kInit ? container.state == ContainerState::kRunning
                                                  : container.state != ContainerState::kTerminated;
  };
  return pod.containers.empty() || std::ranges::any_of(pod.containers, may_still_run);
}

}  // namespace tessera::alloc
