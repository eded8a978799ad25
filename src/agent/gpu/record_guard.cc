#include "agent/gpu/record_guard.h"

#include <algorithm>
#include <utility>

namespace tessera::agent {

RecordGuard::RecordGuard(const NodeContext& node, GpuKind& kind, RecordGuardOptions options)
    : node_(node), kind_(kind), options_(options), gate_(node.loop) {
  node_.pods.add_listener(*this);
}

RecordGuard::~RecordGuard() {
  node_.pods.remove_listener(*this);
}

void RecordGuard::check_all() {
  for (const NodePod* pod : node_.pods.in_bind_order()) {
    add(pod->spec.uid);
  }
}

void RecordGuard::pod_changed(const NodePod& pod) {
  add(pod.spec.uid);
}

void RecordGuard::add(const std::string& uid) {
  if (std::ranges::find(to_check_, uid) == to_check_.end()) {
    to_check_.push_back(uid);
  }
  if (!timer_.pending()) {
    timer_ = node_.loop.after(options_.every, [this] { check(); });
  }
}

void RecordGuard::check() {
  std::size_t writes = 0;
  auto next = to_check_.begin();
  for (; next != to_check_.end() && writes < kMostAtOnce; ++next) {
    const NodePod* pod = node_.pods.find(*next);
    const bool writing =
        pod != nullptr &&
        kind_.repair_started(*pod, gate_.wrap<Status>([this, uid = *next](const Status& written) {
          if (!written) {
            retry_later(uid);
          }
        }));
    writes += writing ? 1 : 0;
  }
  to_check_.erase(to_check_.begin(), next);
  if (!to_check_.empty()) {
    timer_ = node_.loop.after(options_.every, [this] { check(); });
  }
}

void RecordGuard::retry_later(const std::string& uid) {
  to_retry_.push_back(uid);
  if (!retry_timer_.pending()) {
    retry_timer_ = node_.loop.after(options_.retry_after, [this] {
      for (const std::string& each : std::exchange(to_retry_, {})) {
        add(each);
      }
    });
  }
}

}  // namespace tessera::agent
