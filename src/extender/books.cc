#include "extender/books.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace tessera::extender {

namespace {

// With a limit of 0, too: kube-scheduler asks about such a pod and wants it bound.
bool names_gpus(const alloc::PodSpec& pod) {
  return std::ranges::any_of(pod.containers,
                             [](const auto& container) { return !container.gpu_limits.empty(); });
}

}  // namespace

Books::Books(Options options)
    : ledger_(std::move(options.ledger)),
      placer_options_(std::move(options.placer)),
      placer_(std::make_unique<alloc::Placer>(ledger_, placer_options_)) {}

WaitingPod Books::waiting_pod(const alloc::PodSpec& pod) const {
  return {.key = {.pod_namespace = pod.pod_namespace, .name = pod.name, .uid = pod.uid},
          .request = alloc::Request::of_pod(pod, names()),
          .record_keys = alloc::record_keys(pod.annotations)};
}

void Books::keep_pod(const alloc::PodSpec& pod) {
  if (!names_gpus(pod)) {
    ledger_.upsert_pod(pod);
    return;
  }
  const std::string& uid = pod.uid;
  const bool is_new = !waiting_.contains(uid) && !ledger_.holding(uid);
  ledger_.upsert_pod(pod);
  if (alloc::occupies(pod) && (is_new || pod.node_name.empty())) {
    WaitingPod waiting = waiting_pod(pod);
    if (is_new && waiting.request) {
      recent_.add(*waiting.request);
      recent_changed_ = true;
    }
    if (pod.node_name.empty()) {
      waiting_.insert_or_assign(uid, std::move(waiting));
    }
  }
  if (!alloc::occupies(pod) || !pod.node_name.empty()) {
    waiting_.erase(uid);
  }
  if (pod.priority != 0 && !pod.node_name.empty()) {
    priorities_.insert_or_assign(uid, pod.priority);
  }
}

void Books::forget_pod(std::string_view uid) {
  ledger_.remove_pod(uid);
  if (const auto found = waiting_.find(uid); found != waiting_.end()) {
    waiting_.erase(found);
  }
  if (const auto found = priorities_.find(uid); found != priorities_.end()) {
    priorities_.erase(found);
  }
  budgets_.forget_labels(uid);
}

void Books::keep_labels(const alloc::PodSpec& pod, std::span<const kube::LabelHash> labels) {
  // Only of those who can be victims.
  if (pod.node_name.empty() || !names_gpus(pod) || !alloc::occupies(pod)) {
    budgets_.forget_labels(pod.uid);
  } else {
    budgets_.keep_labels(pod.uid, labels);
  }
}

const WaitingPod* Books::find_waiting(std::string_view uid) const {
  const auto found = waiting_.find(uid);
  return found == waiting_.end() ? nullptr : &found->second;
}

std::int64_t Books::priority(std::string_view uid) const {
  const auto found = priorities_.find(uid);
  return found == priorities_.end() ? 0 : found->second;
}

void Books::keep_node(const alloc::NodeSpec& node) {
  if (!node.inventory.empty() || node.gpu_count == 0) {
    old_nodes_.erase(node.name);
    put_node(node);
    return;
  }
  alloc::NodeSpec& old = old_nodes_.insert_or_assign(node.name, node).first->second;
  if (const auto ill = unhealthy_.find(node.name); ill != unhealthy_.end()) {
    old.unhealthy_gpus = ill->second;
  }
  put_node(old);
  if (old_nodes_.size() == 1 && on_old_nodes_) {
    on_old_nodes_();
  }
}

void Books::keep_unhealthy(const std::string& node, std::string gpus) {
  const auto old = old_nodes_.find(node);
  if (old != old_nodes_.end() && old->second.unhealthy_gpus != gpus) {
    old->second.unhealthy_gpus = gpus;
    put_node(old->second);
  }
  if (gpus.empty()) {
    unhealthy_.erase(node);
  } else {
    unhealthy_.insert_or_assign(node, std::move(gpus));
  }
}

