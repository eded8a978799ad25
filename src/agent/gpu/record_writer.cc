#include "agent/gpu/record_writer.h"

#include <fmt/core.h>

#include <utility>

#include "base/log.h"
#include "kube/request.h"

namespace tessera::agent {

namespace {

// Shorter than the 30 s that kubelet waits for PreStartContainer. kubelet retries after an error.
constexpr std::chrono::milliseconds kDeadline{5'000};
// Enough for the message of an error. The pod in the response of a success is not read.
constexpr std::size_t kKeptBytes = 64U << 10U;

}  // namespace

void ApiRecordWriter::write(const NodePod& pod, const RecordRepair& repair, Done<Status> done) {
  kube::Request request =
      kube::patch_request(kube::pod_path(pod.spec.namespace_name, pod.spec.name), repair.patch(pod.spec.uid));
  request.deadline = kDeadline;
  request.max_response_bytes = kKeptBytes;
  request.cut_response = true;
  request.what = fmt::format("record of pod {}", pod.text());
  Writing& writing = writing_[pod.spec.uid];
  writing.waiting.push_back(std::move(done));
  writing.call =
      client_.send(std::move(request), [this, uid = pod.spec.uid, name = pod.text()](
                                           const Result<kube::Reply>& reply) { on_reply(uid, name, reply); });
}

void ApiRecordWriter::on_reply(const std::string& uid, const std::string& pod,
                               const Result<kube::Reply>& reply) {
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
    log::warn("record not repaired", {{"pod", pod}, {"error", reply.error()}});
  }
  const Status status = reply ? Status() : Status(fail(reply.error()));
  for (const Done<Status>& done : writing.waiting) {
    done(status);
  }
}

}  // namespace tessera::agent
