// Runs the search on the matrices of real machines, as printed by `nvidia-smi topo -m`.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../base/thread_cpu.h"
#include "base/file.h"
#include "topology/set_search.h"
#include "topology/topo_text.h"

namespace tessera::topology {
namespace {

class RealMachines : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path directory = std::filesystem::path(TESSERA_SHARED_DATA) / "topologies";
    if (!std::filesystem::exists(directory)) {
      GTEST_SKIP() << "no shared data at " << directory << "; the matrices of real machines are not searched";
    }
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      if (entry.path().extension() == ".txt") {
        const auto parsed = parse_topo_text(read_file(entry.path().string()).value());
        ASSERT_TRUE(parsed) << entry.path();
        machines.emplace_back(entry.path().filename().string(), parsed->topology);
      }
    }
    ASSERT_GE(machines.size(), 16U);
  }

  static Topology renumbered(const Topology& box, const std::vector<unsigned>& to) {
    Topology other(box.size());
    for (unsigned a = 0; a < box.size(); ++a) {
      other.place(to[a]) = box.place(a);
      for (unsigned b = 0; b < a; ++b) {
        other.set_link(to[a], to[b], box.link(a, b));
      }
    }
    other.nics = box.nics;
    for (std::size_t nic = 0; nic < box.nics.size(); ++nic) {
      for (unsigned a = 0; a < box.size(); ++a) {
        other.nics[nic].paths[to[a]] = box.nics[nic].paths[a];
      }
    }
    other.pcie_generation = box.pcie_generation;
    other.socket_mbps = box.socket_mbps;
    return other;
  }

  std::vector<std::pair<std::string, Topology>> machines;
};

TEST_F(RealMachines, QualityDoesNotDependOnTheNumberingOfGpus) {
  std::mt19937 random(11);
  for (const auto& [name, box] : machines) {
    const SetTables tables(box);
    std::vector<unsigned> to(box.size());
    std::iota(to.begin(), to.end(), 0U);
    for (int i = 0; i < 3; ++i) {
      std::ranges::shuffle(to, random);
      const SetTables other(renumbered(box, to));
      for (unsigned count = 1; count <= box.size(); ++count) {
        const auto one = choose_ring(tables, {.free = box.all(), .count = count});
        const auto two = choose_ring(other, {.free = box.all(), .count = count});
        ASSERT_TRUE(one && two) << name << ", " << count;
        EXPECT_EQ(one->ring_mbps, two->ring_mbps) << name << ", " << count;
        EXPECT_EQ(one->left_after, two->left_after) << name << ", " << count;
      }
    }
  }
}

TEST_F(RealMachines, ChoiceIsDeterministic) {
  for (const auto& [name, box] : machines) {
    const SetTables tables(box);
    const SetTables again(box);
    for (unsigned count = 1; count <= box.size(); ++count) {
      EXPECT_EQ(choose_ring(tables, {.free = box.all(), .count = count})->gpus,
                choose_ring(again, {.free = box.all(), .count = count})->gpus)
          << name << ", " << count;
    }
  }
}

// The largest machine has 16 GPUs.
TEST_F(RealMachines, EveryChoiceTakesLessThan200Milliseconds) {
  for (const auto& [name, box] : machines) {
    const SetTables tables(box);
    for (unsigned count = 1; count <= box.size(); ++count) {
      const auto begun = thread_cpu();
      ASSERT_TRUE(choose_ring(tables, {.free = box.all(), .count = count}));
      EXPECT_LT(thread_cpu() - begun, std::chrono::milliseconds(200)) << name << ", " << count;
    }
  }
}

}  // namespace
}  // namespace tessera::topology