void Books::put_node(const alloc::NodeSpec& node) {
  ledger_.upsert_node(node);
  const alloc::NodeId id = *ledger_.find_node(node.name);
  index_.put(node.name, id);
  is_foreign_.resize(std::max<std::size_t>(is_foreign_.size(), raw(id) + std::size_t{1}));
  const bool foreign = node.nvidia_gpus > 0 && ledger_.view(id).size() > 0;
  if (foreign && foreign_.insert_or_assign(node.name, node.nvidia_gpus).second) {
    log::warn("fence",
              {{"node", node.name},
               {"why", fmt::format("its kubelet also serves {} nvidia.com/gpu: two device plugins give "
                                   "out the same GPUs; remove one of them from the node",
                                   node.nvidia_gpus)}});
  } else if (!foreign) {
    foreign_.erase(node.name);
  }
  is_foreign_[raw(id)] = foreign ? 1 : 0;
  check_capacity(node);
}

// Kubelet learns of GPU memory from the device plugin and we from the inventory. For a moment after a change
// they may differ; if they go on to, one of the two is wrong.
void Books::check_capacity(const alloc::NodeSpec& node) {
  const alloc::NodeView view = ledger_.view(*ledger_.find_node(node.name));
  const auto promised = static_cast<std::int64_t>(view.total_units);
  if (node.inventory.empty() || view.size() == 0 || node.gpu_memory_units == 0 ||
      node.gpu_memory_units == promised) {
    drift_.erase(node.name);
    return;
  }
  std::string text = fmt::format(
      "node {}: {} is {} but its inventory says {} on {} GPUs; restart tessera-agent there or run \"tessera "
      "check "
      "{}\"",
      node.name, names().memory(), node.gpu_memory_units, promised, view.size(), node.name);
  std::string& known = drift_[node.name];
  if (known != text) {
    log::warn("drift", {{"what", text}});
    known = std::move(text);
  }
}

void Books::forget_node(std::string_view name) {
  if (const std::optional<alloc::NodeId> id = ledger_.find_node(name); id && raw(*id) < is_foreign_.size()) {
    is_foreign_[raw(*id)] = 0;
  }
  index_.erase(name);
  ledger_.remove_node(name);
  if (const auto found = foreign_.find(name); found != foreign_.end()) {
    foreign_.erase(found);
  }
  if (const auto found = drift_.find(name); found != drift_.end()) {
    drift_.erase(found);
  }
  if (const auto found = old_nodes_.find(name); found != old_nodes_.end()) {
    old_nodes_.erase(found);
  }
}

bool Books::is_foreign(alloc::NodeId node) const {
  return raw(node) < is_foreign_.size() && is_foreign_[raw(node)] != 0;
}

std::vector<std::pair<std::string, std::string>> Books::drift() const {
  std::vector<std::pair<std::string, std::string>> all(drift_.begin(), drift_.end());
  std::ranges::sort(all);
  return all;
}

std::vector<alloc::Problem> Books::take_new_problems() {
  // How many there ever were, and how many there are: one that ends and comes back is news.
  std::pair<std::uint64_t, std::uint64_t> seen;
  for (std::size_t kind = 0; kind < alloc::kProblemKinds; ++kind) {
    seen.first += ledger_.problem_total(static_cast<alloc::ProblemKind>(kind));
    seen.second += ledger_.problem_count(static_cast<alloc::ProblemKind>(kind));
  }
  if (std::exchange(problems_seen_, seen) == seen) {
    return {};
  }
  std::vector<alloc::Problem> fresh;
  std::set<std::string> now;
  for (alloc::Problem& problem : ledger_.problems()) {
    now.insert(problem.text);
    if (!told_problems_.contains(problem.text)) {
      fresh.push_back(std::move(problem));
    }
  }
  told_problems_ = std::move(now);
  return fresh;
}

void Books::learn_typical_pods() {
  if (placer_options_.typical.empty() && std::exchange(recent_changed_, false)) {
    placer_->set_typical(recent_.typical());
  }
}

void Books::set_policies(alloc::Placer::Options options) {
  placer_options_ = std::move(options);
  ++policy_changes_;
  placer_ = std::make_unique<alloc::Placer>(ledger_, placer_options_);
  recent_changed_ = true;
  learn_typical_pods();
}

}  // namespace tessera::extender
