// tests/topology/dgx1_stream.h
//
// Simulates a DGX-1V with a job queue that never runs empty: jobs of 1 to 5 GPUs, first come first
// served, each with an exponentially distributed run time. Used by the test and the benchmark.
//
// Measures the bandwidth of single-ring collectives with the numbers of MAPA (SC'21): 50 for two
// NVLinks, 25 for one, 10 for PCIe. Finds rings by trying all orders, not with the code under test.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <random>
#include <vector>

#include "topology/topology.h"

namespace tessera::topology {

class Dgx1Stream {
 public:
  struct Outcome {
    double ring_of_ideal = 0;  // mean over the jobs with two or more GPUs
    double with_pcie_hop = 0;  // fraction of these jobs
    double at_ideal = 0;
  };

  // Chooses `count` of the free GPUs for a job.
  using Chooser = std::function<GpuMask(GpuMask free, unsigned count)>;

  explicit Dgx1Stream(const Topology& dgx1) : rings_(256, 0) {
    for (GpuMask set = 0; set < 256; ++set) {
      rings_[set] = ring(dgx1, set);
      ideal_[gpu_count(set)] = std::max(ideal_[gpu_count(set)], rings_[set]);
    }
  }

  [[nodiscard]] Outcome run(const Chooser& choose, std::uint64_t seed, unsigned jobs = 20'000) const {
    std::mt19937_64 random(seed);
    std::exponential_distribution<double> service(1.0);
    using End = std::pair<double, GpuMask>;
    std::priority_queue<End, std::vector<End>, std::greater<>> running;
    GpuMask free = 0xff;
    double now = 0;
    double counted = 0;
    Outcome outcome;
    for (unsigned job = 0; job < jobs; ++job) {
      const auto count = static_cast<unsigned>(1 + random() % 5);
      while (gpu_count(free) < count) {
        now = running.top().first;
        free |= running.top().second;
        running.pop();
      }
      const GpuMask set = choose(free, count);
      free &= ~set;
      running.emplace(now + service(random), set);
      if (count > 1) {
        ++counted;
        outcome.ring_of_ideal += rings_[set] / ideal_.at(count);
        outcome.with_pcie_hop += rings_[set] <= kPcie ? 1 : 0;
        outcome.at_ideal += rings_[set] >= ideal_.at(count) ? 1 : 0;
      }
    }
    return {outcome.ring_of_ideal / counted, outcome.with_pcie_hop / counted, outcome.at_ideal / counted};
  }

  // The mean over seeds 1 .. `seeds`.
  [[nodiscard]] Outcome mean(const Chooser& choose, unsigned seeds) const {
    Outcome sum;
    for (unsigned seed = 1; seed <= seeds; ++seed) {
      const Outcome one = run(choose, seed);
      sum.ring_of_ideal += one.ring_of_ideal / seeds;
      sum.with_pcie_hop += one.with_pcie_hop / seeds;
      sum.at_ideal += one.at_ideal / seeds;
    }
    return sum;
  }

 private:
  static constexpr double kPcie = 10;

  static double ring(const Topology& box, GpuMask set) {
    std::vector<unsigned> order;
    for (const unsigned gpu : GpuIndices(set)) {
      order.push_back(gpu);
    }
    double best = 0;
    do {
      double slowest = 1e9;
      for (std::size_t i = 0; order.size() > 1 && i < order.size(); ++i) {
        const unsigned links = box.link(order[i], order[(i + 1) % order.size()]).nvlinks;
        slowest = std::min(slowest, links == 0 ? kPcie : 25.0 * links);
      }
      best = order.size() > 1 ? std::max(best, slowest) : 0;
    } while (order.size() > 1 && std::next_permutation(order.begin() + 1, order.end()));
    return best;
  }

  std::vector<double> rings_;
  std::array<double, 9> ideal_{};
};

}  // namespace tessera::topology
