// extender/service.h
//
// Serves the HTTP routes: parses a call of kube-scheduler, passes it to Decisions or Binder, and
// sends the response. Used only on the event loop's thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/health_routes.h"
#include "daemon/readings.h"
#include "extender/args.h"
#include "extender/binder.h"
#include "extender/context.h"
#include "extender/decisions.h"
#include "extender/pod_news.h"
#include "http/event_loop.h"
#include "http/server.h"

namespace tessera::extender {

class Service {
 public:
  struct Sources {
    // Returns what the extender still waits for; empty if it is ready.
    std::function<std::string()> not_ready;
    // Returns the metrics that Metrics does not count.
    std::function<std::vector<daemon::Reading>()> readings;
    // Runs a task after a delay. If this function is empty, filter never tries again.
    std::function<http::Timer(std::chrono::milliseconds, std::function<void()>)> after{};
  };

  // kube-scheduler retries a pending pod as soon as its watch shows that another pod ended or that
  // a node changed. The extender's own watch may show the change a moment later. If filter rejected
  // all nodes before that, the pod would wait for the next event, up to five minutes. So if some
  // node may fit soon, filter decides again after kRetryAfter. It does so at most once every
  // kRetryInterval.
  static constexpr std::chrono::milliseconds kRetryAfter{25};
  static constexpr std::chrono::milliseconds kRetryInterval{150};

  // The parts of `context` and `binder` must outlive this object.
  Service(const Context& context, Binder& binder, Sources sources);

  // Sets the difference between the scores of two consecutive ranks in prioritize.
  void set_score_step(std::int64_t step) { score_step_ = step; }

  // Serves all routes.
  void handle(http::Request& request, http::Reply reply);
  // Serves only health, metrics and version.
  void handle_health(http::Request& request, http::Reply reply);

 private:
  void handle_verb(std::string_view name, http::Request& request, http::Reply reply);
  void filter(http::Request& request, http::Reply reply) { filter(request, std::move(reply), false); }
  void filter_best(http::Request& request, http::Reply reply) { filter(request, std::move(reply), true); }
  void filter(http::Request& request, http::Reply reply, bool best);
  // Schedules a second try of filter. Returns false, and leaves `reply` unused, if a second try is
  // not possible now.
  bool retry_later(http::Request& request, http::Reply& reply, bool best);
  Decisions::FilterSummary decide(const NodeArgs& args, bool best, std::string& body);
  void answer_filter(const NodeArgs& args, const Decisions::FilterSummary& summary, std::string body,
                     http::Reply reply);
  void prioritize(http::Request& request, http::Reply reply);
  void preempt(http::Request& request, http::Reply reply);
  void bind(http::Request& request, http::Reply reply);
  // Records the Events about a pod after filter has answered the call for it.
  void record_events(const alloc::PodSpec& pod, const Decisions::FilterSummary& summary, std::size_t nodes);
  void report_invalid(std::string_view route, const http::Request& request, const Error& error);

  ClusterState& state_;
  kube::EventSink& events_;
  Metrics& metrics_;
  Binder& binder_;
  Sources sources_;
  daemon::HealthRoutes health_;
  ArgsReader reader_;
  Decisions decisions_;
  PodNews pod_news_;
  std::int64_t score_step_ = 128;
  http::Timer retry_timer_;
  std::chrono::steady_clock::time_point last_retry_{};
};

}  // namespace tessera::extender
