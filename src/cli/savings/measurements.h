// cli/savings/measurements.h
//
// How much memory and compute pods really used of their GPUs, as one number per pod and GPU: the
// peak, the mean or a percentile of many samples. The samples come from Prometheus (prometheus.h)
// or from a CSV file:
//
//   namespace,pod,gpu,memory_mib,utilization_percent
//   ml,notebook-0,GPU-5d3c,1830,2.5
//   ml,notebook-0,GPU-5d3c,2210,0
//
// Each row is one sample. The columns gpu and utilization_percent may be missing, and a field of
// utilization_percent may be empty. Other columns are ignored.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera::cli {

// How samples become one number.
class Statistic {
 public:
  // The largest sample.
  static Statistic peak() { return Statistic(Kind::kPeak, 0); }
  static Statistic mean() { return Statistic(Kind::kMean, 0); }

  // Parses "peak", "mean", or a percentile from "p1" to "p99.9". The error names the allowed values.
  static Result<Statistic> parse(std::string_view text);

  // "peak", "mean", "p99".
  [[nodiscard]] std::string text() const;
  // Returns the number for these samples, at least one. Interpolates percentiles as Prometheus does.
  [[nodiscard]] double of(std::vector<double> samples) const;
  // Returns the PromQL expression for the samples of `series` in `window`:
  // "max_over_time(series[7d])".
  [[nodiscard]] std::string promql(std::string_view series, std::string_view window) const;

  friend bool operator==(const Statistic&, const Statistic&) = default;

 private:
  enum class Kind { kPeak, kMean, kPercentile };
  Statistic(Kind kind, double percentile) : kind_(kind), percentile_(percentile) {}

  Kind kind_;
  double percentile_;
};

// The use of one GPU by one pod.
struct MeasuredGpu {
  std::optional<double> memory_mib{};
  std::optional<double> utilization_percent{};
};

struct Measurements {
  // The largest values that are accepted: 16 TiB, and 100 percent with room for rounding.
  static constexpr double kMostMib = 16'777'216;
  static constexpr double kMostPercent = 101;

  // By "namespace/pod", then by GPU: its UUID or index, or "" if the source does not name it.
  std::map<std::string, std::map<std::string, MeasuredGpu>> pods{};
  std::map<std::string, std::size_t> rows{};  // of a CSV file, by "namespace/pod"
  std::string source{};                       // for people: "usage.csv"; empty: none was named
  std::vector<std::string> warnings{};
};

// Parses a CSV file. Fails on a field that is not a number, negative, or larger than the limits
// above; the error names line and column.
Result<Measurements> parse_usage_csv(std::string_view csv, const Statistic& memory,
                                     const Statistic& utilization);

}  // namespace tessera::cli
