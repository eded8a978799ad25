#include "daemon/readings.h"

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>

namespace tessera::daemon {

void Readings::gauge(std::string name, std::string help, double value, Labels labels) {
  all_.push_back({.name = std::move(name),
                  .help = std::move(help),
                  .kind = Reading::Kind::kGauge,
                  .labels = std::move(labels),
                  .value = value});
}

void Readings::counter(std::string name, std::string help, std::uint64_t value, Labels labels) {
  const auto same = std::ranges::find_if(all_, [&](const Reading& reading) {
    return reading.kind == Reading::Kind::kCounter && reading.name == name && reading.labels == labels;
  });
  if (same != all_.end()) {
    same->value += static_cast<double>(value);
    return;
  }
  all_.push_back({.name = std::move(name),
                  .help = std::move(help),
                  .kind = Reading::Kind::kCounter,
                  .labels = std::move(labels),
                  .value = static_cast<double>(value)});
}

void Readings::add_server(const std::string& name, const http::ServerStats& stats) {
  gauge(name, "Open connections", static_cast<double>(stats.connections));
  counter(name + "_total", "Accepted connections", stats.accepted);
  counter(name + "_refused_total", "Connections refused because all others were busy", stats.refused_full);
  counter(name + "_evicted_total", "Connections closed to make room for others", stats.evicted);
  counter(name + "_bad_requests_total", "Requests that the HTTP server itself rejected", stats.bad_requests);
  counter(name + "_timeouts_total", "Connections closed because the peer took too long to send or to read",
          stats.timeouts);
  counter(name + "_tls_failures_total", "Connections that failed in the TLS handshake", stats.tls_failures);
}

void Readings::add_events(const std::string& name, const kube::EventAggregator::Counts& events) {
  const std::string help = "Events that were not written, by reason";
  counter(name, help, events.silenced + events.dropped_full, {{"reason", "too_many"}});
  counter(name, help, events.failed, {{"reason", "failed"}});
}

std::vector<Reading> Readings::take() {
  std::ranges::stable_sort(all_, {}, &Reading::name);
  return std::exchange(all_, {});
}

std::string metrics_text(const prometheus::Registry& registry, const std::vector<Reading>& readings) {
  std::vector<prometheus::MetricFamily> families = registry.Collect();
  for (const Reading& reading : readings) {
    if (families.empty() || families.back().name != reading.name) {
      prometheus::MetricFamily family;
      family.name = reading.name;
      family.help = reading.help;
      family.type = reading.kind == Reading::Kind::kCounter ? prometheus::MetricType::Counter
                                                            : prometheus::MetricType::Gauge;
      families.push_back(std::move(family));
    }
    prometheus::ClientMetric metric;
    for (const auto& [name, value] : reading.labels) {
      metric.label.push_back({name, value});
    }
    if (reading.kind == Reading::Kind::kCounter) {
      metric.counter.value = reading.value;
    } else {
      metric.gauge.value = reading.value;
    }
    families.back().metric.push_back(std::move(metric));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace tessera::daemon
