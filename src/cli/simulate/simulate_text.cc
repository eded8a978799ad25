// The output of `tessera simulate`: a table for people, CSV with full curves, JSON for programs.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <optional>
#include <ostream>
#include <string>

#include "base/strings.h"
#include "cli/output/table.h"
#include "cli/simulate/simulate.h"

namespace tessera::cli {

namespace {

using sim::LoadPoint;
using sim::PolicyResult;
using sim::RunResult;

constexpr std::string_view kTableLegend = R"(
ALLOC       Allocated share of all GPU capacity in percent, at the given offered load;
            ± is half the distance between the worst and the best run.
FRAG        Share of all GPU capacity in percent that is free but that typical pods cannot use.
REFUSES AT  Offered load in percent at which the first pod did not fit.
)";
constexpr std::string_view kReferenceLegend =
    "Capitalized policies: references from \"Beware of Fragmentation\" (USENIX ATC 2023).\n";

struct Means {
  double placed = 0;
  double refused = 0;
  double seconds = 0;
  std::optional<double> first_refusal_percent;  // over the runs that refused a pod
};

Means means_of(const PolicyResult& policy) {
  Means means;
  double refusing = 0;
  double first = 0;
  for (const RunResult& run : policy.runs) {
    means.placed += static_cast<double>(run.placed);
    means.refused += static_cast<double>(run.refused);
    means.seconds += run.seconds;
    refusing += run.first_refusal_percent ? 1 : 0;
    first += run.first_refusal_percent.value_or(0);
  }
  const auto runs = static_cast<double>(policy.runs.size());
  means.placed /= runs;
  means.refused /= runs;
  means.seconds /= runs;
  if (refusing > 0) {
    means.first_refusal_percent = first / refusing;
  }
  return means;
}

// Returns "95.71 ±0.10": the mean and, with several runs, half the distance between the lowest and
// the highest value.
std::string allocated_text(const PolicyResult& policy, int load) {
  const auto mean = policy.mean_at(load);
  if (!mean) {
    return "-";
  }
  double least = mean->allocated_percent;
  double most = mean->allocated_percent;
  for (const RunResult& run : policy.runs) {
    if (const auto point = run.at(load)) {
      least = std::min(least, point->allocated_percent);
      most = std::max(most, point->allocated_percent);
    }
  }
  const std::string text = fmt::format("{:.2f}", mean->allocated_percent);
  return policy.runs.size() == 1 ? text : fmt::format("{} ±{:.2f}", text, (most - least) / 2);
}

std::string number_or_dash(std::optional<double> value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

std::string number_or_null(std::optional<double> value) {
  return value ? fmt::format("{:.4f}", *value) : "null";
}

std::string json_text(const std::string& text) {
  return boost::json::serialize(boost::json::string(text));
}

// {"100": 95.7123, "130": null}
template <class At>
std::string json_by_load(const std::vector<int>& loads, double LoadPoint::* field, At at) {
  std::string text = "{";
  for (const int load : loads) {
    const std::optional<LoadPoint> point = at(load);
    text += fmt::format("{}\"{}\": {}", text.size() == 1 ? "" : ", ", load,
                        number_or_null(point ? std::optional((*point).*field) : std::nullopt));
  }
  return text + "}";
}

template <class At>
std::string json_measures(const std::vector<int>& loads, At at) {
  return fmt::format("\"allocated_percent\": {}, \"fragmented_percent\": {}",
                     json_by_load(loads, &LoadPoint::allocated_percent, at),
                     json_by_load(loads, &LoadPoint::fragmented_percent, at));
}

void print_json_policy(const PolicyResult& policy, const std::vector<int>& loads, std::ostream& out) {
  const Means means = means_of(policy);
  out << fmt::format("    {{\"name\": \"{}\", \"reference\": {},\n", policy.policy.name,
                     policy.policy.reference);
  out << fmt::format(
      "     \"mean\": {{{}, \"placed\": {:.1f}, \"refused\": {:.1f}, \"first_refusal_percent\": {}, "
      "\"seconds\": {:.4f}}},\n",
      json_measures(loads, [&](int load) { return policy.mean_at(load); }), means.placed, means.refused,
      number_or_null(means.first_refusal_percent), means.seconds);
  out << "     \"seeds\": [";
  for (std::size_t i = 0; i < policy.runs.size(); ++i) {
    const RunResult& run = policy.runs[i];
    out << fmt::format(
        "{}\n      {{\"seed\": {}, {}, \"placed\": {}, \"refused\": {}, \"first_refusal_percent\": {}, "
        "\"seconds\": {:.4f}}}",
        i == 0 ? "" : ",", run.seed, json_measures(loads, [&](int load) { return run.at(load); }), run.placed,
        run.refused, number_or_null(run.first_refusal_percent), run.seconds);
  }
  out << "\n     ]}";
}

}  // namespace

void print_simulation_table(const Simulation& simulation, std::ostream& out) {
  const sim::ExperimentResult& result = simulation.result;
  out << fmt::format("{} nodes, {} GPUs; pods request up to {:.0f}% of them; {} {}\n\n", simulation.nodes,
                     simulation.gpus, static_cast<double>(result.options.load_milli) / 10,
                     result.options.seeds.size(), result.options.seeds.size() == 1 ? "run" : "runs each");
  std::vector<Table::Cell> header = {"POLICY"};
  for (const char* measure : {"ALLOC", "FRAG"}) {
    for (const int load : simulation.loads) {
      header.emplace_back(fmt::format("{} {}%", measure, load));
    }
  }
  header.insert(header.end(), {"REFUSES AT", "PLACED", "REFUSED", "SECONDS"});
  Table table(std::move(header));
  bool missing = false;
  for (const PolicyResult& policy : result.policies) {
    const Means means = means_of(policy);
    std::vector<Table::Cell> row = {std::string(policy.policy.name)};
    for (const int load : simulation.loads) {
      row.emplace_back(allocated_text(policy, load));
    }
    for (const int load : simulation.loads) {
      const auto point = policy.mean_at(load);
      missing = missing || !point;
      row.emplace_back(number_or_dash(point ? std::optional(point->fragmented_percent) : std::nullopt, 2));
    }
    row.emplace_back(number_or_dash(means.first_refusal_percent, 1));
    row.emplace_back(fmt::format("{:.0f}", means.placed));
    row.emplace_back(fmt::format("{:.0f}", means.refused));
    row.emplace_back(fmt::format("{:.2f}", means.seconds));
    table.add(std::move(row));
  }
  out << table.text(Terminal());
  out << kTableLegend;
  if (missing) {
    out << "-           No run reached this load; --inflate sets how much all pods request.\n";
  }
  if (std::ranges::any_of(result.policies, [](const PolicyResult& one) { return one.policy.reference; })) {
    out << kReferenceLegend;
  }
}

void print_simulation_csv(const Simulation& simulation, std::ostream& out) {
  out << "policy,seed,load_percent,allocated_percent,fragmented_percent\n";
  for (const PolicyResult& policy : simulation.result.policies) {
    for (const RunResult& run : policy.runs) {
      for (const LoadPoint& point : run.curve) {
        out << fmt::format("{},{},{},{:.4f},{:.4f}\n", policy.policy.name, run.seed, point.load_percent,
                           point.allocated_percent, point.fragmented_percent);
      }
    }
  }
}

// Written by hand because Boost.JSON prints 95.7 as 9.57E1.
void print_simulation_json(const Simulation& simulation, std::ostream& out) {
  const sim::ExperimentOptions& options = simulation.result.options;
  out << "{\n  \"v\": 1,\n";
  out << fmt::format(
      "  \"trace\": {{\"nodes\": {}, \"pods\": {}, \"node_count\": {}, \"gpu_count\": {}, \"pod_count\": {}, "
      "\"demand_percent\": {:.4f}}},\n",
      json_text(simulation.nodes_source), json_text(simulation.pods_source), simulation.nodes,
      simulation.gpus, simulation.pods, simulation.demand_percent);
  out << fmt::format("  \"inflate\": {:.3f},\n  \"typical\": \"{}\",\n  \"at\": [{}],\n  \"seeds\": [{}],\n",
                     static_cast<double>(options.load_milli) / 1000,
                     options.typical_from_trace ? "trace" : "recent", fmt::join(simulation.loads, ", "),
                     fmt::join(options.seeds, ", "));
  out << "  \"policies\": [";
  for (std::size_t i = 0; i < simulation.result.policies.size(); ++i) {
    out << (i == 0 ? "\n" : ",\n");
    print_json_policy(simulation.result.policies[i], simulation.loads, out);
  }
  out << "\n  ]\n}\n";
}

}  // namespace tessera::cli
