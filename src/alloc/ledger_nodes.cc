// Nodes of the ledger: their GPUs, and the effect on pods when those change.
#include <fmt/core.h>

#include <algorithm>

#include "alloc/fgd.h"
#include "alloc/ledger.h"
#include "base/strings.h"

namespace tessera::alloc {

namespace {

// Describes the other device plugin that allocates the node's GPUs; empty if there is none. GPUs
// that pods got from it are unhealthy in the inventory. But kubelet may let it allocate any other
// GPU at any moment, even one that is reserved here. So the whole node is fenced.
std::string second_plugin_text(const NodeSpec& spec, const Inventory& inventory) {
  constexpr std::string_view kWhatToDo = "so Tessera places no more pods here; remove one of the two plugins";
  if (spec.nvidia_gpus > 0) {
    return fmt::format(
        "its kubelet also serves {} nvidia.com/gpu: two device plugins allocate the same GPUs, {}",
        spec.nvidia_gpus, kWhatToDo);
  }
  if (!inventory.also_served_as.empty()) {
    return fmt::format("another device plugin allocates the same GPUs as {}, {}",
                       join_words(inventory.also_served_as), kWhatToDo);
  }
  return "";
}

}  // namespace

NodeId Ledger::node_id(std::string_view name) {
  if (const auto known = find_node(name)) {
    return *known;
  }
  const NodeId id = states_.add();
  if (raw(id) == nodes_.size()) {
    nodes_.emplace_back();
  }
  nodes_[raw(id)].name = name;
  nodes_[raw(id)].order = stable_order(name);
  by_name_.insert(id);
  return id;
}

std::optional<NodeId> Ledger::find_node(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? std::nullopt : std::optional(*found);
}

void Ledger::set_present(NodeId id, bool present) {
  Node& node = nodes_[raw(id)];
  if (node.present == present) {
    return;
  }
  node.present = present;
  ++inventory_version_;
  if (present) {
    node.present_at = static_cast<std::uint32_t>(present_.size());
    present_.push_back(id);
    return;
  }
  const NodeId last = present_.back();
  present_[node.present_at] = last;
  nodes_[raw(last)].present_at = node.present_at;
  present_.pop_back();
}

void Ledger::forget_if_unused(NodeId id) {
  Node& node = nodes_[raw(id)];
  if (node.present || !node.pods.empty()) {
    return;
  }
  by_name_.erase(id);
  states_.remove(id);
  node = Node{};
}

bool Ledger::upsert_node(const NodeSpec& spec, NewTables tables) {
  const auto inventory = Inventory::of_node(spec, options_.unit);
  if (tables == NewTables::kRefuse && inventory && inventory->topology.size() > kQuickGpus &&
      !topologies_.contains(inventory->topology)) {
    return false;
  }
  const NodeId id = node_id(spec.name);
  set_present(id, true);
  const NodeView before = states_.view(id);
  if (before.cpu_milli_total != spec.cpu_milli || before.memory_bytes_total != spec.memory_bytes) {
    states_.set_capacity(id, spec.cpu_milli, spec.memory_bytes);
    ++inventory_version_;
  }
  if (!inventory) {
    clear_gpus(id);
    second_plugins_.erase(raw(id));
    fence(id, Fence::kUnreadable, inventory.error().text());
    check_capacity(id, spec);
    return true;
  }
  if (machine(id) != inventory->machine || instance_type(id) != spec.machine) {
    nodes_[raw(id)].machine = inventory->machine;
    nodes_[raw(id)].instance_type = spec.machine;
    // Gives the node a new version, because `static` may choose differently now.
    states_.set_capacity(id, spec.cpu_milli, spec.memory_bytes);
  }
  apply_inventory(id, spec, *inventory);
  check_capacity(id, spec);
  return true;
}

void Ledger::remove_node(std::string_view name) {
  const auto id = find_node(name);
  if (!id || !nodes_[raw(*id)].present) {
    return;
  }
  clear_gpus(*id);
  second_plugins_.erase(raw(*id));
  check_capacity(*id, {});
  states_.set_capacity(*id, 0, 0);
  nodes_[raw(*id)].machine.clear();
  nodes_[raw(*id)].instance_type.clear();
  nodes_[raw(*id)].draining = false;
  nodes_[raw(*id)].agent_down = false;
  fence(*id, Fence::kAbsent, "");
  set_present(*id, false);
  forget_if_unused(*id);
}

void Ledger::set_agent_down(std::string_view name, bool down) {
  const auto id = find_node(name);
  if (!id || !nodes_[raw(*id)].present) {
    return;
  }
  nodes_[raw(*id)].agent_down = down;
  if (const Fence now = states_.fence(*id); now == Fence::kOpen || now == Fence::kAgentAway) {
    open_or_fence(*id);
  }
}

void Ledger::apply_inventory(NodeId id, const NodeSpec& spec, const Inventory& inventory) {
  NodeStates::Layout layout;
  std::vector<LedgerGpu> gpus;
  gpus.reserve(inventory.gpus.size());
  for (std::size_t i = 0; i < inventory.gpus.size(); ++i) {
    const Gpu& gpu = inventory.gpus[i];
    gpus.push_back({.uuid = GpuUuid(gpu.uuid), .index = gpu.index, .model = use_model(gpu.model)});
    layout.total.push_back(inventory.units(i));
    layout.model.push_back(gpus.back().model);
    layout.healthy |= gpu.healthy() ? topology::gpu_bit(static_cast<unsigned>(i)) : 0;
  }
  layout.mps = inventory.mps;
  layout.original = inventory.original;
  use_topology(inventory.topology, layout);
  set_gpus(id, std::move(gpus), std::move(layout));
  set_unhealthy(id, inventory);
  if (std::string text = second_plugin_text(spec, inventory); text.empty()) {
    second_plugins_.erase(raw(id));
  } else {
    second_plugins_[raw(id)] = std::move(text);
  }
  // Without an inventory, the node has no agent of Tessera.
  nodes_[raw(id)].draining = !spec.draining.empty() && !spec.inventory.empty();

  if (inventory.gpus.empty()) {
    fence(id, Fence::kNoGpus, "it has no GPUs that Tessera knows of");
  } else if (inventory.unit != options_.unit) {
    fence(id, Fence::kUnitDiffers,
          fmt::format("its GPU memory unit is {} but the cluster's is {}; configure one unit for all agents "
                      "and the extender",
                      inventory.unit.text(), options_.unit.text()));
  } else {
    open_or_fence(id);
  }
}

// kubelet knows the GPU memory from the device plugin, the ledger from the inventory. They may
// differ for a moment after a change; if they keep differing, one of them is wrong. kubelet reports
// 0 before the plugin has registered.
void Ledger::check_capacity(NodeId id, const NodeSpec& spec) {
  const auto kind = static_cast<std::size_t>(ProblemKind::kCapacityDiffers);
  const NodeView view = states_.view(id);
  if (spec.inventory.empty() || view.size() == 0 || spec.gpu_memory_units == 0 ||
      spec.gpu_memory_units == static_cast<std::int64_t>(view.total_units)) {
    problem_counts_[kind] -= capacity_texts_.erase(raw(id));
    return;
  }
  std::string text = fmt::format(
      "{} is {} but its inventory says {} on {} GPUs; restart tessera-agent there or run \"tessera check "
      "{}\"",
      options_.names.memory(), spec.gpu_memory_units, view.total_units, view.size(), spec.name);
  const auto [known, is_new] = capacity_texts_.try_emplace(raw(id));
  problem_counts_[kind] += is_new ? 1 : 0;
  if (known->second != text) {
    ++problem_totals_[kind];
    known->second = std::move(text);
  }
}

void Ledger::clear_gpus(NodeId id) {
  NodeStates::Layout layout;
  use_topology(topology::Topology(), layout);
  set_gpus(id, {}, std::move(layout));
  unhealthy_.erase(raw(id));
}

void Ledger::set_unhealthy(NodeId id, const Inventory& inventory) {
  if (std::ranges::all_of(inventory.gpus, &Gpu::healthy)) {
    unhealthy_.erase(raw(id));
    return;
  }
  std::vector<std::string>& reasons = unhealthy_[raw(id)];
  reasons.clear();
  for (const Gpu& gpu : inventory.gpus) {
    reasons.push_back(gpu.unhealthy);
  }
}

// Does nothing if the GPUs have not changed, so that slots stay valid: a mere heartbeat of the node
// must not make reserve() return kConflict.
void Ledger::set_gpus(NodeId id, std::vector<LedgerGpu> gpus, NodeStates::Layout layout) {
  Node& node = nodes_[raw(id)];
  const NodeView view = states_.view(id);
  const bool same = view.tables != nullptr && gpus == node.gpus &&
                    std::ranges::equal(view.total, layout.total) && view.healthy == layout.healthy &&
                    view.topology == layout.topology && view.mps == layout.mps &&
                    view.original == layout.original;
  if (same) {
    drop_topology(layout.tables.get());
    drop_models(gpus);
    return;
  }
  if (!std::ranges::equal(view.total, layout.total) || !std::ranges::equal(view.model, layout.model)) {
    ++inventory_version_;
  }
  const topology::SetTables* before = view.tables;
  for (const PodId pod : node.pods) {
    unsettle(pods_[pod]);
  }
  node.gpus.swap(gpus);
  states_.set_layout(id, std::move(layout));
  drop_topology(before);
  drop_models(gpus);
  for (const PodId pod : node.pods) {
    settle(pods_[pod]);
  }
  check_overcommitment(id);
}

void Ledger::check_overcommitment(NodeId id) {
  Node& node = nodes_[raw(id)];
  const bool over = states_.overcommitted(id) != 0;
  if (over == node.overcommitted) {
    return;
  }
  node.overcommitted = over;
  const auto kind = static_cast<std::size_t>(ProblemKind::kOvercommitted);
  if (over) {
    ++problem_counts_[kind];
    ++problem_totals_[kind];
  } else {
    --problem_counts_[kind];
  }
}

// No real cluster has this many models. Beyond the limit, all models share one id without a name.
constexpr ModelId kNamelessModel = kSeveralModels - 1;

ModelId Ledger::use_model(const std::string& name) {
  const auto [known, is_new] = model_ids_.try_emplace(name);
  if (is_new && !unused_models_.empty()) {
    known->second = unused_models_.back();
    unused_models_.pop_back();
  } else if (is_new) {
    known->second = static_cast<ModelId>(std::min<std::size_t>(models_.size(), kNamelessModel));
    models_.resize(std::max<std::size_t>(models_.size(), known->second + std::size_t{1}));
  }
  const ModelId id = known->second;
  if (id == kNamelessModel) {
    model_ids_.erase(known);
  } else if (is_new) {
    models_[id].name = name;
    models_[id].words = model_words(name);
  }
  ++models_[id].gpus;
  return id;
}

void Ledger::drop_models(std::span<const LedgerGpu> gpus) {
  for (const LedgerGpu& gpu : gpus) {
    Model& model = models_[gpu.model];
    if (--model.gpus == 0 && gpu.model != kNamelessModel) {
      model_ids_.erase(model.name);
      model = Model{};
      unused_models_.push_back(gpu.model);
    }
  }
}

void Ledger::use_topology(const topology::Topology& topology, NodeStates::Layout& layout) {
  TopologyUse& use = topologies_[topology];
  if (use.users == 0) {
    use.tables = std::make_shared<const topology::SetTables>(topology);
    use.id = next_topology_++;
    large_tables_built_ += topology.size() > kQuickGpus ? 1 : 0;
  }
  ++use.users;
  layout.tables = use.tables;
  layout.topology = use.id;
}

void Ledger::drop_topology(const topology::SetTables* tables) {
  if (tables == nullptr) {
    return;
  }
  const auto found = topologies_.find(tables->topology());
  if (found != topologies_.end() && --found->second.users == 0) {
    topologies_.erase(found);
  }
}

}  // namespace tessera::alloc
