#include "http/readings.h"

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace tessera::http {

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

}  // namespace tessera::http
