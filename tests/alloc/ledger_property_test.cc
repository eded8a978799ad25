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

// How clients other than the agent change the records of started pods.
enum class Tampering { kNone, kRemove, kRemoveOrReplace };

// Random nodes and pods, valid and invalid.
class World {
 public:
  World(unsigned seed, Tampering tampering) : dice(seed), tampering_(tampering) {}

  NodeSpec node() {
    const std::string name = "n" + std::to_string(dice.below(4));
    if (dice.one_in(8)) {
      // If the only GPU of a node loses its inventory, a rebuild counts a pod without a record on it,
      // and opens the node. The ledger before knows the UUID that the pod has, and fences the node.
      const unsigned fewest = tampering_ == Tampering::kNone ? 1 : 2;
      NodeSpec original = original_node(name, std::int64_t{16} * (1 + dice.below(3)), fewest + dice.below(3));
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

  // Creates a pod, or lets something happen to one. A pod keeps its UID and its limits.
  PodSpec pod() {
    const std::string name = "p" + std::to_string(dice.below(12));
    const auto found = pods_.find(name);
    if (found == pods_.end() || dice.one_in(6)) {
      return pods_.insert_or_assign(name, new_pod(name)).first->second.spec;
    }
    Pod& pod = found->second;
    PodSpec& spec = pod.spec;
    if (spec.node_name.empty()) {
      spec.node_name = "n" + std::to_string(dice.below(4));
      set_record(pod);
      return spec;
    }
    const bool started = has_started(spec);
    switch (dice.below(6)) {
      case 0:  // the agent repairs the record; until the start, it may also correct it
        if (started) {
          spec.annotations = pod.record;
        } else {
          set_record(pod);
        }
        break;
      case 1:
      case 2:
        if (started) {
          tamper(pod);
        }
        break;
      case 3:
        spec.phase = dice.one_in(3) ? PodPhase::kSucceeded : spec.phase;
        spec.deleting = true;
        break;
      case 4:
        if (dice.one_in(6)) {  // the API server is restored from a backup
          spec.node_name.clear();
          spec.annotations.clear();
          spec.containers[0].ran_before = false;
          spec.containers[0].state = ContainerState::kNotStarted;
        }
        break;
      default:
        spec.containers[0].ran_before = started;
        spec.containers[0].state = dice.one_in(3) ? ContainerState::kTerminated : ContainerState::kRunning;
    }
    return spec;
  }
  // Ends a pod, and returns its UID.
  std::string end_pod() {
    const std::string name = "p" + std::to_string(dice.below(12));
    const auto found = pods_.find(name);
    const std::string uid = found == pods_.end() ? "" : found->second.spec.uid;
    pods_.erase(name);
    return uid;
  }
  // Starts every second bound pod and changes its record. Returns these pods, before and after the
  // change.
  std::vector<PodSpec> tampered() {
    std::vector<PodSpec> all;
    for (auto& [name, pod] : pods_) {
      if (tampering_ != Tampering::kNone && !pod.spec.node_name.empty() && dice.one_in(2)) {
        pod.spec.containers[0].state = ContainerState::kRunning;
        all.push_back(pod.spec);
        tamper(pod);
        all.push_back(pod.spec);
      }
    }
    return all;
  }
  // Returns every pod after the agent has repaired its record.
  [[nodiscard]] std::vector<PodSpec> repaired() const {
    std::vector<PodSpec> all;
    for (const auto& [name, pod] : pods_) {
      all.push_back(pod.spec);
      all.back().annotations = pod.spec.node_name.empty() ? Annotations() : pod.record;
    }
    return all;
  }

  Dice dice;

 private:
  struct Pod {
    PodSpec spec;
    Annotations record;  // of what the pod was given
    bool valid = false;  // `record` has a valid tessera.io/allocation
  };

  Pod new_pod(const std::string& name) {
    Pod pod;
    PodSpec& spec = pod.spec;
    spec = dice.one_in(3) ? whole_pod(name, 2) : share_pod(name, 1 + dice.below(12));
    spec.uid = fmt::format("uid-{}", ++created_);
    spec.phase = PodPhase::kRunning;
    spec.containers[0].cpu_milli = std::int64_t{100} * dice.below(30);
    if (dice.one_in(10)) {
      return pod;  // not bound yet
    }
    spec.node_name = "n" + std::to_string(dice.below(4));
    set_record(pod);
    const Annotations right = spec.annotations;
    if (dice.one_in(4)) {
      spec.annotations.clear();
      spec.annotations["ALIYUN_COM_GPU_MEM_IDX"] = std::to_string(dice.below(4));
      spec.annotations["ALIYUN_COM_GPU_MEM_POD"] = spec.containers[0].gpu_limits[0].second.text();
    }
    if (dice.one_in(8)) {  // more than the limits
      spec.annotations = bound_share("p", 20, spec.node_name, dice.below(4)).annotations;
    }
    if (dice.one_in(8)) {
      spec.annotations.clear();
    }
    if (dice.one_in(8)) {
      spec.annotations["tessera.io/allocation"] = "broken";
    }
    pod.record = spec.annotations;
    pod.valid = pod.record == right;
    return pod;
  }

  // Returns a valid record for random GPUs of the pod's node.
  Annotations random_record(const PodSpec& spec) {
    const auto& [resource, amount] = spec.containers[0].gpu_limits[0];
    return resource == GpuResource::kWhole ? bound_whole("p", spec.node_name, {dice.below(3), 3}).annotations
                                           : bound_share("p", static_cast<std::uint32_t>(amount.rounded_up()),
                                                         spec.node_name, dice.below(4))
                                                 .annotations;
  }
  void set_record(Pod& pod) {
    pod.record = random_record(pod.spec);
    pod.spec.annotations = pod.record;
    pod.valid = true;
  }
  void tamper(Pod& pod) {
    if (tampering_ == Tampering::kNone) {
      return;
    }
    const bool replace = tampering_ == Tampering::kRemoveOrReplace && pod.valid && dice.one_in(2);
    pod.spec.annotations = replace ? random_record(pod.spec) : Annotations();
    if (dice.one_in(4)) {
      pod.spec.annotations["tessera.io/allocation"] = "broken";
    }
  }

  const Tampering tampering_;
  std::map<std::string, Pod> pods_;  // by name
  unsigned created_ = 0;
};

// A ledger after a random history, and what a list would show then.
struct History {
  History(unsigned seed, Tampering tampering) : world(seed, tampering) {
    const unsigned events = 1 + world.dice.below(120);
    for (unsigned i = 0; i < events; ++i) {
      const NodeSpec node = world.node();
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
        case 3: {
          const std::string uid = world.end_pod();
          ledger.remove_pod(uid);
          pods.erase(uid);
          break;
        }
        default:
          keep(world.pod());
      }
    }
    for (const PodSpec& pod : world.tampered()) {
      keep(pod);
    }
  }

  void keep(const PodSpec& pod) {
    // Another pod of this name may have ended.
    std::erase_if(pods, [&](const auto& known) {
      const bool ended = known.second.name == pod.name && known.first != pod.uid;
      if (ended) {
        ledger.remove_pod(known.first);
      }
      return ended;
    });
    ledger.upsert_pod(pod);
    pods[pod.uid] = pod;
  }

  // Builds a ledger from the list, in random order.
  void rebuild(Ledger& rebuilt) {
    std::vector<std::string> order;
    for (const auto& [name, node] : nodes) {
      order.push_back("node " + name);
    }
    for (const auto& [uid, pod] : pods) {
      order.push_back("pod " + uid);
    }
    world.dice.shuffle(order);
    for (const std::string& item : order) {
      if (item.starts_with("node ")) {
        rebuilt.upsert_node(nodes.at(item.substr(5)));
      } else {
        rebuilt.upsert_pod(pods.at(item.substr(4)));
      }
    }
  }

  World world;
  Ledger ledger;
  std::map<std::string, NodeSpec> nodes;
  std::map<std::string, PodSpec> pods;  // by UID
};

TEST(LedgerProperty, AnyOrderOfEventsEndsInTheSameLedgerAsARebuild) {
  for (unsigned seed = 0; seed < kHistories; ++seed) {
    History history(seed, Tampering::kNone);
    const Ledger& ledger = history.ledger;
    Ledger rebuilt;
    history.rebuild(rebuilt);
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

// Returns the nodes where `rebuilt` offers something that `ledger` does not.
std::string offered_only_by(const Ledger& rebuilt, const Ledger& ledger) {
  std::string text;
  for (const NodeId id : rebuilt.nodes_by_name()) {
    const NodeId same = ledger.find_node(rebuilt.node_name(id)).value();
    if (rebuilt.states().fence(id) != Fence::kOpen) {
      continue;
    }
    bool less = ledger.states().fence(same) == Fence::kOpen;
    const NodeView view = rebuilt.view(id);
    const NodeView before = ledger.view(same);
    for (unsigned slot = 0; slot < view.size(); ++slot) {
      less = less && view.free[slot] <= before.free[slot] && view.core_free[slot] <= before.core_free[slot];
    }
    less = less && (view.whole_free & ~before.whole_free) == 0;
    text += less ? "" : rebuilt.node_name(id) + " ";
  }
  return text;
}

// Records of started pods are removed or made invalid. A rebuild then knows less, so it must be
// more cautious.
TEST(LedgerProperty, RebuildNeverOffersMoreThanTheLedgerBefore) {
  unsigned fenced = 0;
  for (unsigned seed = 0; seed < kHistories; ++seed) {
    History history(seed, Tampering::kRemove);
    Ledger rebuilt;
    history.rebuild(rebuilt);
    ASSERT_EQ(offered_only_by(rebuilt, history.ledger), "") << "seed " << seed << "\n"
                                                            << dump(history.ledger) << "\n"
                                                            << dump(rebuilt);
    fenced += rebuilt.problem_count(ProblemKind::kUnrecordedPod) >
                      history.ledger.problem_count(ProblemKind::kUnrecordedPod)
                  ? 1
                  : 0;
  }
  EXPECT_GT(fenced, 0U) << "the histories should contain pods whose record was removed";
}

TEST(LedgerProperty, StartedPodsKeepTheirGpusAndRepairsRestoreTheLedger) {
  unsigned changed = 0;
  for (unsigned seed = 0; seed < kHistories; ++seed) {
    History history(seed, Tampering::kRemoveOrReplace);
    changed += history.ledger.problem_count(ProblemKind::kChangedRecord) > 0 ? 1 : 0;
    const std::vector<PodSpec> repaired = history.world.repaired();
    Ledger untouched;
    for (const auto& [name, node] : history.nodes) {
      untouched.upsert_node(node);
    }
    for (const PodSpec& pod : repaired) {
      untouched.upsert_pod(pod);
    }
    ASSERT_EQ(offered_only_by(history.ledger, untouched), "") << "seed " << seed << "\n"
                                                              << dump(history.ledger) << "\n"
                                                              << dump(untouched);
    for (const PodSpec& pod : repaired) {
      history.keep(pod);
    }
    ASSERT_EQ(dump(history.ledger), dump(untouched)) << "seed " << seed;
  }
  EXPECT_GT(changed, 0U);
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
