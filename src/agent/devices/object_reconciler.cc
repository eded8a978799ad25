#include "agent/devices/object_reconciler.h"

#include <utility>

#include "base/json_reader.h"
#include "base/log.h"
#include "kube/request.h"

namespace tessera::agent {

namespace {

// A Node contains the list of its images; 100 images take about 30 KiB.
constexpr std::size_t kMaxObjectBytes = 4U << 20U;

}  // namespace

ObjectReconciler::ObjectReconciler(kube::Client& client, ObjectReconcilerOptions options, Change change)
    : client_(client),
      options_(std::move(options)),
      change_(std::move(change)),
      random_(client.random()),
      backoff_(options_.backoff, client.random()) {}

void ObjectReconciler::wake() {
  state_.settled = false;
  if (call_.active()) {
    stale_ = true;
    return;
  }
  // While the API server fails, more changes must not cause more requests.
  if (backoff_.failures() == 0 || !timer_.pending()) {
    read();
  }
}

void ObjectReconciler::read() {
  stale_ = false;
  timer_.cancel();
  kube::Request request = kube::get_request(options_.path);
  request.what = options_.what;
  request.max_response_bytes = kMaxObjectBytes;
  call_ = client_.send(std::move(request), [this](const Result<kube::Reply>& reply) { read_done(reply); });
}

void ObjectReconciler::read_done(const Result<kube::Reply>& reply) {
  if (!reply) {
    if (reply.error().code() == ErrorCode::kNotFound) {
      reconcile(nullptr);
    } else {
      retry_after(reply.error());
    }
    return;
  }
  const auto object = parse_json(reply->body.text(), kMaxObjectBytes);
  if (!object) {
    retry_after(Error(object.error()).context(options_.what));
    return;
  }
  reconcile(&*object);
}

void ObjectReconciler::reconcile(const boost::json::value* object) {
  Result<std::optional<kube::Request>> change = change_(object);
  if (!change) {
    retry_after(change.error());
  } else if (*change) {
    write(std::move(**change));
  } else {
    settle();
  }
}

void ObjectReconciler::write(kube::Request request) {
  call_ = client_.send(std::move(request), [this](const Result<kube::Reply>& reply) { written(reply); });
}

void ObjectReconciler::written(const Result<kube::Reply>& reply) {
  if (reply) {
    ++state_.writes;
    settle();
    return;
  }
  const ErrorCode code = reply.error().code();
  if (code == ErrorCode::kConflict || code == ErrorCode::kNotFound) {
    ++state_.races;
    again_after(backoff_.next());
    return;
  }
  retry_after(reply.error());
}

void ObjectReconciler::settle() {
  if (stale_) {
    read();
    return;
  }
  if (!state_.problem.empty()) {
    log::info("object reconciled again", {{"object", options_.what}});
  }
  state_.settled = true;
  state_.problem.clear();
  backoff_.reset();
  const auto span = static_cast<std::uint64_t>(options_.recheck_every.count());
  again_after(options_.recheck_every - std::chrono::milliseconds(kube::below(random_, span / 4 + 1)));
}

void ObjectReconciler::retry_after(const Error& error) {
  ++state_.failures;
  std::string text = error.text();
  if (text != state_.problem) {
    log::warn("object not reconciled; retrying", {{"object", options_.what}, {"error", text}});
    state_.problem = std::move(text);
  }
  again_after(backoff_.next());
}

void ObjectReconciler::again_after(std::chrono::milliseconds wait) {
  timer_ = client_.loop().after(wait, [this] { read(); });
}

}  // namespace tessera::agent
