// kube/reflector.h
//
// Keeps a sink equal to a collection of the API server: lists it in pages, then watches, and goes on through
// every fault.
//
//   Reflector pods(client, {.path = pod_path("", "")}, sink);
//   pods.start();                       // sink.synced() when all has been brought once
//
// What holds: every change of an object that lasts reaches the sink; none reaches it twice; an object that
// vanished while there was no connection is told as forget(). Intermediate versions that came and went during
// a gap may be skipped.
//
// All on the loop's thread: construct and start from anywhere before the loop runs, destroy there (not from
// inside the sink) or after it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "json/line_splitter.h"
#include "kube/client.h"
#include "kube/list_decoder.h"
#include "kube/object_sink.h"
#include "kube/object_tracker.h"
#include "kube/watch_decoder.h"

namespace tessera::kube {

struct ReflectorOptions {
  std::string path{};            // of the collection: "/api/v1/nodes"
  std::string field_selector{};  // "spec.nodeName=gpu-a"
  std::string label_selector{};
  std::size_t page_items = 500;
  std::chrono::milliseconds page_deadline{60'000};
  // The server ends a watch after this, up to twice this (spread, so that not all clients come back at once).
  std::chrono::seconds watch_for{300};
  // A watch on which nothing comes for so long is taken for dead. API servers send a bookmark each minute:
  // when the next watch is as silent, its version is not believed any more and all is listed anew.
  std::chrono::milliseconds idle{90'000};
  BackoffOptions backoff{.first = std::chrono::milliseconds(200), .cap = std::chrono::milliseconds(30'000)};
  std::size_t max_line_bytes = 8U << 20U;
};

class Reflector {
 public:
  struct Counts {
    std::uint64_t lists = 0;       // complete ones
    std::uint64_t watches = 0;     // started
    std::uint64_t events = 0;      // lines that told about an object
    std::uint64_t repeated = 0;    // of these, known already
    std::uint64_t bookmarks = 0;   //
    std::uint64_t expired = 0;     // the version was too old: listed again
    std::uint64_t failures = 0;    // lists or watches that ended with an error
    std::uint64_t unreadable = 0;  // objects the sink could not decode
    std::uint64_t wire_bytes = 0;  // of lists and watches
  };

  // `client` and `sink` must outlive it.
  Reflector(Client& client, ReflectorOptions options, ObjectSink& sink);
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;
  ~Reflector();

  void start();
  // Brings everything anew: counts().lists is higher when a list that began after this call is complete. For
  // those who must not rely on a watch that may have been silent for a reason. Not from inside the sink.
  void relist();
  // For good: nothing is called on the sink any more, also when the sink itself calls this.
  void stop();

  // Whether what the sink is being brought comes from a list: what happened before it may have been skipped.
  [[nodiscard]] bool listing() const { return listing_; }
  // Whether all was brought once.
  [[nodiscard]] bool synced() const { return counts_.lists > 0; }
  // When the server was last heard: the age of what the sink knows is at most the time since.
  [[nodiscard]] Clock::Steady last_heard() const { return last_heard_; }
  // Why it does not work at the moment; nothing while it does.
  [[nodiscard]] const std::optional<Error>& problem() const { return problem_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] std::size_t objects() const { return tracker_.size(); }
  [[nodiscard]] std::uint64_t version() const { return tracker_.version(); }

 private:
  enum class Then { kWatch, kList };

  void list();
  void request_page();
  void page_came(Result<Reply> reply);
  void list_complete();
  void list_failed(const Error& error);

  void watch();
  void data_came(json::PaddedView piece);
  Status line_came(json::PaddedView line);
  void watch_ended(StreamEnd end);
  void end_watch(Then then, const Error& error, std::chrono::milliseconds at_least);

  void apply(ObjectTracker::Verdict verdict, const ObjectMeta& meta, const Status& decoded);
  void after(std::chrono::milliseconds wait, Then then);
  void failed(const Error& error);
  void heard();
  [[nodiscard]] std::string selectors() const;

  Client& client_;
  const ReflectorOptions options_;
  ObjectSink& sink_;
  ObjectTracker tracker_;
  ListDecoder list_decoder_;
  WatchDecoder watch_decoder_;
  json::LineSplitter lines_;
  Backoff backoff_;
  const ObjectTracker::Forget forget_;

  bool running_ = false;
  bool listing_ = false;
  Call call_;
  http::Timer timer_;
  json::PaddedBuffer page_;       // the one that is read
  json::PaddedBuffer next_page_;  // memory for the next
  std::string continue_token_;
  std::uint64_t list_version_ = 0;
  std::size_t page_items_;
  Clock::Steady began_{};  // the list or watch under way
  bool anything_came_ = false;
  Clock::Steady::duration silence_{};  // of watches in a row that brought nothing
  std::optional<Error> problem_;
  Clock::Steady last_heard_{};
  Counts counts_;
};

}  // namespace tessera::kube
