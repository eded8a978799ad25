// `inspect gpushare -o wide`: one line per GPU, with its pods.
#include <fmt/core.h>

#include <algorithm>

#include "cli/inspect/inspect.h"
#include "cli/output/table.h"

namespace tessera::cli {

namespace {

std::string amount(std::int64_t used, std::int64_t total, const std::string& unit) {
  return fmt::format("{}/{}{}{}", used, total, unit.empty() ? "" : " ", unit);
}

std::string pods_on(const ShareNode& node, std::int64_t index, const ShareGpu& gpu) {
  std::string list;
  for (const std::size_t i : gpu.pods) {
    const SharePod& pod = node.pods[i];
    list += fmt::format("{}{}/{} ({})", list.empty() ? "" : ", ", pod.namespace_name, pod.name,
                        pod.whole.contains(index) ? "whole" : std::to_string(pod.units.at(index)));
  }
  return list.empty() ? "-" : list;
}

Table::Cell health(const ShareNode& node, std::int64_t index, const ShareGpu& gpu) {
  if (index < 0 || index >= node.count) {
    return {"missing", Colour::kRed};
  }
  if (!gpu.unhealthy.empty()) {
    return {gpu.unhealthy, Colour::kRed};
  }
  if (!node.problem.empty()) {
    return {node.problem, Colour::kRed};
  }
  return gpu.used > gpu.total ? Table::Cell("over-committed", Colour::kRed) : Table::Cell("ok");
}

void add_gpu(Table& table, const ShareNode& node, std::int64_t index, const Terminal& terminal, bool first) {
  const ShareGpu& gpu = node.gpus.at(index);
  const bool pending = index == kPending;
  std::vector<Table::Cell> row;
  row.emplace_back(first ? node.name : "");
  row.emplace_back(first ? node.address : "");
  row.emplace_back(pending ? "?" : std::to_string(index));
  row.emplace_back(gpu.model.empty() ? "-" : gpu.model);
  if (terminal.bars) {
    row.emplace_back(pending ? "" : bar(gpu.used, gpu.total, terminal), load_colour(gpu.used, gpu.total));
  }
  row.emplace_back(pending ? fmt::format("{} {}", gpu.used, node.unit)
                           : amount(gpu.used, gpu.total, node.unit));
  row.emplace_back(pending ? "" : fmt::format("{}%", percent_of(gpu.used, gpu.total)));
  row.push_back(pending ? Table::Cell("undecided", Colour::kYellow) : health(node, index, gpu));
  row.emplace_back(pods_on(node, index, gpu));
  table.add(std::move(row));
}

}  // namespace

std::string shares_wide(const Shares& shares, const Terminal& terminal) {
  std::vector<Table::Cell> header{"NAME", "IPADDRESS", "GPU", "MODEL"};
  if (terminal.bars) {
    header.emplace_back("MEMORY");
  }
  for (const char* name : {"ALLOCATED/TOTAL", "USE", "HEALTH", "PODS"}) {
    header.emplace_back(name);
  }
  Table table(std::move(header));
  std::int64_t gpus = 0;
  std::int64_t unhealthy = 0;
  std::int64_t used = 0;
  std::int64_t total = 0;
  for (const ShareNode& node : shares.nodes) {
    bool first = true;
    for (const auto& [index, gpu] : node.gpus) {
      if (index != kPending) {
        add_gpu(table, node, index, terminal, first);
        first = false;
        gpus += index >= 0 && index < node.count ? 1 : 0;
        unhealthy += gpu.unhealthy.empty() && node.problem.empty() ? 0 : 1;
      }
    }
    if (node.has_pending()) {
      add_gpu(table, node, kPending, terminal, first);
    }
    used = saturated_sum(used, node.used());
    total = saturated_sum(total, node.total);
  }
  return table.text(terminal) + fmt::format("{} nodes, {} GPUs, {} unhealthy: {} allocated ({}%)\n",
                                            shares.nodes.size(), gpus, unhealthy,
                                            amount(used, total, shares.unit), percent_of(used, total));
}

}  // namespace tessera::cli
