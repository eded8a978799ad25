#include "cli/diagnose/check_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/strings.h"
#include "base/version.h"
#include "cli/cluster/nodes_text.h"
#include "cli/diagnose/attachment.h"
#include "cli/diagnose/request_hints.h"
#include "kube/lease_record.h"
#include "kube/rfc3339.h"

namespace tessera::cli {

namespace {

constexpr std::chrono::seconds kPatience{30};
constexpr std::size_t kMostNames = 3;

std::string pods_text(const std::vector<std::string>& names) {
  return fmt::format("{} {}", names.size() == 1 ? "pod" : "pods", names_text(names));
}

using ByScheduler = std::map<std::string, std::vector<std::string>>;

class SchedulerAuditor {
 public:
  SchedulerAuditor(const Cluster& cluster, Clock::Wall now)
      : cluster_(cluster), now_(now), attachment_(find_attachment(cluster)) {
    for (const objects::NodeFacts& node : cluster.nodes) {
      if (!node.spec.inventory.empty()) {
        agent_nodes_.insert(node.spec.name);
      }
    }
  }

  std::vector<Finding> findings() {
    sort_pods();
    check_placers();
    for (const auto& [name, pods] : bypassed_) {
      report_bypassed(name, pods);
    }
    for (const auto& [name, pods] : unattempted_) {
      report_unattempted(name, pods);
    }
    for (const auto& [name, pods] : elsewhere_) {
      add(true, "other_scheduler",
          fmt::format("{} {} for the scheduler {}, which does not call Tessera; {}", pods_text(pods),
                      pods.size() == 1 ? "waits" : "wait", name, advice(pods.size())));
    }
    check_resources();
    if (std::string text = other_gpus_text(cluster_); !text.empty()) {
      add(true, "no_inventory", std::move(text));
    }
    return std::move(findings_);
  }

 private:
  void add(bool serious, std::string kind, std::string text) {
    findings_.push_back(
        {.serious = serious, .kind = std::move(kind), .node = "", .pod = "", .text = std::move(text)});
  }

  [[nodiscard]] std::string advice(std::size_t pods) const {
    return attachment_.second_scheduler.empty()
               ? "add the extender to the configuration of its kube-scheduler (docs/install.md)"
               : fmt::format("create {} again with schedulerName: {}", pods == 1 ? "it" : "them",
                             attachment_.second_scheduler);
  }

  // Groups GPU pods by what is wrong with their scheduling.
  void sort_pods() {
    for (const alloc::PodSpec& pod : cluster_.pods) {
      const auto found = cluster_.details.find(pod.uid);
      if (found == cluster_.details.end() || found->second.scheduler_name.empty() ||
          !alloc::asks_for_gpus(pod) || !alloc::occupies(pod)) {
        continue;
      }
      const objects::PodDetails& details = found->second;
      const std::string name = pod.namespace_name + "/" + pod.name;
      if (!pod.node_name.empty()) {
        if (!has_record(pod) && agent_nodes_.contains(pod.node_name) && !sets_node_name(details)) {
          bypassed_[details.scheduler_name].push_back(name);
        }
        continue;
      }
      if (pod.deleting || !details.scheduling_gates.empty()) {
        continue;
      }
      ++waiting_;
      if (!details.scheduling_attempted && is_late(details)) {
        unattempted_[details.scheduler_name].push_back(name);
      } else if (attachment_.excludes(details.scheduler_name)) {
        elsewhere_[details.scheduler_name].push_back(name);
      }
    }
  }

  // Returns whether no scheduler placed the pod, because its nodeName was set. Such a pod says nothing
  // about the scheduler. The finding `undecided` reports it.
  [[nodiscard]] bool sets_node_name(const objects::PodDetails& details) const {
    return details.node_set_by == objects::NodeSetBy::kClient ||
           (details.node_set_by == objects::NodeSetBy::kUnknown &&
            attachment_.names.contains(details.scheduler_name) &&
            attachment_.with_records.contains(details.scheduler_name));
  }

  [[nodiscard]] bool is_late(const objects::PodDetails& details) const {
    const auto created = kube::parse_rfc3339(details.created);
    return !created || now_ - *created >= kPatience;
  }

  void check_placers() {
    if (agent_nodes_.empty()) {
      return;
    }
    if (cluster_.placers.empty()) {
      add(waiting_ > 0, "no_scheduler",
          "no scheduler or extender of Tessera runs in the cluster (label app.kubernetes.io/name=tessera), "
          "so pods get no GPUs; install one with the chart, unless yours runs outside the cluster");
      return;
    }
    const auto ready = std::ranges::count(cluster_.placers, true, &PlacerPod::ready);
    const PlacerPod& first = cluster_.placers.front();
    if (ready == 0) {
      add(true, "scheduler_down",
          fmt::format(
              "0 of {} scheduler or extender pods of Tessera are ready, so GPU pods stay pending; see: "
              "kubectl -n {} describe pod {}",
              cluster_.placers.size(), first.namespace_name, first.name));
      return;
    }
    const auto leaders = std::ranges::count_if(
        cluster_.placers, [](const PlacerPod& placer) { return placer.ready && placer.leads; });
    if (!first.is_scheduler && leaders != 1) {
      add(true, "no_leader",
          fmt::format("{} extenders are leaders instead of 1, and kube-scheduler calls only the leader; see "
                      "the Lease tessera-extender in namespace {} and the extenders' logs",
                      leaders, first.namespace_name));
    }
  }

