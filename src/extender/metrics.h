// extender/metrics.h
//
// The metrics that the extender counts when something happens. readings.h has the metrics that it
// reads from the ledger and other parts when /metrics is requested. docs/reference.md lists every
// name. Used only on the event loop's thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "daemon/readings.h"
#include "http/server.h"

namespace tessera::extender {

class Metrics {
 public:
  Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  ~Metrics();

  void count(const http::Access& access);
  // Counts the nodes of one filter call: those that fit, those that failed but may fit after
  // preemption, and those where preemption cannot help.
  void count_filter(std::size_t fit, std::size_t failed, std::size_t unresolvable);
  void count_filter_retry();
  void count_invalid_request();
  // Counts a filter call for a pod whose limits or annotations are invalid.
  void count_refused_pod();
  // Counts a call whose search for GPUs of several containers reached its limit.
  void count_ended_search();
  void observe_bind_decision(std::chrono::nanoseconds took);

  // Returns these metrics and `readings` in the Prometheus text format.
  [[nodiscard]] std::string text(const std::vector<daemon::Reading>& readings) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::extender
