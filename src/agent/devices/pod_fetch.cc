#include "agent/devices/pod_fetch.h"

#include <fmt/core.h>

#include <utility>

#include "kube/request.h"

namespace tessera::agent {

namespace {

// Short, because kubelet admits no other pod while it waits for the answer.
constexpr std::chrono::milliseconds kDeadline{400};
constexpr std::size_t kMaxBytes = 16U << 20U;

}  // namespace

ApiPodFetch::ApiPodFetch(kube::Client& client, NodePods& pods, const std::string& node)
    : client_(client),
      pods_(pods),
      query_("limit=500&fieldSelector=" +
             kube::percent_encoded(fmt::format("spec.nodeName={},status.phase=Pending", node))) {}

void ApiPodFetch::fetch(Done<Status> done) {
  waiting_.push_back(std::move(done));
  if (in_flight_.empty()) {
    send();
  }
}

void ApiPodFetch::send() {
  in_flight_ = std::exchange(waiting_, {});
  kube::Request request = kube::get_request(kube::pod_path("", ""));
  request.query = query_;
  request.deadline = kDeadline;
  request.max_response_bytes = kMaxBytes;
  request.what = "pods of this node";
  call_ = client_.send(std::move(request), [this](Result<kube::Reply> reply) { answered(std::move(reply)); });
}

void ApiPodFetch::answered(Result<kube::Reply> reply) {
  const Status status = reply ? read(*reply) : fail(reply.error());
  for (const auto& done : std::exchange(in_flight_, {})) {
    done(status);
  }
  if (!waiting_.empty() && in_flight_.empty()) {
    send();
  }
}

Status ApiPodFetch::read(kube::Reply& reply) {
  TRY(decoder_.decode(reply.body.view(), pods_, [this](const kube::ObjectMeta& meta, const Status& decoded) {
    if (decoded) {
      pods_.put_decoded(meta.version, false);
    }
  }));
  return {};
}

}  // namespace tessera::agent
