#include "cli/cluster/cluster_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "cli/cluster/own_namespace.h"
#include "objects/pod_decoder.h"

namespace tessera::cli {

namespace {

// Objects that were written by hand, or edited after saving, may lack fields that an API server
// always sets.
void add_missing(kube::ObjectMeta& meta) {
  if (meta.uid.empty()) {
    meta.uid = meta.namespace_name + "/" + meta.name;
  }
  meta.version = std::max<std::uint64_t>(meta.version, 1);
}

// The API server lists pods in the order of the text "namespace/name".
std::string list_key(const alloc::PodSpec& pod) {
  return pod.namespace_name + "/" + pod.name;
}

void sort(Cluster& cluster) {
  std::ranges::sort(cluster.nodes, {},
                    [](const objects::NodeFacts& node) -> const std::string& { return node.spec.name; });
  std::ranges::sort(cluster.pods, [](const alloc::PodSpec& a, const alloc::PodSpec& b) {
    const std::string left = list_key(a);
    const std::string right = list_key(b);
    return left != right ? left < right : a.uid < b.uid;
  });
  std::ranges::sort(cluster.warnings);
  std::ranges::sort(cluster.placers, {},
                    [](const PlacerPod& pod) { return std::pair(pod.namespace_name, pod.name); });
  std::ranges::sort(cluster.agents, {}, [](const AgentPod& pod) {
    return std::tuple(pod.node, !pod.ready, pod.namespace_name, pod.name);
  });
}

std::string text_of(const std::map<std::string, std::string, std::less<>>& map, std::string_view key) {
  const auto found = map.find(key);
  return found == map.end() ? "" : found->second;
}

std::optional<alloc::Policy> policy_of(const std::string& text) {
  const auto policy = alloc::parse_policy(text);
  return policy ? std::optional(*policy) : std::nullopt;
}

ClusterSettings settings_of_pod(const objects::PodDetails& placer) {
  ClusterSettings settings;
  if (std::string prefix = text_of(placer.annotations, alloc::key::kResourcePrefix); !prefix.empty()) {
    settings.resources.prefix = std::move(prefix);
  }
  settings.resources.whole = text_of(placer.annotations, alloc::key::kResourceWhole);
  if (!alloc::ResourceNames::check(settings.resources)) {
    settings.resources = {};
  }
  settings.share_policy = policy_of(text_of(placer.annotations, alloc::key::kSharedPolicy));
  settings.whole_policy = policy_of(text_of(placer.annotations, alloc::key::kWholePolicy));
  return settings;
}

// Recognizes the pod by the labels that the chart sets.
std::optional<PlacerPod> as_placer(const alloc::PodSpec& pod, const objects::PodDetails& details) {
  const std::string component = text_of(details.labels, "app.kubernetes.io/component");
  if (text_of(details.labels, "app.kubernetes.io/name") != "tessera" ||
      (component != "scheduler" && component != "extender")) {
    return std::nullopt;
  }
  return PlacerPod{.namespace_name = pod.namespace_name,
                   .name = pod.name,
                   .is_scheduler = component == "scheduler",
                   .scheduler_name = text_of(details.annotations, alloc::key::kSchedulerName),
                   .ready = details.ready && !pod.deleting,
                   .leads = text_of(details.labels, alloc::key::kLeader) == "true",
                   .settings = settings_of_pod(details)};
}

std::optional<AgentPod> as_agent(const alloc::PodSpec& pod, const objects::PodDetails& details) {
  if (text_of(details.labels, "app.kubernetes.io/name") != "tessera" ||
      text_of(details.labels, "app.kubernetes.io/component") != "agent" || pod.node_name.empty() ||
      !alloc::occupies(pod)) {
    return std::nullopt;
  }
  return AgentPod{
      .namespace_name = pod.namespace_name, .name = pod.name, .node = pod.node_name, .ready = details.ready};
}

}  // namespace

ClusterQuery placers_only() {
  ClusterQuery query;
  query.want_pod = [](const alloc::PodSpec&) { return false; };
  query.details = true;
  return query;
}

ClusterSettings settings_of(const ClusterOptions& options, const Cluster& cluster) {
  ClusterSettings settings;
  if (!cluster.placers.empty()) {
    const auto ready = std::ranges::find(cluster.placers, true, &PlacerPod::ready);
    settings = (ready == cluster.placers.end() ? cluster.placers.front() : *ready).settings;
    settings.tessera_namespace = cluster.settings.tessera_namespace;
  }
  if (!options.tessera_namespace.empty()) {
    settings.tessera_namespace = options.tessera_namespace;
  }
  if (!options.resource_prefix.empty()) {
    settings.resources.prefix = options.resource_prefix;
  }
  if (!options.resource_whole.empty()) {
    settings.resources.whole = options.resource_whole;
  }
  return settings;
}

ClusterStore::ClusterStore(ClusterQuery query, ClusterSettings settings)
    : query_(std::move(query)),
      settings_(std::move(settings)),
      names_(settings_.resources),
      nodes_(*this),
      pods_(*this) {
  if (!query_.want_pod) {
    query_.want_pod = alloc::asks_for_gpus;
  }
}

void ClusterStore::complete(Cluster& cluster) const {
  cluster.warnings = warnings();
  cluster.settings = settings_;
  add_own_pods(cluster);
  cluster.names = names_;
  sort(cluster);
}

std::vector<std::string> ClusterStore::warnings() const {
  std::vector<std::string> all;
  for (const auto& [uid, text] : nodes_.faults) {
    all.push_back(text);
  }
  for (const auto& [uid, text] : pods_.faults) {
    all.push_back(text);
  }
  return all;
}

void ClusterStore::add_own_pods(Cluster& cluster) const {
  OwnNamespace own(settings_.tessera_namespace);
  for (const auto& [uid, pod] : pods_.placers) {
    own.add_placer(pod.namespace_name);
  }
  for (const auto& [uid, pod] : pods_.agents) {
    own.add_agent(pod.namespace_name);
  }
  cluster.settings.tessera_namespace = own.name();
  for (const auto& [uid, pod] : pods_.placers) {
    if (pod.namespace_name == cluster.settings.tessera_namespace) {
      cluster.placers.push_back(pod);
    }
  }
  for (const auto& [uid, pod] : pods_.agents) {
    if (pod.namespace_name == cluster.settings.tessera_namespace) {
      cluster.agents.push_back(pod);
    }
  }
  cluster.foreign_pods = own.warning();
  if (!cluster.foreign_pods.empty()) {
    cluster.warnings.push_back(cluster.foreign_pods);
  }
}

Cluster ClusterStore::snapshot() const {
  Cluster cluster;
  for (const auto& [uid, node] : nodes_.kept) {
    cluster.nodes.push_back(node);
  }
  for (const auto& [uid, pod] : pods_.kept) {
    cluster.pods.push_back(pod);
  }
  cluster.details = pods_.details;
  complete(cluster);
  return cluster;
}

Cluster ClusterStore::take() {
  Cluster cluster;
  cluster.nodes.reserve(nodes_.kept.size());
  for (auto& [uid, node] : nodes_.kept) {
    cluster.nodes.push_back(std::move(node));
  }
  nodes_.kept.clear();
  cluster.pods.reserve(pods_.kept.size());
  for (auto& [uid, pod] : pods_.kept) {
    cluster.pods.push_back(std::move(pod));
  }
  cluster.details = std::move(pods_.details);
  complete(cluster);
  pods_.clear();
  return cluster;
}

Status ClusterStore::NodeSink::decode(kube::ObjectJson& object, kube::ObjectMeta& meta) {
  const Status decoded = objects::decode_node_facts(object, store_.names_, meta, next_);
  add_missing(meta);
  return decoded;
}

void ClusterStore::NodeSink::keep(const kube::ObjectMeta& meta) {
  ++store_.version_;
  faults.erase(meta.uid);
  if (store_.query_.node.empty() || store_.query_.node == meta.name) {
    kept.insert_or_assign(meta.uid, std::move(next_));
  }
}

void ClusterStore::NodeSink::forget(const kube::ObjectMeta& meta) {
  ++store_.version_;
  kept.erase(meta.uid);
  faults.erase(meta.uid);
}

void ClusterStore::NodeSink::unreadable(const kube::ObjectMeta& meta, const Error& error) {
  forget(meta);
  faults[meta.uid] = fmt::format("node {} is ignored: {}", meta.name, error.text());
}

Status ClusterStore::PodSink::decode(kube::ObjectJson& object, kube::ObjectMeta& meta) {
  const Status decoded = objects::decode_pod(
      object, store_.names_, meta, next_,
      {.resources = &store_.query_.resources, .details = store_.query_.details ? &next_details_ : nullptr});
  add_missing(meta);
  next_.uid = meta.uid;
  return decoded;
}

void ClusterStore::PodSink::keep(const kube::ObjectMeta& meta) {
  const ClusterQuery& query = store_.query_;
  const bool wanted =
      (query.namespace_name.empty() || query.namespace_name == meta.namespace_name) &&
      (query.node.empty() || query.node == next_.node_name) &&
      (query.want_pod(next_) || (query.details && query.other_gpu_pods && next_.node_name.empty() &&
                                 !next_details_.other_gpu_limits.empty()));
  faults.erase(meta.uid);
  if (query.details) {
    keep_details(meta.uid, wanted);
  }
  if (wanted) {
    kept.insert_or_assign(meta.uid, next_);
    ++store_.version_;
  } else if (kept.erase(meta.uid) > 0) {
    ++store_.version_;
  }
}

void ClusterStore::PodSink::keep_details(const std::string& uid, bool wanted) {
  placers.erase(uid);
  if (auto placer = as_placer(next_, next_details_)) {
    placers.emplace(uid, *std::move(placer));
  }
  agents.erase(uid);
  if (auto agent = as_agent(next_, next_details_)) {
    agents.emplace(uid, *std::move(agent));
  }
  details.erase(uid);
  if (wanted) {
    details.emplace(uid, std::move(next_details_));
  }
}

void ClusterStore::PodSink::clear() {
  kept.clear();
  details.clear();
  placers.clear();
  agents.clear();
}

void ClusterStore::PodSink::forget(const kube::ObjectMeta& meta) {
  store_.version_ += kept.erase(meta.uid) + faults.erase(meta.uid);
  details.erase(meta.uid);
  placers.erase(meta.uid);
  agents.erase(meta.uid);
}

void ClusterStore::PodSink::unreadable(const kube::ObjectMeta& meta, const Error& error) {
  forget(meta);
  ++store_.version_;
  faults[meta.uid] = fmt::format("pod {}/{} is ignored: {}", meta.namespace_name, meta.name, error.text());
}

}  // namespace tessera::cli
