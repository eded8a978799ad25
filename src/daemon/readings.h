// daemon/readings.h
//
// Metrics whose values a daemon reads from its parts when /metrics is requested. The other metrics,
// which are updated when something happens, are in a prometheus::Registry. metrics_text() prints
// both.
//
//   Readings readings;
//   readings.gauge("tessera_agent_ready", "1 when pods can be served", 1);
//   readings.add_server("tessera_agent_connections", server.stats());
//   body = metrics_text(registry, readings.take());
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "http/server.h"
#include "kube/event_aggregator.h"

namespace prometheus {
class Registry;
}

namespace tessera::daemon {

// One sample of one metric.
struct Reading {
  enum class Kind { kGauge, kCounter };

  std::string name;  // "tessera_extender_nodes"
  std::string help;
  Kind kind = Kind::kGauge;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
};

// Collects samples. Not thread-safe.
class Readings {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  void gauge(std::string name, std::string help, double value, Labels labels = {});
  // Counters with the same name and labels are added up.
  void counter(std::string name, std::string help, std::uint64_t value, Labels labels = {});

  // Adds the metrics of an HTTP server. `name` is the name of the gauge of open connections
  // ("tessera_extender_connections"). The names of the counters are `name` followed by _total,
  // _refused_total, _bad_requests_total, _timeouts_total or _tls_failures_total.
  void add_server(const std::string& name, const http::ServerStats& stats);
  // Adds the number of Events that were not written, as the counter `name`
  // ("tessera_extender_events_dropped_total").
  void add_events(const std::string& name, const kube::EventAggregator::Counts& events);

  // Returns everything collected, sorted by name, and leaves this object empty.
  [[nodiscard]] std::vector<Reading> take();

 private:
  std::vector<Reading> all_;
};

// Returns the registry's metrics and `readings` in the Prometheus text format. Readings with the
// same name must be adjacent.
std::string metrics_text(const prometheus::Registry& registry, const std::vector<Reading>& readings);

}  // namespace tessera::daemon
