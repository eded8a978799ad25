// The layouts of the original kubectl-inspect-gpushare, byte for byte, because scripts parse them.
// The lines of dashes are as long as the first node's row, with tabs counted as one character.
#include <fmt/core.h>

#include <algorithm>

#include "cli/inspect/inspect.h"
#include "cli/inspect/shares.h"
#include "cli/output/tabbed_text.h"

namespace tessera::cli {

namespace {

struct Sum {
  std::int64_t used = 0;
  std::int64_t total = 0;

  void add(std::int64_t more_used, std::int64_t more_total) {
    used = saturated_sum(used, more_used);
    total = saturated_sum(total, more_total);
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("{}/{} ({}%)\t\n", used, total, percent_of(used, total));
  }
};

std::string summary_row(const ShareNode& node, std::int64_t columns, bool pending_column, Sum& sum) {
  std::string row = fmt::format("{}\t{}\t", node.name, node.address);
  std::int64_t used = 0;
  for (std::int64_t i = 0; i < columns; ++i) {
    const auto gpu = node.gpus.find(i);
    if (gpu == node.gpus.end()) {
      row += "0/0\t";
      continue;
    }
    used = saturated_sum(used, gpu->second.used);
    row += fmt::format("{}/{}\t", gpu->second.used, gpu->second.total);
  }
  const auto pending = node.gpus.find(kPending);
  const bool waits = pending != node.gpus.end();
  used = saturated_sum(used, waits ? pending->second.used : 0);
  if (pending_column) {
    row += waits ? fmt::format("{}\t", pending->second.used) : "\t";
  }
  row += fmt::format("{}/{}\n", used, node.total);
  sum.add(used, node.total);
  return row;
}

// Returns the GPU indexes in ascending order, with pending and other negative indexes last.
std::vector<std::int64_t> gpu_order(const ShareNode& node) {
  std::vector<std::int64_t> order;
  for (const auto& [index, gpu] : node.gpus) {
    order.push_back(index);
  }
  std::ranges::stable_partition(order, [](std::int64_t index) { return index >= 0; });
  return order;
}

std::string pod_row(const ShareNode& node, const SharePod& pod) {
  std::string row = fmt::format("{}\t{}\t", pod.name, pod.namespace_name);
  const auto units_at = [&](std::int64_t index) {
    const auto found = pod.units.find(index);
    return found == pod.units.end() ? 0 : found->second;
  };
  for (std::int64_t i = 0; i < node.count; ++i) {
    row += fmt::format("{}\t", units_at(i));
  }
  if (node.has_pending()) {
    // The original adds the units on GPU `count`, one past the last GPU, to its column for pending.
    row +=
        fmt::format("{}\t", saturated_sum(units_at(node.count), pod.by_allocation ? 0 : units_at(kPending)));
  }
  return row + "\n";
}

std::string pod_rows(const ShareNode& node) {
  std::string rows;
  std::vector<bool> shown(node.pods.size());
  for (const std::int64_t index : gpu_order(node)) {
    for (const std::size_t pod : node.gpus.at(index).pods) {
      if (!shown[pod]) {
        shown[pod] = true;
        rows += pod_row(node, node.pods[pod]);
      }
    }
  }
  return rows;
}

}  // namespace

std::string shares_summary(const Shares& shares) {
  std::int64_t columns = 0;
  bool pending = false;
  for (const ShareNode& node : shares.nodes) {
    columns = std::max(columns, node.count);
    pending = pending || node.has_pending();
  }
  std::string text = "NAME\tIPADDRESS\t";
  for (std::int64_t i = 0; i < columns; ++i) {
    text += fmt::format("GPU{}(Allocated/Total)\t", i);
  }
  text += pending ? "PENDING(Allocated)\t" : "";
  text += fmt::format("GPU Memory({})\n", shares.unit);
  Sum sum;
  std::size_t dashes = 0;
  for (const ShareNode& node : shares.nodes) {
    const std::string row = summary_row(node, columns, pending, sum);
    dashes = dashes == 0 ? row.size() + 20 : dashes;
    text += row;
  }
  text += std::string(dashes, '-') + "\nAllocated/Total GPU Memory In Cluster:\n" + sum.text();
  return tabbed_text(text);
}

std::string shares_details(const Shares& shares) {
  std::string text;
  Sum sum;
  std::size_t dashes = 0;
  for (const ShareNode& node : shares.nodes) {
    text += fmt::format("\nNAME:\t{}\nIPADDRESS:\t{}\n\nNAME\tNAMESPACE\t", node.name, node.address);
    for (std::int64_t i = 0; i < node.count; ++i) {
      text += fmt::format("GPU{}(Allocated)\t", i);
    }
    text += node.has_pending() ? "Pending(Allocated)\t\n" : "\n";
    const std::string rows = pod_rows(node);
    dashes = dashes == 0 ? rows.size() + 10 : dashes;
    const std::int64_t used = node.used();
    text += rows + fmt::format("Allocated :\t{} ({}%)\t\nTotal :\t{} \t\n{}\n", used,
                               percent_of(used, node.total), node.total, std::string(dashes, '-'));
    sum.add(used, node.total);
  }
  text += "\n\nAllocated/Total GPU Memory In Cluster:\t" + sum.text();
  return tabbed_text(text);
}

}  // namespace tessera::cli
