#include "cli/diagnose/attachment.h"

#include <fmt/format.h>

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
  for (const alloc::PodSpec& pod : cluster.pods) {
    const auto details = cluster.details.find(pod.uid);
    if (details != cluster.details.end() && !pod.node_name.empty() &&
        !details->second.scheduler_name.empty() &&
        alloc::find_text(pod.annotations, alloc::key::kAllocation) != nullptr) {
      found.with_records.insert(details->second.scheduler_name);
    }
  }
  // A record is weak evidence. Agents write one for pods that another scheduler placed where only
  // one choice was possible, and records written before `attach` was changed stay on their pods.
  if (!stated || found.own_scheduler) {
    found.names.insert(found.with_records.begin(), found.with_records.end());
  }
  return found;
}

std::string bypass_text(const Cluster& cluster, const Attachment& attachment, const alloc::PodSpec& pod) {
  static const objects::PodDetails kNone;
  const auto found = cluster.details.find(pod.uid);
  const objects::PodDetails& details = found == cluster.details.end() ? kNone : found->second;
  const std::string& scheduler = details.scheduler_name;
  const bool bypasses = attachment.excludes(scheduler);
  const std::string ours = !attachment.second_scheduler.empty() ? attachment.second_scheduler
                           : attachment.names.size() == 1       ? *attachment.names.begin()
                                                                : "the name of Tessera's scheduler";
  const std::string who = fmt::format("pod {}/{}", pod.namespace_name, pod.name);
  const std::string by_selector =
      fmt::format("to choose the node, use nodeSelector kubernetes.io/hostname: {}", pod.node_name);
  if (details.node_set_by == objects::NodeSetBy::kClient) {
    return fmt::format(
        "{} sets nodeName: {}, which bypasses the scheduler, so no GPU was chosen for it; create it again "
        "without nodeName{}; {}",
        who, pod.node_name, bypasses ? " and with schedulerName: " + ours : "", by_selector);
  }
  const bool bound = details.node_set_by == objects::NodeSetBy::kBinding;
  if (bypasses) {
    return fmt::format(
        "{} is on node {} without a GPU allocation: the scheduler {} does not call Tessera; create it again "
        "with schedulerName: {}{}",
        who, pod.node_name, scheduler, ours, bound ? "" : " and without nodeName");
  }
  if (bound) {
    return fmt::format(
        "{} is on node {} without a GPU allocation: the scheduler {} bound it without calling Tessera; add "
        "the extender to its configuration, then create the pod again",
        who, pod.node_name, scheduler);
  }
  if (attachment.with_records.contains(scheduler)) {
    return fmt::format(
        "{} is on node {} without a GPU allocation although its schedulerName is {}: probably it sets "
        "nodeName, which bypasses the scheduler; create it again without nodeName; {}",
        who, pod.node_name, scheduler, by_selector);
  }
  return fmt::format(
      "{} is on node {} without a GPU allocation: its scheduler does not call Tessera, or it sets nodeName; "
      "create it again with schedulerName: {} and without nodeName",
      who, pod.node_name, ours);
}

}  // namespace tessera::cli
