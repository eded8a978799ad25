#include "alloc/fgd.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>

namespace tessera::alloc {
namespace {

using ::testing::Optional;
using topology::gpu_bit;
using topology::GpuMask;

// A node that owns the data of an FgdNode. GPUs have 1,000 units and are wholly free if all units
// are.
struct Machine {
  std::vector<std::uint32_t> total;
  std::vector<std::uint32_t> free;
  std::vector<std::uint16_t> model;
  std::int64_t cpu_milli = 0;

  Machine(std::vector<std::uint32_t> free_units, std::int64_t cpu)
      : total(free_units.size(), 1000), free(std::move(free_units)), model(free.size(), 0), cpu_milli(cpu) {}

  [[nodiscard]] Machine of_model(std::uint16_t id) && {
    std::ranges::fill(model, id);
    return std::move(*this);
  }
  [[nodiscard]] FgdNode node() const {
    GpuMask whole = 0;
    for (unsigned i = 0; i < total.size(); ++i) {
      whole |= free[i] == total[i] ? gpu_bit(i) : 0;
    }
    return {.total = total, .free = free, .model = model, .whole_free = whole, .cpu_milli_left = cpu_milli};
  }
};

TypicalPod whole(std::uint16_t gpus, std::int64_t cpu = 0, std::uint64_t count = 1) {
  return {.units = 0, .gpus = gpus, .cpu_milli = cpu, .models = {}, .count = count};
}
TypicalPod share(std::uint32_t units, std::int64_t cpu = 0, std::uint64_t count = 1) {
  return {.units = units, .gpus = 1, .cpu_milli = cpu, .models = {}, .count = count};
}

constexpr GpuMask kAny = ~GpuMask{0};

TEST(Fgd, WithoutTypicalPodsChoosesTheGpuWithTheLeastFree) {
  const Fgd fgd({});
  const Machine machine({1000, 300, 600}, 8000);
  EXPECT_THAT(fgd.choose_share(machine.node(), kAny, 200, 1, 1000),
              Optional(Fgd::Choice{.gpus = gpu_bit(1), .level = 0}));
  EXPECT_EQ(fgd.level_of_whole(machine.node(), gpu_bit(0), 1000), 0);
}

TEST(Fgd, KeepsAWholeGpuForPodsThatNeedOne) {
  const std::vector typical{whole(1)};
  const Fgd fgd(typical);
  const Machine machine({1000, 500}, 8000);
  // Before, the half GPU is unusable: 500. With the pod on it, 100 are unusable: 400 less, 16 steps
  // of 25.
  EXPECT_THAT(fgd.choose_share(machine.node(), kAny, 400, 1, 0),
              Optional(Fgd::Choice{.gpus = gpu_bit(1), .level = 16}));
  // With the pod on the whole GPU, 1100 are unusable: 600 more.
  EXPECT_THAT(fgd.choose_share(machine.node(), gpu_bit(0), 400, 1, 0),
              Optional(Fgd::Choice{.gpus = gpu_bit(0), .level = -24}));
}

TEST(Fgd, CountsTypicalPodsThatFitTogetherOnAGpu) {
  const std::vector typical{share(300)};
  const Fgd fgd(typical);
  // 1000 = 3 x 300, 100 unusable; 600 = 2 x 300, none unusable.
  EXPECT_EQ(fgd.level(Machine({1000}, 0).node(), Machine({600}, 0).node()), 100 / 25);
}

TEST(Fgd, CountsGpusWithoutCpuAsUnusable) {
  const std::vector typical{whole(1, 12000)};
  const Fgd fgd(typical);
  const Machine machine({1000, 1000}, 16000);
  // 16 CPUs are two thirds of 24: both GPUs are usable. 14 CPUs serve 1.75 of 2 GPUs: a loss of
  // 250.
  EXPECT_EQ(fgd.level_of_whole(machine.node(), 0, 2000), -10);
  // With 8 CPUs no such pod can start.
  EXPECT_EQ(fgd.level_of_whole(machine.node(), 0, 8000), -80);
}

TEST(Fgd, KeepsScarceModelsForPodsThatNeedThem) {
  TypicalPod choosy = whole(1);
  choosy.models = {7};
  const std::vector typical{whole(1, 0, 9), choosy};
  Fgd fgd(typical);
  const Machine common({1000, 1000, 1000, 1000}, 8000);
  const Machine rare = Machine({1000}, 8000).of_model(7);
  // A tenth of all pods needs the rare model and cannot use the GPU of the common node: 100 less
  // fragmentation.
  EXPECT_EQ(fgd.level_of_whole(common.node(), gpu_bit(0), 0), 3);
  EXPECT_EQ(fgd.level_of_whole(rare.node(), gpu_bit(0), 0), 0);

  // Only every eighth node has the rare model, so its GPUs weigh more for those pods.
  std::vector<FgdNode> nodes(7, common.node());
  nodes.push_back(rare.node());
  fgd.weigh(nodes);
  EXPECT_EQ(fgd.level_of_whole(common.node(), gpu_bit(0), 0), 29 * 100 / 25 - 1);  // shares are rounded down
  EXPECT_EQ(fgd.level_of_whole(rare.node(), gpu_bit(0), 0), 0);
}

TEST(Fgd, DistinguishesModelsOnOneNode) {
  TypicalPod choosy = whole(1);
  choosy.models = {7};
  const std::vector typical{choosy};
  const Fgd fgd(typical);
  Machine mixed({1000, 1000}, 8000);
  mixed.model = {7, 3};
  EXPECT_EQ(fgd.level_of_whole(mixed.node(), gpu_bit(0), 0), 0);
  EXPECT_EQ(fgd.level_of_whole(mixed.node(), gpu_bit(1), 0), 40);
  EXPECT_THAT(fgd.choose_share(mixed.node(), kAny, 100, 1, 0),
              Optional(Fgd::Choice{.gpus = gpu_bit(1), .level = 4}));
}

TEST(Fgd, SplitsAShareOverDifferentGpus) {
  const Fgd fgd({});
  const Machine machine({1000, 250, 400, 200}, 8000);
  EXPECT_THAT(fgd.choose_share(machine.node(), kAny, 250, 2, 0),
              Optional(Fgd::Choice{.gpus = gpu_bit(1) | gpu_bit(2), .level = 0}));
  EXPECT_FALSE(fgd.choose_share(machine.node(), kAny, 250, 4, 0));
  EXPECT_FALSE(fgd.choose_share(machine.node(), gpu_bit(3), 250, 1, 0));
}

TEST(Fgd, HandlesExtremeNumbers) {
  const std::vector typical{
      TypicalPod{.units = 0, .gpus = 1, .cpu_milli = -5, .models = {}, .count = ~0ULL},
      TypicalPod{.units = ~0U, .gpus = 64, .cpu_milli = INT64_MAX, .models = {}, .count = ~0ULL},
      TypicalPod{.units = 1, .gpus = 65535, .cpu_milli = 1, .models = {65535}, .count = 1}};
  Fgd fgd(typical);
  Machine machine(std::vector<std::uint32_t>(64, ~0U), INT64_MAX);
  machine.total.assign(64, ~0U);
  const std::vector nodes{machine.node()};
  fgd.weigh(nodes);
  EXPECT_TRUE(fgd.choose_share(machine.node(), kAny, ~0U, 64, INT64_MAX));
  Machine empty({}, 0);
  EXPECT_FALSE(fgd.choose_share(empty.node(), kAny, 1, 1, 0));
  EXPECT_EQ(fgd.level_of_whole(empty.node(), kAny, 0), 0);
}

// Compares the fast algorithm (change one GPU, try each kind of GPU once) with trying every GPU.
TEST(Fgd, FindsTheSameChoiceAsTryingEveryGpu) {
  std::mt19937 random(7);
  const auto random_below = [&](std::uint32_t below) { return static_cast<std::uint32_t>(random() % below); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<TypicalPod> typical;
    for (unsigned i = 0; i < 1 + random_below(8); ++i) {
      TypicalPod pod = random_below(2) == 0 ? whole(static_cast<std::uint16_t>(1 + random_below(4)))
                                            : share(1 + random_below(1000));
      pod.cpu_milli = random_below(3) == 0 ? 0 : random_below(20000);
      pod.count = 1 + random_below(50);
      if (random_below(4) == 0) {
        pod.models = {static_cast<std::uint16_t>(random_below(3))};
      }
      typical.push_back(pod);
    }
    Fgd fgd(typical);
    Machine machine(std::vector<std::uint32_t>(1 + random_below(8)), 1000 * std::int64_t{random_below(100)});
    const bool mixed = random_below(3) == 0;
    for (unsigned i = 0; i < machine.free.size(); ++i) {
      machine.free[i] =
          std::array{1000U, 1000U, 0U, 250 * random_below(4), random_below(1001)}[random_below(5)];
      machine.model[i] = static_cast<std::uint16_t>(mixed ? random_below(3) : 1);
    }
    const std::vector nodes{machine.node()};
    fgd.weigh(nodes);
    const std::uint32_t units = 1 + random_below(999);
    const std::int64_t cpu = random_below(12000);

    std::optional<Fgd::Choice> best;
    for (unsigned slot = 0; slot < machine.free.size(); ++slot) {
      if (machine.free[slot] < units) {
        continue;
      }
      Machine after = machine;
      after.free[slot] -= units;
      after.cpu_milli = std::max<std::int64_t>(0, after.cpu_milli - cpu);
      const std::int32_t level = fgd.level(machine.node(), after.node());
      if (!best || level > best->level ||
          (level == best->level && machine.free[slot] < machine.free[topology::lowest_gpu(best->gpus)])) {
        best = Fgd::Choice{.gpus = gpu_bit(slot), .level = level};
      }
    }
    ASSERT_EQ(fgd.choose_share(machine.node(), kAny, units, 1, cpu), best) << "round " << round;
  }
}

TEST(FgdScore, ComparesLevelsBeforeTheOrderOfNodes) {
  EXPECT_GT(fgd_score(1, 0), fgd_score(0, ~0U));
  EXPECT_GT(fgd_score(-3, 1U << 31U), fgd_score(-3, 0));
  EXPECT_GE(fgd_score(-(1 << 20), 0), 0);
}

TEST(StableOrder, IsUnrelatedToTheOrderOfNames) {
  std::set<std::uint32_t> orders;
  int rises = 0;
  std::uint32_t last = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t order = stable_order("node-" + std::to_string(i));
    orders.insert(order >> 12U);
    rises += order > last ? 1 : 0;
    last = order;
  }
  EXPECT_GT(orders.size(), 995U);
  EXPECT_NEAR(rises, 500, 100);
  EXPECT_EQ(stable_order("node-1"), stable_order("node-1"));
}

}  // namespace
}  // namespace tessera::alloc
