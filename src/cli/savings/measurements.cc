#include "cli/savings/measurements.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/strings.h"
#include "sim/csv.h"

namespace tessera::cli {

namespace {

constexpr std::size_t kMostRows = 5'000'000;

struct Samples {
  std::vector<double> memory_mib;
  std::vector<double> utilization_percent;
};

}  // namespace

Result<Statistic> Statistic::parse(std::string_view text) {
  if (text == "peak") {
    return peak();
  }
  if (text == "mean") {
    return mean();
  }
  double percent = 0;
  if (text.starts_with('p')) {
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + 1, end, percent, std::chars_format::fixed);
    if (parsed.ec == std::errc() && parsed.ptr == end && percent >= 1 && percent < 100) {
      return Statistic(Kind::kPercentile, percent);
    }
  }
  return fail(
      ErrorCode::kInvalid,
      fmt::format("{} is not a statistic; write peak, mean or a percentile like p99", in_quotes(text)));
}

std::string Statistic::text() const {
  return kind_ == Kind::kPeak ? "peak" : kind_ == Kind::kMean ? "mean" : fmt::format("p{}", percentile_);
}

double Statistic::of(std::vector<double> samples) const {
  if (kind_ == Kind::kPeak) {
    return *std::ranges::max_element(samples);
  }
  if (kind_ == Kind::kMean) {
    return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
  }
  std::ranges::sort(samples);
  const double rank = percentile_ / 100 * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(rank));
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  const double weight = rank - static_cast<double>(below);
  return samples[below] * (1 - weight) + samples[above] * weight;
}

std::string Statistic::promql(std::string_view series, std::string_view window) const {
  switch (kind_) {
    case Kind::kPeak:
      return fmt::format("max_over_time({}[{}])", series, window);
    case Kind::kMean:
      return fmt::format("avg_over_time({}[{}])", series, window);
    case Kind::kPercentile:
      break;
  }
  return fmt::format("quantile_over_time({:.6g}, {}[{}])", percentile_ / 100, series, window);
}

Result<Measurements> parse_usage_csv(std::string_view csv, const Statistic& memory,
                                     const Statistic& utilization) {
  enum : std::uint8_t { kNamespace, kPod, kMemory, kGpu, kUtilization };
  sim::CsvTable table =
      TRY(sim::CsvTable::open(csv, {"namespace", "pod", "memory_mib"}, {"gpu", "utilization_percent"}));
  Measurements measured;
  std::map<std::string, std::map<std::string, Samples>> samples;
  std::size_t rows = 0;
  while (TRY(table.next())) {
    if (++rows > kMostRows) {
      return fail(ErrorCode::kInvalid, fmt::format("has more than {} rows", kMostRows));
    }
    const std::string name(trim(table.text(kPod)));
    if (name.empty() || trim(table.text(kNamespace)).empty()) {
      return fail(
          table.wrong(name.empty() ? kPod : kNamespace, "is empty; each row needs a namespace and a pod"));
    }
    const std::string pod = fmt::format("{}/{}", trim(table.text(kNamespace)), name);
    measured.rows[pod] += 1;
    Samples& of_gpu = samples[pod][std::string(trim(table.text(kGpu)))];
    of_gpu.memory_mib.push_back(TRY(table.number(kMemory, 0, Measurements::kMostMib)));
    if (!trim(table.text(kUtilization)).empty()) {
      of_gpu.utilization_percent.push_back(TRY(table.number(kUtilization, 0, 100)));
    }
  }
  for (auto& [pod, gpus] : samples) {
    for (auto& [gpu, one] : gpus) {
      MeasuredGpu& into = measured.pods[pod][gpu];
      into.memory_mib = memory.of(std::move(one.memory_mib));
      if (!one.utilization_percent.empty()) {
        into.utilization_percent = utilization.of(std::move(one.utilization_percent));
      }
    }
  }
  return measured;
}

}  // namespace tessera::cli
