#include "sim/scenario.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace tessera::sim {

namespace {

void add_pods(const Trace& trace, std::int64_t missing_milli, Random& random,
              std::vector<std::uint32_t>& pods) {
  // Draws from the original pods only, so that a pod that was added is not more likely to be drawn
  // again.
  const std::vector<std::uint32_t> original = pods;
  for (;;) {
    const std::uint32_t drawn = original[random.below(original.size())];
    missing_milli -= trace.pods[drawn].requested_gpu_milli();
    if (missing_milli < 0) {
      return;
    }
    pods.push_back(drawn);
  }
}

void remove_pods(const Trace& trace, std::int64_t surplus_milli, Random& random,
                 std::vector<std::uint32_t>& pods) {
  constexpr std::uint32_t kGone = ~0U;
  // Marks pods first and removes them at the end, which keeps the order of the others.
  std::vector<std::uint32_t> left(pods.size());
  std::iota(left.begin(), left.end(), 0U);
  while (surplus_milli > 0) {
    const std::size_t drawn = random.below(left.size());
    surplus_milli -= trace.pods[pods[left[drawn]]].requested_gpu_milli();
    pods[left[drawn]] = kGone;
    left[drawn] = left.back();
    left.pop_back();
  }
  std::erase(pods, kGone);
}

}  // namespace

Scenario draw_scenario(const Trace& trace, std::uint64_t seed, std::int64_t load_milli) {
  Random random(seed);
  Scenario scenario;
  scenario.pods.resize(trace.pods.size());
  std::iota(scenario.pods.begin(), scenario.pods.end(), 0U);
  std::ranges::sort(scenario.pods, {}, [&](std::uint32_t i) {
    return std::tuple<const std::string&, std::uint32_t>(trace.pods[i].name, i);
  });
  random.shuffle(scenario.pods);

  const std::int64_t capacity = trace.gpu_capacity_milli();
  const std::int64_t target = capacity / 1000 * load_milli;
  const std::int64_t requested = trace.requested_gpu_milli();
  if (requested > target) {
    remove_pods(trace, requested - target, random, scenario.pods);
  } else if (requested > 0) {
    add_pods(trace, target - requested, random, scenario.pods);
  }

  scenario.nodes.resize(trace.nodes.size());
  std::iota(scenario.nodes.begin(), scenario.nodes.end(), 0U);
  random.shuffle(scenario.nodes);
  return scenario;
}

std::vector<PodKind> typical_kinds(const std::vector<TracePod>& pods, unsigned percent) {
  using Key = std::tuple<std::int64_t, std::uint32_t, std::uint32_t, std::vector<std::string>>;
  std::map<Key, std::uint64_t> counts;
  for (const TracePod& pod : pods) {
    ++counts[{pod.cpu_milli, pod.gpu_milli, pod.gpus,
              pod.gpus > 0 ? pod.models : std::vector<std::string>{}}];
  }
  std::vector<PodKind> kinds;
  for (const auto& [key, count] : counts) {
    const auto& [cpu, milli, gpus, models] = key;
    kinds.push_back({.cpu_milli = cpu, .gpus = gpus, .gpu_milli = milli, .models = models, .count = count});
  }
  std::ranges::sort(kinds, [](const PodKind& a, const PodKind& b) {
    return std::tie(b.count, a.cpu_milli, a.gpu_milli, a.gpus, a.models) <
           std::tie(a.count, b.cpu_milli, b.gpu_milli, b.gpus, b.models);
  });
  std::uint64_t covered = 0;
  std::size_t kept = 0;
  while (kept < kinds.size() && covered * 100 < std::uint64_t{pods.size()} * percent) {
    covered += kinds[kept++].count;
  }
  kinds.resize(kept);
  return kinds;
}

}  // namespace tessera::sim
