// Compares the `best_effort` policy with the expectations of NVIDIA's own tests and with a plain
// enumeration of all partitions.
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/json_reader.h"
#include "machines.h"
#include "topology/partition_table.h"
#include "topology/set_search.h"

namespace tessera::topology {
namespace {

GpuMask mask_of(std::initializer_list<unsigned> gpus) {
  GpuMask mask = 0;
  for (const unsigned gpu : gpus) {
    mask |= gpu_bit(gpu);
  }
  return mask;
}

GpuMask best_effort(const SetTables& tables, GpuMask free, unsigned count, GpuMask required = 0) {
  const auto choice = choose_best_effort(tables, {.free = free, .count = count, .required = required});
  return choice ? choice->gpus : 0;
}

TEST(BestEffort, MatchesNvidiasTestsOnADgx1) {
  struct Case {
    GpuMask free;
    GpuMask required;
    unsigned count;
    GpuMask expected;
  };
  const SetTables tables(dgx1_volta());
  for (const Case& c :
       {Case{mask_of({0, 2, 4, 5}), 0, 2, mask_of({4, 5})},
        Case{mask_of({0, 4, 5, 6}), 0, 2, mask_of({5, 6})}, Case{mask_of({0, 1, 3}), 0, 2, mask_of({0, 3})},
        Case{mask_of({0, 1, 4}), 0, 2, mask_of({0, 4})}, Case{0xff, mask_of({4}), 1, mask_of({4})},
        Case{0xff, mask_of({4}), 2, mask_of({4, 7})}, Case{0xff, mask_of({4}), 4, mask_of({4, 5, 6, 7})},
        Case{0xfe, mask_of({0, 1, 2, 3}), 4, 0}, Case{0xff, mask_of({0, 2, 4, 6}), 4, mask_of({0, 2, 4, 6})},
        Case{0xff, mask_of({1, 2, 3, 4, 5, 6}), 4, 0}}) {
    EXPECT_EQ(best_effort(tables, c.free, c.count, c.required), c.expected)
        << "free " << gpu_list(c.free) << " count " << c.count << " required " << gpu_list(c.required);
  }
}

TEST(BestEffort, AllocatesAMachineInNvidiasOrder) {
  const SetTables volta(dgx1_volta());
  const SetTables pascal(dgx1_pascal());
  const auto sequence = [](const SetTables& tables, unsigned count) {
    std::vector<std::string> sets;
    GpuMask free = 0xff;
    while (const GpuMask set = best_effort(tables, free, count)) {
      sets.push_back(gpu_list(set));
      free &= ~set;
    }
    return sets;
  };
  EXPECT_EQ(sequence(volta, 2), (std::vector<std::string>{"0,3", "1-2", "4,7", "5-6"}));
  EXPECT_EQ(sequence(volta, 4), (std::vector<std::string>{"0-3", "4-7"}));
  EXPECT_EQ(sequence(pascal, 2), (std::vector<std::string>{"0,2", "1,3", "4,6", "5,7"}));
  EXPECT_EQ(sequence(pascal, 4), (std::vector<std::string>{"0-3", "4-7"}));
}

// NVIDIA's code pads the last set. On this machine the padded set is the best one, so NVIDIA's code
// returns it and panics. The result must be the best complete set of the best partition.
TEST(BestEffort, NeverReturnsThePaddedSet) {
  Topology box(5);
  for (unsigned a = 0; a < 5; ++a) {
    for (unsigned b = 0; b < a; ++b) {
      box.set_link(a, b, Link{.path = a <= 2 ? PciePath::kPix : PciePath::kSys});
    }
  }
  box.set_link(3, 4, nvlink(12, 3, PciePath::kSys));
  EXPECT_EQ(best_effort(SetTables(box), 0b11111, 3), 0b00111U);
}

// T5: best_effort of the original topology scheduler crashed on every one-GPU request, and if all
// scores were 0.
TEST(BestEffort, ChoosesASingleGpuAndGpusWithScoreZero) {
  EXPECT_EQ(best_effort(SetTables(dgx1_volta()), 0xf0, 1), 0x10U);
  const SetTables unknown{Topology(4)};
  EXPECT_EQ(best_effort(unknown, 0b1110, 1), 0b0010U);
  EXPECT_EQ(best_effort(unknown, 0b1111, 2), 0b0011U);
  EXPECT_EQ(best_effort(unknown, 0b0111, 2), 0b0011U);
  EXPECT_EQ(best_effort(SetTables(Topology(1)), 1, 1), 1U);
}

// Enumerates every partition in NVIDIA's order: the first GPU with every ascending combination of
// other GPUs, then the rest.
class Enumeration {
 public:
  Enumeration(const Topology& box, GpuMask free, unsigned count, GpuMask required)
      : box_(box), count_(count), required_(required) {
    for (const unsigned gpu : GpuIndices(free)) {
      gpus_.push_back(gpu);
    }
    while (gpus_.size() % count != 0) {
      gpus_.push_back(kPad);
      ++pads_;
    }
    divide(gpus_, 0);
  }

