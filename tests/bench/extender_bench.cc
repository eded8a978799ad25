// The extender's own part of a call, without network: 5,000 nodes with 8 GPUs, 40,000 pods.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <string>

#include "../alloc/cluster.h"
#include "extender/args.h"
#include "extender/books.h"
#include "extender/decisions.h"

namespace {

using namespace tessera;
using alloc::testing::bound_share;
using alloc::testing::node_of;

constexpr int kNodes = 5'000;

std::string node_name(int i) {
  return fmt::format("gpu-node-{:05}.example", i);
}

extender::Books& books() {
  static auto* filled = [] {
    auto* made = new extender::Books({});
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

std::string body_for(const char* limits) {
  std::string body = fmt::format(
      R"({{"Pod":{{"metadata":{{"name":"b","namespace":"n","uid":"u"}},"spec":{{"containers":[{{"name":"m","resources":{{"limits":{{{}}}}}}}]}}}},"Nodes":null,"NodeNames":[)",
      limits);
  for (int i = 0; i < kNodes; ++i) {
    body += fmt::format("{}\"{}\"", i == 0 ? "" : ",", node_name(i));
  }
  return body + "]}";
}

constexpr const char* kLimits[] = {R"("aliyun.com/gpu-mem":"8")", R"("aliyun.com/gpu-mem":"31")",
                                   R"("aliyun.com/gpu":"4")"};

void Parse(benchmark::State& state) {
  extender::ArgsReader reader{alloc::ResourceNames()};
  json::PaddedBuffer body(body_for(kLimits[0]));
  for (auto step : state) {
    benchmark::DoNotOptimize(reader.node_args(body.view()));
  }
}
BENCHMARK(Parse)->Unit(benchmark::kMicrosecond);

void Filter(benchmark::State& state) {
  extender::ArgsReader reader{alloc::ResourceNames()};
  extender::Decisions decisions(books());
  json::PaddedBuffer body(body_for(kLimits[state.range(0)]));
  std::string out;
  for (auto step : state) {
    out.clear();
    decisions.filter(**reader.node_args(body.view()), out);
  }
  state.SetLabel(kLimits[state.range(0)]);
}
BENCHMARK(Filter)->DenseRange(0, 2)->Unit(benchmark::kMicrosecond);

void Prioritize(benchmark::State& state) {
  extender::ArgsReader reader{alloc::ResourceNames()};
  extender::Decisions decisions(books());
  json::PaddedBuffer body(body_for(kLimits[state.range(0)]));
  std::string out;
  for (auto step : state) {
    out.clear();
    decisions.prioritize(**reader.node_args(body.view()), 128, out);
  }
  state.SetLabel(kLimits[state.range(0)]);
}
BENCHMARK(Prioritize)->DenseRange(0, 2)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
