#include "cli/savings/plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "cli/savings/alone.h"
#include "cli/savings/option_matches.h"
#include "cli/savings/packing.h"
#include "cli/savings/plan_input.h"
#include "sim/random.h"

namespace tessera::cli {

namespace {

bool is_used(const std::vector<SlotUse>& slots) {
  return std::ranges::any_of(slots, [](SlotUse use) { return use != SlotUse::kFree; });
}

class Planner {
 public:
  Planner(PlanInput input, const SavingsRules& rules)
      : input_(std::move(input)), report_(std::move(input_.report)), rules_(rules) {}

  SavingsReport plan() {
    now_ = pack(input_.pack, rules_.policies.front(), {});
    report_.warnings.insert(report_.warnings.end(), now_.warnings.begin(), now_.warnings.end());
    for (const alloc::Policy policy : rules_.policies) {
      run_policy(policy);
    }
    add_up();
    return std::move(report_);
  }

 private:
  // Returns the order of the answer: first pods that few nodes can take, then the largest shares.
  [[nodiscard]] std::vector<std::size_t> best_order() const {
    std::vector<std::size_t> order(input_.pack.sharing.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::less(), [&](std::size_t i) {
      const SharingPod& pod = input_.pack.sharing[i];
      const alloc::Shape& shape = pod.request.shape;
      return std::tuple(input_.pack.candidates[pod.candidates].size(), -std::int64_t{shape.share.units},
                        -std::int64_t{shape.share.core_percent}, -shape.node.cpu_milli);
    });
    return order;
  }

  void run_policy(alloc::Policy policy) {
    std::vector<std::size_t> order = best_order();
    const Packing best = pack(input_.pack, policy, order);
    PolicyOutcome outcome;
    outcome.policy = policy;
    outcome.gpus = best.gpus();
    outcome.freed_nodes = std::ssize(freed_nodes(best));
    outcome.fewest = outcome.gpus;
    outcome.most = outcome.gpus;
    for (std::uint64_t seed = 0; seed < SavingsReport::kOrders && order.size() > 1; ++seed) {
      sim::Random random(seed);
      random.shuffle(order);
      const std::int64_t gpus = pack(input_.pack, policy, order).gpus();
      outcome.fewest = std::min(outcome.fewest, gpus);
      outcome.most = std::max(outcome.most, gpus);
    }
    if (report_.outcomes.empty()) {
      report_.needed = outcome.gpus;
      take_places(best);
      take_groups(best);
    }
    report_.outcomes.push_back(outcome);
  }

  // Returns the nodes that hold GPU pods now, and none in the packing. Nodes with MIG devices in use
  // do not count.
  [[nodiscard]] std::vector<std::size_t> freed_nodes(const Packing& packing) const {
    std::vector<std::size_t> nodes;
    for (std::size_t i = 0; i < input_.pack.nodes.size(); ++i) {
      if (is_used(now_.slots[i]) && !is_used(packing.slots[i]) &&
          !input_.divided_nodes.contains(input_.pack.nodes[i].name())) {
        nodes.push_back(i);
      }
    }
    return nodes;
  }

  void take_places(const Packing& packing) {
    std::map<std::pair<std::size_t, unsigned>, SharedGpu> shared;
    for (std::size_t i = 0; i < input_.pack.sharing.size(); ++i) {
      SavingsPod& pod = report_.pods[input_.pack.sharing[i].pod];
      const auto& place = packing.places[i];
      if (!place) {
        pod.whole = Whole::kNoRoom;
        continue;
      }
      pod.new_node = input_.pack.nodes[place->node].name();
      pod.new_gpu = place->slot;
      SharedGpu& gpu = shared[{place->node, place->slot}];
      gpu.node = pod.new_node;
      gpu.index = place->slot;
      gpu.group = input_.pack.nodes[place->node].gpus[place->slot].group;
      gpu.total_units = input_.pack.nodes[place->node].gpus[place->slot].units;
      gpu.used_units = packing.used_units[place->node][place->slot];
      gpu.pods.push_back(input_.pack.sharing[i].pod);
    }
    for (auto& [place, gpu] : shared) {
      gpu.shared_now = now_.slots[place.first][place.second] == SlotUse::kShared;
      if (gpu.pods.size() == 1 && !gpu.shared_now) {
        alone_.insert(place);
      }
      report_.shared.push_back(std::move(gpu));
    }
    for (std::size_t i = 0; i < input_.pack.sharing.size(); ++i) {
      const auto& place = packing.places[i];
      if (place && alone_.contains({place->node, place->slot})) {
        report_.pods[input_.pack.sharing[i].pod].alone = why_alone(input_.pack, packing, i);
      }
    }
  }

