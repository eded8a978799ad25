#include "kube/reflector.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "base/log.h"
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

// Limit for the page size, which is doubled when a list takes longer than the server keeps its
// version.
constexpr std::size_t kMaxPageItems = 10'000;

// The size that pages should have. Larger pages are faster to list, but need more memory.
constexpr std::size_t kPageBytes = 4U << 20U;

// Returns the fields that identify an object, which is the value of the field `under`, and the
// fields `others`.
std::vector<std::string> identity_fields(const std::string& under, std::vector<std::string> others) {
  for (const char* field : {"name", "namespace", "uid", "resourceVersion"}) {
    others.push_back(under + ".metadata." + field);
  }
  others.push_back(under + ".spec.nodeName");
  return others;
}

std::uint64_t version_of(std::string_view text) {
  std::uint64_t version = 0;
  std::from_chars(text.data(), text.data() + text.size(), version);
  return version;
}

ObjectMeta identity(const json::FieldScanner& scanner, const std::string& under) {
  return {.namespace_name = std::string(scanner.text(under + ".metadata.namespace")),
          .name = std::string(scanner.text(under + ".metadata.name")),
          .uid = std::string(scanner.text(under + ".metadata.uid")),
          .version = version_of(scanner.text(under + ".metadata.resourceVersion")),
          .node_name = std::string(scanner.text(under + ".spec.nodeName"))};
}

std::int64_t milliseconds(Clock::Steady::duration span) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
}

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

// ---- list

void Reflector::list() {
  listing_ = true;
  began_ = client_.clock().now();
  continue_token_.clear();
  list_version_ = 0;
  tracker_.begin_list();
  request_page();
}

Request Reflector::page_request(std::size_t items) const {
  Request request = get_request(options_.path);
  request.query = fmt::format("limit={}{}", items, selectors());
  if (!continue_token_.empty()) {
    request.query += "&continue=" + percent_encoded(continue_token_);
  }
  request.deadline = options_.page_deadline;
  return request;
}

void Reflector::request_page() {
  asked_items_ = std::clamp<std::size_t>(page_fits_, 1, page_items_);
  Request request = page_request(asked_items_);
  request.max_response_bytes = options_.max_object_bytes;
  request.buffer = std::move(next_page_);
  call_ = client_.send(std::move(request), [this](Result<Reply> reply) { on_page(std::move(reply)); });
}

void Reflector::on_page(Result<Reply> reply) {
  if (!reply) {
    page_failed(reply.error());
    return;
  }
  next_page_ = std::exchange(page_, std::move(reply->body));
  next_page_.clear_and_trim(kPageBytes);
  counts_.wire_bytes += page_.size();
  const std::size_t object_bytes = page_.size() / asked_items_ + 1;
  const std::size_t aim = std::min(kPageBytes, options_.max_object_bytes / 2);
  page_fits_ = std::clamp<std::size_t>(aim / object_bytes, 1, asked_items_ * 2);
  // Request the next page early, so that the server prepares it while this one is parsed, unless
  // two of these would need much memory.
  bool asked = false;
  auto page = list_decoder_.decode(
      page_.view(), sink_,
      [this](const ObjectMeta& meta, const Status& decoded) {
        if (running_) {
          apply(tracker_.listed(meta, forget_), meta, decoded);
        }
      },
      [this, &asked](const ListPage& head) {
        continue_token_ = head.continue_token;
        asked = running_ && !continue_token_.empty() && page_.size() <= kPageBytes;
        if (asked) {
          request_page();
        }
      });
  if (!running_) {
    return;
  }
  if (!page) {
    call_ = {};
    list_failed(std::move(page).error().context("GET " + options_.path));
    return;
  }
  last_heard_ = client_.clock().now();
  if (list_version_ == 0) {
    // All pages have the version of the first. The watch delivers later changes.
    list_version_ = page->version;
    tracker_.expect(page->items + page->remaining);
  }
  if (asked) {
    return;
  }
  continue_token_ = std::move(page->continue_token);
  if (!continue_token_.empty()) {
    page_.clear_and_trim(kPageBytes);
    request_page();
    return;
  }
  list_complete();
}

void Reflector::page_failed(const Error& error) {
  if (error.code() != ErrorCode::kExhausted) {
    list_failed(error);
  } else if (asked_items_ > 1) {
    page_fits_ = asked_items_ / 2;
    request_page();
  } else {
    skip_object();
  }
}

void Reflector::skip_object() {
  oversized_.emplace(identity_fields("items", {"metadata.resourceVersion", "metadata.continue"}));
  call_ = client_.stream(
      page_request(1), options_.page_deadline,
      [this](json::PaddedView piece) {
        counts_.wire_bytes += piece.size();
        oversized_->feed(piece.text());
      },
      [this](const StreamEnd& end) { object_skipped(end); });
}

void Reflector::object_skipped(const StreamEnd& end) {
  const json::FieldScanner page = *std::exchange(oversized_, std::nullopt);
  const std::uint64_t version = version_of(page.text("metadata.resourceVersion"));
  const ObjectMeta meta = identity(page, "items");
  Status read = page.complete() && version != 0 && page.count("items.metadata.uid") == 1
                    ? check_meta(meta)
                    : fail(ErrorCode::kInvalid, "the response is not a list of one object");
  if (end.refused || end.broken || !read) {
    list_failed(end.refused ? end.refused->to_error() : end.broken ? *end.broken : read.error());
    return;
  }
  list_version_ = list_version_ == 0 ? version : list_version_;
  last_heard_ = client_.clock().now();
  apply(tracker_.listed(meta, forget_), meta, fail(too_large()));
  continue_token_ = page.text("metadata.continue");
  if (!running_) {
    return;
  }
  if (continue_token_.empty()) {
    list_complete();
  } else {
    request_page();
  }
}

Error Reflector::too_large() const {
  return {ErrorCode::kExhausted, fmt::format("it is larger than {} bytes", options_.max_object_bytes)};
}

void Reflector::list_complete() {
  tracker_.end_list(list_version_, forget_);
  listing_ = false;
  page_.clear_and_trim(0);
  next_page_.clear_and_trim(0);
  list_decoder_ = ListDecoder();
  page_items_ = options_.page_items;
  ++counts_.lists;
  log::info("listed", {{"path", options_.path},
                       {"objects", tracker_.size()},
                       {"version", list_version_},
                       {"took_ms", milliseconds(client_.clock().now() - began_)}});
  silence_ = {};
  // Do not reset the backoff: a server that ends every watch at once must not be listed in a tight
  // loop.
  heard();
  if (running_) {
    sink_.synced();
  }
  if (running_) {
    watch();
  }
}

void Reflector::list_failed(const Error& error) {
  if (error.code() == ErrorCode::kConflict) {
    // 410: the list took longer than the server keeps its version. Fewer, larger pages are faster.
    ++counts_.expired;
    page_items_ = std::min(page_items_ * 2, std::max(options_.page_items, kMaxPageItems));
  }
  failed(error);
  after(backoff_.next(), Then::kList);
}

// ---- watch

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