  // The best complete set of the first best partition.
  [[nodiscard]] GpuMask best_set() const {
    GpuMask best = 0;
    std::int32_t most = -1;
    for (const auto& set : best_) {
      if (complete(set) && (mask(set) & required_) == required_ && score(set) > most) {
        most = score(set);
        best = mask(set);
      }
    }
    return best;
  }
  [[nodiscard]] std::int32_t best_total() const { return total_; }

 private:
  static constexpr unsigned kPad = 99;
  using Set = std::vector<unsigned>;

  void divide(const Set& left, std::int32_t sum) {
    if (left.empty()) {
      const bool has_required = std::ranges::any_of(
          parts_, [&](const Set& set) { return complete(set) && (mask(set) & required_) == required_; });
      if (sum > total_ && has_required) {
        total_ = sum;
        best_ = parts_;
      }
      return;
    }
    extend({left.front()}, left, 1, sum);
  }

  void extend(const Set& set, const Set& left, std::size_t from, std::int32_t sum) {
    if (set.size() == count_) {
      const auto pads = static_cast<unsigned>(std::ranges::count(set, kPad));
      if (pads != 0 && pads != pads_) {
        return;
      }
      Set rest = left;
      for (const unsigned gpu : set) {
        rest.erase(std::ranges::find(rest, gpu));
      }
      parts_.push_back(set);
      divide(rest, sum + score(set));
      parts_.pop_back();
      return;
    }
    for (std::size_t i = from; i < left.size(); ++i) {
      Set longer = set;
      longer.push_back(left[i]);
      extend(longer, left, i + 1, sum);
    }
  }

  static bool complete(const Set& set) { return std::ranges::count(set, kPad) == 0; }
  static GpuMask mask(const Set& set) {
    GpuMask mask = 0;
    for (const unsigned gpu : set) {
      mask |= gpu == kPad ? 0 : gpu_bit(gpu);
    }
    return mask;
  }
  [[nodiscard]] std::int32_t score(const Set& set) const { return pair_sum(box_, mask(set)); }

  const Topology& box_;
  unsigned count_;
  GpuMask required_;
  Set gpus_;
  unsigned pads_ = 0;
  std::vector<Set> parts_;
  std::vector<Set> best_;
  std::int32_t total_ = -1;
};

TEST(BestEffort, MatchesTheEnumerationForEveryFreeSetOfADgx1) {
  for (const Topology& box : {dgx1_volta(), dgx1_pascal()}) {
    const SetTables tables(box);
    for (GpuMask free = 1; free < 256; ++free) {
      for (unsigned count = 1; count <= gpu_count(free); ++count) {
        const Enumeration all(box, free, count, 0);
        ASSERT_EQ(best_effort(tables, free, count), all.best_set()) << gpu_list(free) << " / " << count;
        ASSERT_EQ(tables.partitions(count).best_total(free), all.best_total())
            << gpu_list(free) << " / " << count;
      }
    }
  }
}

TEST(BestEffort, MatchesTheEnumerationWithRequiredGpus) {
  const Topology box = dgx1_volta();
  const SetTables tables(box);
  for (const GpuMask free : {GpuMask{0xff}, GpuMask{0xdd}, GpuMask{0x7e}}) {
    for (GpuMask required = 1; required < 256; ++required) {
      for (unsigned count = gpu_count(required); (required & ~free) == 0 && count <= gpu_count(free);
           ++count) {
        ASSERT_EQ(best_effort(tables, free, count, required),
                  Enumeration(box, free, count, required).best_set())
            << gpu_list(free) << " / " << count << " with " << gpu_list(required);
      }
    }
  }
}

// The test vectors collected from NVIDIA's code, with the link matrices that they apply to.
class GoldenVectors : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = TESSERA_SHARED_DATA "/golden/go-gpuallocator-golden.json";
    if (!std::filesystem::exists(path)) {
      GTEST_SKIP() << "no shared data at " << path << "; the golden vectors are not checked";
    }
    document_ = *parse_json(*read_file(path));
  }

