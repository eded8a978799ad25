// The reference policies on clusters that are small enough to compute by hand, and Tessera's on the
// same ledger.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "sim/fragmentation.h"
#include "sim/policy.h"
#include "sim/simulated_cluster.h"

namespace tessera::sim {
namespace {

using testing::HasSubstr;

// A cluster with some pods on given GPUs, on which a policy chooses for the next pod. Keeps the
// order of nodes.
class Cluster {
 public:
  Cluster(std::vector<TraceNode> nodes, std::vector<TracePod> pods)
      : trace_{.nodes = std::move(nodes), .pods = std::move(pods)}, shapes_(trace_.pods) {
    for (std::uint32_t i = 0; i < trace_.nodes.size(); ++i) {
      scenario_.nodes.push_back(i);
    }
    simulated_ = std::make_unique<SimulatedCluster>(trace_, scenario_, shapes_);
  }

  // Allocates these GPUs of the node to a pod of the trace.
  Cluster& put(std::uint32_t pod, std::uint32_t node, alloc::GpuMask gpus) {
    const std::uint32_t shape = shapes_.of_pod[pod];
    const Status placed =
        simulated_->allocate(shape, simulated_->choice(shape, simulated_->nodes()[node], gpus));
    EXPECT_TRUE(placed) << placed.error().text();
    return *this;
  }

  // The choice of the policy for a pod of the trace: "node:GPUs" or "none".
  std::string choose(std::string_view policy, std::uint32_t pod, std::uint64_t seed = 1) {
    Random random(seed);
    const auto choice = make_policy(find_policy(policy).value(), *simulated_,
                                    typical_kinds(trace_.pods, kPaperTypicalPercent))
                            ->choose(shapes_.of_pod[pod], random);
    if (!choice) {
      return "none";
    }
    const std::string& name = simulated_->ledger().node_name(choice->node);
    return fmt::format("{}:{}", name.substr(6), topology::gpu_list(choice->share_gpus | choice->whole_gpus));
  }

  [[nodiscard]] const SimulatedCluster& simulated() const { return *simulated_; }
  [[nodiscard]] std::vector<PodKind> kinds() const {
    return typical_kinds(trace_.pods, kPaperTypicalPercent);
  }

