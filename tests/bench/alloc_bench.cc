// Measures the ledger and the placer with 5,000 nodes, 8 GPUs per node and 40,000 pods.
//
// Compare every number with the baseline of the same run, because absolute times depend on the
// machine. The baseline walk_all_gpus is the simplest possible filter: one pass over all GPUs.
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <fstream>
#include <memory>
#include <random>

#include "../alloc/cluster.h"

namespace tessera::alloc::testing {
namespace {

constexpr unsigned kNodes = 5000;
constexpr unsigned kGpus = 8;
constexpr unsigned kPods = 40'000;

// NVLinks similar to a DGX-1V, so that sets differ.
topology::Topology cube_mesh() {
  topology::Topology box(kGpus);
  for (unsigned a = 0; a < kGpus; ++a) {
    for (unsigned b = a + 1; b < kGpus; ++b) {
      const bool same_quad = a / 4 == b / 4;
      const bool linked = same_quad || b == a + 4;
      box.set_link(a, b,
                   {.path = same_quad ? topology::PciePath::kPhb : topology::PciePath::kSys,
                    .nvlinks = static_cast<std::uint8_t>(linked ? 1 + (a + b) % 2 : 0),
                    .generation = static_cast<std::uint8_t>(linked ? 2 : 0)});
    }
  }
  return box;
}

std::string node_name(unsigned i) {
  return fmt::format("gpu-node-{:04}.example.internal", i);
}

Inventory inventory_like_production(unsigned i) {
  Inventory inventory = inventory_of(node_name(i), std::vector<std::uint32_t>(kGpus, 32));
  for (unsigned gpu = 0; gpu < kGpus; ++gpu) {
    inventory.gpus[gpu].uuid = fmt::format("GPU-{:08x}-0000-4000-8000-{:012x}", i, gpu);
  }
  inventory.topology = cube_mesh();
  return inventory;
}

long resident_kib() {
  long pages = 0;
  long resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * 4;
}

struct Cluster {
  Ledger ledger;
  std::vector<NodeId> nodes;
  long grown_kib = 0;