  void take_groups(const Packing& packing) {
    std::vector<std::uint64_t> units(report_.groups.size(), 0);  // of all shares
    std::vector<std::uint32_t> largest(report_.groups.size(), 0);
    for (std::size_t i = 0; i < input_.pack.nodes.size(); ++i) {
      if (input_.pack.nodes[i].kind != PlanNode::Kind::kPlanned) {
        continue;
      }
      const bool empty =
          !is_used(now_.slots[i]) && !input_.divided_nodes.contains(input_.pack.nodes[i].name());
      report_.groups[input_.pack.nodes[i].gpus.front().group].empty_nodes += empty ? 1 : 0;
      for (std::size_t slot = 0; slot < input_.pack.nodes[i].gpus.size(); ++slot) {
        const PlanGpu& gpu = input_.pack.nodes[i].gpus[slot];
        SavingsGroup& group = report_.groups[gpu.group];
        group.empty_node_gpus += empty ? 1 : 0;
        group.held += now_.slots[i][slot] != SlotUse::kFree ? 1 : 0;
        group.whole += packing.slots[i][slot] == SlotUse::kWhole ? 1 : 0;
        const bool alone = alone_.contains({i, static_cast<unsigned>(slot)});
        group.alone += alone ? 1 : 0;
        group.shared += packing.slots[i][slot] == SlotUse::kShared && !alone ? 1 : 0;
        group.shared_now += now_.slots[i][slot] == SlotUse::kShared ? 1 : 0;
        units[gpu.group] += packing.used_units[i][slot];
        largest[gpu.group] = std::max(largest[gpu.group], gpu.units);
      }
    }
    take_lower_bound(packing, std::move(units), largest);
    for (const std::size_t node : freed_nodes(packing)) {
      report_.groups[input_.pack.nodes[node].gpus.front().group].freed_nodes.push_back(
          input_.pack.nodes[node].name());
      for (const PlanGpu& gpu : input_.pack.nodes[node].gpus) {
        report_.groups[gpu.group].freed_node_gpus += 1;
      }
      report_.other_pods_on_freed_nodes += input_.other_pods[input_.pack.nodes[node].name()];
    }
  }

  // `units` are those of all shares by group, and `largest` those of the largest GPU.
  void take_lower_bound(const Packing& packing, std::vector<std::uint64_t> units,
                        const std::vector<std::uint32_t>& largest) {
    std::vector<std::uint64_t> compute(report_.groups.size(), 0);
    std::vector<std::int64_t> whole(report_.groups.size(), 0);
    for (std::size_t i = 0; i < report_.groups.size(); ++i) {
      whole[i] = report_.groups[i].whole;
    }
    for (std::size_t i = 0; i < input_.pack.sharing.size(); ++i) {
      const std::size_t group = report_.pods[input_.pack.sharing[i].pod].group;
      const alloc::SharePart& share = input_.pack.sharing[i].request.shape.share;
      compute[group] += share.core_percent;
      if (!packing.places[i]) {  // another placement may have room for its share
        whole[group] -= 1;
        units[group] += share.units;
      }
    }
    for (std::size_t i = 0; i < report_.groups.size(); ++i) {
      const std::uint64_t by_memory = largest[i] == 0 ? 0 : (units[i] + largest[i] - 1) / largest[i];
      report_.groups[i].at_least = std::max<std::int64_t>(whole[i], 0) +
                                   static_cast<std::int64_t>(std::max(by_memory, (compute[i] + 99) / 100));
    }
  }

  void add_up() {
    for (const SavingsPod& pod : report_.pods) {
      report_.groups[pod.group].idle += pod.idle_gpus;
    }
    for (const SavingsGroup& group : report_.groups) {
      report_.gpus += group.gpus;
      report_.held += group.held;
      report_.already_shared += group.shared_now;
    }
  }

  PlanInput input_;
  SavingsReport report_;
  const SavingsRules& rules_;
  Packing now_;                                       // everything as it is now
  std::set<std::pair<std::size_t, unsigned>> alone_;  // GPUs of the answer with one share, by node and slot
};

}  // namespace

std::optional<double> ByModel::find(std::string_view model) const {
  for (const auto& [words, number] : models) {
    if (alloc::model_matches(model, words)) {
      return number;
    }
  }
  return others;
}

std::int64_t SavingsReport::idle() const {
  return std::accumulate(groups.begin(), groups.end(), std::int64_t{0},
                         [](std::int64_t sum, const SavingsGroup& group) { return sum + group.idle; });
}

SavingsReport plan_savings(const Cluster& cluster, const Measurements& measured, const SavingsRules& rules) {
  SavingsReport report = Planner(read_plan_input(cluster, measured, rules), rules).plan();
  for (std::string& warning : unmatched_options(cluster, rules, report)) {
    report.warnings.push_back(std::move(warning));
  }
  return report;
}

}  // namespace tessera::cli
