// Usage of GPUs from outside: the answer of a Prometheus server, or a CSV file. Whatever is accepted
// is finite and within the limits.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "cli/savings/measurements.h"
#include "cli/savings/prometheus.h"

using namespace tessera;

namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void check(const cli::Measurements& measured) {
  for (const auto& [pod, gpus] : measured.pods) {
    for (const auto& [gpu, use] : gpus) {
      require(!use.memory_mib || (*use.memory_mib >= 0 && *use.memory_mib <= cli::Measurements::kMostMib));
      require(!use.utilization_percent ||
              (*use.utilization_percent >= 0 && *use.utilization_percent <= cli::Measurements::kMostPercent));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> warnings;
  if (const auto samples = cli::parse_query_answer(text, warnings)) {
    for (const cli::PrometheusSample& sample : *samples) {
      require(std::isfinite(sample.value));
    }
  }
  for (const auto& statistic :
       {cli::Statistic::peak(), cli::Statistic::mean(), *cli::Statistic::parse("p95")}) {
    if (const auto measured = cli::parse_usage_csv(text, statistic, statistic)) {
      check(*measured);
    }
  }
  return 0;
}
