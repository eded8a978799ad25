// The lists of Reflector, page by page. The watches are in reflector.cc.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "kube/object_identity.h"
#include "kube/object_json.h"
#include "kube/reflector.h"

namespace tessera::kube {

namespace {

// Limit for the page size, which is doubled when a list takes longer than the server keeps its
// version.
constexpr std::size_t kMaxPageItems = 10'000;

// The size that pages should have. Larger pages are faster to list, but need more memory.
constexpr std::size_t kPageBytes = 4U << 20U;

std::int64_t milliseconds(Clock::Steady::duration span) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
}

}  // namespace

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

}  // namespace tessera::kube
