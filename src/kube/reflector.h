// kube/reflector.h
//
// Keeps a sink in sync with a collection of the API server: lists the collection in pages, then
// watches it, and recovers from every error.
//
//   Reflector pods(client, {.path = pod_path("", "")}, sink);
//   pods.start();                       // calls sink.synced() after the first list
//
// Guarantees: the sink receives the latest version of each object, and no version twice. For an
// object that was deleted while there was no connection, forget() of the sink is called. Versions
// that were replaced by newer ones during such a gap may be skipped.
//
// Memory is bounded by max_object_bytes, whatever the objects are. Pages become smaller when
// objects are large. An object that is too large is passed to unreadable() with its identity, and
// neither the list nor the watch ends because of it.
//
// Use it only on the loop's thread. It may be constructed and started on any thread before the loop
// runs, and destroyed after the loop ended. Do not destroy it inside the sink.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "json/field_scanner.h"
#include "json/line_splitter.h"
#include "kube/client.h"
#include "kube/list_decoder.h"
#include "kube/object_sink.h"
#include "kube/object_tracker.h"
#include "kube/watch_decoder.h"

namespace tessera::kube {

struct ReflectorOptions {
  std::string path{};            // path of the collection: "/api/v1/nodes"
  std::string field_selector{};  // "spec.nodeName=gpu-a"
  std::string label_selector{};
  std::size_t page_items = 500;  // at most; fewer if the objects are large
  std::chrono::milliseconds page_deadline{60'000};
  // The server ends a watch after a random time between this and twice this, so that clients do not
  // all reconnect at the same time.
  std::chrono::seconds watch_for{300};
  // API servers send a bookmark each minute. So a watch without data for this long is considered
  // dead, and the Reflector starts a new watch at the last known resourceVersion. If watches
  // receive nothing for twice this long in total, the Reflector re-lists the collection: the server
  // may have been restored from a backup. The resourceVersion of such a server is older than that
  // of the watch, and the server sends nothing until it has caught up.
  std::chrono::milliseconds idle{90'000};
  BackoffOptions backoff{.first = std::chrono::milliseconds(200), .cap = std::chrono::milliseconds(30'000)};
  // Limit for a page, a line of a watch, and so for an object. etcd stores at most 1.5 MiB for an
  // object by default, and JSON needs 6 bytes to escape some of its bytes.
  std::size_t max_object_bytes = 10U << 20U;
};

class Reflector {
 public:
  struct Counts {
    std::uint64_t lists = 0;       // completed lists
    std::uint64_t watches = 0;     // started watches
    std::uint64_t events = 0;      // received events, without bookmarks
    std::uint64_t repeated = 0;    // of these events, repetitions of known versions
    std::uint64_t bookmarks = 0;   // received bookmarks
    std::uint64_t expired = 0;     // lists and watches whose resourceVersion was too old
    std::uint64_t failures = 0;    // lists and watches that ended with an error
    std::uint64_t unreadable = 0;  // objects that the sink could not decode
    std::uint64_t wire_bytes = 0;  // received bytes of lists and watches
  };

  // `client` and `sink` must outlive the Reflector.
  Reflector(Client& client, ReflectorOptions options, ObjectSink& sink);
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;
  ~Reflector();

  void start();
  // Starts a re-list. counts().lists grows when the list is complete. For callers that need the
  // current state now and cannot rely on a watch without events, which may be idle or dead. The
  // sink must not call this.
  void relist();
  // Stops permanently. The sink is not called again. The sink may call this.
  void stop();

  // Returns whether a list is in progress. If the sink is called meanwhile, the object comes from
  // the list, and intermediate changes may have been skipped.
  [[nodiscard]] bool listing() const { return listing_; }
  // Returns whether the first list is complete.
  [[nodiscard]] bool synced() const { return counts_.lists > 0; }
  // Returns the time of the last complete list, watch event or bookmark.
  [[nodiscard]] Clock::Steady last_heard() const { return last_heard_; }
  // Returns the current error; nothing while lists and watches work.
  [[nodiscard]] const std::optional<Error>& problem() const { return problem_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] std::size_t objects() const { return tracker_.size(); }
  [[nodiscard]] std::uint64_t version() const { return tracker_.version(); }

 private:
  enum class Then { kWatch, kList };

  void list();
  void request_page();
  void on_page(Result<Reply> reply);
  void page_failed(const Error& error);
  // Reads a page with one object that is too large, without keeping it.
  void skip_object();
  void object_skipped(const StreamEnd& end);
  // Returns the query for the next page with at most `items` objects.
  [[nodiscard]] Request page_request(std::size_t items) const;
  void list_complete();
  void list_failed(const Error& error);

  void watch();
  void on_data(json::PaddedView piece);
  Status on_line(json::PaddedView line);
  // Reads a line that is too large.
  Status on_part(std::string_view part, bool last);
  void on_event(WatchType type, const ObjectMeta& meta, const Status& decoded);
  void watch_ended(StreamEnd end);
  void end_watch(Then then, const Error& error, std::chrono::milliseconds at_least);

  void apply(ObjectTracker::Verdict verdict, const ObjectMeta& meta, const Status& decoded);
  void after(std::chrono::milliseconds wait, Then then);
  void failed(const Error& error);
  void heard();
  [[nodiscard]] std::string selectors() const;
  [[nodiscard]] Error too_large() const;

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
  json::PaddedBuffer page_;       // the page that is being parsed
  json::PaddedBuffer next_page_;  // memory for the next page
  std::string continue_token_;
  std::uint64_t list_version_ = 0;
  std::size_t page_items_;                       // limit for the number of objects on a page
  std::size_t page_fits_;                        // how many objects are expected to fit on a page
  std::size_t asked_items_;                      // limit of the page that was requested last
  std::optional<json::FieldScanner> oversized_;  // reads an object that is too large
  Clock::Steady began_{};                        // start of the current list or watch
  bool received_any_ = false;                    // the current watch has received an event or a bookmark
  Clock::Steady::duration silence_{};            // total time of consecutive watches without data
  std::optional<Error> problem_;
  Clock::Steady last_heard_{};
  Counts counts_;
};

}  // namespace tessera::kube
