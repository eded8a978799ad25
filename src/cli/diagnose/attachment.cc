#include "cli/diagnose/attachment.h"

#include <algorithm>
#include <array>

namespace tessera::cli {

namespace {

// Used when the scheduler's pod does not state its name in an annotation.
constexpr std::string_view kDefaultName = "tessera-scheduler";

}  // namespace

bool has_record(const alloc::PodSpec& pod) {
  static constexpr std::array kKeys = {alloc::key::kAllocation, alloc::key::kMemIdx,
                                       alloc::key::kMemAllocation, alloc::key::kWholeGroup,
                                       alloc::key::kWholeIdx};
  return std::ranges::any_of(
      kKeys, [&](std::string_view key) { return alloc::find_text(pod.annotations, key) != nullptr; });
}

bool Attachment::excludes(std::string_view scheduler_name) const {
  // Objects that were saved or written by hand may lack the name.
  return !names.empty() && !own_scheduler && !scheduler_name.empty() && !names.contains(scheduler_name);
}

Attachment find_attachment(const Cluster& cluster) {
  Attachment found;
  bool stated = false;
  for (const PlacerPod& placer : cluster.placers) {
    if (!placer.is_scheduler) {
      found.own_scheduler = true;
      continue;
    }
    stated = stated || !placer.scheduler_name.empty();
    found.second_scheduler = placer.scheduler_name.empty() ? kDefaultName : placer.scheduler_name;
    found.names.insert(found.second_scheduler);
  }
  // A record is weak evidence. Agents write one for pods that another scheduler placed where only
  // one choice was possible, and records written before `attach` was changed stay on their pods.
  if (stated && !found.own_scheduler) {
    return found;
  }
  for (const alloc::PodSpec& pod : cluster.pods) {
    const auto details = cluster.details.find(pod.uid);
    if (details != cluster.details.end() && !pod.node_name.empty() &&
        !details->second.scheduler_name.empty() &&
        alloc::find_text(pod.annotations, alloc::key::kAllocation) != nullptr) {
      found.names.insert(details->second.scheduler_name);
    }
  }
  return found;
}

}  // namespace tessera::cli
