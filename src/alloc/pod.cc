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

namespace {

bool asks(const ContainerSpec& container) {
  return std::ranges::any_of(container.gpu_limits,
                             [](const auto& limit) { return limit.second != Quantity(); });
}

}  // namespace

bool asks_for_gpus(const PodSpec& pod) {
  return std::ranges::any_of(pod.containers, asks);
}

bool has_started(const PodSpec& pod) {
  return std::ranges::any_of(pod.containers, [](const ContainerSpec& container) {
    return asks(container) && (container.state != ContainerState::kNotStarted || container.ran_before);
  });
}

bool occupies(const PodSpec& pod) {
  return pod.phase != PodPhase::kSucceeded && pod.phase != PodPhase::kFailed;
}

}  // namespace tessera::alloc
