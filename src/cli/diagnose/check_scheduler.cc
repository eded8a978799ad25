#include "cli/diagnose/check_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/strings.h"
#include "base/version.h"
#include "cli/diagnose/attachment.h"
#include "kube/lease_record.h"
#include "kube/rfc3339.h"

namespace tessera::cli {

namespace {

constexpr std::chrono::seconds kPatience{30};
constexpr std::size_t kMostNames = 3;

// "ml/a, ml/b and 5 more".
std::string names_text(const std::vector<std::string>& names) {
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kMostNames, names.size())));
  return names.size() <= kMostNames
             ? join_words(first)
             : fmt::format("{} and {} more", fmt::join(first, ", "), names.size() - kMostNames);
}

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
    for (const auto& [name, pods] : past_us_) {
      tell_past_us(name, pods);
    }
    for (const auto& [name, pods] : unseen_) {
      tell_unseen(name, pods);
    }
    for (const auto& [name, pods] : elsewhere_) {
      add(true, "other_scheduler",
          fmt::format("{} {} for the scheduler {}, which does not ask Tessera; {}", pods_text(pods),
                      pods.size() == 1 ? "waits" : "wait", name, advice(pods.size())));
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
               ? "give its kube-scheduler the extender's stanza (docs/install.md)"
               : fmt::format("create {} again with schedulerName: {}", pods == 1 ? "it" : "them",
                             attachment_.second_scheduler);
  }

  // GPU pods by what is odd about their way to a node.
  void sort_pods() {
    for (const alloc::PodSpec& pod : cluster_.pods) {
      const auto found = cluster_.details.find(pod.uid);
      if (found == cluster_.details.end() || found->second.scheduler_name.empty() ||
          !alloc::asks_for_gpus(pod) || !alloc::occupies(pod)) {
        continue;
      }
      const objects::PodDetails& details = found->second;
      const std::string name = pod.pod_namespace + "/" + pod.name;
      if (!pod.node_name.empty()) {
        if (!has_record(pod) && agent_nodes_.contains(pod.node_name)) {
          past_us_[details.scheduler_name].push_back(name);
        }
        continue;
      }
      if (pod.deleting || !details.scheduling_gates.empty()) {
        continue;
      }
      ++waiting_;
      if (!details.scheduling_attempted && is_late(details)) {
        unseen_[details.scheduler_name].push_back(name);
      } else if (attachment_.excludes(details.scheduler_name)) {
        elsewhere_[details.scheduler_name].push_back(name);
      }
    }
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
          "so "
          "nobody decides which GPU a pod gets; install the chart with one, unless yours runs elsewhere");
      return;
    }
    const auto ready = std::ranges::count(cluster_.placers, true, &PlacerPod::ready);
    const PlacerPod& first = cluster_.placers.front();
    if (ready == 0) {
      add(true, "scheduler_down",
          fmt::format(
              "no pod that decides is ready ({} there), so GPU pods wait; see: kubectl -n {} describe pod {}",
              cluster_.placers.size(), first.pod_namespace, first.name));
      return;
    }
    const auto leaders = std::ranges::count_if(
        cluster_.placers, [](const PlacerPod& placer) { return placer.ready && placer.leads; });
    if (!first.is_scheduler && leaders != 1) {
      add(true, "no_leader",
          fmt::format("{} extenders lead, not 1, and kube-scheduler's calls go to the one that does; see the "
                      "Lease tessera-extender in namespace {} and the extenders' logs",
                      leaders, first.pod_namespace));
    }
  }

  void tell_past_us(const std::string& name, const std::vector<std::string>& pods) {
    const bool ours = name == attachment_.second_scheduler;
    add(true, "not_wired",
        fmt::format("scheduler {} (or who set nodeName) put {} on nodes without asking Tessera; {}", name,
                    pods_text(pods),
                    ours ? "its configuration lacks the extender's stanza" : advice(pods.size())));
  }

  void tell_unseen(const std::string& name, const std::vector<std::string>& pods) {
    const bool ours = attachment_.names.contains(name);
    add(true, "unserved",
        fmt::format("{} {} the scheduler {}, and no scheduler has looked at {}; {}", pods_text(pods),
                    pods.size() == 1 ? "names" : "name", name, pods.size() == 1 ? "it" : "them",
                    ours ? "see the logs of that scheduler"
                         : fmt::format("nobody serves that name: {}", advice(pods.size()))));
  }

  const Cluster& cluster_;
  Clock::Wall now_;
  Attachment attachment_;
  std::set<std::string, std::less<>> agent_nodes_;
  std::size_t waiting_ = 0;
  ByScheduler past_us_;    // on a node with an agent, and nobody asked us
  ByScheduler unseen_;     // wait, and no scheduler has looked at them
  ByScheduler elsewhere_;  // wait for one that will not ask us
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> check_schedulers(const Cluster& cluster, Clock::Wall now) {
  return SchedulerAuditor(cluster, now).findings();
}