 private:
  Trace trace_;
  Shapes shapes_;
  Scenario scenario_;
  std::unique_ptr<SimulatedCluster> simulated_;
};

TraceNode node(const char* name, std::uint32_t gpus, std::int64_t cpus, const char* model = "T4") {
  return {.name = name, .cpu_milli = cpus * 1000, .memory_mib = 65536, .gpus = gpus, .model = model};
}
TracePod share(std::uint32_t milli, std::int64_t cpus = 1) {
  return {.name = "s", .cpu_milli = cpus * 1000, .memory_mib = 1, .gpus = 1, .gpu_milli = milli};
}
TracePod whole(std::uint32_t gpus, std::int64_t cpus = 1) {
  return {.name = "w", .cpu_milli = cpus * 1000, .memory_mib = 1, .gpus = gpus, .gpu_milli = 1000};
}

TEST(FirstFit, ChoosesTheFirstNodeThatFits) {
  Cluster cluster({node("a", 1, 8), node("b", 2, 8)}, {share(400), whole(2), whole(1, 9)});
  EXPECT_EQ(cluster.choose("FirstFit", 0), "a:0");
  EXPECT_EQ(cluster.choose("FirstFit", 1), "b:0-1");
  EXPECT_EQ(cluster.choose("FirstFit", 2), "none");  // too little CPU
}

TEST(BestFit, ChoosesTheNodeWithTheLeastLeft) {
  Cluster cluster({node("a", 2, 8), node("b", 2, 16)}, {whole(1)});
  // Left of 16 CPUs and 2 GPUs: a 7 and 1, so 1 - 7/32 - 1/4 = 53%; b 15 and 1, 28%.
  EXPECT_EQ(cluster.choose("BestFit", 0), "a:0");
  // With a pod on it b has 14 and 0 left: 56%.
  EXPECT_EQ(cluster.put(0, 1, 1).choose("BestFit", 0), "b:1");
}

TEST(DotProd, ChoosesTheLeastSimilarNode) {
  Cluster cluster({node("a", 2, 16), node("b", 2, 8)}, {whole(1, 4)});
  // a: 1 - (1 * 1/4 + 1 * 1/2) / 2 = 62; b: 1 - (1/2 * 1/4 + 1 * 1/2) / 2 = 68.
  EXPECT_EQ(cluster.choose("DotProd", 0), "b:0");
}

TEST(GpuClustering, KeepsPodsOfAClassTogether) {
  Cluster cluster({node("a", 4, 64), node("b", 4, 64), node("c", 4, 64)}, {share(300), whole(1), whole(2)});
  cluster.put(1, 1, 1).put(2, 2, 3);
  EXPECT_EQ(cluster.choose("GpuClustering", 0), "a:0");    // an empty node before one with other classes
  EXPECT_EQ(cluster.choose("GpuClustering", 1), "b:1");    // only its own class
  EXPECT_EQ(cluster.choose("GpuClustering", 2), "c:2-3");  // likewise
  cluster.put(0, 1, 2);
  EXPECT_EQ(cluster.choose("GpuClustering", 0), "b:1");  // its class together with others
}

TEST(GpuPacking, PrefersSharedGpusThenUsedNodes) {
  Cluster cluster({node("a", 2, 64), node("b", 2, 64), node("c", 2, 64)}, {share(300), share(500), whole(1)});
  EXPECT_EQ(cluster.choose("GpuPacking", 0), "a:0");
  cluster.put(2, 1, 1);
  EXPECT_EQ(cluster.choose("GpuPacking", 0), "b:1");  // used node
  cluster.put(1, 2, 2);
  EXPECT_EQ(cluster.choose("GpuPacking", 0), "c:1");  // shared GPU
  EXPECT_EQ(cluster.choose("GpuPacking", 2), "b:1");
}

TEST(Fragmentation, IsTheCapacityThatTypicalPodsCannotUse) {
  // Half of the pods request a whole GPU and 4 CPUs, a quarter 300 thousandths, a quarter no GPU.
  Cluster cluster({node("a", 2, 8)},
                  {whole(1, 4), whole(1, 4), share(300, 1), {.name = "c", .cpu_milli = 2000}});
  const Fragmentation measure(cluster.kinds(), cluster.simulated().ledger());
  const auto percent = [&](std::uint64_t sum) { return sum / measure.weight(); };
  const alloc::NodeId id = cluster.simulated().nodes()[0];
  // On the empty node, only the pod without GPUs cannot use the 2000.
  EXPECT_EQ(percent(measure.of(cluster.simulated().ledger().view(id))), 2000 / 4);
  // 800 of GPU 0 are allocated. Of the 1200 left, whole pods and shares cannot use 200, CPU pods
  // none at all.
  EXPECT_EQ(percent(measure.after(cluster.simulated().ledger().view(id), 1, 800, 0)), (200 * 3 + 1200) / 4);
  // With 5 CPUs allocated, no whole pod can start any more.
  EXPECT_EQ(percent(measure.after(cluster.simulated().ledger().view(id), 1, 800, 5000)),
            (1200 * 2 + 200 + 1200) / 4);
}

TEST(PaperFgd, KeepsGpusUsableForTypicalPods) {
  Cluster cluster({node("a", 2, 64), node("b", 2, 64)}, {whole(1), whole(1), whole(1), share(500)});
  cluster.put(3, 1, 2);
  // Whole pods cannot use GPU 1 of b anyway.
  EXPECT_EQ(cluster.choose("FGD", 3), "b:1");
}

TEST(PaperFgd, RespectsModels) {
  TracePod choosy = whole(1);
  choosy.models = {"V100"};
  Cluster cluster({node("a", 2, 64, "T4"), node("b", 2, 64, "V100")}, {whole(1), choosy});
  // Both kinds of pods can use b, only one can use a: that one gets a.
  EXPECT_EQ(cluster.choose("FGD", 0), "a:0");
  EXPECT_EQ(cluster.choose("FGD", 1), "b:0");
  EXPECT_EQ(cluster.choose("fgd", 0), "a:0");
  EXPECT_EQ(cluster.choose("fgd", 1), "b:0");
}

TEST(RandomPolicy, ChoosesEveryNodeAndGpuSometimes) {
  Cluster cluster({node("a", 2, 64), node("b", 1, 64), node("c", 1, 0)}, {share(500)});
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    seen.insert(cluster.choose("Random", 0, seed));
  }
  EXPECT_EQ(seen, (std::set<std::string>{"a:0", "a:1", "b:0"}));
}

TEST(TesseraPolicies, UseTheSameLedger) {
  Cluster cluster({node("a", 2, 64), node("b", 2, 64)}, {share(500), whole(2)});
  cluster.put(0, 1, 2);
  EXPECT_EQ(cluster.choose("binpack", 0), "b:1");
  EXPECT_EQ(cluster.choose("spread", 0), "a:0");
  EXPECT_EQ(cluster.choose("fgd", 0), "b:1");
  EXPECT_EQ(cluster.choose("fgd", 1), "a:0-1");
}

TEST(SimulatedCluster, RefusesAChoiceThatDoesNotFit) {
  Cluster cluster({node("a", 1, 64)}, {share(600)});
  cluster.put(0, 0, 1);
  SimulatedCluster& simulated = const_cast<SimulatedCluster&>(cluster.simulated());
  EXPECT_FALSE(simulated.allocate(0, simulated.choice(0, simulated.nodes()[0], 1)));
  EXPECT_EQ(simulated.allocated_milli(), 600);
  EXPECT_FALSE(simulated.fits(0, simulated.nodes()[0]));
}

TEST(PolicyNames, DistinguishTesserasFromThoseOfThePaper) {
  EXPECT_FALSE(find_policy("fgd")->reference);
  EXPECT_TRUE(find_policy("FGD")->reference);
  EXPECT_EQ(find_policy("bestfit")->name, "BestFit");
  const auto unclear = find_policy("Fgd");
  ASSERT_FALSE(unclear);
  EXPECT_THAT(unclear.error().text(), HasSubstr("there is no policy \"Fgd\"; use fgd, binpack,"));
}

}  // namespace
}  // namespace tessera::sim
