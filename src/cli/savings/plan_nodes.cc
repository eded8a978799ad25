#include "cli/savings/plan_nodes.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <span>
#include <tuple>

#include "alloc/inventory.h"
#include "base/strings.h"

namespace tessera::cli {

namespace {

using Labels = std::map<std::string, std::string, std::less<>>;

// Labels that name the pool of a node, on the clouds and with the tools that set them.
constexpr std::array<std::string_view, 12> kPoolLabels = {
    "cloud.google.com/gke-nodepool",   "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",           "alpha.eksctl.io/nodegroup-name",
    "kubernetes.azure.com/agentpool",  "agentpool",
    "alibabacloud.com/nodepool-id",    "ibm-cloud.kubernetes.io/worker-pool-name",
    "doks.digitalocean.com/node-pool", "yandex.cloud/node-group-id",
    "k8s.scaleway.com/pool-name",      "node.cluster.x-k8s.io/machine-pool",
};
// Labels that name the GPU model.
constexpr std::array<std::string_view, 7> kModelLabels = {
    "nvidia.com/gpu.product",
    "aliyun.accelerator/nvidia_name",
    "karpenter.k8s.aws/instance-gpu-name",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "amd.com/gpu.product-name",
    "accelerator",
};
// Labels with the memory of one GPU: 81920, or 15079MiB.
constexpr std::array<std::string_view, 3> kMemoryLabels = {
    "nvidia.com/gpu.memory",
    "aliyun.accelerator/nvidia_mem",
    "karpenter.k8s.aws/instance-gpu-memory",
};
constexpr std::int64_t kMostMib = std::int64_t{16} << 20U;
// Stands for the memory of GPUs whose size is not known. Pods with whole GPUs do not need it.
constexpr std::uint32_t kAnyMib = 1024;

std::string first_label(const Labels& labels, std::span<const std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (const auto found = labels.find(key); found != labels.end() && !trim(found->second).empty()) {
      return std::string(trim(found->second));
    }
  }
  return "";
}

std::string label(const Labels& labels, std::string_view key) {
  return first_label(labels, std::array{key});
}

std::optional<std::uint32_t> memory_label(const Labels& labels) {
  std::string text = first_label(labels, kMemoryLabels);
  if (text.ends_with("MiB")) {
    text.resize(text.size() - 3);
  }
  const auto mib = parse_int(text);
  return mib && *mib > 0 && *mib <= kMostMib ? std::optional(static_cast<std::uint32_t>(*mib)) : std::nullopt;
}

class NodePlanner {
 public:
  NodePlanner(const Cluster& cluster, const SavingsRules& rules, std::vector<std::string>& warnings)
      : cluster_(cluster), rules_(rules), warnings_(warnings) {}

  // Returns nothing if the node has no GPUs.
  std::optional<PlanNode> plan(const objects::NodeFacts& facts, const NodeLoad& load) {
    PlanNode node;
    node.facts = &facts;
    node.spec = facts.spec;
    node.open = facts.ready && !facts.cordoned;
    // Tessera's agent writes some of these labels too, and its inventory says more.
    node.kind = facts.spec.inventory.empty() ? kind_of(facts.labels) : PlanNode::Kind::kPlanned;
    // Another device plugin, and an agent that is about to end, matter to the extender only.
    node.spec.nvidia_gpus = 0;
    node.spec.draining.clear();
    node.spec.draining_seen.clear();
    node.spec.cpu_milli = std::max<std::int64_t>(node.spec.cpu_milli - load.without_gpus.cpu_milli, 0);
    node.spec.memory_bytes =
        std::max<std::int64_t>(node.spec.memory_bytes - load.without_gpus.memory_bytes, 0);
    if (!use_inventory(node) && !make_inventory(node, load.whole_gpus)) {
      return std::nullopt;
    }
    const std::string& model = node.gpus.front().model;
    node.several_models =
        std::ranges::any_of(node.gpus, [&](const PlanGpu& gpu) { return !same_model(gpu.model, model); });
    node.pool = rules_.pool_label.empty() ? first_label(facts.labels, kPoolLabels)
                                          : label(facts.labels, rules_.pool_label);
    return node;
  }

