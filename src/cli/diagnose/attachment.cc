#include "cli/diagnose/attachment.h"

#include <algorithm>
#include <array>

namespace tessera::cli {

namespace {

// Of a chart that does not say it on the pod.
constexpr std::string_view kUsualName = "tessera-scheduler";

}  // namespace

bool has_record(const alloc::PodSpec& pod) {
  static constexpr std::array kKeys = {alloc::key::kAllocation, alloc::key::kMemIdx,
                                       alloc::key::kMemAllocation, alloc::key::kWholeGroup,
                                       alloc::key::kWholeIdx};
  return std::ranges::any_of(
      kKeys, [&](std::string_view key) { return alloc::find_text(pod.annotations, key) != nullptr; });
}

bool Attachment::excludes(std::string_view scheduler_name) const {
  // An empty name is one that the object, saved or written by hand, does not tell.
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
    found.second_scheduler = placer.scheduler_name.empty() ? kUsualName : placer.scheduler_name;
    found.names.insert(found.second_scheduler);
  }
  // A record is weak evidence: agents write one for pods that others placed where nothing had to be decided,
  // and those of the time before a change of `attach` stay.
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
