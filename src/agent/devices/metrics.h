// agent/devices/metrics.h
//
// The agent's Prometheus metrics. Calls are counted here as they happen; the state of the driver,
// the allocations and the last sample is read when /metrics is requested (readings.h).
// docs/reference.md lists every name. Any thread.
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

  void count_request(const http::Access& access);
  // Counts a call of kubelet: "prefer", "allocate" or "pre_start", for a resource. `ok`: the answer
  // was not an error.
  void count_kubelet_call(std::string_view call, const std::string& resource, bool ok,
                          std::chrono::nanoseconds took);

  // Everything in the Prometheus text format. Readings of the same name must be adjacent.
  [[nodiscard]] std::string text(const std::vector<daemon::Reading>& readings) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::agent