  static bool same_model(const std::string& a, const std::string& b) {
    return alloc::model_words(a) == alloc::model_words(b);
  }

 private:
  static PlanNode::Kind kind_of(const Labels& labels) {
    if (label(labels, "nvidia.com/gpu.product").find("-MIG-") != std::string::npos) {
      return PlanNode::Kind::kMig;
    }
    const std::string strategy = label(labels, "nvidia.com/gpu.sharing-strategy");
    const auto replicas = parse_int(label(labels, "nvidia.com/gpu.replicas"));
    return (!strategy.empty() && strategy != "none") || replicas.value_or(1) > 1 ? PlanNode::Kind::kSliced
                                                                                 : PlanNode::Kind::kPlanned;
  }

  bool use_inventory(PlanNode& node) {
    if (node.spec.inventory.empty() && (node.spec.gpu_memory_units == 0 || node.spec.gpu_count == 0)) {
      return false;
    }
    auto inventory = alloc::Inventory::of_node(node.spec, rules_.unit);
    if (!inventory) {
      warnings_.push_back(
          fmt::format("node {}: its inventory is ignored: {}", node.name(), inventory.error().text()));
      node.spec.inventory.clear();
      return false;
    }
    if (inventory->gpus.empty()) {
      return false;
    }
    if (inventory->unit != rules_.unit) {
      warnings_.push_back(fmt::format("node {}: its unit of GPU memory is {}, the plan counts in {}",
                                      node.name(), inventory->unit.text(), rules_.unit.text()));
    }
    inventory->unit = rules_.unit;
    inventory->also_served_as.clear();
    inventory->mps = !inventory->original.any();  // lets the ledger count utilization as compute
    for (std::size_t i = 0; i < inventory->gpus.size(); ++i) {
      const alloc::Gpu& gpu = inventory->gpus[i];
      node.gpus.push_back(
          {.model = gpu.model, .memory_mib = gpu.memory_mib, .units = inventory->units(i), .group = 0});
    }
    if (!node.spec.inventory.empty()) {
      node.spec.inventory = inventory->json();
    }
    return true;
  }

  bool make_inventory(PlanNode& node, std::int64_t held) {
    const auto [count, allocatable] = gpus_of(node);
    if (count <= 0) {
      return false;
    }
    const objects::NodeFacts& facts = *node.facts;
    if (count > static_cast<std::int64_t>(alloc::Inventory::kMaxGpus)) {
      warnings_.push_back(fmt::format("node {} is ignored: it has {} GPUs, more than {}", node.name(), count,
                                      alloc::Inventory::kMaxGpus));
      return false;
    }
    PlanGpu gpu;
    gpu.model = first_label(facts.labels, kModelLabels);
    const auto given = rules_.gpu_memory_mib.find(gpu.model);
    gpu.memory_mib = given ? std::optional(static_cast<std::uint32_t>(*given)) : memory_label(facts.labels);
    // kubelet does not offer unhealthy GPUs. Which ones they are is not known, but those that pods
    // hold are believed to work.
    const std::int64_t broken =
        std::clamp<std::int64_t>(count - allocatable, 0, std::max<std::int64_t>(count - held, 0));
    if (broken > 0) {
      warnings_.push_back(fmt::format("node {}: {} of its {} GPUs cannot be allocated; they may be unhealthy",
                                      node.name(), broken, count));
    }
    alloc::Inventory inventory;
    inventory.unit = rules_.unit;
    inventory.mps = true;
    inventory.subtract_reserved = true;
    inventory.topology = topology::Topology(static_cast<unsigned>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      alloc::Gpu made;
      made.uuid = fmt::format("GPU-{}-{}", made_nodes_, i);
      made.index = static_cast<std::uint32_t>(i);
      made.model = gpu.model;
      made.memory_mib = gpu.memory_mib.value_or(kAnyMib);
      made.reserved_mib = std::min(SavingsRules::kDriverMib, made.memory_mib);
      made.unhealthy = i >= count - broken ? "not allocatable" : "";
      inventory.gpus.push_back(std::move(made));
      gpu.units = gpu.memory_mib ? inventory.units(static_cast<std::size_t>(i)) : 0;
      node.gpus.push_back(gpu);
    }
    ++made_nodes_;
    node.spec.inventory = inventory.json();
    node.spec.gpu_count = 0;
    node.spec.gpu_memory_units = 0;
    return true;
  }

