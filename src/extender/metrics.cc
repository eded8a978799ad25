#include "extender/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "daemon/readings.h"
#include "daemon/request_metrics.h"

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

struct Metrics::Impl {
  prometheus::Registry registry;
  daemon::RequestMetrics requests{registry,
                                  {.durations = "tessera_extender_request_duration_seconds",
                                   .requests = "tessera_extender_requests_total"},
                                  kSeconds};
  prometheus::Family<prometheus::Counter>& nodes =
      prometheus::BuildCounter()
          .Name("tessera_extender_filtered_nodes_total")
          .Help("Nodes that filter judged, by result: fit, failed (preemption may help) or unresolvable")
          .Register(registry);
  prometheus::Counter& fit = nodes.Add({{"result", "fit"}});
  prometheus::Counter& failed = nodes.Add({{"result", "failed"}});
  prometheus::Counter& unresolvable = nodes.Add({{"result", "unresolvable"}});
  prometheus::Counter& filter_retries =
      prometheus::BuildCounter()
          .Name("tessera_extender_filter_retries_total")
          .Help("Filter calls that found no node and tried again after a short delay")
          .Register(registry)
          .Add({});
  prometheus::Counter& invalid_requests = prometheus::BuildCounter()
                                              .Name("tessera_extender_invalid_requests_total")
                                              .Help("Requests whose body could not be parsed")
                                              .Register(registry)
                                              .Add({});
  prometheus::Counter& refused_pods =
      prometheus::BuildCounter()
          .Name("tessera_extender_refused_pods_total")
          .Help("Filter calls for pods that no node can take because their limits or annotations are invalid")
          .Register(registry)
          .Add({});
  prometheus::Counter& ended_searches =
      prometheus::BuildCounter()
          .Name("tessera_extender_ended_searches_total")
          .Help("Calls whose search for GPUs of several containers reached its limit")
          .Register(registry)
          .Add({});
  prometheus::Histogram& bind_decisions = prometheus::BuildHistogram()
                                              .Name("tessera_extender_bind_decision_seconds")
                                              .Help("Time from a bind call to its write to the API server")
                                              .Register(registry)
                                              .Add({}, kShortSeconds);
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::count(const http::Access& access) {
  impl_->requests.count(access);
}

void Metrics::count_filter(std::size_t fit, std::size_t failed, std::size_t unresolvable) {
  impl_->fit.Increment(static_cast<double>(fit));
  impl_->failed.Increment(static_cast<double>(failed));
  impl_->unresolvable.Increment(static_cast<double>(unresolvable));
}

void Metrics::count_filter_retry() {
  impl_->filter_retries.Increment();
}

void Metrics::count_invalid_request() {
  impl_->invalid_requests.Increment();
}

void Metrics::count_refused_pod() {
  impl_->refused_pods.Increment();
}

void Metrics::count_ended_search() {
  impl_->ended_searches.Increment();
}

void Metrics::observe_bind_decision(std::chrono::nanoseconds took) {
  impl_->bind_decisions.Observe(seconds(took));
}

std::string Metrics::text(const std::vector<daemon::Reading>& readings) const {
  return daemon::metrics_text(impl_->registry, readings);
}

}  // namespace tessera::extender
