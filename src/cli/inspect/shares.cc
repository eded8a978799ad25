#include "cli/inspect/shares.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>

#include "alloc/inventory.h"
#include "alloc/original_record.h"
#include "alloc/record.h"
#include "base/json_reader.h"
#include "base/strings.h"
#include "cli/cluster/node_problem.h"

namespace tessera::cli {

namespace {

using Units = std::map<std::int64_t, std::int64_t>;

// Parses an integer like Go's strconv, which accepts a leading plus sign.
std::optional<std::int64_t> parse_go_int(std::string_view text) {
  const bool plus = text.starts_with('+') && text.size() > 1 && text[1] != '-';
  return parse_int(plus ? text.substr(1) : text);
}

// Returns the units that the main containers request; the original ignores other containers.
std::int64_t requested_units(const alloc::PodSpec& pod) {
  std::int64_t sum = 0;
  for (const alloc::ContainerSpec& container : pod.containers) {
    for (const auto& [resource, amount] : container.gpu_limits) {
      if (container.kind == alloc::ContainerKind::kMain && resource == alloc::GpuResource::kMemory) {
        sum = saturated_sum(sum, amount.rounded_up());
      }
    }
  }
  return sum;
}

// Parses {"<container>":{"<gpu>":units}}. Like the original, it uses all of it or nothing.
Units read_allocation(const alloc::Annotations& annotations) {
  const auto text = annotations.find(alloc::key::kMemAllocation);
  if (text == annotations.end()) {
    return {};
  }
  const auto document = parse_json(text->second, alloc::Record::kMaxBytes);
  if (!document || !document->is_object()) {
    return {};
  }
  Units units;
  for (const auto& container : document->get_object()) {
    if (container.value().is_null()) {
      continue;
    }
    if (!parse_go_int(container.key()) || !container.value().is_object()) {
      return {};
    }
    for (const auto& gpu : container.value().get_object()) {
      const auto index = parse_go_int(gpu.key());
      if (!index || !gpu.value().is_int64()) {
        return {};
      }
      units[*index] = saturated_sum(units[*index], gpu.value().get_int64());
    }
  }
  return units;
}

// Returns the GPU shares of Tessera's record, or nothing if there is no record. For an invalid
// record, adds a warning and returns nothing.
std::optional<std::vector<alloc::GpuShare>> read_shares(const alloc::PodSpec& pod,
                                                        const alloc::GpuRequest& request,
                                                        std::vector<std::string>& warnings) {
  const std::string* text = alloc::find_text(pod.annotations, alloc::key::kAllocation);
  if (text == nullptr) {
    return std::nullopt;
  }
  auto shares = alloc::Record::parse(*text).and_then(
      [&](const alloc::Record& record) { return alloc::held_shares(request, record); });
  if (!shares) {
    warnings.push_back(fmt::format("pod {}/{}: its record {} is invalid: {}", pod.namespace_name, pod.name,
                                   alloc::key::kAllocation, shares.error().text()));
    return std::nullopt;
  }
  return std::move(*shares);
}

// Builds one node: first its GPUs, then its pods.
class NodeBuilder {
 public:
  NodeBuilder(const objects::NodeFacts& facts, const NodeProblem& problem, const alloc::ResourceNames& names,
              std::vector<std::string>& warnings)
      : warnings_(warnings), names_(names) {
    node.name = facts.spec.name;
    node.address = facts.address.empty() ? "unknown" : facts.address;
    node.total = facts.allocatable_units;
    node.problem = problem.mark;
    node.count = std::clamp<std::int64_t>(facts.allocatable_count, 0, kMostGpus);
    if (!facts.spec.inventory.empty() && add_inventory(facts)) {
      return;
    }
    for (std::int64_t i = 0; i < node.count; ++i) {
      node.gpus[i].total = node.total / node.count;
    }
    if (node.count > 0) {
      // No GPU has less than 1 GiB or more than 1 TiB, so the number implies its unit. (The
      // original assumes MiB for everything over 100.)
      node.unit = node.total / node.count < 1024 ? "GiB" : "MiB";
    }
  }

