// Properties of the ledger and the placer that must hold after any events in any order.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "cluster.h"

namespace tessera::alloc::testing {
namespace {

// Without optimisation, and so under sanitizers, steps are slow: run fewer of them.
#ifndef __OPTIMIZE__
constexpr unsigned kSteps = 50'000;
constexpr unsigned kHistories = 60;
#else
constexpr unsigned kSteps = 1'000'000;
constexpr unsigned kHistories = 600;
#endif

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  unsigned below(unsigned limit) { return static_cast<unsigned>(random_() % limit); }
  bool one_in(unsigned n) { return below(n) == 0; }
  template <class T>
  const T& any(const std::vector<T>& list) {
    return list[below(static_cast<unsigned>(list.size()))];
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    std::ranges::shuffle(list, random_);
  }

 private:
  std::mt19937_64 random_;
};

// The whole content of the ledger as text that does not depend on ids.
std::string dump(const Ledger& ledger) {
  std::string text;
  for (const NodeId id : ledger.nodes_by_name()) {
    const NodeView view = ledger.view(id);
    text +=
        fmt::format("{} fence={} why={} machine={} cpu={} memory={} healthy={:b} whole={:b} shared={:b}\n",
                    ledger.node_name(id), static_cast<int>(ledger.states().fence(id)), ledger.fence_text(id),
                    ledger.machine(id), view.cpu_milli_left, view.memory_bytes_left, view.healthy,
                    view.whole_free, view.shared);
    for (unsigned slot = 0; slot < view.size(); ++slot) {
      const GpuLoad load = ledger.states().gpu_load(id, slot);
      text +=
          fmt::format("  {} {} free {} of {}, core {}, load {} {} {}\n", ledger.gpus(id)[slot].uuid.text(),
                      ledger.model_name(view.model[slot]), view.free[slot], view.total[slot],
                      view.core_free[slot], load.units, load.core_percent, load.whole);
    }
    for (const PodHolding& holding : ledger.holdings(id)) {
      text += fmt::format("  {} {} bound={} decided={}", holding.pod.text(), holding.pod.uid, holding.bound,
                          holding.decided);
      for (const HeldShare& held : holding.shares) {
        text += fmt::format(" {}@{}:{}{}", held.share.gpu, held.slot, held.share.units,
                            held.share.whole ? "w" : "");
      }
      text += "\n";
    }
  }
  for (const Problem& problem : ledger.problems(1000)) {
    text += fmt::format("{} {} {} {}\n", to_string(problem.kind), problem.node, problem.pod, problem.text);
  }
  for (unsigned kind = 0; kind < kProblemKinds; ++kind) {
    text += fmt::format("{} ", ledger.problem_count(static_cast<ProblemKind>(kind)));
  }
  return text + fmt::format("pods={}\n", ledger.pod_count());
}

// Random nodes and pods, valid and invalid.
class World {
 public:
  explicit World(unsigned seed) : dice(seed) {}

  NodeSpec node() {
    const std::string name = "n" + std::to_string(dice.below(4));
    if (dice.one_in(8)) {
      NodeSpec original = original_node(name, std::int64_t{16} * (1 + dice.below(3)), 1 + dice.below(3));
      original.nvidia_gpus = dice.one_in(4) ? 1 : 0;
      return original;
    }
    std::vector<std::uint32_t> gib(1 + dice.below(4));
    std::ranges::generate(gib, [&] { return 8U << dice.below(3); });
    Inventory inventory = inventory_of(name, gib);
    for (Gpu& gpu : inventory.gpus) {
      gpu.unhealthy = dice.one_in(6) ? "XID 79" : "";
    }
    if (dice.one_in(5)) {
      inventory.gpus[0].uuid += "-replaced";
    }
    inventory.unit = dice.one_in(10) ? Unit::mib() : Unit::gib();
    if (dice.one_in(12)) {
      inventory.also_served_as = {"example.com/gpu"};
    }
    NodeSpec spec = node_with(name, inventory);
    spec.nvidia_gpus = dice.one_in(12) ? 1 : 0;
    spec.gpu_memory_units = dice.one_in(6) ? 17 : 0;
    spec.cpu_milli = std::int64_t{1000} * dice.below(20);
    if (dice.one_in(10)) {
      spec.inventory = dice.one_in(2) ? "{}" : spec.inventory.substr(0, spec.inventory.size() / 2);
    }
    return spec;
  }

