#include "agent/gpu/record_writer.h"

#include <fmt/core.h>

#include <utility>

#include "base/log.h"
#include "kube/request.h"

namespace tessera::agent {

namespace {

// kubelet gives PreStartContainer 30 s, and asks again after an error.
constexpr std::chrono::milliseconds kDeadline{5'000};
constexpr std::size_t kMaxPodBytes = 4U << 20U;

}  // namespace

void RecordWriter::write(const NodePod& pod, const RecordRepair& repair, Done done) {
  kube::Request request =
      kube::patch_request(kube::pod_path(pod.spec.namespace_name, pod.spec.name), repair.patch(pod.spec.uid));
  request.deadline = kDeadline;
  request.max_response_bytes = kMaxPodBytes;
  request.what = fmt::format("record of pod {}", pod.text());
  Writing& writing = writing_[pod.spec.uid];
  writing.waiting.push_back(std::move(done));
  writing.call =
      client_.send(std::move(request), [this, uid = pod.spec.uid, name = pod.text()](
                                           const Result<kube::Reply>& reply) { came(uid, name, reply); });
}

void RecordWriter::came(const std::string& uid, const std::string& pod, const Result<kube::Reply>& reply) {
  const auto found = writing_.find(uid);
  if (found == writing_.end()) {
    return;
  }
  const Writing writing = std::move(found->second);
  writing_.erase(found);
  ++(reply ? counts_.written : counts_.failed);
  if (reply) {
    log::info("record repaired", {{"pod", pod}});
  } else {
    log::warn("record not repaired", {{"pod", pod}, {"why", reply.error()}});
  }
  const Status status = reply ? Status() : Status(fail(reply.error()));
  for (const Done& done : writing.waiting) {
    done(status);
  }
}

}  // namespace tessera::agent
