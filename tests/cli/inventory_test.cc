#include "cli/machine/inventory.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <sstream>

#include "alloc/inventory.h"
#include "base/json_reader.h"
#include "cli/output/yaml_print.h"
#include "golden.h"

namespace tessera::cli {
namespace {

namespace json = boost::json;

struct Printed {
  int code = 0;
  std::string out;
  std::string err;
};

Printed inventory(const InventoryOptions& options) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = run_inventory(options, out, err);
  return {code, out.str(), err.str()};
}

TEST(InventoryCommand, PrintsNodesForKwok) {
  expect_golden("inventory-l40s.yaml", inventory({.machine = "l40s", .name = "gpu", .count = 2}).out);
  expect_golden("inventory-mixed.json", inventory({.machine = "mixed", .unit = "MiB", .output = "json"}).out);
}

TEST(InventoryCommand, NumbersNodesSoThatTheySort) {
  const Printed printed = inventory({.machine = "pcie2s", .count = 1000, .output = "json"});
  const json::value list = *parse_json(printed.out, 64U << 20U);
  const json::array& items = list.at("items").as_array();
  ASSERT_EQ(items.size(), 1000U);
  EXPECT_EQ(items.front().at("metadata").at("name"), "pcie2s-000");
  EXPECT_EQ(items.back().at("metadata").at("name"), "pcie2s-999");
}

TEST(InventoryCommand, PrintsNodesThatTheLedgerCanRead) {
  const json::value node = *parse_json(inventory({.machine = "dgx2", .output = "json"}).out);
  const std::string text =
      node.at("metadata").at("annotations").at("tessera.io/inventory").as_string().c_str();
  const auto read = alloc::Inventory::parse(text);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->gpus.size(), 16U);
  EXPECT_EQ(node.at("status").at("capacity").at("aliyun.com/gpu-mem"), "512");
  EXPECT_EQ(node.at("status").at("capacity").at("aliyun.com/gpu"), "16");
  EXPECT_LT(text.size(), 32U * 1024);
}

TEST(InventoryCommand, ReportsInvalidOptions) {
  EXPECT_EQ(inventory({.machine = "dgx1v", .name = "GPU_A"}).err,
            "tessera: --name: \"GPU_A\" is not a valid node name; use lower-case letters, digits, - "
            "and .\n");
  EXPECT_EQ(inventory({.machine = "dgx1v", .unit = "GB"}).code, 1);
  EXPECT_EQ(inventory({.machine = "dgx9"}).code, 1);
}

TEST(YamlPrint, QuotesStringsThatYamlWouldMisread) {
  const json::value value = {{"plain", "a-b/c.d"},
                             {"number", "12"},
                             {"yes", "Yes"},
                             {"empty", ""},
                             {"quote", "it's"},
                             {"newline", "a\nb"},
                             {"truth", true},
                             {"none", nullptr},
                             {"list", {"x", 1}},
                             {"nothing", json::array()},
                             {"deep", {{{"k", "v"}, {"l", {1}}}}}};
  EXPECT_EQ(yaml_text(value),
            "plain: a-b/c.d\nnumber: '12'\n'yes': 'Yes'\nempty: ''\nquote: 'it''s'\nnewline: "
            "\"a\\nb\"\ntruth: true\n"
            "none: null\nlist:\n  - x\n  - 1\nnothing: []\ndeep:\n  - k: v\n    l:\n      - 1\n");
}

}  // namespace
}  // namespace tessera::cli
