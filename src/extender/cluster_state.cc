#include "extender/cluster_state.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace tessera::extender {

ClusterState::ClusterState(Options options)
    : ledger_(std::move(options.ledger)),
      placer_options_(std::move(options.placer)),
      placer_(std::make_unique<alloc::Placer>(ledger_, placer_options_)) {}

WaitingPod ClusterState::waiting_pod(const alloc::PodSpec& pod) const {
  return {.key = {.namespace_name = pod.namespace_name, .name = pod.name, .uid = pod.uid},
          .asks_for_gpus = alloc::asks_for_gpus(pod),
          .request = alloc::Request::of_pod(pod, names()),
          .record_keys = alloc::record_keys(pod.annotations)};
}

void ClusterState::keep_pod(const alloc::PodSpec& pod, alloc::PodSource source) {
  if (!alloc::names_gpus(pod)) {
    ledger_.upsert_pod(pod, source);
    return;
  }
  const std::string& uid = pod.uid;
  if (pod.rejected && ledger_.holding(uid)) {
    ++pods_lost_;
    log::warn("kubelet rejected a pod because it got no devices for it",
              {{"pod", pod.namespace_name + "/" + pod.name}, {"node", pod.node_name}});
  }
  const bool is_new = !waiting_.contains(uid) && !ledger_.holding(uid);
  ledger_.upsert_pod(pod, source);
  if (alloc::occupies(pod) && (is_new || pod.node_name.empty())) {
    WaitingPod waiting = waiting_pod(pod);
    if (is_new && waiting.request) {
      recent_.add(*waiting.request);
      recent_changed_ = true;
    }
    if (pod.node_name.empty()) {
      add_waiting(uid, std::move(waiting));
    }
  }
  if (!alloc::occupies(pod) || !pod.node_name.empty()) {
    remove_waiting(uid);
  }
  if (pod.priority != 0 && !pod.node_name.empty()) {
    priorities_.insert_or_assign(uid, pod.priority);
  }
}

void ClusterState::add_waiting(const std::string& uid, WaitingPod pod) {
  remove_waiting(uid);
  waiting_for_gpus_ += pod.asks_for_gpus ? 1 : 0;
  const std::size_t bytes = pod.request ? pod.request->list_bytes() : 0;
  if (bytes > 0 && list_bytes_ + bytes > kMostListBytes) {
    pod.request = fail(ErrorCode::kExhausted, "the request is not stored");
    pod.has_request = false;
  } else {
    list_bytes_ += bytes;
  }
  waiting_.emplace(uid, std::move(pod));
}

void ClusterState::remove_waiting(std::string_view uid) {
  if (const auto found = waiting_.find(uid); found != waiting_.end()) {
    const WaitingPod& pod = found->second;
    waiting_for_gpus_ -= pod.asks_for_gpus ? 1 : 0;
    list_bytes_ -= pod.request ? pod.request->list_bytes() : 0;
    waiting_.erase(found);
  }
}

void ClusterState::forget_pod(std::string_view uid) {
  ledger_.remove_pod(uid);
  remove_waiting(uid);
  if (const auto found = priorities_.find(uid); found != priorities_.end()) {
    priorities_.erase(found);
  }
  budgets_.forget_labels(uid);
}

void ClusterState::keep_labels(const alloc::PodSpec& pod, std::span<const objects::LabelHash> labels) {
  // Only bound GPU pods can be victims of a preemption.
  if (pod.node_name.empty() || !alloc::names_gpus(pod) || !alloc::occupies(pod)) {
    budgets_.forget_labels(pod.uid);
  } else {
    budgets_.keep_labels(pod.uid, labels);
  }
}

const WaitingPod* ClusterState::find_waiting(std::string_view uid) const {
  const auto found = waiting_.find(uid);
  return found == waiting_.end() || !found->second.has_request ? nullptr : &found->second;
}

std::int64_t ClusterState::priority(std::string_view uid) const {
  const auto found = priorities_.find(uid);
  return found == priorities_.end() ? 0 : found->second;
}

void ClusterState::keep_node(const alloc::NodeSpec& node) {
  if (!node.inventory.empty() || node.original_gpus() == 0) {
    original_nodes_.erase(node.name);
    put_node(node);
    return;
  }
  alloc::NodeSpec& stored = original_nodes_.insert_or_assign(node.name, node).first->second;
  if (const auto listed = unhealthy_.find(node.name); listed != unhealthy_.end()) {
    stored.unhealthy_gpus = listed->second;
  }
  put_node(stored);
  if (original_nodes_.size() == 1 && on_original_nodes_) {
    on_original_nodes_();
  }
}

void ClusterState::keep_unhealthy(const std::string& node, std::string gpus) {
  const auto stored = original_nodes_.find(node);
  if (stored != original_nodes_.end() && stored->second.unhealthy_gpus != gpus) {
    stored->second.unhealthy_gpus = gpus;
    put_node(stored->second);
  }
  if (gpus.empty()) {
    unhealthy_.erase(node);
  } else {
    unhealthy_.insert_or_assign(node, std::move(gpus));
  }
}

void ClusterState::put_node(const alloc::NodeSpec& node) {
  using Tables = alloc::Ledger::NewTables;
  const std::uint64_t built = ledger_.large_tables_built();
  if (!ledger_.upsert_node(node, got_tables_.contains(node.name) ? Tables::kRefuse : Tables::kBuild)) {
    delayed_.insert_or_assign(node.name, node);
    ++delayed_changes_;
    return;
  }
  delayed_.erase(node.name);
  if (ledger_.large_tables_built() != built) {
    got_tables_.insert(node.name);
  }
  index_.put(node.name, *ledger_.find_node(node.name));
  ledger_.set_agent_down(node.name, agents_down_.contains(node.name) || agents_gone_.contains(node.name));
  if (node.draining.empty() || node.draining == node.draining_seen) {
    draining_.erase(node.name);
  } else {
    draining_.insert_or_assign(node.name, node.draining);
  }
}

void ClusterState::keep_agent(const std::string& node, AgentState agent) {
  agents_down_.erase(node);
  agents_gone_.erase(node);
  if (agent == AgentState::kDown) {
    agents_down_.insert(node);
  } else if (agent == AgentState::kGone && index_.find(node) != kUnknownNode) {
    agents_gone_.insert(node);
  }
  ledger_.set_agent_down(node, agent != AgentState::kReady);
}

std::vector<std::string> ClusterState::end_round() {
  got_tables_.clear();
  std::vector<std::string> names;
  for (const auto& [name, node] : std::exchange(delayed_, {})) {
    names.push_back(name);
    put_node(node);
  }
  return names;
}

void ClusterState::forget_node(std::string_view name) {
  index_.erase(name);
  ledger_.remove_node(name);
  agents_gone_.erase(std::string(name));
  if (const auto found = draining_.find(name); found != draining_.end()) {
    draining_.erase(found);
  }
  if (const auto found = original_nodes_.find(name); found != original_nodes_.end()) {
    original_nodes_.erase(found);
  }
  if (const auto found = delayed_.find(name); found != delayed_.end()) {
    delayed_.erase(found);
  }
}

void ClusterState::learn_typical_pods() {
  if (placer_options_.typical.empty() && std::exchange(recent_changed_, false)) {
    placer_->set_typical(recent_.typical());
  }
}

void ClusterState::set_policies(alloc::Placer::Options options) {
  placer_options_ = std::move(options);
  ++policy_changes_;
  placer_ = std::make_unique<alloc::Placer>(ledger_, placer_options_);
  recent_changed_ = true;
  learn_typical_pods();
}

}  // namespace tessera::extender
