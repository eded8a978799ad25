#include "extender/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>

namespace tessera::extender {

namespace {

const prometheus::Histogram::BucketBoundaries kSeconds{
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
const prometheus::Histogram::BucketBoundaries kShortSeconds{0.00001, 0.000025, 0.00005, 0.0001,
                                                            0.00025, 0.001,    0.01};

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

struct Metrics::Inside {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Histogram>& durations =
      prometheus::BuildHistogram()
          .Name("tessera_extender_request_duration_seconds")
          .Help("From the end of a request's head to the end of its answer, by route")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& requests = prometheus::BuildCounter()
                                                          .Name("tessera_extender_requests_total")
                                                          .Help("Requests answered, by route and status")
                                                          .Register(registry);
  prometheus::Family<prometheus::Counter>& nodes =
      prometheus::BuildCounter()
          .Name("tessera_extender_filtered_nodes_total")
          .Help("Nodes judged by filter: fit, failed (eviction could help) or hopeless")
          .Register(registry);
  prometheus::Counter& fit = nodes.Add({{"result", "fit"}});
  prometheus::Counter& failed = nodes.Add({{"result", "failed"}});
  prometheus::Counter& hopeless = nodes.Add({{"result", "unresolvable"}});
  prometheus::Counter& second_looks =
      prometheus::BuildCounter()
          .Name("tessera_extender_filter_retries_total")
          .Help("Filters that found no node and looked again a moment later before they said so")
          .Register(registry)
          .Add({});
  prometheus::Counter& bad_bodies = prometheus::BuildCounter()
                                        .Name("tessera_extender_invalid_requests_total")
                                        .Help("Bodies that are not what kube-scheduler sends")
                                        .Register(registry)
                                        .Add({});
  prometheus::Histogram& decisions = prometheus::BuildHistogram()
                                         .Name("tessera_extender_bind_decision_seconds")
                                         .Help("From a bind call to its write to the API server")
                                         .Register(registry)
                                         .Add({}, kShortSeconds);
  struct Route {
    prometheus::Histogram* duration;
    std::map<int, prometheus::Counter*> by_status;
  };
  std::map<std::string, Route, std::less<>> by_route;
};

Metrics::Metrics() : inside_(std::make_unique<Inside>()) {}
Metrics::~Metrics() = default;

void Metrics::answered(const http::Access& access) {
  auto found = inside_->by_route.find(access.route);
  if (found == inside_->by_route.end()) {
    const std::string route(access.route);
    found =
        inside_->by_route
            .emplace(route, Inside::Route{.duration = &inside_->durations.Add({{"route", route}}, kSeconds),
                                          .by_status = {}})
            .first;
  }
  found->second.duration->Observe(seconds(access.took));
  prometheus::Counter*& requests = found->second.by_status[access.status];
  if (requests == nullptr) {
    requests = &inside_->requests.Add({{"route", found->first}, {"status", std::to_string(access.status)}});
  }
  requests->Increment();
}

void Metrics::filtered(std::size_t fit, std::size_t failed, std::size_t hopeless) {
  inside_->fit.Increment(static_cast<double>(fit));
  inside_->failed.Increment(static_cast<double>(failed));
  inside_->hopeless.Increment(static_cast<double>(hopeless));
}

void Metrics::looked_twice() {
  inside_->second_looks.Increment();
}

void Metrics::bad_body() {
  inside_->bad_bodies.Increment();
}

void Metrics::bind_decided(std::chrono::nanoseconds took) {
  inside_->decisions.Observe(seconds(took));
}

std::string Metrics::text(const std::vector<Reading>& readings) const {
  return daemon::metrics_text(inside_->registry, readings);
}

}  // namespace tessera::extender
