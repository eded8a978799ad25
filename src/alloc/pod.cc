#include "alloc/pod.h"

#include <algorithm>

namespace tessera::alloc {

const std::string* find_text(const Annotations& annotations, std::string_view name) {
  const auto found = annotations.find(name);
  return found == annotations.end() || found->second.empty() ? nullptr : &found->second;
}

bool names_gpus(const PodSpec& pod) {
  return std::ranges::any_of(pod.containers,
                             [](const ContainerSpec& container) { return !container.gpu_limits.empty(); });
}

bool asks_for_gpus(const PodSpec& pod) {
  const auto asks = [](const auto& limit) { return limit.second != Quantity(); };
  return std::ranges::any_of(pod.containers, [&](const ContainerSpec& container) {
    return std::ranges::any_of(container.gpu_limits, asks);
  });
}

bool occupies(const PodSpec& pod) {
  if (pod.phase == PodPhase::kSucceeded || pod.phase == PodPhase::kFailed) {
    return false;
  }
  // Without a deletionTimestamp, kubelet may restart terminated containers, and keeps their devices
  // allocated.
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
