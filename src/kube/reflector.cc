// The watches of Reflector. The lists are in reflector_list.cc.
#include "kube/reflector.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "kube/object_identity.h"
#include "kube/object_json.h"

namespace tessera::kube {

namespace {

// One silent watch may be a dead connection. If the next one is silent too, the server may have
// been restored from a backup: it then continues from an earlier version and sends nothing until it
// reaches the version of the watch.
constexpr int kSuspiciousSilence = 2;  // times the idle limit

// After a watch of at least this duration, an error is considered new, not a repetition of the last
// one.
constexpr std::chrono::seconds kStableWatch(10);

// Limit for Retry-After, which any proxy may have set: the sink must not be out of date for an
// hour.
constexpr std::chrono::minutes kMaxRetryAfter{1};

}  // namespace

Reflector::Reflector(Client& client, ReflectorOptions options, ObjectSink& sink)
    : client_(client),
      options_(std::move(options)),
      sink_(sink),
      lines_(options_.max_object_bytes),
      backoff_(options_.backoff, client.random()),
      forget_([this](const ObjectMeta& meta) {
        if (running_) {
          sink_.forget(meta);
        }
      }),
      page_items_(options_.page_items),
      page_fits_(options_.page_items),
      asked_items_(options_.page_items) {}

Reflector::~Reflector() {
  stop();
}

void Reflector::start() {
  running_ = true;
  after(std::chrono::milliseconds(0), Then::kList);
}

void Reflector::stop() {
  running_ = false;
  call_ = {};
  timer_ = {};
}

void Reflector::relist() {
  if (!running_) {
    return;
  }
  call_ = {};
  backoff_.reset();
  after(std::chrono::milliseconds(0), Then::kList);
}

void Reflector::after(std::chrono::milliseconds wait, Then then) {
  timer_ = client_.loop().after(wait, [this, then] { then == Then::kList ? list() : watch(); });
}

// Logs each new error once. heard() logs the recovery.
void Reflector::failed(const Error& error) {
  ++counts_.failures;
  if (!problem_ || problem_->message() != error.message()) {
    log::warn("watch interrupted", {{"path", options_.path}, {"error", error}});
  }
  problem_ = error;
}

void Reflector::heard() {
  last_heard_ = client_.clock().now();
  if (problem_) {
    problem_.reset();
    log::info("watch restored", {{"path", options_.path}, {"version", tracker_.version()}});
  }
}

std::string Reflector::selectors() const {
  std::string query;
  if (!options_.field_selector.empty()) {
    query += "&fieldSelector=" + percent_encoded(options_.field_selector);
  }
  if (!options_.label_selector.empty()) {
    query += "&labelSelector=" + percent_encoded(options_.label_selector);
  }
  return query;
}

void Reflector::apply(ObjectTracker::Verdict verdict, const ObjectMeta& meta, const Status& decoded) {
  switch (verdict) {
    case ObjectTracker::Verdict::kIgnore:
      return;
    case ObjectTracker::Verdict::kForget:
      sink_.forget(meta);
      return;
    case ObjectTracker::Verdict::kKeep:
    case ObjectTracker::Verdict::kReplace:
      if (decoded) {
        sink_.keep(meta);
      } else {
        ++counts_.unreadable;
        sink_.unreadable(meta, decoded.error());
      }
      return;
  }
}

void Reflector::watch() {
  began_ = client_.clock().now();
  received_any_ = false;
  lines_.reset();
  oversized_.reset();
  ++counts_.watches;
  const auto shortest = static_cast<std::uint64_t>(std::max<std::int64_t>(options_.watch_for.count(), 1));
  Request request = get_request(options_.path);
  request.query = fmt::format("watch=1&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}{}",
                              tracker_.version(), shortest + below(client_.random(), shortest), selectors());
  request.deadline = options_.page_deadline;
  call_ = client_.stream(
      std::move(request), options_.idle, [this](json::PaddedView piece) { on_data(piece); },
      [this](StreamEnd end) { watch_ended(std::move(end)); });
}

void Reflector::on_data(json::PaddedView piece) {
  counts_.wire_bytes += piece.size();
  const Status read = lines_.feed(
      piece, [this](json::PaddedView line) { return on_line(line); },
      [this](std::string_view part, bool last) { return on_part(part, last); });
  if (!read && call_.active()) {
    // The line is not a valid event, so the rest of this stream cannot be trusted.
    end_watch(Then::kList, read.error(), std::chrono::milliseconds(0));
  }
}

Status Reflector::on_line(json::PaddedView text) {
  if (!running_) {
    return fail(ErrorCode::kCancelled, "stopped");
  }
  const WatchLine& line = *TRY(watch_decoder_.decode(text, sink_));
  if (line.type == WatchType::kError) {
    counts_.expired += line.error.expired() ? 1 : 0;
    end_watch(Then::kList, line.error.to_error(), line.error.retry_after.value_or(std::chrono::seconds(0)));
    return fail(ErrorCode::kConflict, "the watch ended with an ERROR line");
  }
  on_event(line.type, line.meta, line.decoded);
  return {};
}

Status Reflector::on_part(std::string_view part, bool last) {
  if (!running_) {
    return fail(ErrorCode::kCancelled, "stopped");
  }
  if (!oversized_) {
    oversized_.emplace(identity_fields("object", {"type"}));
  }
  oversized_->feed(part);
  if (!last) {
    return {};
  }
  const json::FieldScanner line = *std::exchange(oversized_, std::nullopt);
  const auto type = watch_type(line.text("type"));
  if (!line.complete() || !type) {
    return fail(too_large().context("invalid watch event"));
  }
  const ObjectMeta meta = identity(line, "object");
  TRY(check_meta(meta));
  on_event(*type, meta, fail(too_large()));
  return {};
}

void Reflector::on_event(WatchType type, const ObjectMeta& meta, const Status& decoded) {
  received_any_ = true;
  silence_ = {};
  backoff_.reset();
  heard();
  ++(type == WatchType::kBookmark ? counts_.bookmarks : counts_.events);
  apply(tracker_.event(type, meta, forget_), meta, decoded);
  counts_.repeated = tracker_.repeated();
}

void Reflector::watch_ended(StreamEnd end) {
  if (end.refused) {
    const bool too_old = end.refused->expired();
    counts_.expired += too_old ? 1 : 0;
    // 400: the server rejects the version.
    end_watch(too_old || end.refused->code == 400 ? Then::kList : Then::kWatch, end.refused->to_error(),
              end.refused->retry_after.value_or(std::chrono::seconds(0)));
    return;
  }
  const auto lasted = client_.clock().now() - began_;
  if (end.opened && !received_any_) {
    silence_ += std::min<Clock::Steady::duration>(lasted, options_.idle);
  }
  if (silence_ >= kSuspiciousSilence * options_.idle) {
    end_watch(Then::kList, Error(ErrorCode::kUnavailable, "the watch is silent: no events and no bookmarks"),
              std::chrono::milliseconds(0));
    return;
  }
  if (end.broken) {
    end_watch(Then::kWatch, *end.broken, std::chrono::milliseconds(0));
    return;
  }
  if (lines_.pending()) {
    end_watch(Then::kWatch, Error(ErrorCode::kUnavailable, "the watch ended in the middle of an event"),
              std::chrono::milliseconds(0));
    return;
  }
  // The server closed the watch, as it does after timeoutSeconds.
  last_heard_ = client_.clock().now();
  const bool too_fast = !received_any_ && lasted < std::chrono::seconds(1);
  if (!too_fast) {
    backoff_.reset();
  }
  after(too_fast ? backoff_.next() : std::chrono::milliseconds(0), Then::kWatch);
}

void Reflector::end_watch(Then then, const Error& error, std::chrono::milliseconds at_least) {
  call_ = {};
  if (client_.clock().now() - began_ > kStableWatch) {
    backoff_.reset();
  }
  failed(error);
  after(std::max(backoff_.next(), std::min<std::chrono::milliseconds>(at_least, kMaxRetryAfter)), then);
}

}  // namespace tessera::kube
