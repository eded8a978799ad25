#include "agent/devices/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "daemon/request_metrics.h"

namespace tessera::agent {

namespace {

// The last bucket is 30 s, after which kubelet gives up on a PreStartContainer call.
const prometheus::Histogram::BucketBoundaries kSeconds{0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                       0.05,   0.1,    0.25,  0.5,    1,     5,    30};

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Histogram>& kubelet_seconds =
      prometheus::BuildHistogram()
          .Name("tessera_agent_kubelet_call_duration_seconds")
          .Help("Time to answer a call of kubelet, by call and resource")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& kubelet_calls =
      prometheus::BuildCounter()
          .Name("tessera_agent_kubelet_calls_total")
          .Help("Calls of kubelet, by call, resource and result (ok or error)")
          .Register(registry);
  daemon::RequestMetrics requests{
      registry,
      {.durations = "tessera_agent_request_duration_seconds", .requests = "tessera_agent_requests_total"},
      kSeconds};
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::count_request(const http::Access& access) {
  impl_->requests.count(access);
}

void Metrics::count_kubelet_call(std::string_view call, const std::string& resource, bool ok,
                                 std::chrono::nanoseconds took) {
  const std::string name(call);
  impl_->kubelet_seconds.Add({{"call", name}, {"resource", resource}}, kSeconds).Observe(seconds(took));
  impl_->kubelet_calls.Add({{"call", name}, {"resource", resource}, {"result", ok ? "ok" : "error"}})
      .Increment();
}

std::string Metrics::text(const std::vector<daemon::Reading>& readings) const {
  return daemon::metrics_text(impl_->registry, readings);
}

}  // namespace tessera::agent
