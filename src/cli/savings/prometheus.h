// cli/savings/prometheus.h
//
// Reads how much pods used of their GPUs from Prometheus (or a server with the same query API): from
// the metrics of NVIDIA's DCGM exporter, and from those of Tessera's agents. Only instant queries are
// sent. Time and size of the answers are limited.
//
//   const Measurements measured = TRY(ask_prometheus({.url = "http://127.0.0.1:9090"},
//                                                    Statistic::peak(), Statistic::mean()));
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/savings/measurements.h"

namespace tessera::cli {

struct PrometheusOptions {
  std::string url{};         // may have a path prefix
  std::string token_file{};  // a file with a bearer token
  std::string ca_file{};     // empty: the system's authorities
  bool insecure = false;     // accept any certificate
  std::string selector{};    // label matchers for every query: cluster="prod"
  std::string window = "7d";
  std::string metrics = "auto";               // dcgm, tessera, or auto for both
  std::chrono::milliseconds timeout{60'000};  // of one query
};

// One element of the answer to an instant query.
struct PrometheusSample {
  std::map<std::string, std::string> labels{};
  double value = 0;
};

// Parses the answer to an instant query. Leaves out samples that are not finite numbers. Adds the
// server's own warnings to `warnings`. Fails with the server's message if the query failed.
Result<std::vector<PrometheusSample>> parse_query_answer(std::string_view body,
                                                         std::vector<std::string>& warnings);

// Sends the queries and returns the measurements. Fails if the server cannot be reached or rejects
// a query; the error names the server and what to do.
Result<Measurements> ask_prometheus(const PrometheusOptions& options, const Statistic& memory,
                                    const Statistic& utilization);

// Accepts durations of PromQL: "7d", "36h", "1d12h". Returns the text.
Result<std::string> parse_window(std::string_view text);

}  // namespace tessera::cli
