#include "sim/replay.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>

#include "sim/fragmentation.h"

namespace tessera::sim {

namespace {

// Processor time of this thread. Wall time would include other runs on the same machine.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The fragmentation of all nodes together, updated when one node changes.
class ClusterFragmentation {
 public:
  ClusterFragmentation(const SimulatedCluster& cluster, const std::vector<PodKind>& kinds)
      : cluster_(cluster), measure_(kinds, cluster.ledger()) {
    for (const alloc::NodeId node : cluster.nodes()) {
      update(node);
    }
  }

  void update(alloc::NodeId node) {
    by_node_.resize(std::max(by_node_.size(), raw(node) + std::size_t{1}));
    const std::uint64_t now = measure_.of(cluster_.ledger().view(node));
    sum_ += now - by_node_[raw(node)];
    by_node_[raw(node)] = now;
  }

  [[nodiscard]] double percent() const {
    return 100.0 * static_cast<double>(sum_) / static_cast<double>(measure_.weight()) /
           static_cast<double>(cluster_.capacity_milli());
  }

 private:
  const SimulatedCluster& cluster_;
  Fragmentation measure_;
  std::vector<std::uint64_t> by_node_;
  std::uint64_t sum_ = 0;
};

// Collects measurements by whole percents of load.
class Curve {
 public:
  void add(double load_percent, double allocated, double fragmented) {
    Sum& sum = sums_[static_cast<int>(std::lround(load_percent))];
    ++sum.moments;
    sum.allocated += allocated;
    sum.fragmented += fragmented;
  }
  [[nodiscard]] std::vector<LoadPoint> points() const {
    std::vector<LoadPoint> points;
    for (const auto& [load, sum] : sums_) {
      points.push_back({.load_percent = load,
                        .allocated_percent = sum.allocated / sum.moments,
                        .fragmented_percent = sum.fragmented / sum.moments});
    }
    return points;
  }

 private:
  struct Sum {
    double moments = 0;
    double allocated = 0;
    double fragmented = 0;
  };
  std::map<int, Sum> sums_;
};

}  // namespace

std::optional<LoadPoint> RunResult::at(int load_percent) const {
  if (curve.empty() || load_percent > std::max(last_load_percent, curve.back().load_percent)) {
    return std::nullopt;
  }
  const auto beyond = std::ranges::upper_bound(curve, load_percent, {}, &LoadPoint::load_percent);
  return beyond == curve.begin() ? std::nullopt : std::optional(*std::prev(beyond));
}

Result<RunResult> replay(const Setting& setting, const PolicyName& name, std::uint64_t seed) {
  const double started = processor_seconds();
  const Scenario scenario = draw_scenario(setting.trace, seed, setting.load_milli);
  SimulatedCluster cluster(setting.trace, scenario, setting.shapes);
  const std::unique_ptr<PlacementPolicy> policy =
      make_policy(name, cluster, name.reference ? setting.kinds : setting.fgd_kinds);
  ClusterFragmentation fragmentation(cluster, setting.kinds);
  // A separate generator, so that every policy gets the same scenario.
  Random random(seed ^ 0x74657373657261U);

  RunResult result;
  result.seed = seed;
  Curve curve;
  const auto capacity = static_cast<double>(cluster.capacity_milli());
  std::int64_t arrived = 0;
  for (const std::uint32_t pod : scenario.pods) {
    const std::uint32_t shape = setting.shapes.of_pod[pod];
    arrived += cluster.shape(shape).requested_gpu_milli();
    const double load = 100.0 * static_cast<double>(arrived) / capacity;
    if (const auto choice = policy->choose(shape, random)) {
      TRY(with_context(cluster.allocate(shape, *choice), "policy " + std::string(name.name)));
      fragmentation.update(choice->node);
      ++result.placed;
    } else {
      ++result.refused;
      result.first_refusal_percent = result.first_refusal_percent.value_or(load);
    }
    curve.add(load, 100.0 * static_cast<double>(cluster.allocated_milli()) / capacity,
              fragmentation.percent());
  }
  result.curve = curve.points();
  result.last_load_percent = static_cast<int>(setting.load_milli / 10);
  result.seconds = processor_seconds() - started;
  return result;
}

}  // namespace tessera::sim
