// The text and JSON output of `tessera why`.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <map>

#include "cli/cluster/cluster_ledger.h"
#include "cli/diagnose/why_json.h"
#include "cli/output/json_print.h"
#include "cli/output/table.h"
#include "cli/output/yaml_print.h"

namespace tessera::cli {

namespace {

namespace json = boost::json;

constexpr std::size_t kMostRows = 20;

std::string holder_text(const alloc::PodHolding& holding, alloc::Unit unit) {
  const std::string what = holding.whole > 0
                               ? fmt::format("{} GPU{}", holding.whole, holding.whole == 1 ? "" : "s")
                               : amount_text(unit, holding.units);
  return fmt::format("{} ({})", holding.pod.text(), what);
}

std::string fits_when(const WhyNode& node, alloc::Unit unit) {
  std::string text;
  if (!node.verdict.blockers.empty()) {
    text = blockers_text(node, unit) + (node.verdict.blockers.size() == 1 ? " ends" : " end");
  } else if (node.verdict.reason != alloc::Reason::kFits) {
    text = node.verdict.text;
  }
  return node.also.empty() ? text : node.also + (text.empty() ? "" : "; ") + text;
}

std::vector<Table::Cell> row_of(const WhyNode& node, alloc::Unit unit) {
  const alloc::Explanation& why = node.verdict;
  std::string best = "-";
  std::string free = "-";
  std::string lacking = "-";
  if (why.best_gpu) {
    best = fmt::format("GPU {}", *why.best_gpu);
    free = amount_text(unit, why.free_units);
    lacking = amount_text(unit, why.short_units);
  } else if (why.short_gpus > 0) {
    free = fmt::format("{} GPU{}", why.free_gpus, why.free_gpus == 1 ? "" : "s");
    lacking = fmt::format("{} GPU{}", why.short_gpus, why.short_gpus == 1 ? "" : "s");
  }
  const bool can_end = !why.blockers.empty() && node.also.empty();
  return {node.node,
          std::move(best),
          std::move(free),
          std::move(lacking),
          {fits_when(node, unit), can_end ? Colour::kNone : Colour::kRed}};
}

// Counts the reasons in the format of kube-scheduler: "9 no single GPU has 8GiB free, 3 free GPUs
// are unhealthy".
std::string grouped(const WhyReport& report) {
  std::map<std::string, std::size_t> counts;
  for (const WhyNode& node : report.nodes) {
    ++counts[node.verdict.reason == alloc::Reason::kFits ? node.also : node.verdict.phrase];
  }
  std::vector<std::string> parts;
  for (const auto& [phrase, count] : counts) {
    parts.push_back(fmt::format("{} {}", count, phrase));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string blockers_text(const WhyNode& node, alloc::Unit unit) {
  std::string text;
  for (const alloc::PodHolding& holding : node.verdict.blockers) {
    text += (text.empty() ? "" : ", ") + holder_text(holding, unit);
  }
  return text;
}

std::string why_text(const WhyReport& report, const Terminal& terminal) {
  const bool waits = !report.nodes.empty() && report.fits.empty();
  std::string text = prose(report.answer, terminal, waits ? Colour::kYellow : Colour::kGreen);
  for (const std::string& obstacle : report.obstacles) {
    text += prose("But " + obstacle + ".", terminal, Colour::kRed);
  }
  if (!report.nodes.empty()) {
    Table table({"NODE", "BEST GPU", "FREE", "SHORT BY", "FITS WHEN"},
                {.drop = {"BEST GPU", "FREE", "SHORT BY"}, .wrap_last = true, .shorten = {"NODE"}});
    for (std::size_t i = 0; i < report.nodes.size() && i < kMostRows; ++i) {
      table.add(row_of(report.nodes[i], report.unit));
    }
    text += "\n" + table.text(terminal);
    if (report.nodes.size() > kMostRows) {
      text += prose(fmt::format("... and {} more nodes (-o json lists all): {}",
                                report.nodes.size() - kMostRows, grouped(report)),
                    terminal);
    }
  }
  if (report.without_gpus > 0) {
    text += fmt::format("{} node{} without shared GPUs\n", report.without_gpus,
                        report.without_gpus == 1 ? "" : "s");
  }
  if (!report.free.empty()) {
    text += "\n" + prose(report.free, terminal);
  }
  for (const std::string& hint : report.hints) {
    text += prose(hint, terminal);
  }
  return text;
}

json::object why_object(const WhyReport& report) {
  json::array nodes;
  for (const WhyNode& node : report.nodes) {
    const alloc::Explanation& why = node.verdict;
    json::object entry{{"node", node.node}, {"reason", why.phrase}, {"text", why.text}};
    if (why.best_gpu) {
      entry["bestGpu"] = *why.best_gpu;
      entry["freeUnits"] = why.free_units;
      entry["shortUnits"] = why.short_units;
    }
    if (why.short_gpus > 0) {
      entry["freeGpus"] = why.free_gpus;
      entry["shortGpus"] = why.short_gpus;
    }
    json::array blockers;
    for (const alloc::PodHolding& holding : why.blockers) {
      blockers.emplace_back(holding.pod.text());
    }
    entry["blockers"] = std::move(blockers);
    if (!node.also.empty()) {
      entry["also"] = node.also;
    }
    nodes.push_back(std::move(entry));
  }
  json::array obstacles;
  for (const std::string& obstacle : report.obstacles) {
    obstacles.emplace_back(obstacle);
  }
  json::array fits;
  for (const std::string& node : report.fits) {
    fits.emplace_back(node);
  }
  json::array hints;
  for (const std::string& hint : report.hints) {
    hints.emplace_back(hint);
  }
  json::object object{{"pod", report.pod},          {"needs", report.needs},
                      {"answer", report.answer},    {"obstacles", std::move(obstacles)},
                      {"unit", report.unit.text()}, {"fits", std::move(fits)},
                      {"nodes", std::move(nodes)},  {"nodesWithoutGpus", report.without_gpus},
                      {"free", report.free},        {"hints", std::move(hints)}};
  if (!report.node.empty()) {
    object["node"] = report.node;
  }
  if (const WhyNode* const least = report.least()) {
    json::array pods;
    for (const alloc::PodHolding& holding : least->verdict.blockers) {
      pods.emplace_back(holding.pod.text());
    }
    object["least"] = json::object{{"node", least->node}, {"pods", std::move(pods)}};
  }
  return object;
}

std::string why_json(const WhyReport& report, bool yaml) {
  const json::value value = why_object(report);
  return yaml ? yaml_text(value) : pretty_json(value);
}

}  // namespace tessera::cli
