// kube/event_aggregator.h
//
// Decides which Kubernetes Events are written. Counts equal Events in one Event object, limits the
// rate of Events about each object, and bounds the queue. Does no I/O; event_recorder.h sends the
// requests.
//
//   aggregator.record({.about = pod, .warning = true, .reason = "GpuUnhealthy", .message = "..."});
//   while (auto write = aggregator.next()) { send it; aggregator.done(*write, outcome); }
//
// Not thread-safe. No call blocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/clock.h"

namespace tessera::kube {

// The object that an Event is about (involvedObject).
struct ObjectReference {
  std::string api_version = "v1";
  std::string kind{};
  std::string namespace_name{};  // "" for nodes and other cluster-scoped objects
  std::string name{};
  std::string uid{};
};

struct EventNote {
  ObjectReference about;
  bool warning = false;
  std::string reason;   // one CamelCase word
  std::string message;  // cut to 1,024 bytes, the API server's limit

  // Start a note about an object; complete it with as_warning() or as_normal().
  static EventNote about_pod(std::string namespace_name, std::string name, std::string uid);
  // Starts a note about a node. Sets the UID to the name of the node, as kubelet does in its Events
  // about nodes, because kubectl finds the Events of a node by this value.
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
  std::string key;   // identifies the Event in done()
};

struct EventAggregatorOptions {
  std::string component;  // "tessera-extender"
  std::string instance;   // the name of the pod or node that writes the Events
  std::size_t queue = 512;
  std::size_t remembered = 4096;  // the most Events, and the most objects, that are remembered
  // An Event that equals an earlier one is counted in the same Event object, if at most this time
  // has passed since the last repetition. Otherwise a new Event object is created.
  std::chrono::seconds window{600};
  // How many different messages with the same reason about the same object get their own Event
  // within the window. All further messages share one Event.
  int different_messages = 10;
  // Rate limit per object: `burst` Events at once, then one per `refill`.
  int burst = 25;
  std::chrono::seconds refill{300};
};

class EventAggregator {
 public:
  enum class Outcome {
    kDone,
    kGone,  // the Event to update no longer exists (404)
    kFailed,
  };
  struct Counts {
    std::uint64_t recorded = 0;      // calls of record()
    std::uint64_t counted = 0;       // of these, repetitions that only raised the count of an Event
    std::uint64_t silenced = 0;      // calls that were dropped by the rate limit of the object
    std::uint64_t dropped_full = 0;  // calls that were dropped because the queue was full
    std::uint64_t failed = 0;        // writes that failed
  };

  EventAggregator(EventAggregatorOptions options, const Clock& clock);

  // Queues an Event. Returns false if it was dropped; see counts().
  bool record(const EventNote& note);

  // Returns the next request to send, oldest first. An Event that was recorded several times while
  // it was queued needs only one request.
  std::optional<EventWrite> next();
  // Reports the outcome of a request. After kGone (API servers delete Events after an hour), next()
  // creates the Event again.
  void done(const EventWrite& write, Outcome outcome);

  [[nodiscard]] std::size_t waiting() const { return queue_.size(); }
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  // An Event that was recorded within the window.
  struct Known {
    EventNote note;
    std::string name;  // name of the Event object; "" until it is created
    Clock::Steady last;
    Clock::Wall first_wall;
    Clock::Wall last_wall;
    int count = 0;
    bool queued = false;
  };
  // The rate limit of one object (a token bucket).
  struct Budget {
    double tokens;
    Clock::Steady at;
  };
  // The number of different messages about one object with one reason.
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
