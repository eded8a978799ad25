// daemon/request_metrics.h
//
// Counts the HTTP requests of a daemon by route and status, and measures their durations.
//
//   RequestMetrics requests(registry,
//                           {.durations = "tessera_agent_request_duration_seconds",
//                            .requests = "tessera_agent_requests_total"},
//                           {0.001, 0.01, 0.1});
//   options.on_access = [&](const http::Access& access) { requests.count(access); };
//
// Use it only on the event loop's thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "http/server.h"

namespace prometheus {
class Registry;
}

namespace tessera::daemon {

class RequestMetrics {
 public:
  struct Names {
    std::string durations;  // of the histogram of durations in seconds, by route
    std::string requests;   // of the counter of requests, by route and status
  };

  // `registry` must outlive this object. `bucket_seconds` are the upper bounds of the histogram's
  // buckets.
  RequestMetrics(prometheus::Registry& registry, const Names& names, std::vector<double> bucket_seconds);
  RequestMetrics(const RequestMetrics&) = delete;
  RequestMetrics& operator=(const RequestMetrics&) = delete;
  ~RequestMetrics();

  void count(const http::Access& access);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::daemon
