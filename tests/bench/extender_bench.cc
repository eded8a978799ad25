// Measures the extender's own part of a call, without the network: 5,000 nodes with 8 GPUs, 40,000
// pods.
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../alloc/cluster.h"
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

extender::ClusterState& state() {
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
  extender::ArgsReader reader{alloc::ResourceNames(), state().node_index()};
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
  extender::Decisions decisions(state());
  replay(state, [&](const extender::NodeArgs& args, std::string& out) { decisions.filter(args, out); });
}
BENCHMARK(Filter)->ArgsProduct({{0, 1, 2}, {kSame, kRuns, kShuffled}})->Unit(benchmark::kMicrosecond);

void Prioritize(benchmark::State& state) {
  extender::Decisions decisions(state());
  replay(state,
         [&](const extender::NodeArgs& args, std::string& out) { decisions.prioritize(args, 128, out); });
}
BENCHMARK(Prioritize)->ArgsProduct({{0, 1, 2}, {kSame, kRuns, kShuffled}})->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