  Cluster() {
    const long before = resident_kib();
    std::mt19937 random(1);
    for (unsigned i = 0; i < kNodes; ++i) {
      ledger.upsert_node(node_with(node_name(i), inventory_like_production(i)));
    }
    nodes = ledger.nodes_by_name();
    // 8 pods per node on average: some nodes full, some empty, with whole and shared GPUs.
    for (unsigned i = 0; i < kPods; ++i) {
      const unsigned node = static_cast<unsigned>(random() % kNodes);
      const unsigned gpu = static_cast<unsigned>(random() % kGpus);
      const NodeView view = ledger.view(nodes[node]);
      const bool whole = random() % 4 == 0 && (view.whole_free & topology::gpu_bit(gpu)) != 0;
      const auto units = static_cast<std::uint32_t>(1 + random() % 16);
      if (!whole && view.free[gpu] < units) {
        continue;
      }
      PodSpec pod = whole ? whole_pod("", 1) : share_pod("", units);
      pod.namespace_name = "team-training";
      pod.name = fmt::format("train-job-{:05}-worker-0", i);
      pod.uid = fmt::format("{:08x}-1111-4222-8333-444455556666", i);
      GpuShare share{
          .gpu = ledger.gpus(nodes[node])[gpu].uuid.text(), .units = whole ? 0 : units, .whole = whole};
      ledger.upsert_pod(bound(pod, node_name(node), {share}));
    }
    grown_kib = resident_kib() - before;
  }
};

Cluster& cluster() {
  static Cluster instance;
  return instance;
}

void walk_all_gpus(benchmark::State& state) {
  const Cluster& c = cluster();
  for (auto _ : state) {
    unsigned fits = 0;
    for (const NodeId id : c.nodes) {
      const NodeView view = c.ledger.view(id);
      bool found = false;
      for (const std::uint32_t free : view.free) {
        found = found || free >= 12;
      }
      fits += found ? 1 : 0;
    }
    benchmark::DoNotOptimize(fits);
  }
}
BENCHMARK(walk_all_gpus)->Unit(benchmark::kMicrosecond);

void filter(benchmark::State& state, const PodSpec& pod) {
  Cluster& c = cluster();
  Placer placer(c.ledger);
  const Request request = request_of(pod);
  std::vector<Reason> reasons(c.nodes.size());
  for (auto _ : state) {
    placer.filter(request, c.nodes, reasons);
    benchmark::DoNotOptimize(reasons.data());
  }
  state.counters["fitting"] = static_cast<double>(std::ranges::count(reasons, Reason::kFits));
}
BENCHMARK_CAPTURE(filter, share_12, share_pod("p", 12))->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(filter, share_32_mostly_refused, share_pod("p", 32))->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(filter, whole_4, whole_pod("p", 4))->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(filter, whole_8_mostly_refused, whole_pod("p", 8))->Unit(benchmark::kMicrosecond);

PodSpec with_model(PodSpec pod) {
  pod.annotations[std::string(key::kGpuModel)] = "A100";
  return pod;
}
PodSpec over_gpus(PodSpec pod, unsigned gpus) {
  pod.labels["aliyun.com/gpu-count"] = std::to_string(gpus);
  return pod;
}
BENCHMARK_CAPTURE(filter, share_12_of_a_model, with_model(share_pod("p", 12)))->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(filter, share_32_over_4, over_gpus(share_pod("p", 32), 4))->Unit(benchmark::kMicrosecond);

// 35 typical pods, as in the Alibaba trace.
std::vector<TypicalRequest> typical_pods() {
  std::vector<TypicalRequest> typical;
  for (unsigned i = 0; i < 35; ++i) {
    TypicalRequest one;
    if (i % 3 == 2) {
      one.shape.whole = static_cast<std::uint16_t>(1U << (i % 4));
    } else {
      one.shape.share = {.units = 1 + i * 7 % 32, .core_percent = 0, .gpus = 1};
    }
    one.shape.node.cpu_milli = 1000 + 500 * (i % 9);
    one.count = 100 - i;
    typical.push_back(one);
  }
  return typical;
}

// A known shape, and one node that changed since: the common case for the next pod of a job.
void score_seen_before(benchmark::State& state, const PodSpec& pod, Policy share_policy) {
  Cluster& c = cluster();
  Placer placer(c.ledger, {.share_policy = share_policy, .typical = typical_pods()});
  const Request request = request_of(pod);
  std::vector<Score> scores(c.nodes.size());
  placer.score(request, c.nodes, scores);
  const Choice choice = placer.choose_best(request).value();
  for (auto _ : state) {
    Hold hold = c.ledger.reserve(key_of(pod), request, choice).value();
    placer.score(request, c.nodes, scores);
    benchmark::DoNotOptimize(scores.data());
  }
}

void score_never_seen(benchmark::State& state, const PodSpec& pod, Policy share_policy) {
  Cluster& c = cluster();
  Placer placer(c.ledger, {.share_policy = share_policy, .typical = typical_pods()});
  Request request = request_of(pod);
  std::vector<Score> scores(c.nodes.size());
  for (auto _ : state) {
    ++request.shape.node.cpu_milli;
    placer.score(request, c.nodes, scores);
    benchmark::DoNotOptimize(scores.data());
  }
}

#define SCORE_BOTH_WAYS(name, pod, policy)                                                \
  BENCHMARK_CAPTURE(score_seen_before, name, pod, policy)->Unit(benchmark::kMicrosecond); \
  BENCHMARK_CAPTURE(score_never_seen, name, pod, policy)->Unit(benchmark::kMicrosecond)
SCORE_BOTH_WAYS(fgd_share_12, share_pod("p", 12), Policy::kFgd);
SCORE_BOTH_WAYS(fgd_whole_4, whole_pod("p", 4), Policy::kFgd);
SCORE_BOTH_WAYS(binpack_share_12, share_pod("p", 12), Policy::kBinpack);
SCORE_BOTH_WAYS(spread_share_12, share_pod("p", 12), Policy::kSpread);
SCORE_BOTH_WAYS(binpack_ring_4, whole_pod("p", 4), Policy::kBinpack);

void choose_reserve_release(benchmark::State& state) {
  Cluster& c = cluster();
  Placer placer(c.ledger);
  const PodSpec pod = share_pod("p", 12);
  const Request request = request_of(pod);
  const Choice best = placer.choose_best(request).value();
  for (auto _ : state) {
    const Choice choice = placer.choose(request, best.node).value();
    Hold hold = c.ledger.reserve(key_of(pod), request, choice).value();
    benchmark::DoNotOptimize(hold);
  }
}
BENCHMARK(choose_reserve_release)->Unit(benchmark::kMicrosecond);

void memory(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(cluster().grown_kib);
  }
  state.counters["ledger_MiB"] = static_cast<double>(cluster().grown_kib) / 1024;
  state.counters["pods"] = static_cast<double>(cluster().ledger.pod_count());
}
BENCHMARK(memory)->Iterations(1);

}  // namespace
}  // namespace tessera::alloc::testing

BENCHMARK_MAIN();
