// Measures the extender's own part of a call, without the network: 5,000 nodes with 8 GPUs, 40,000
// pods.
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../alloc/cluster.h"
#include "../topology/machines.h"
#include "extender/args.h"
#include "extender/cluster_state.h"
#include "extender/decisions.h"

namespace {

using namespace tessera;
using alloc::testing::bound_share;
using alloc::testing::node_of;

constexpr int kNodes = 5'000;

std::string node_name(int i) {
  return fmt::format("gpu-node-{:05}.example", i);
}

extender::ClusterState& big_cluster() {
  static auto* filled = [] {
    auto* made = new extender::ClusterState({});
    for (int i = 0; i < kNodes; ++i) {
      made->keep_node(node_of(node_name(i), {32, 32, 32, 32, 32, 32, 32, 32}));
      for (unsigned gpu = 0; gpu < 8; ++gpu) {
        made->keep_pod(bound_share(fmt::format("p-{}-{}", i, gpu),
                                   1 + (static_cast<unsigned>(i) * 7 + gpu * 5) % 23, node_name(i), gpu));
      }
    }
    return made;
  }();
  return *filled;
}

// How the node names of a call differ from those of the previous call.
enum Order { kSame, kRuns, kShuffled };
constexpr const char* kOrders[] = {"same bytes", "runs of 70 shuffled", "all shuffled"};

constexpr const char* kLimits[] = {R"("aliyun.com/gpu-mem":"8")", R"("aliyun.com/gpu-mem":"31")",
                                   R"("aliyun.com/gpu":"4")"};

std::vector<int> nodes_in(Order order, std::mt19937& random) {
  std::vector<int> nodes(kNodes);
  std::iota(nodes.begin(), nodes.end(), 0);
  if (order == kShuffled) {
    std::ranges::shuffle(nodes, random);
  } else if (order == kRuns) {
    constexpr int kRun = 70;
    std::vector<int> runs((kNodes + kRun - 1) / kRun);
    std::iota(runs.begin(), runs.end(), 0);
    std::ranges::shuffle(runs, random);
    nodes.clear();
    for (const int run : runs) {
      for (int i = run * kRun; i < std::min(kNodes, (run + 1) * kRun); ++i) {
        nodes.push_back(i);
      }
    }
  }
  return nodes;
}

std::vector<json::PaddedBuffer> bodies_for(const char* limits, Order order) {
  std::mt19937 random(7);
  std::vector<json::PaddedBuffer> bodies;
  for (int count = order == kSame ? 1 : 16; count > 0; --count) {
    std::string body = fmt::format(
        R"({{"Pod":{{"metadata":{{"name":"b","namespace":"n","uid":"u"}},"spec":{{"containers":[{{"name":"m","resources":{{"limits":{{{}}}}}}}]}}}},"Nodes":null,"NodeNames":[)",
        limits);
    bool first = true;
    for (const int i : nodes_in(order, random)) {
      body += fmt::format("{}\"{}\"", std::exchange(first, false) ? "" : ",", node_name(i));
    }
    bodies.emplace_back(body + "]}");
  }
  return bodies;
}

template <class Answer>
void replay(benchmark::State& state, Answer answer) {
  const auto order = static_cast<Order>(state.range(1));
  extender::ArgsReader reader{alloc::ResourceNames(), big_cluster().node_index()};
  std::vector<json::PaddedBuffer> bodies = bodies_for(kLimits[state.range(0)], order);
  std::string out;
  std::size_t next = 0;
  for (auto step : state) {
    out.clear();
    answer(**reader.node_args(bodies[next++ % bodies.size()].view()), out);
  }
  state.SetLabel(fmt::format("{}, {}", kLimits[state.range(0)], kOrders[order]));
}

void Parse(benchmark::State& state) {
  replay(state, [](const extender::NodeArgs& args, std::string&) { benchmark::DoNotOptimize(args.nodes); });
}
BENCHMARK(Parse)->ArgsProduct({{0}, {kSame, kRuns, kShuffled}})->Unit(benchmark::kMicrosecond);

void Filter(benchmark::State& state) {
  extender::Decisions decisions(big_cluster());
  replay(state, [&](const extender::NodeArgs& args, std::string& out) { decisions.filter(args, out); });
}
BENCHMARK(Filter)->ArgsProduct({{0, 1, 2}, {kSame, kRuns, kShuffled}})->Unit(benchmark::kMicrosecond);

void Prioritize(benchmark::State& state) {
  extender::Decisions decisions(big_cluster());
  replay(state,
         [&](const extender::NodeArgs& args, std::string& out) { decisions.prioritize(args, 128, out); });
}
BENCHMARK(Prioritize)->ArgsProduct({{0, 1, 2}, {kSame, kRuns, kShuffled}})->Unit(benchmark::kMicrosecond);

// The longest that a filter call of an ordinary pod takes, if it arrives while the extender handles
// one hostile event: a node that publishes another forged topology of 64 or 16 GPUs, a pod with a
// long annotation, or a pod whose containers have no packing. Counters: `p99_us` and `worst_us` of
// event and call together.
void FilterUnderAttack(benchmark::State& state) {
  extender::ClusterState cluster({});
  std::vector<std::string> names;
  for (int i = 0; i < 1'000; ++i) {
    names.push_back(node_name(i));
    cluster.keep_node(node_of(names.back(), {21, 23, 25, 27, 29, 31, 33, 35}));
  }
  alloc::PodSpec packing = alloc::testing::pod_of("packing", {});
  packing.annotations["tessera.io/placement"] = "per-container";
  for (const int size :
       {18, 16, 16, 14, 14, 12, 12, 12, 10, 10, 10, 8, 8, 8, 6, 6, 6, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2}) {
    packing.containers.push_back(alloc::testing::container(fmt::format("c{}", size), size));
  }
  std::string list;
  for (const std::string& name : names) {
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ",", name);
  }
  json::PaddedBuffer text(list);
  extender::NodeLists lists(cluster.node_index());
  extender::NodeArgs ordinary;
  ordinary.pod = alloc::testing::share_pod("ordinary", 8);
  ordinary.text = text.view();
  ordinary.nodes = lists.read(ordinary.text);
  extender::NodeArgs hostile = ordinary;
  hostile.pod = packing;
  std::vector<alloc::NodeSpec> forged;
  for (unsigned i = 0; i < 100; ++i) {
    const unsigned gpus = i % 2 == 0 ? 64 : 16;
    alloc::Inventory inventory = alloc::testing::inventory_of("f", std::vector<std::uint32_t>(gpus, 32));
    inventory.topology = topology::forged(gpus);
    inventory.topology.socket_mbps = 1 + i;
    forged.push_back(alloc::testing::node_with("forged", inventory));
  }
  extender::Decisions decisions(cluster);
  std::vector<double> times;
  std::string out;
  unsigned round = 0;
  for (auto step : state) {
    const auto begin = std::chrono::steady_clock::now();
    if (round % 3 == 0) {
      cluster.keep_node(forged[round / 3 % forged.size()]);
    } else if (round % 3 == 1) {
      alloc::PodSpec pod = alloc::testing::share_pod(fmt::format("p{}", round), 1);
      pod.annotations["tessera.io/gpu-model"] = fmt::format("{}{}", round, std::string(196'000, 'x'));
      cluster.keep_pod(pod);
    } else {
      decisions.filter(hostile, out);
    }
    out.clear();
    decisions.filter(ordinary, out);
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    // A round of the extender takes five seconds. Here it is far shorter, so that tables are built often.
    if (++round % 100 == 0) {
      cluster.end_round();
    }
  }
  std::ranges::sort(times);
  state.counters["p99_us"] = times[times.size() * 99 / 100];
  state.counters["worst_us"] = times.back();
}
BENCHMARK(FilterUnderAttack)->Iterations(3'000)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
