#include "daemon/request_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <chrono>
#include <map>
#include <utility>

namespace tessera::daemon {

struct RequestMetrics::Impl {
  struct Route {
    prometheus::Histogram* duration;
    std::map<int, prometheus::Counter*> by_status;
  };

  prometheus::Family<prometheus::Histogram>& durations;
  prometheus::Family<prometheus::Counter>& requests;
  std::vector<double> bucket_seconds;
  // Cached, because looking up a metric by its labels costs more than the rest of a request.
  std::map<std::string, Route, std::less<>> routes{};
};

RequestMetrics::RequestMetrics(prometheus::Registry& registry, const Names& names,
                               std::vector<double> bucket_seconds)
    : impl_(new Impl{
          .durations = prometheus::BuildHistogram()
                           .Name(names.durations)
                           .Help("Time from the end of a request's head to the end of its response, by route")
                           .Register(registry),
          .requests = prometheus::BuildCounter()
                          .Name(names.requests)
                          .Help("HTTP requests answered, by route and status")
                          .Register(registry),
          .bucket_seconds = std::move(bucket_seconds)}) {}

RequestMetrics::~RequestMetrics() = default;

void RequestMetrics::count(const http::Access& access) {
  auto found = impl_->routes.find(access.route);
  if (found == impl_->routes.end()) {
    const std::string route(access.route);
    prometheus::Histogram& duration = impl_->durations.Add({{"route", route}}, impl_->bucket_seconds);
    found = impl_->routes.emplace(route, Impl::Route{.duration = &duration, .by_status = {}}).first;
  }
  found->second.duration->Observe(std::chrono::duration<double>(access.took).count());
  prometheus::Counter*& requests = found->second.by_status[access.status];
  if (requests == nullptr) {
    requests = &impl_->requests.Add({{"route", found->first}, {"status", std::to_string(access.status)}});
  }
  requests->Increment();
}

}  // namespace tessera::daemon
