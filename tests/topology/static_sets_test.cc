#include "topology/static_sets.h"

#include <gtest/gtest.h>

#include "machines.h"

namespace tessera::topology {
namespace {

Result<StaticSets> read(std::string_view text) {
  const boost::json::value document = TRY(parse_json(text));
  return StaticSets::from_json(JsonReader(document, "static.json"));
}

std::string error_of(std::string_view text) {
  const auto result = read(text);
  return result ? "" : result.error().text();
}

// NVIDIA's static tables for DGX-1 and the example of the original topology scheduler have this
// format.
constexpr std::string_view kDgx1 = R"({"dgx1v": {"2": [[0,3],[1,2],[4,7],[5,6]], "4": [[0,1,2,3],[4,5,6,7]],
                                                "8": [[0,1,2,3,4,5,6,7]]}})";

class StaticChoice : public ::testing::Test {
 protected:
  [[nodiscard]] std::string choose(GpuMask free, unsigned count, GpuMask required = 0,
                                   std::string_view type = "dgx1v") const {
    const auto choice = sets_.choose(tables_, type, {.free = free, .count = count, .required = required});
    return choice ? gpu_list(choice->gpus) : choice.error().text();
  }

  SetTables tables_{dgx1_volta()};
  StaticSets sets_ = *read(kDgx1);
};

TEST_F(StaticChoice, ChoosesTheFirstListedSetThatIsFree) {
  EXPECT_EQ(choose(0xff, 2), "0,3");
  EXPECT_EQ(choose(0b1111'0110, 2), "1-2");
  EXPECT_EQ(choose(0b1111'0000, 4), "4-7");
  EXPECT_EQ(choose(0xff, 2, 0b0010'0000), "5-6");
}

// T7: the original took the first n GPUs of a larger set, which ignored links, and returned them
// together with an error.
TEST_F(StaticChoice, ChoosesTheBestPartOfALargerListedSet) {
  EXPECT_EQ(choose(0xff, 3), gpu_list(choose_ring(tables_, {.free = 0b1111, .count = 3})->gpus));
  EXPECT_EQ(choose(0xff, 1), gpu_list(choose_ring(tables_, {.free = 0b1001, .count = 1})->gpus));
  EXPECT_EQ(choose(0xff, 5), gpu_list(choose_ring(tables_, {.free = 0xff, .count = 5})->gpus));
}

// T7: a missing table entry must not fail the bind; the caller can try another policy or node.
TEST_F(StaticChoice, ReturnsTheReasonIfItHasNoSet) {
  EXPECT_EQ(choose(0b0101'0101, 2), "no set of 2 GPUs listed for machine type \"dgx1v\" is free");
  EXPECT_EQ(choose(0xff, 2, 0, "ecs.gn5"), "the static table has no entry for machine type \"ecs.gn5\"");
  EXPECT_EQ(sets_.choose(tables_, "ecs.gn5", {.free = 1, .count = 1}).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(sets_.choose(tables_, "dgx1v", {.free = 1, .count = 2}).error().code(), ErrorCode::kExhausted);
  EXPECT_EQ(choose(0b0000'0101, 2, 0b101), "no set of 2 GPUs listed for machine type \"dgx1v\" is free");
}

TEST_F(StaticChoice, ReturnsTheMachineNameThatIsListed) {
  EXPECT_EQ(sets_.listed("dgx1v", "ecs.gn5"), "dgx1v");
  EXPECT_EQ(sets_.listed("Alibaba Cloud ECS", "dgx1v"), "dgx1v");
  EXPECT_EQ(sets_.listed("Alibaba Cloud ECS", "ecs.gn5"), "Alibaba Cloud ECS");
  EXPECT_EQ(sets_.listed("dgx1v", ""), "dgx1v");
}

TEST_F(StaticChoice, IgnoresListedGpusThatTheMachineLacks) {
  const SetTables four{pcie_tree(4)};
  EXPECT_EQ(gpu_list(sets_.choose(four, "dgx1v", {.free = 0xff, .count = 2})->gpus), "0,3");
  EXPECT_FALSE(sets_.choose(four, "dgx1v", {.free = 0xff, .count = 5}));
}

TEST(StaticSets, StarAppliesToEveryOtherType) {
  const auto sets = read(R"({"*": {"2": [[2,3]]}, "dgx1v": {"2": [[0,1]]}})");
  const SetTables tables(dgx1_volta());
  EXPECT_EQ(sets->choose(tables, "whatever", {.free = 0xff, .count = 2})->gpus, 0b1100U);
  EXPECT_EQ(sets->choose(tables, "dgx1v", {.free = 0xff, .count = 2})->gpus, 0b0011U);
}

TEST(StaticSets, ErrorNamesTheInvalidEntry) {
  EXPECT_EQ(error_of(R"({"dgx": {"2": [[0,1],[2]]}})"),
            "static.json.dgx.2[1] has 1 GPUs but is listed under 2");
  EXPECT_EQ(error_of(R"({"dgx": {"2": [[0,0]]}})"), "static.json.dgx.2[0][1] repeats GPU 0");
  EXPECT_EQ(error_of(R"({"dgx": {"two": []}})"),
            "static.json.dgx.two has the key \"two\", which is not a number of GPUs (1 to 64)");
  EXPECT_EQ(error_of(R"({"dgx": {"1": [[64]]}})"), "static.json.dgx.1[0][0] is 64, not in 0..63");
  EXPECT_NE(error_of(R"([1])"), "");
}

}  // namespace
}  // namespace tessera::topology