  PodSpec pod() {
    const std::string name = "p" + std::to_string(dice.below(12));
    const std::string at = "n" + std::to_string(dice.below(4));
    const auto units = static_cast<std::uint32_t>(1 + dice.below(12));
    PodSpec spec = dice.one_in(3) ? bound_whole(name, at, {dice.below(3), 3})
                                  : bound_share(name, units, at, dice.below(4));
    if (dice.one_in(4)) {
      spec.containers[0].gpu_limits[0].second =
          Quantity::units(1 + dice.below(4));  // differs from the record
    }
    if (dice.one_in(4)) {
      spec.annotations.clear();
      spec.annotations["ALIYUN_COM_GPU_MEM_IDX"] = std::to_string(dice.below(4));
      spec.annotations["ALIYUN_COM_GPU_MEM_POD"] = std::to_string(units);
    }
    if (dice.one_in(8)) {
      spec.annotations.clear();
    }
    if (dice.one_in(8)) {
      spec.annotations["tessera.io/allocation"] = "broken";
    }
    spec.containers[0].cpu_milli = std::int64_t{100} * dice.below(30);
    spec.phase = dice.one_in(6) ? PodPhase::kSucceeded : PodPhase::kRunning;
    spec.deleting = dice.one_in(6);
    spec.containers[0].state = dice.one_in(2) ? ContainerState::kTerminated : ContainerState::kRunning;
    if (dice.one_in(10)) {
      spec.node_name.clear();
    }
    return spec;
  }

  Dice dice;
};

TEST(LedgerProperty, AnyOrderOfEventsEndsInTheSameLedgerAsARebuild) {
  for (unsigned seed = 0; seed < kHistories; ++seed) {
    World world(seed);
    Ledger ledger;
    std::map<std::string, NodeSpec> nodes;
    std::map<std::string, PodSpec> pods;  // by uid
    const unsigned events = 1 + world.dice.below(120);
    for (unsigned i = 0; i < events; ++i) {
      const NodeSpec node = world.node();
      const PodSpec pod = world.pod();
      switch (world.dice.below(6)) {
        case 0:
        case 1:
          ledger.upsert_node(node);
          nodes[node.name] = node;
          break;
        case 2:
          ledger.remove_node(node.name);
          nodes.erase(node.name);
          break;
        case 3:
          ledger.remove_pod(pod.uid);
          pods.erase(pod.uid);
          break;
        default:
          // A bound pod never becomes unbound again.
          if (pod.node_name.empty() && pods.contains(pod.uid)) {
            break;
          }
          ledger.upsert_pod(pod);
          pods[pod.uid] = pod;
      }
    }
    std::vector<std::string> order;
    for (const auto& [name, node] : nodes) {
      order.push_back("node " + name);
    }
    for (const auto& [uid, pod] : pods) {
      order.push_back("pod " + uid);
    }
    world.dice.shuffle(order);
    Ledger rebuilt;
    for (const std::string& item : order) {
      if (item.starts_with("node ")) {
        rebuilt.upsert_node(nodes.at(item.substr(5)));
      } else {
        rebuilt.upsert_pod(pods.at(item.substr(4)));
      }
    }
    ASSERT_EQ(dump(ledger), dump(rebuilt)) << "seed " << seed;
    // Equal ledgers give equal choices.
    Placer placer(ledger);
    Placer other(rebuilt);
    for (const PodSpec& pod : {share_pod("q", 3), share_pod("q", 9), whole_pod("q", 1), whole_pod("q", 2)}) {
      const Request request = request_of(pod);
      const auto a = placer.choose_best(request);
      const auto b = other.choose_best(request);
      ASSERT_EQ(a.has_value(), b.has_value());
      if (a) {
        ASSERT_EQ(ledger.node_name(a->node), rebuilt.node_name(b->node));
        ASSERT_EQ(a->record, b->record);
        ASSERT_EQ(a->score, b->score);
      }
    }
  }
}

// An independent count of what pods hold, compared with the ledger.
struct Mirror {
  struct Gpu {
    std::uint64_t total = 0;
    std::uint64_t units = 0;
    unsigned whole = 0;
  };
  std::map<std::string, Gpu> gpus;
  std::map<std::string, std::vector<GpuShare>> pods;