  void add_pod(const alloc::PodSpec& pod) {
    SharePod share{.namespace_name = pod.namespace_name, .name = pod.name};
    const auto request = alloc::GpuRequest::of_pod(pod, names_);
    if (!request || !decided(pod, *request, share)) {
      read_original(pod, share);
    }
    if (share.units.empty()) {
      return;
    }
    for (const auto& [index, units] : share.units) {
      const bool is_new = !node.gpus.contains(index);
      ShareGpu& gpu = node.gpus[index];
      if (is_new) {
        gpu.total = node.count > 0 ? node.total / node.count : 0;
      }
      gpu.used = saturated_sum(gpu.used, units);
      gpu.pods.push_back(node.pods.size());
    }
    node.pods.push_back(std::move(share));
  }

  ShareNode node;

 private:
  static constexpr std::int64_t kMostGpus = 1024;

  bool add_inventory(const objects::NodeFacts& facts) {
    auto inventory = alloc::Inventory::parse(facts.spec.inventory);
    if (!inventory) {
      warnings_.push_back(
          fmt::format("node {}: its inventory cannot be read, so its GPUs are assumed to be equal: {}",
                      node.name, inventory.error().text()));
      return false;
    }
    node.unit = inventory->unit.text();
    node.count = 0;
    for (std::size_t i = 0; i < inventory->gpus.size(); ++i) {
      const alloc::Gpu& gpu = inventory->gpus[i];
      ShareGpu& share = node.gpus[gpu.index];
      share.total = inventory->units(i);
      share.uuid = gpu.uuid;
      share.model = gpu.model;
      share.unhealthy = gpu.unhealthy;
      index_of_[gpu.uuid] = gpu.index;
      node.count = std::max<std::int64_t>(node.count, std::int64_t{gpu.index} + 1);
    }
    return true;
  }

  std::int64_t index_of(const std::string& gpu) const {
    if (const auto found = index_of_.find(gpu); found != index_of_.end()) {
      return found->second;
    }
    const auto index = alloc::index_of_name(gpu);
    return index && index_of_.empty() ? std::int64_t{*index} : kPending;
  }

  std::int64_t total_of(std::int64_t index) const {
    const auto found = node.gpus.find(index);
    return found == node.gpus.end() ? 0 : found->second.total;
  }

  // Reads Tessera's record, or for whole GPUs the original topology scheduler's record.
  bool decided(const alloc::PodSpec& pod, const alloc::GpuRequest& request, SharePod& shown) {
    auto shares = read_shares(pod, request, warnings_);
    if (!shares && request.whole > 0) {
      if (const auto original = alloc::original_record(pod.annotations, request)) {
        if (auto shares_of_original = alloc::held_shares(request, *original)) {
          shares = std::move(*shares_of_original);
        }
      }
    }
    if (!shares) {
      return false;
    }
    for (const alloc::GpuShare& share : *shares) {
      const std::int64_t index = index_of(share.gpu);
      if (index == kPending) {
        warnings_.push_back(
            fmt::format("pod {}/{} has GPU {}, which node {} does not have; delete the pod so "
                        "that it is scheduled again",
                        pod.namespace_name, pod.name, in_quotes(share.gpu), node.name));
      }
      if (share.whole) {
        shown.whole.insert(index);
      }
      std::int64_t& units = shown.units[index];
      units = saturated_sum(units, share.whole ? total_of(index) : std::int64_t{share.units});
    }
    return true;
  }

  static void read_original(const alloc::PodSpec& pod, SharePod& share) {
    const std::int64_t requested = requested_units(pod);
    if (requested <= 0) {
      return;
    }
    share.units = read_allocation(pod.annotations);
    share.by_allocation = !share.units.empty();
    if (share.by_allocation) {
      return;
    }
    const auto idx = pod.annotations.find(alloc::key::kMemIdx);
    const auto index = idx == pod.annotations.end() ? std::nullopt : parse_go_int(idx->second);
    share.units[index.value_or(kPending)] = requested;
  }

