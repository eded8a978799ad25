// extender/service.h
//
// The routes: which call of whom is answered by what. On the event loop's thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/health_routes.h"
#include "extender/args.h"
#include "extender/binder.h"
#include "extender/books.h"
#include "extender/decisions.h"
#include "extender/metrics.h"
#include "http/event_loop.h"
#include "http/server.h"

namespace tessera::extender {

class Service {
 public:
  // Who else must be asked.
  struct Sources {
    // Empty when all caches have been filled, else what is missing.
    std::function<std::string()> not_ready;
    // All of /metrics that is not counted by Metrics.
    std::function<std::vector<daemon::Reading>()> readings;
    // Takes Events about pods that fit nowhere. Never null.
    kube::EventSink* events;
    // Runs a task in a moment; without it filter never looks twice.
    std::function<http::Timer(std::chrono::milliseconds, std::function<void()>)> later{};
  };

  // kube-scheduler tries a pod that waits again the moment it sees another go, a node come or its
  // inventory change, which may be before our own watch shows that. A "no" at this moment would
  // stand until something else happens, up to five minutes. So the first "no" in a while is thought
  // over: what came meanwhile counts.
  static constexpr std::chrono::milliseconds kSecondLookAfter{25};
  static constexpr std::chrono::milliseconds kSecondLooksApart{150};

  // All must live longer.
  Service(Books& books, Binder& binder, Metrics& metrics, Sources sources);

  // Of prioritize; may be changed at any time.
  void set_score_step(std::int64_t step) { score_step_ = step; }

  // What kube-scheduler and people call.
  void handle(http::Request& request, http::Reply reply);
  // Health, metrics and version alone.
  void handle_health(http::Request& request, http::Reply reply);

 private:
  void verb(std::string_view name, http::Request& request, http::Reply reply);
  void filter(http::Request& request, http::Reply reply) { filter(request, std::move(reply), false); }
  void filter_best(http::Request& request, http::Reply reply) { filter(request, std::move(reply), true); }
  void filter(http::Request& request, http::Reply reply, bool best);
  // Whether a "no" is answered later instead: then `reply` is taken.
  bool look_again(http::Request& request, http::Reply& reply, bool best);
  Decisions::FilterSummary decide(const NodeArgs& args, bool best, std::string& body);
  void answer_filter(const NodeArgs& args, const Decisions::FilterSummary& summary, std::string body,
                     http::Reply reply);
  void prioritize(http::Request& request, http::Reply reply);
  void preempt(http::Request& request, http::Reply reply);
  void bind(http::Request& request, http::Reply reply);
  void tell_unschedulable(const alloc::PodSpec& pod, const Decisions::FilterSummary& summary,
                          std::size_t nodes);

  Books& books_;
  Binder& binder_;
  Metrics& metrics_;
  Sources sources_;
  daemon::HealthRoutes health_;
  ArgsReader reader_;
  Decisions decisions_;
  std::int64_t score_step_ = 128;
  http::Timer second_look_;
  std::chrono::steady_clock::time_point looked_at_{};
};

}  // namespace tessera::extender