  // Reports pods that wait for a resource that nothing offers, one finding for each resource.
  void check_resources() {
    std::map<std::string, std::vector<std::string>> waiting;
    for (const alloc::PodSpec& pod : cluster_.pods) {
      const auto found = cluster_.details.find(pod.uid);
      if (found == cluster_.details.end() || !pod.node_name.empty() || !alloc::occupies(pod)) {
        continue;
      }
      for (const std::string& problem : unserved_resources(cluster_, found->second)) {
        waiting[problem].push_back(pod.namespace_name + "/" + pod.name);
      }
    }
    for (const auto& [problem, pods] : waiting) {
      add(false, "unknown_resource",
          fmt::format("{} {} for ever: {}", pods_text(pods), pods.size() == 1 ? "waits" : "wait", problem));
    }
  }

  void report_bypassed(const std::string& name, const std::vector<std::string>& pods) {
    const bool ours = name == attachment_.second_scheduler;
    add(true, "not_wired",
        fmt::format("scheduler {} (or a client that set nodeName) placed {} without calling Tessera; {}",
                    name, pods_text(pods),
                    ours ? "its configuration lacks the extender" : advice(pods.size())));
  }

  void report_unattempted(const std::string& name, const std::vector<std::string>& pods) {
    const bool ours = attachment_.names.contains(name);
    add(true, "unserved",
        fmt::format("{} {} the scheduler {}, but no scheduler has tried to place {}; {}", pods_text(pods),
                    pods.size() == 1 ? "names" : "name", name, pods.size() == 1 ? "it" : "them",
                    ours ? "see the logs of that scheduler"
                         : fmt::format("no scheduler has that name: {}", advice(pods.size()))));
  }

  const Cluster& cluster_;
  Clock::Wall now_;
  Attachment attachment_;
  std::set<std::string, std::less<>> agent_nodes_;
  std::size_t waiting_ = 0;
  ByScheduler bypassed_;     // bound to a node with an agent without a call to Tessera
  ByScheduler unattempted_;  // pending, and no scheduler has tried to place them
  ByScheduler elsewhere_;    // pending, for a scheduler that does not call Tessera
  std::vector<Finding> findings_;
};

}  // namespace

std::string names_text(const std::vector<std::string>& names) {
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kMostNames, names.size())));
  return names.size() <= kMostNames
             ? join_words(first)
             : fmt::format("{} and {} more", fmt::join(first, ", "), names.size() - kMostNames);
}

std::vector<Finding> check_schedulers(const Cluster& cluster, Clock::Wall now) {
  return SchedulerAuditor(cluster, now).findings();
}

std::optional<std::pair<std::string, std::string>> lease_of(const Cluster& cluster) {
  if (cluster.placers.empty()) {
    return std::nullopt;
  }
  const PlacerPod& first = cluster.placers.front();
  // The names that the chart uses.
  return std::pair(first.namespace_name, first.is_scheduler ? find_attachment(cluster).second_scheduler
                                                            : std::string("tessera-extender"));
}

std::optional<Finding> check_lease(const CheckAnswers& answers) {
  const auto no_leader = [&](std::string_view what) {
    return Finding{
        .serious = true,
        .kind = "no_leader",
        .node = "",
        .pod = "",
        .text = fmt::format("the Lease {} {}, so there is no leader and GPU pods stay pending; see the logs "
                            "of Tessera's scheduler or extender pods",
                            answers.lease, what)};
  };
  if (answers.lease.empty()) {
    return std::nullopt;
  }
  if (!answers.lease_body) {
    return answers.lease_body.error().code() == ErrorCode::kNotFound
               ? std::optional(no_leader("does not exist"))
               : std::nullopt;
  }
  const auto lease = kube::parse_lease(*answers.lease_body);
  if (!lease) {
    return std::nullopt;
  }
  if (lease->holder.empty()) {
    return no_leader("has no holder");
  }
  // Clocks of machines differ by a few seconds. An election takes less than two lease durations.
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(answers.now - lease->renewed);
  return age > 4 * lease->duration
             ? std::optional(no_leader(fmt::format("was last renewed {} s ago", age.count())))
             : std::nullopt;
}

std::vector<Finding> check_versions(const CheckAnswers& answers) {
  std::vector<Finding> findings;
  const auto note = [&](const std::string& node, std::string text) {
    findings.push_back(
        {.serious = false, .kind = "version_skew", .node = node, .pod = "", .text = std::move(text)});
  };
  // The reference is the version of a scheduler or extender, or of this program if none answered.
  std::string reference(version());
  for (const PodAnswer& placer : answers.placer_versions) {
    if (placer.body) {
      reference = trim(*placer.body);
    }
  }
  for (const PodAnswer& placer : answers.placer_versions) {
    if (placer.body && trim(*placer.body) != reference) {
      note("",
           fmt::format("pod {} has version {}, another scheduler or extender has {}; finish the upgrade with "
                       "helm upgrade",
                       placer.pod, trim(*placer.body), reference));
    }
  }
  for (const PodAnswer& agent : answers.agent_versions) {
    if (agent.body && trim(*agent.body) != reference) {
      note(agent.node, fmt::format("node {}: its agent has version {}, the extender has {}; finish the "
                                   "upgrade with helm upgrade",
                                   agent.node, trim(*agent.body), reference));
    }
  }
  if (reference != version()) {
    note("",
         fmt::format("this program has version {}, the extender has {}; if their results differ, trust the "
                     "extender",
                     version(), reference));
  }
  return findings;
}

}  // namespace tessera::cli
