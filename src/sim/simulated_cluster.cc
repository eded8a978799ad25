#include "sim/simulated_cluster.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "alloc/inventory.h"

namespace tessera::sim {

namespace {

constexpr std::int64_t kBytesPerMib = std::int64_t{1} << 20U;

alloc::NodeSpec node_spec(const TraceNode& node, std::size_t position) {
  alloc::NodeSpec spec;
  // Some policies derive an order of nodes from their names. With the position in the name, that
  // order differs from scenario to scenario.
  spec.name = fmt::format("{:05}-{}", position, node.name);
  spec.cpu_milli = node.cpu_milli;
  spec.memory_bytes = node.memory_mib * kBytesPerMib;
  alloc::Inventory inventory;
  inventory.unit = alloc::Unit::mib();
  inventory.topology = topology::Topology(node.gpus);
  for (std::uint32_t i = 0; i < node.gpus; ++i) {
    alloc::Gpu gpu;
    gpu.uuid = fmt::format("GPU-{}-{}", position, i);
    gpu.index = i;
    gpu.model = node.model;
    gpu.memory_mib = static_cast<std::uint32_t>(kGpuMilli);
    inventory.gpus.push_back(std::move(gpu));
  }
  spec.inventory = inventory.json();
  return spec;
}

}  // namespace

alloc::Request PodShape::request() const {
  alloc::Shape wanted;
  if (is_share()) {
    wanted.share.units = gpu_milli;
    wanted.share.gpus = static_cast<std::uint16_t>(gpus);
  } else {
    wanted.whole = static_cast<std::uint16_t>(gpus);
  }
  wanted.node = {.cpu_milli = cpu_milli, .memory_bytes = memory_bytes};
  alloc::Request request = alloc::Request::of_shape(wanted);
  request.models = models;
  return request;
}

Shapes::Shapes(const std::vector<TracePod>& pods) {
  std::map<PodShape, std::uint32_t> known;
  for (const TracePod& pod : pods) {
    const PodShape shape{.cpu_milli = pod.cpu_milli,
                         .memory_bytes = pod.memory_mib * kBytesPerMib,
                         .gpus = pod.gpus,
                         .gpu_milli = pod.gpu_milli,
                         .models = pod.gpus > 0 ? pod.models : std::vector<std::string>{}};
    const auto [found, added] = known.emplace(shape, static_cast<std::uint32_t>(all.size()));
    if (added) {
      all.push_back(shape);
    }
    of_pod.push_back(found->second);
  }
}

std::vector<std::uint8_t> allowed_models(const alloc::Ledger& ledger,
                                         const std::vector<std::string>& wanted) {
  std::vector<std::uint8_t> allowed;
  if (wanted.empty()) {
    return allowed;
  }
  for (std::size_t id = 0; id < ledger.model_count(); ++id) {
    const std::string& model = ledger.model_name(static_cast<alloc::ModelId>(id));
    allowed.push_back(
        std::ranges::any_of(wanted, [&](const auto& one) { return alloc::model_matches(model, one); }) ? 1
                                                                                                       : 0);
  }
  return allowed;
}

SimulatedCluster::SimulatedCluster(const Trace& trace, const Scenario& scenario, const Shapes& shapes)
    : shapes_(shapes), ledger_({.unit = alloc::Unit::mib(), .names = {}}) {
  for (std::size_t position = 0; position < scenario.nodes.size(); ++position) {
    const TraceNode& node = trace.nodes[scenario.nodes[position]];
    const alloc::NodeSpec spec = node_spec(node, position);
    ledger_.upsert_node(spec);
    nodes_.push_back(*ledger_.find_node(spec.name));
    capacity_milli_ += node.gpus * kGpuMilli;
  }
  for (const PodShape& shape : shapes_.all) {
    requests_.push_back(shape.request());
    models_allowed_.push_back(allowed_models(ledger_, shape.models));
  }
}

bool SimulatedCluster::allows(std::uint32_t shape, alloc::ModelId model) const {
  const std::vector<std::uint8_t>& allowed = models_allowed_[shape];
  return allowed.empty() || allowed[model] != 0;
}

bool SimulatedCluster::fits(std::uint32_t shape, alloc::NodeId node) const {
  const PodShape& wanted = shapes_.all[shape];
  const alloc::NodeStates& states = ledger_.states();
  if (states.cpu_left(node) < wanted.cpu_milli || states.memory_left(node) < wanted.memory_bytes) {
    return false;
  }
  if (wanted.gpus == 0) {
    return true;
  }
  const alloc::NodeView view = ledger_.view(node);
  std::uint32_t found = 0;
  for (unsigned slot = 0; slot < view.size(); ++slot) {
    found += view.free[slot] >= wanted.gpu_milli && allows(shape, view.model[slot]) ? 1 : 0;
  }
  return found >= wanted.gpus;
}

alloc::Choice SimulatedCluster::choice(std::uint32_t shape, alloc::NodeId node, alloc::GpuMask gpus) const {
  const PodShape& wanted = shapes_.all[shape];
  alloc::Choice choice;
  choice.node = node;
  choice.layout_version = ledger_.states().layout_version(node);
  (wanted.is_share() ? choice.share_gpus : choice.whole_gpus) = gpus;
  if (gpus == 0) {
    return choice;
  }
  alloc::ContainerShares& main = choice.record.containers.emplace_back();
  main.container = requests_[shape].gpus.containers.front().name;
  for (const unsigned slot : topology::GpuIndices(gpus)) {
    main.shares.push_back({.gpu = ledger_.gpus(node)[slot].uuid.text(),
                           .units = wanted.is_share() ? wanted.gpu_milli : 0,
                           .whole = !wanted.is_share()});
  }
  return choice;
}

Status SimulatedCluster::allocate(std::uint32_t shape, const alloc::Choice& choice) {
  const std::string name = fmt::format("pod-{}", placed_);
  alloc::Hold hold =
      TRY(ledger_.reserve({.namespace_name = "trace", .name = name, .uid = name}, requests_[shape], choice));
  hold.commit();
  ++placed_;
  allocated_milli_ += shapes_.all[shape].requested_gpu_milli();
  return {};
}

}  // namespace tessera::sim
