// kube/event_aggregator.h
//
// Decides which Kubernetes Events are written: equal ones are counted in one object, an object that
// causes too many is silenced, and what waits is bounded. Without I/O; event_recorder.h sends what
// comes out.
//
//   aggregator.record({.about = pod, .warning = true, .reason = "GpuUnhealthy", .message = "..."});
//   while (auto write = aggregator.next()) { send it; aggregator.done(*write, outcome); }
//
// One thread, or a lock around it. No call takes longer than its copies.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/clock.h"

namespace tessera::kube {

// What an Event is about.
struct ObjectReference {
  std::string api_version = "v1";
  std::string kind{};
  std::string namespace_name{};  // "" for nodes and other cluster-wide things
  std::string name{};
  std::string uid{};
};

struct EventNote {
  ObjectReference about;
  bool warning = false;
  std::string reason;   // one CamelCase word
  std::string message;  // cut to 1,024 bytes, the API server's limit

  // Start a note about an object; complete it with as_warning() or as_normal().
  static EventNote about_pod(std::string pod_namespace, std::string name, std::string uid);
  // The UID of a node in Events is its name: that is how kubelet writes them and kubectl finds
  // them.
  static EventNote about_node(const std::string& name);

  [[nodiscard]] EventNote as_warning(std::string event_reason, std::string text) &&;
  [[nodiscard]] EventNote as_normal(std::string event_reason, std::string text) &&;
};

// One request to the API server.
struct EventWrite {
  enum class Kind { kCreate, kUpdate };
  Kind kind = Kind::kCreate;
  std::string namespace_name;
  std::string name;
  std::string body;  // the Event, or a JSON merge patch of it
  std::string key;   // whose it is, for done()
};

struct EventAggregatorOptions {
  std::string component;  // "tessera-extender"
  std::string instance;   // the pod or machine it runs on
  std::size_t queue = 512;
  std::size_t remembered = 4096;  // different Events, and objects, that are known at once
  // Equal Events are counted together for so long; after it they are news again.
  std::chrono::seconds window{600};
  // So many different messages of one object and reason are told apart in a window, then combined.
  int different_messages = 10;
  // For each object: so many at once, then one in each such span.
  int burst = 25;
  std::chrono::seconds refill{300};
};

class EventAggregator {
 public:
  enum class Outcome { kDone, kGone, kFailed };
  struct Counts {
    std::uint64_t recorded = 0;      // calls of record()
    std::uint64_t counted = 0;       // of these, joined to an Event that was known
    std::uint64_t silenced = 0;      // dropped: the object had too many
    std::uint64_t dropped_full = 0;  // dropped: too many wait
    std::uint64_t failed = 0;        // the API server did not take it
  };

  EventAggregator(EventAggregatorOptions options, const Clock& clock);

  // False when it was dropped, which the counts tell.
  bool record(const EventNote& note);

  // The next request to send, oldest first. An Event that was counted up several times while it
  // waited is one request.
  std::optional<EventWrite> next();
  // What became of it. kGone (404 to an update: Events live for an hour) sends it as a new one.
  void done(const EventWrite& write, Outcome outcome);

  [[nodiscard]] std::size_t waiting() const { return queue_.size(); }
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  struct Known {
    EventNote note;
    std::string name;  // of the Event object; "" until it was created
    Clock::Steady last;
    Clock::Wall first_wall;
    Clock::Wall last_wall;
    int count = 0;
    bool queued = false;
  };
  struct Budget {
    double tokens;
    Clock::Steady at;
  };
  struct Similar {
    int messages = 0;
    Clock::Steady since;
  };

  bool allowed(const std::string& object);
  bool combine(const std::string& object, const EventNote& note, bool is_known);
  void make_room();
  EventWrite create(const std::string& key, Known& known);
  EventWrite update(const std::string& key, const Known& known);

  EventAggregatorOptions options_;
  const Clock& clock_;
  std::unordered_map<std::string, Known> known_;
  std::unordered_map<std::string, Budget> budgets_;
  std::unordered_map<std::string, Similar> similar_;
  std::deque<std::string> queue_;
  std::uint64_t names_ = 0;
  Counts counts_;
};

}  // namespace tessera::kube
