#include "cli/cluster_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kube/pod_decoder.h"

namespace tessera::cli {

namespace {

// Objects that were written by hand, or cleaned for saving, may lack what an API server always gives them.
void complete(kube::ObjectMeta& meta) {
  if (meta.uid.empty()) {
    meta.uid = meta.namespace_name + "/" + meta.name;
  }
  meta.version = std::max<std::uint64_t>(meta.version, 1);
}

// The API server lists pods by the text "namespace/name".
std::string list_key(const alloc::PodSpec& pod) {
  return pod.pod_namespace + "/" + pod.name;
}

void sort(Cluster& cluster) {
  std::ranges::sort(cluster.nodes, {},
                    [](const NodeFacts& node) -> const std::string& { return node.spec.name; });
  std::ranges::sort(cluster.pods, [](const alloc::PodSpec& a, const alloc::PodSpec& b) {
    const std::string left = list_key(a);
    const std::string right = list_key(b);
    return left != right ? left < right : a.uid < b.uid;
  });
  std::ranges::sort(cluster.warnings);
}

}  // namespace

bool asks_for_gpus(const alloc::PodSpec& pod) {
  return std::ranges::any_of(pod.containers,
                             [](const auto& container) { return !container.gpu_limits.empty(); });
}

ClusterStore::ClusterStore(ClusterQuery query) : query_(std::move(query)), nodes_(*this), pods_(*this) {
  if (!query_.want_pod) {
    query_.want_pod = asks_for_gpus;
  }
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

Cluster ClusterStore::snapshot() const {
  Cluster cluster;
  for (const auto& [uid, node] : nodes_.kept) {
    cluster.nodes.push_back(node);
  }
  for (const auto& [uid, pod] : pods_.kept) {
    cluster.pods.push_back(pod);
  }
  cluster.warnings = warnings();
  sort(cluster);
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
  pods_.kept.clear();
  cluster.warnings = warnings();
  sort(cluster);
  return cluster;
}

Status ClusterStore::NodeSink::decode(kube::ObjectJson& object, kube::ObjectMeta& meta) {
  const Status decoded = decode_node_facts(object, store_.names_, meta, next_);
  complete(meta);
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
  faults[meta.uid] = fmt::format("node {} is left out: {}", meta.name, error.text());
}

Status ClusterStore::PodSink::decode(kube::ObjectJson& object, kube::ObjectMeta& meta) {
  const Status decoded = kube::decode_pod(object, store_.names_, meta, next_);
  complete(meta);
  next_.uid = meta.uid;
  return decoded;
}

void ClusterStore::PodSink::keep(const kube::ObjectMeta& meta) {
  const ClusterQuery& query = store_.query_;
  const bool wanted = (query.namespace_name.empty() || query.namespace_name == meta.namespace_name) &&
                      (query.node.empty() || query.node == next_.node_name) && query.want_pod(next_);
  faults.erase(meta.uid);
  if (wanted) {
    kept.insert_or_assign(meta.uid, next_);
    ++store_.version_;
  } else if (kept.erase(meta.uid) > 0) {
    ++store_.version_;
  }
}

void ClusterStore::PodSink::forget(const kube::ObjectMeta& meta) {
  store_.version_ += kept.erase(meta.uid) + faults.erase(meta.uid);
}

void ClusterStore::PodSink::unreadable(const kube::ObjectMeta& meta, const Error& error) {
  forget(meta);
  ++store_.version_;
  faults[meta.uid] = fmt::format("pod {}/{} is left out: {}", meta.namespace_name, meta.name, error.text());
}

}  // namespace tessera::cli