  struct GpuCount {
    std::int64_t capacity = 0;
    std::int64_t allocatable = 0;
  };

  // Two resources may stand for the same GPUs, so the largest number counts.
  [[nodiscard]] GpuCount gpus_of(const PlanNode& node) const {
    GpuCount most;
    const auto look = [&](const std::string& resource) {
      if (const auto found = node.facts->extended.find(resource); found != node.facts->extended.end()) {
        if (found->second.capacity > most.capacity) {
          most = {.capacity = found->second.capacity, .allocatable = found->second.allocatable};
        }
      }
    };
    std::ranges::for_each(rules_.resources, look);
    std::ranges::for_each(rules_.unshared_resources, look);
    look(cluster_.names.whole());
    look(cluster_.names.count());
    return most;
  }

  const Cluster& cluster_;
  const SavingsRules& rules_;
  std::vector<std::string>& warnings_;
  std::size_t made_nodes_ = 0;
};

// Groups are sorted by pool and model, so that their order does not depend on the nodes.
void add_groups(std::vector<PlanNode>& nodes, const SavingsRules& rules, std::vector<SavingsGroup>& groups) {
  using Key = std::tuple<std::string, std::string>;  // the pool and the words of the model
  std::map<Key, SavingsGroup> found;
  const auto key_of = [](const PlanNode& node, const PlanGpu& gpu) {
    return Key{node.pool, alloc::model_words(gpu.model)};
  };
  for (const PlanNode& node : nodes) {
    const PlanGpu* previous = nullptr;
    for (const PlanGpu& gpu : node.gpus) {
      if (node.kind != PlanNode::Kind::kPlanned) {
        break;
      }
      SavingsGroup& group = found[key_of(node, gpu)];
      group.pool = node.pool;
      group.model = group.model.empty() ? gpu.model : group.model;
      group.memory_mib = group.memory_mib ? group.memory_mib : gpu.memory_mib;
      group.gpus += 1;
      group.nodes += previous == nullptr || !NodePlanner::same_model(previous->model, gpu.model) ? 1 : 0;
      previous = &gpu;
    }
  }
  std::map<Key, std::size_t> positions;
  for (auto& [key, group] : found) {
    group.price = rules.price.find(group.model);
    positions.emplace(key, groups.size());
    groups.push_back(std::move(group));
  }
  for (PlanNode& node : nodes) {
    for (PlanGpu& gpu : node.gpus) {
      gpu.group = node.kind == PlanNode::Kind::kPlanned ? positions.at(key_of(node, gpu)) : 0;
    }
  }
}

}  // namespace

std::vector<PlanNode> plan_nodes(const Cluster& cluster, const SavingsRules& rules,
                                 const std::map<std::string, NodeLoad>& loads,
                                 std::vector<SavingsGroup>& groups, std::vector<std::string>& warnings) {
  NodePlanner planner(cluster, rules, warnings);
  std::vector<PlanNode> nodes;
  for (const objects::NodeFacts& facts : cluster.nodes) {
    const auto load = loads.find(facts.spec.name);
    if (auto node = planner.plan(facts, load == loads.end() ? NodeLoad{} : load->second)) {
      nodes.push_back(*std::move(node));
    }
  }
  add_groups(nodes, rules, groups);
  return nodes;
}

}  // namespace tessera::cli
