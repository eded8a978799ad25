#include "extender/drain_ack.h"

#include <boost/json.hpp>
#include <utility>

#include "alloc/names.h"
#include "base/log.h"
#include "kube/request.h"

namespace tessera::extender {

namespace {

constexpr std::chrono::milliseconds kCheckEvery{100};
constexpr std::chrono::seconds kRetryAfter{1};
constexpr std::chrono::seconds kDeadline{5};
constexpr std::size_t kMaxCalls = 16;

}  // namespace

DrainAck::DrainAck(const Context& context, const Binder& binder, std::function<bool()> may_bind)
    : client_(context.client), state_(context.state), binder_(binder), may_bind_(std::move(may_bind)) {}

void DrainAck::check() {
  timer_ = client_.loop().after(kCheckEvery, [this] { check(); });
  const auto now = client_.clock().now();
  std::erase_if(not_before_, [&](const auto& entry) { return entry.second <= now; });
  if (state_.draining().empty() || !may_bind_()) {
    return;
  }
  for (const auto& [node, value] : state_.draining()) {
    if (calls_.size() >= kMaxCalls) {
      return;
    }
    if (!calls_.contains(node) && !not_before_.contains(node) && !binder_.binds_to(node)) {
      write(node, value);
    }
  }
}

void DrainAck::write(const std::string& node, const std::string& value) {
  const boost::json::value patch = {
      {"metadata", {{"annotations", {{std::string(alloc::key::kDrainingSeen), value}}}}}};
  kube::Request request = kube::patch_request(kube::node_path(node), boost::json::serialize(patch));
  request.deadline = kDeadline;
  calls_[node] = client_.send(std::move(request), [this, node](const Result<kube::Reply>& reply) {
    calls_.erase(node);
    // Until the watch shows the write, the node is still in the list.
    not_before_[node] = client_.clock().now() + kRetryAfter;
    if (reply) {
      ++written_;
      log::info("no more pods are bound to the node; its agent may end", {{"node", node}});
    } else {
      log::warn("cannot acknowledge that the agent of a node ends; retrying",
                {{"node", node}, {"error", reply.error()}});
    }
  });
}

}  // namespace tessera::extender
