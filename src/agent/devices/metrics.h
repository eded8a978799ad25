// agent/devices/metrics.h
//
// The agent's Prometheus metrics. This class counts events as they happen: HTTP requests and
// kubelet's calls. The other metrics are readings, which are taken when /metrics is requested
// (readings.h): the state of the driver, the allocations and the last sample of GPU use.
// docs/reference.md lists every name. Call count_request() only on the event loop's thread, the
// other functions from any thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/readings.h"
#include "http/server.h"

namespace tessera::agent {

class Metrics {
 public:
  Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  ~Metrics();

  // Counts a request to the HTTP server.
  void count_request(const http::Access& access);
  // Counts a call of kubelet for a resource. `call` is "prefer", "allocate" or "pre_start". `ok` is
  // false if the answer was an error.
  void count_kubelet_call(std::string_view call, const std::string& resource, bool ok,
                          std::chrono::nanoseconds took);

  // Returns all metrics in the Prometheus text format. Readings of the same name must be adjacent.
  [[nodiscard]] std::string text(const std::vector<daemon::Reading>& readings) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::agent
