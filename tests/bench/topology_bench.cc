// Measures how long it takes to choose GPUs, per policy and machine, and to build the tables.
//
// Counters of a search: `p99_us` over random free sets and counts, and `vs_simple`, the mean time
// as a multiple of the `simple` policy in the same run. Counter of building tables: `vs_dgx2`, the
// time as a multiple of that for a DGX-2 in the same run. It must stay near 1 for forged links.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <random>
#include <vector>

#include "../topology/dgx1_stream.h"
#include "../topology/machines.h"
#include "topology/partition_table.h"
#include "topology/set_search.h"

namespace tessera::topology {
namespace {

using Chooser = std::optional<SetChoice> (*)(const SetTables&, const SetQuery&);

Topology machine(std::int64_t kind) {
  switch (kind) {
    case 0:
      return dgx1_volta();
    case 1:
      return nvswitch_box(16, 6, 2);
    case 2:
      return pcie_tree(16);
    case 4:
      return forged(16);
    case 5:
      return forged(64);
    default: {
      Topology odd(16);
      std::mt19937 random(1);
      for (unsigned a = 0; a < 16; ++a) {
        for (unsigned b = 0; b < a; ++b) {
          odd.set_link(a, b, nvlink(static_cast<unsigned>(random() % 13), 3, PciePath::kNode));
        }
      }
      two_sockets(odd);
      return odd;
    }
  }
}

const char* machine_name(std::int64_t kind) {
  static constexpr std::array<const char*, 6> kNames = {"dgx1v",       "dgx2",     "pcie16",
                                                        "irregular16", "forged16", "forged64"};
  return kNames.at(static_cast<std::size_t>(kind));
}

// Half of the queries have all GPUs free, where the search space is largest.
std::vector<SetQuery> random_queries(const Topology& box) {
  std::mt19937 random(5);
  std::vector<SetQuery> queries;
  while (queries.size() < 4'000) {
    SetQuery query{.free = queries.size() % 2 == 0 ? box.all() : (random() | random()) & box.all()};
    query.count = 1 + static_cast<unsigned>(random() % box.size());
    if (query.count <= gpu_count(query.free)) {
      queries.push_back(query);
    }
  }
  return queries;
}

// CPU time of this thread, so that other load on the machine does not matter.
double now_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

double mean_us(const SetTables& tables, const std::vector<SetQuery>& queries, Chooser choose) {
  const double begin = now_us();
  for (const SetQuery& query : queries) {
    benchmark::DoNotOptimize(choose(tables, query));
  }
  return (now_us() - begin) / static_cast<double>(queries.size());
}

void choose_any_size(benchmark::State& state, Chooser choose) {
  const SetTables tables(machine(state.range(0)));
  const auto queries = random_queries(tables.topology());
  mean_us(tables, queries, choose);  // builds the partition tables of best_effort
  std::vector<double> times;
  std::size_t i = 0;
  for (auto _ : state) {
    const double begin = now_us();
    benchmark::DoNotOptimize(choose(tables, queries[i]));
    times.push_back(now_us() - begin);
    i = (i + 1) % queries.size();
  }
  std::ranges::sort(times);
  state.counters["p99_us"] = times[times.size() * 99 / 100];
  state.counters["vs_simple"] = mean_us(tables, queries, choose) / mean_us(tables, queries, choose_simple);
  state.SetLabel(machine_name(state.range(0)));
}
BENCHMARK_CAPTURE(choose_any_size, ring, choose_ring)->DenseRange(0, 4);
BENCHMARK_CAPTURE(choose_any_size, best_effort, choose_best_effort)->DenseRange(0, 3);
BENCHMARK_CAPTURE(choose_any_size, simple, choose_simple)->DenseRange(0, 3);

// The one-time cost of a new machine type.
void build_tables(benchmark::State& state) {
  const Topology box = machine(state.range(0));
  const Topology dgx2 = machine(1);
  double took_us = 0;
  double dgx2_us = 0;
  const auto build = [](const Topology& topology) {
    const double begin = now_us();
    const SetTables tables(topology);
    benchmark::DoNotOptimize(tables.ring_mbps(3));
    return now_us() - begin;
  };
  for (auto _ : state) {
    took_us += build(box);
    state.PauseTiming();
    dgx2_us += build(dgx2);
    state.ResumeTiming();
  }
  state.counters["vs_dgx2"] = took_us / dgx2_us;
  state.SetLabel(machine_name(state.range(0)));
}
BENCHMARK(build_tables)->DenseRange(0, 5)->Unit(benchmark::kMillisecond);

// The cost of the first best_effort request of a size on 16 GPUs.
void build_partitions(benchmark::State& state) {
  const SetTables tables(machine(3));
  for (auto _ : state) {
    const PartitionTable table(tables, static_cast<unsigned>(state.range(0)));
    benchmark::DoNotOptimize(table.best_total(0xffff));
  }
}
BENCHMARK(build_partitions)->Arg(2)->Arg(4)->Arg(8)->Arg(12)->Unit(benchmark::kMillisecond);

void wide(benchmark::State& state, const Topology& box) {
  const SetTables tables(box);
  for (auto _ : state) {
    benchmark::DoNotOptimize(choose_ring(tables, {.free = tables.topology().all(), .count = 24}));
  }
}
BENCHMARK_CAPTURE(wide, pcie64, pcie_tree(64))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(wide, forged64, forged(64))->Unit(benchmark::kMillisecond);

// The DGX-1V job stream. The counters compare ring bandwidth and PCIe hops with best_effort.
void dgx1_stream(benchmark::State& state) {
  const SetTables tables(dgx1_volta());
  const Dgx1Stream stream(tables.topology());
  const auto by = [&](Chooser choose) {
    return stream.mean(
        [&](GpuMask free, unsigned count) { return choose(tables, {.free = free, .count = count})->gpus; },
        10);
  };
  Dgx1Stream::Outcome ring;
  for (auto _ : state) {
    ring = by(choose_ring);
  }
  const auto best_effort = by(choose_best_effort);
  state.counters["ring_of_ideal"] = ring.ring_of_ideal;
  state.counters["pcie_hops"] = ring.with_pcie_hop;
  state.counters["best_effort_of_ideal"] = best_effort.ring_of_ideal;
  state.counters["best_effort_hops"] = best_effort.with_pcie_hop;
}
BENCHMARK(dgx1_stream)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tessera::topology

BENCHMARK_MAIN();