std::optional<std::pair<std::string, std::string>> lease_of(const Cluster& cluster) {
  if (cluster.placers.empty()) {
    return std::nullopt;
  }
  const PlacerPod& first = cluster.placers.front();
  // As the chart names them.
  return std::pair(first.pod_namespace, first.is_scheduler ? find_attachment(cluster).second_scheduler
                                                           : std::string("tessera-extender"));
}

std::optional<Finding> check_lease(const CheckAnswers& answers) {
  const auto nobody = [&](std::string_view what) {
    return Finding{
        .serious = true,
        .kind = "no_leader",
        .node = "",
        .pod = "",
        .text = fmt::format("the Lease {} {}, so nobody decides; see the logs of the pods that should",
                            answers.lease, what)};
  };
  if (answers.lease.empty()) {
    return std::nullopt;
  }
  if (!answers.lease_body) {
    return answers.lease_body.error().code() == ErrorCode::kNotFound ? std::optional(nobody("does not exist"))
                                                                     : std::nullopt;
  }
  const auto lease = kube::parse_lease(*answers.lease_body);
  if (!lease) {
    return std::nullopt;
  }
  if (lease->holder.empty()) {
    return nobody("has no holder");
  }
  // Clocks of machines differ by some seconds; an election takes less than two durations.
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(answers.now - lease->renewed);
  return age > 4 * lease->duration
             ? std::optional(nobody(fmt::format("was renewed {} s ago for the last time", age.count())))
             : std::nullopt;
}

std::vector<Finding> check_versions(const CheckAnswers& answers) {
  std::vector<Finding> findings;
  const auto note = [&](const std::string& node, std::string text) {
    findings.push_back(
        {.serious = false, .kind = "version_skew", .node = node, .pod = "", .text = std::move(text)});
  };
  // What decides is the measure; where it cannot be asked, this program is.
  std::string measure(version());
  for (const AgentAnswer& placer : answers.placer_versions) {
    if (placer.body) {
      measure = trim(*placer.body);
    }
  }
  for (const AgentAnswer& placer : answers.placer_versions) {
    if (placer.body && trim(*placer.body) != measure) {
      note("",
           fmt::format("pod {} is of version {}, another one that decides of {}; finish the upgrade: helm "
                       "upgrade",
                       placer.pod, trim(*placer.body), measure));
    }
  }
  for (const AgentAnswer& agent : answers.agent_versions) {
    if (agent.body && trim(*agent.body) != measure) {
      note(agent.node, fmt::format("node {}: its agent is of version {}, the extender of {}; finish the "
                                   "upgrade: helm upgrade",
                                   agent.node, trim(*agent.body), measure));
    }
  }
  if (measure != version()) {
    note("",
         fmt::format("this program is of version {}, the extender of {}; where they disagree, believe the "
                     "extender",
                     version(), measure));
  }
  return findings;
}

}  // namespace tessera::cli
