#include "agent/devices/object_keeper.h"

#include <utility>

#include "base/json_reader.h"
#include "base/log.h"
#include "kube/request.h"

namespace tessera::agent {

namespace {

// A Node lists its images; 100 of them have some 30 KiB.
constexpr std::size_t kMaxObjectBytes = 4U << 20U;

}  // namespace

ObjectKeeper::ObjectKeeper(kube::Client& client, ObjectKeeperOptions options, Mend mend)
    : client_(client),
      options_(std::move(options)),
      mend_(std::move(mend)),
      random_(client.random()),
      backoff_(options_.backoff, client.random()) {}

void ObjectKeeper::wake() {
  state_.settled = false;
  if (call_.active()) {
    stale_ = true;
    return;
  }
  // An API server that is away is not asked more often because more has happened here.
  if (backoff_.failures() == 0 || !timer_.pending()) {
    read();
  }
}

void ObjectKeeper::read() {
  stale_ = false;
  timer_.cancel();
  kube::Request request = kube::get_request(options_.path);
  request.what = options_.what;
  request.max_response_bytes = kMaxObjectBytes;
  call_ = client_.send(std::move(request), [this](const Result<kube::Reply>& reply) { judge(reply); });
}

void ObjectKeeper::judge(const Result<kube::Reply>& reply) {
  if (!reply) {
    if (reply.error().code() == ErrorCode::kNotFound) {
      mend(nullptr);
    } else {
      give_up_for_now(reply.error());
    }
    return;
  }
  const auto object = parse_json(reply->body.text(), kMaxObjectBytes);
  if (!object) {
    give_up_for_now(Error(object.error()).context(options_.what));
    return;
  }
  mend(&*object);
}

void ObjectKeeper::mend(const boost::json::value* object) {
  Result<std::optional<kube::Request>> change = mend_(object);
  if (!change) {
    give_up_for_now(change.error());
  } else if (*change) {
    write(std::move(**change));
  } else {
    settle();
  }
}

void ObjectKeeper::write(kube::Request request) {
  call_ = client_.send(std::move(request), [this](const Result<kube::Reply>& reply) { written(reply); });
}

void ObjectKeeper::written(const Result<kube::Reply>& reply) {
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
  give_up_for_now(reply.error());
}

void ObjectKeeper::settle() {
  if (stale_) {
    read();
    return;
  }
  if (!state_.problem.empty()) {
    log::info("written again", {{"what", options_.what}});
  }
  state_.settled = true;
  state_.problem.clear();
  backoff_.reset();
  const auto span = static_cast<std::uint64_t>(options_.look_again.count());
  again_after(options_.look_again - std::chrono::milliseconds(kube::below(random_, span / 4 + 1)));
}

void ObjectKeeper::give_up_for_now(const Error& why) {
  ++state_.failures;
  std::string text = why.text();
  if (text != state_.problem) {
    log::warn("not written; tried again", {{"what", options_.what}, {"why", text}});
    state_.problem = std::move(text);
  }
  again_after(backoff_.next());
}

void ObjectKeeper::again_after(std::chrono::milliseconds wait) {
  timer_ = client_.loop().after(wait, [this] { read(); });
}

}  // namespace tessera::agent