  std::vector<std::string>& warnings_;
  const alloc::ResourceNames& names_;
  std::unordered_map<std::string, std::int64_t> index_of_;
};

void multiply(ShareNode& node, std::int64_t factor) {
  const auto times = [factor](std::int64_t& value) {
    std::int64_t product = 0;
    value =
        __builtin_mul_overflow(value, factor, &product) ? std::numeric_limits<std::int64_t>::max() : product;
  };
  times(node.total);
  for (auto& [index, gpu] : node.gpus) {
    times(gpu.total);
    times(gpu.used);
  }
  for (SharePod& pod : node.pods) {
    for (auto& [index, units] : pod.units) {
      times(units);
    }
  }
}

// Converts all amounts to MiB if nodes use different units, so that they can share a column.
void unify_units(Shares& shares) {
  bool mixed = false;
  for (const ShareNode& node : shares.nodes) {
    if (!node.unit.empty()) {
      mixed = mixed || (!shares.unit.empty() && shares.unit != node.unit);
      shares.unit = shares.unit.empty() ? node.unit : shares.unit;
    }
  }
  if (!mixed) {
    return;
  }
  shares.unit = "MiB";
  shares.warnings.emplace_back(
      "the nodes count GPU memory in different units, so all amounts are shown in MiB; configure one unit "
      "for all device plugins");
  for (ShareNode& node : shares.nodes) {
    if (const auto unit = alloc::Unit::parse(node.unit)) {
      multiply(node, unit->in_mib());
      node.unit = "MiB";
    }
  }
}

}  // namespace

std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    return b > 0 ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
  }
  return sum;
}

std::int64_t ShareNode::used() const {
  std::int64_t sum = 0;
  for (const auto& [index, gpu] : gpus) {
    sum = saturated_sum(sum, gpu.used);
  }
  return sum;
}

Shares make_shares(const Cluster& cluster) {
  Shares shares;
  std::vector<NodeBuilder> builders;
  std::unordered_map<std::string_view, std::size_t> by_name;
  for (const objects::NodeFacts& facts : cluster.nodes) {
    const NodeProblem problem = node_problem(cluster, facts);
    if (problem) {
      shares.warnings.push_back(fmt::format("node {}: {}", facts.spec.name, problem.text));
    }
    if (facts.allocatable_units > 0) {
      by_name.emplace(facts.spec.name, builders.size());
      builders.emplace_back(facts, problem, cluster.names, shares.warnings);
    }
  }
  for (const alloc::PodSpec& pod : cluster.pods) {
    const bool over = pod.phase == alloc::PodPhase::kSucceeded || pod.phase == alloc::PodPhase::kFailed;
    const auto node = by_name.find(pod.node_name);
    if (!over && node != by_name.end()) {
      builders[node->second].add_pod(pod);
    }
  }
  for (NodeBuilder& builder : builders) {
    shares.nodes.push_back(std::move(builder.node));
  }
  unify_units(shares);
  return shares;
}

std::vector<std::string> share_sort_keys() {
  return {"name", "allocated", "free", "total", "percent"};
}

void sort_shares(Shares& shares, std::string_view by) {
  const auto amount = [by](const ShareNode& node) -> std::int64_t {
    const std::int64_t used = node.used();
    if (by == "allocated") {
      return used;
    }
    if (by == "free") {
      return saturated_sum(node.total, -std::max<std::int64_t>(used, 0));
    }
    if (by == "total") {
      return node.total;
    }
    return by == "percent" ? percent_of(used, node.total) : 0;
  };
  std::ranges::stable_sort(shares.nodes, [&](const ShareNode& a, const ShareNode& b) {
    const std::int64_t left = amount(a);
    const std::int64_t right = amount(b);
    return left != right ? left > right : a.name < b.name;
  });
}

std::int64_t percent_of(std::int64_t used, std::int64_t total) {
  if (total <= 0) {
    return 0;
  }
  const double percent = static_cast<double>(used) / static_cast<double>(total) * 100;
  return static_cast<std::int64_t>(std::clamp(percent, -1e15, 1e15));
}

}  // namespace tessera::cli
