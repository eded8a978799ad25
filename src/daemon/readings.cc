#include "daemon/readings.h"

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace tessera::daemon {

std::vector<Reading> server_readings(const std::string& name, const http::ServerStats& stats) {
  const auto counter = [&](const char* suffix, const char* help, std::uint64_t value) {
    return Reading{.name = name + suffix,
                   .help = help,
                   .kind = Reading::Kind::kCounter,
                   .labels = {},
                   .value = static_cast<double>(value)};
  };
  return {
      {.name = name,
       .help = "Connections that are open",
       .kind = Reading::Kind::kGauge,
       .labels = {},
       .value = static_cast<double>(stats.connections)},
      counter("_total", "Connections that were accepted", stats.accepted),
      counter("_refused_total", "Of them, those that were one too many", stats.refused_full),
      counter("_bad_requests_total", "Requests that the server itself refused", stats.bad_requests),
      counter("_timeouts_total", "Peers that took too long to send or to read", stats.timeouts),
      counter("_tls_failures_total", "Connections that failed in their TLS handshake", stats.tls_failures)};
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
