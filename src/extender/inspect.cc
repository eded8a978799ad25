#include "extender/inspect.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json.hpp>

#include "alloc/request.h"
#include "topology/link.h"

namespace tessera::extender {

namespace {

using boost::json::array;
using boost::json::object;

// Returns the pods that hold a share of the GPU in `slot`, which has `gpu_units` of memory.
array pods_on(const std::vector<alloc::PodHolding>& holdings, int slot, std::uint32_t gpu_units) {
  array pods;
  for (const alloc::PodHolding& holding : holdings) {
    std::uint64_t units = 0;
    bool whole = false;
    for (const alloc::HeldShare& held : holding.shares) {
      if (held.slot == slot) {
        units += held.share.units;
        whole = whole || held.share.whole;
      }
    }
    if (units == 0 && !whole) {
      continue;
    }
    object pod{{"name", holding.pod.name},
               {"namespace", holding.pod.namespace_name},
               {"usedGPU", whole ? gpu_units : units},
               {"uid", holding.pod.uid},
               {"bound", holding.bound}};
    if (whole) {
      pod["whole"] = true;
    }
    pods.push_back(std::move(pod));
  }
  return pods;
}

// Returns the pods of the node that hold GPUs, but without a record of which.
array undecided(const std::vector<alloc::PodHolding>& holdings) {
  array pods;
  for (const alloc::PodHolding& holding : holdings) {
    if ((holding.units > 0 || holding.whole > 0) && holding.shares.empty()) {
      pods.push_back(object{{"name", holding.pod.name}, {"namespace", holding.pod.namespace_name}});
    }
  }
  return pods;
}

object shares_of(const ClusterState& state, alloc::NodeId id) {
  const alloc::Ledger& ledger = state.ledger();
  const alloc::NodeView view = ledger.view(id);
  const std::vector<alloc::PodHolding> holdings = ledger.holdings(id);
  array devices;
  std::uint64_t node_used = 0;
  for (unsigned slot = 0; slot < view.size(); ++slot) {
    const alloc::LedgerGpu& facts = ledger.gpus(id)[slot];
    const alloc::GpuLoad load = ledger.states().gpu_load(id, slot);
    const std::uint64_t used =
        load.whole > 0 ? std::max<std::uint64_t>(view.total[slot], load.units) : load.units;
    node_used += used;
    object device{
        {"id", facts.index},         {"totalGPU", view.total[slot]},
        {"usedGPU", used},           {"pods", pods_on(holdings, static_cast<int>(slot), view.total[slot])},
        {"uuid", facts.uuid.text()}, {"model", ledger.model_name(facts.model)}};
    if (const std::string_view why = ledger.unhealthy(id, slot); !why.empty()) {
      device["unhealthy"] = why;
    }
    devices.push_back(std::move(device));
  }
  object node{{"name", ledger.node_name(id)},
              {"totalGPU", view.total_units},
              {"usedGPU", node_used},
              {"devs", std::move(devices)}};
  if (array pods = undecided(holdings); !pods.empty()) {
    node["undecided"] = std::move(pods);
  }
  if (!ledger.fence_text(id).empty()) {
    node["fenced"] = ledger.fence_text(id);
  }
  return node;
}

// Returns the number of a link in the format of the original topology scheduler (see inspect.h).
int link_number(const topology::Link& link) {
  if (link.nvlinks > 0) {
    return 6 + std::min<int>(link.nvlinks, 6);
  }
  return static_cast<int>(link.path);
}

object topology_of(const ClusterState& state, alloc::NodeId id) {
  const alloc::NodeView view = state.ledger().view(id);
  array rows;
  unsigned used = 0;
  for (unsigned a = 0; a < view.size(); ++a) {
    const alloc::GpuLoad load = state.ledger().states().gpu_load(id, a);
    used += load.whole > 0 || load.units > 0 ? 1 : 0;
    array row;
    for (unsigned b = 0; b < view.size(); ++b) {
      row.push_back(a == b || view.tables == nullptr ? 0 : link_number(view.tables->topology().link(a, b)));
    }
    rows.push_back(std::move(row));
  }
  object node{{"name", state.ledger().node_name(id)},
              {"totalGPU", view.size()},
              {"usedGPU", used},
              {"topology", std::move(rows)},
              {"type", state.ledger().machine(id)}};
  if (view.tables != nullptr && !view.tables->exact()) {
    node["exact"] = false;  // the best set of GPUs is found by a bounded search
  }
  return node;
}

// Returns false for nodes without GPUs, which are most nodes of a large cluster.
bool worth_listing(const alloc::Ledger& ledger, alloc::NodeId id) {
  return ledger.view(id).size() > 0 ||
         (!ledger.fence_text(id).empty() && ledger.states().fence(id) != alloc::Fence::kNoGpus);
}

template <class One>
object nodes_and_error(const ClusterState& state, std::string_view node, One one) {
  array nodes;
  object answer;
  if (node.empty()) {
    for (const alloc::NodeId id : state.ledger().nodes_by_name()) {
      if (worth_listing(state.ledger(), id)) {
        nodes.push_back(one(state, id));
      }
    }
  } else if (const std::optional<alloc::NodeId> id = state.ledger().find_node(node)) {
    nodes.push_back(one(state, *id));
  } else {
    answer["error"] = fmt::format("node {} is not known to Tessera", node);
  }
  answer["nodes"] = std::move(nodes);
  return answer;
}

}  // namespace

std::string inspect_shares(const ClusterState& state, std::string_view node) {
  object answer = nodes_and_error(state, node, shares_of);
  answer["unit"] = state.unit().text();
  array problems;
  for (const alloc::Problem& problem : state.ledger().problems()) {
    if (node.empty() || problem.node == node) {
      problems.push_back(object{{"kind", alloc::to_string(problem.kind)},
                                {"node", problem.node},
                                {"pod", problem.pod},
                                {"text", problem.text}});
    }
  }
  answer["problems"] = std::move(problems);
  return boost::json::serialize(answer);
}

std::string inspect_topology(const ClusterState& state, std::string_view node) {
  object answer = nodes_and_error(state, node, topology_of);
  answer["policy"] = alloc::to_string(state.policies().whole_policy);
  return boost::json::serialize(answer);
}

}  // namespace tessera::extender