  void add(const std::string& uid, const std::vector<GpuShare>& shares) {
    for (const GpuShare& share : shares) {
      Gpu& gpu = gpus.at(share.gpu);
      gpu.units += share.units;
      gpu.whole += share.whole ? 1 : 0;
      ASSERT_LE(gpu.units, gpu.total) << "more allocated than there is of " << share.gpu;
      ASSERT_LE(gpu.whole, 1U) << share.gpu << " allocated twice";
      ASSERT_FALSE(gpu.whole == 1 && gpu.units > 0) << share.gpu << " allocated whole and shared";
    }
    pods[uid] = shares;
  }
  void remove(const std::string& uid) {
    for (const GpuShare& share : pods.at(uid)) {
      gpus.at(share.gpu).units -= share.units;
      gpus.at(share.gpu).whole -= share.whole ? 1 : 0;
    }
    pods.erase(uid);
  }
};

std::uint64_t free_on_all(const Ledger& ledger) {
  std::uint64_t sum = 0;
  for (const NodeId id : ledger.nodes()) {
    sum += ledger.view(id).free_units;
  }
  return sum;
}

PodSpec random_pod(Dice& dice, const std::string& name) {
  PodSpec pod;
  switch (dice.below(6)) {
    case 0:
      pod = whole_pod(name, 1 + dice.below(3));
      break;
    case 1:
      pod = pod_of(name, {container("i", 1 + dice.below(9), 0, ContainerKind::kInit),
                          container("a", 1 + dice.below(5)), container("b", 1 + dice.below(5))});
      pod.annotations["tessera.io/placement"] = "per-container";
      break;
    case 2:
      pod = pod_of(name, {container("a", 1 + dice.below(8)), container("b", 0, 1 + dice.below(2))});
      break;
    case 3:
      pod = share_pod(name, std::int64_t{4} * (1 + dice.below(6)));
      pod.labels["aliyun.com/gpu-count"] = dice.one_in(2) ? "2" : "4";
      break;
    default:
      pod = share_pod(name, 1 + dice.below(16));
  }
  if (dice.one_in(4)) {
    pod.annotations["tessera.io/policy"] = dice.one_in(2) ? "spread" : "fgd";
  }
  return pod;
}

TEST(LedgerProperty, NeverAllocatesMoreThanThereIs) {
  Dice dice(7);
  Ledger ledger;
  Mirror mirror;
  for (const auto& [name, gib] :
       std::map<std::string, std::vector<std::uint32_t>>{{"a", {16, 16, 16, 16}},
                                                         {"b", {32, 16, 8}},
                                                         {"c", {16}},
                                                         {"d", {80, 80, 80, 80, 80, 80, 80, 80}}}) {
    ledger.upsert_node(node_of(name, gib));
    for (unsigned i = 0; i < gib.size(); ++i) {
      mirror.gpus[uuid_of(name, i)].total = gib[i];
    }
  }
  Placer placer(ledger);
  std::vector<std::string> running;
  unsigned next = 0;
  unsigned placed = 0;
  for (unsigned step = 0; step < kSteps; ++step) {
    if (!running.empty() && dice.below(100) < 48) {
      const unsigned which = dice.below(static_cast<unsigned>(running.size()));
      ledger.remove_pod(running[which]);
      mirror.remove(running[which]);
      running[which] = running.back();
      running.pop_back();
      continue;
    }
    const PodSpec pod = random_pod(dice, fmt::format("p{}", next++));
    const Request request = request_of(pod);
    const auto choice = placer.choose_best(request);
    if (!choice) {
      continue;
    }
    ++placed;
    auto hold = ledger.reserve(key_of(pod), request, *choice);
    ASSERT_TRUE(hold) << hold.error().text();
    const PodSpec after = after_bind(ledger, pod, *choice);
    const auto shares = held_shares(request.gpus, choice->record);
    switch (dice.below(4)) {
      case 0:  // the bind fails
        hold->release();
        continue;
      case 1:  // the watch is faster than the reply
        ledger.upsert_pod(after);
        hold->release();
        break;
      case 2:  // the watch is slower
        hold->commit();
        ledger.upsert_pod(after);
        break;
      default:  // the watch never shows the pod
        hold->commit();
    }
    ASSERT_NO_FATAL_FAILURE(mirror.add(pod.uid, *shares));
    running.push_back(pod.uid);
    if (step % 64 == 0) {
      for (const NodeId id : ledger.nodes()) {
        const NodeView view = ledger.view(id);
        for (unsigned slot = 0; slot < view.size(); ++slot) {
          const Mirror::Gpu& gpu = mirror.gpus.at(ledger.gpus(id)[slot].uuid.text());
          ASSERT_EQ(view.free[slot], gpu.whole > 0 ? 0 : gpu.total - gpu.units);
        }
      }
      ASSERT_TRUE(ledger.problems().empty());
    }
  }
  EXPECT_GT(placed, kSteps / 10);
  for (const std::string& uid : running) {
    ledger.remove_pod(uid);
  }
  EXPECT_EQ(ledger.pod_count(), 0U);
  EXPECT_EQ(free_on_all(ledger), 16U * 4 + 56 + 16 + 640);
}

// The same machine with its GPUs in a different order.
NodeSpec told_in_another_order(const Inventory& inventory, const std::string& name, Dice& dice) {
  std::vector<unsigned> order(inventory.gpus.size());
  for (unsigned i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  dice.shuffle(order);
  Inventory reordered = inventory;
  for (unsigned i = 0; i < order.size(); ++i) {
    reordered.gpus[i] = inventory.gpus[order[i]];
    for (unsigned j = 0; j < i; ++j) {
      reordered.topology.set_link(i, j, inventory.topology.link(order[i], order[j]));
    }
  }
  return node_with(name, reordered);
}

TEST(LedgerProperty, ChoicesDoNotDependOnTheOrderOfNodesAndGpus) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    Dice dice(seed);
    std::vector<std::pair<std::string, Inventory>> machines;
    for (unsigned n = 0; n < 5; ++n) {
      const std::string name = "n" + std::to_string(n);
      Inventory inventory = inventory_of(name, std::vector<std::uint32_t>(6, 16U << dice.below(2)));
      for (unsigned a = 0; a < 6; ++a) {
        for (unsigned b = 0; b < a; ++b) {
          inventory.topology.set_link(a, b,
                                      {.path = topology::PciePath::kNode,
                                       .nvlinks = static_cast<std::uint8_t>(1 + dice.below(3)),
                                       .generation = 3});
        }
      }
      machines.emplace_back(name, inventory);
    }
    Ledger one;
    Ledger other;
    for (const auto& [name, inventory] : machines) {
      one.upsert_node(node_with(name, inventory));
    }
    dice.shuffle(machines);
    for (const auto& [name, inventory] : machines) {
      other.upsert_node(told_in_another_order(inventory, name, dice));
    }
    Placer placer_one(one);
    Placer placer_other(other);
    for (unsigned i = 0; i < 30; ++i) {
      const PodSpec pod = random_pod(dice, fmt::format("p{}", i));
      const Request request = request_of(pod);
      const auto a = placer_one.choose_best(request);
      const auto b = placer_other.choose_best(request);
      ASSERT_EQ(a.has_value(), b.has_value());
      if (a) {
        ASSERT_EQ(one.node_name(a->node), other.node_name(b->node)) << "seed " << seed;
        ASSERT_EQ(a->record, b->record) << "seed " << seed;
        one.reserve(key_of(pod), request, *a).value().commit();
        other.reserve(key_of(pod), request, *b).value().commit();
      }
    }
  }
}

}  // namespace
}  // namespace tessera::alloc::testing
