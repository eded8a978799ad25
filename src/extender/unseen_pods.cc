#include "extender/unseen_pods.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "kube/request.h"

namespace tessera::extender {

void UnseenPods::add(const BindArgs& pod) {
  const std::optional<alloc::PodHolding> holding = state_.ledger().holding(pod.uid);
  if (holding && !holding->bound) {
    pods_.try_emplace(
        pod.uid, Pod{.namespace_name = pod.namespace_name, .name = pod.pod, .since = client_.clock().now()});
  }
}

void UnseenPods::check() {
  if (call_.active()) {
    return;
  }
  std::erase_if(pods_, [this](const auto& entry) {
    const std::optional<alloc::PodHolding> holding = state_.ledger().holding(entry.first);
    return !holding || holding->bound;
  });
  const Clock::Steady long_ago = client_.clock().now() - options_.overdue;
  const auto due =
      std::ranges::find_if(pods_, [&](const auto& entry) { return entry.second.since <= long_ago; });
  if (due == pods_.end()) {
    return;
  }
  kube::Request request = kube::get_request(kube::pod_path(due->second.namespace_name, due->second.name));
  request.deadline = options_.timeout;
  call_ = client_.send(std::move(request), [this, uid = due->first](Result<kube::Reply> reply) {
    handle_response(uid, std::move(reply));
  });
}

// Frees the GPUs if the pod has certainly ended, or if it is not bound although its bind succeeded,
// as after a restore of the API server from a backup. Otherwise the watch will show its end.
void UnseenPods::handle_response(const std::string& uid, Result<kube::Reply> reply) {
  alloc::PodSpec pod;
  const bool gone = !reply && reply.error().code() == ErrorCode::kNotFound;
  if (!gone && (!reply || !reader_.pod(reply->body.view(), pod))) {
    if (const auto found = pods_.find(uid); found != pods_.end()) {
      found->second.since = client_.clock().now();
    }
    return;
  }
  if (gone || pod.uid != uid || !alloc::occupies(pod)) {
    log::warn("the watch missed the end of a pod; its GPUs are free again", {{"uid", uid}});
    state_.forget_pod(uid);
  } else if (pod.node_name.empty()) {
    log::warn("a bound pod is not bound any more; its GPUs are free again", {{"uid", uid}});
    state_.ledger().remove_pod(uid);
  }
  pods_.erase(uid);
  call_ = {};
  check();
}

}  // namespace tessera::extender
