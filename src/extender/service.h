// extender/service.h
//
// The routes: which call of whom is answered by what. On the event loop's thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "extender/args.h"
#include "extender/binder.h"
#include "extender/books.h"
#include "extender/decisions.h"
#include "extender/metrics.h"
#include "http/server.h"

namespace tessera::extender {

class Service {
 public:
  // Who else must be asked.
  struct Sources {
    // Empty when all caches have been filled, else what is missing.
    std::function<std::string()> not_ready;
    // All of /metrics that is not counted by Metrics.
    std::function<std::vector<Reading>()> readings;
    // Tells about a pod that fits nowhere.
    Binder::Tell tell;
  };

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
  void filter(http::Request& request, http::Reply reply);
  void prioritize(http::Request& request, http::Reply reply);
  void preempt(http::Request& request, http::Reply reply);
  void bind(http::Request& request, http::Reply reply);
  void tell_unschedulable(const alloc::PodSpec& pod, const Decisions::FilterSummary& summary,
                          std::size_t nodes);

  Books& books_;
  Binder& binder_;
  Metrics& metrics_;
  Sources sources_;
  ArgsReader reader_;
  Decisions decisions_;
  std::int64_t score_step_ = 128;
};

}  // namespace tessera::extender