  [[nodiscard]] JsonReader root() const { return {document_, "golden"}; }

  static GpuMask mask(const JsonReader& reader, std::string_view key) {
    GpuMask gpus = 0;
    for (const JsonReader& gpu : take_value(reader.array(key, 64))) {
      gpus |= gpu_bit(static_cast<unsigned>(*gpu.as_integer(0, 63)));
    }
    return gpus;
  }

  static Topology machine(const JsonReader& reader) {
    const auto gpus = static_cast<unsigned>(*reader.integer("gpus", 1, 64));
    Topology box(gpus);
    const auto paths = *reader.array("pcie", 64);
    const auto links = *reader.array("nvlink_count", 64);
    for (unsigned a = 0; a < gpus; ++a) {
      for (unsigned b = 0; b < a; ++b) {
        const auto count = static_cast<unsigned>(*(*links[a].as_array(64))[b].as_integer(0, 36));
        box.set_link(a, b, nvlink(count, 2, *parse_pcie_path(*(*paths[a].as_array(64))[b].as_text())));
      }
    }
    return box;
  }

  boost::json::value document_;
};

TEST_F(GoldenVectors, PairScoresMatch) {
  for (const auto& [name, reader] : take_value(root().object("topologies")->as_object(10))) {
    const Topology box = machine(reader);
    const auto scores = *reader.array("pair_score", 64);
    for (unsigned a = 0; a < box.size(); ++a) {
      for (unsigned b = 0; b < a; ++b) {
        EXPECT_EQ(pair_score(box.link(a, b)), *(*scores[a].as_array(64))[b].as_integer(0, 10'000)) << name;
      }
    }
  }
}

TEST_F(GoldenVectors, EveryChoiceMatches) {
  unsigned checked = 0;
  for (const JsonReader& vector : take_value(root().array("vectors", 100))) {
    const std::string name = *vector.text("topology");
    const SetTables tables(machine(*root().object("topologies")->object(name)));
    const SetQuery query{.free = mask(vector, "available"),
                         .count = static_cast<unsigned>(*vector.integer("size", 0, 64)),
                         .required = mask(vector, "required")};
    const auto choice = choose_best_effort(tables, query);
    EXPECT_EQ(choice ? choice->gpus : 0, mask(vector, "expect")) << vector.path();
    EXPECT_EQ(choice ? tables.pair_sum(choice->gpus) : 0, *vector.integer("set_score", 0, 10'000));
    ++checked;
  }
  EXPECT_EQ(checked, 11U);
}

TEST_F(GoldenVectors, EverySequenceMatches) {
  unsigned checked = 0;
  for (const JsonReader& sequence : take_value(root().array("sequences", 100))) {
    const SetTables tables(machine(*root().object("topologies")->object(*sequence.text("topology"))));
    GpuMask free = tables.topology().all();
    for (const JsonReader& step : take_value(sequence.array("steps", 100))) {
      const GpuMask set = best_effort(tables, free, static_cast<unsigned>(*step.integer("size", 1, 64)));
      ASSERT_EQ(set, mask(step, "expect")) << step.path();
      free &= ~set;
      ++checked;
    }
  }
  EXPECT_GT(checked, 30U);
}

TEST_F(GoldenVectors, ChoicesOnIdleMachinesMatch) {
  for (const JsonReader& extra : take_value(root().array("computed_extra", 100))) {
    const SetTables tables(machine(*root().object("topologies")->object(*extra.text("topology"))));
    const auto count = static_cast<unsigned>(*extra.integer("size", 1, 64));
    const GpuMask set = best_effort(tables, tables.topology().all(), count);
    EXPECT_EQ(set, mask(extra, "besteffort_set")) << extra.path();
    EXPECT_EQ(tables.pair_sum(set), *extra.integer("besteffort_score", 0, 10'000)) << extra.path();
  }
}

TEST_F(GoldenVectors, ThePaddedSetIsNotChosen) {
  const JsonReader bug = *root().object("known_bug_padded_set_PR80");
  EXPECT_EQ(best_effort(SetTables(machine(bug)), mask(bug, "available"), 3),
            mask(bug, "partition_optimal_complete_set"));
}

}  // namespace
}  // namespace tessera::topology
