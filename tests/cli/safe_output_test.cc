// Text from the cluster cannot control the terminal.
#include "cli/output/safe_output.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <sstream>

#include "cli/output/table.h"
#include "cli/output/yaml_print.h"
#include "program.h"
#include "saved_cluster.h"

namespace tessera::cli {
namespace {

// Sets the title, clears the screen, and does both with one-byte controls and C1 in UTF-8.
const std::string kHostile =
    "T4\x1b]0;pwned\x07\x1b[2J\r\x7f\xc2\x9b"
    "2J\u202egpj\u2066\u200f\u061c\u2028"
    "\nERROR forged";
constexpr const char* kHarmless =
    R"(T4\u001b]0;pwned\u0007\u001b[2J\u000d\u007f\u009b2J\u202egpj\u2066\u200f\u061c\u2028\u000aERROR forged)";

TEST(SafeOutput, EscapesControlCharacters) {
  EXPECT_EQ(printable(kHostile), kHarmless);
  EXPECT_EQ(printable("V100 32 GiB, 75 % \"ä\" 模型 ████░ 👍"), "V100 32 GiB, 75 % \"ä\" 模型 ████░ 👍");
  EXPECT_EQ(printable(std::string("\0\t\x1b[32m", 7)), R"(\u0000\u0009\u001b[32m)");
}

TEST(SafeOutput, ReplacesBytesThatAreNotUtf8) {
  for (const char* text : {"\x9b", "\xff", "\xc0", "\xc3", "\xe2\x82", "\xed\xa0\x80", "\xf5\x80\x80\x80"}) {
    const std::string safe = printable(text);
    EXPECT_FALSE(safe.empty());
    EXPECT_EQ(safe.find_first_not_of("\xEF\xBF\xBD"), std::string::npos) << text;
  }
}

TEST(SafeOutput, KeepsLinesAndItsOwnColours) {
  const Terminal terminal{.is_terminal = true, .colours = true};
  for (const Colour colour : {Colour::kGreen, Colour::kYellow, Colour::kRed, Colour::kDim}) {
    const std::string text = "a\t" + coloured("b", colour, terminal) + "\n";
    EXPECT_EQ(printable_lines(text), text);
  }
  EXPECT_EQ(printable_lines("a\x1b[8mb\x1b[H\r\n"), "a\\u001b[8mb\\u001b[H\\u000d\n");
}

TEST(SafeOutput, FiltersAStreamUntilItEnds) {
  std::ostringstream out;
  {
    const SafeOutput safe(out);
    out << "a\x1b[2Jb" << '\x1b' << '\n' << 7 << std::flush;
    for (const char byte : std::string("ä\xc2\x9b\xf0\x9f\x91\x8d\xe2")) {
      out << byte;
    }
    write_control(out, "\x1b[K");
    EXPECT_TRUE(out.good());
  }
  EXPECT_EQ(out.str(), "a\\u001b[2Jb\\u001b\n7ä\\u009b👍\x1b[K\xEF\xBF\xBD");
  out << "\x1b";
  EXPECT_TRUE(has(out.str(), "\xEF\xBF\xBD\x1b"));
}

TEST(SafeOutput, ACellIsOneLine) {
  Table table({"MODEL", "NOTE"});
  table.add({kHostile, {kHostile, Colour::kRed}});
  table.add({"T4", "-"});
  const std::string text = table.text({});
  EXPECT_EQ(std::ranges::count(text, '\n'), 3);
  EXPECT_EQ(printable_lines(text), text);
}

TEST(SafeOutput, YamlKeepsTheValueOfAString) {
  std::ostringstream out;
  {
    const SafeOutput safe(out);
    out << yaml_text(boost::json::object{{"a", "it's \u202e"}, {"b", "\xc2\x9b"}, {"c", "plain text"}});
  }
  EXPECT_EQ(out.str(), "a: \"it's \\u202e\"\nb: \"\\u009b\"\nc: 'plain text'\n");
}

// A compromised node controls its inventory, a tenant the annotations and names in its pods.
TEST(SafeOutput, NoCommandPassesOnControlCharacters) {
  SavedCluster cluster;
  alloc::Inventory inventory = inventory_of("gpu-a", 2, 32768, kHostile);
  inventory.gpus[1].unhealthy = kHostile;
  inventory.driver = kHostile;
  inventory.machine = kHostile;
  cluster.node("gpu-a", inventory);
  cluster.node_with_inventory_text("gpu-b", "{\"v\":1,\"x\":" + kHostile, 32, 1);
  cluster.pod("ml", "bad", "gpu-a", {.units = 4, .annotations = record(kHostile)});
  cluster.pod("ml", "held", "gpu-a", {.units = 4, .waiting_message = kHostile});
  cluster.pod("ml", "wants", "",
              {.units = 4, .annotations = {{"tessera.io/gpu-model", kHostile}}, .phase = "Pending"});
  cluster.placer("tessera-scheduler");
  const std::string file = cluster.write();
  const std::vector<std::vector<std::string>> lines = {
      {"check"},
      {"why", "wants", "-n", "ml"},
      {"why", "bad", "-n", "ml"},
      {"top", "node"},
      {"top", "pod"},
      {"inspect"},
      {"inspect", "-o", "wide"},
      {"inspect", "-d"},
      {"topo", "gpu-a"},
      {"check", "-o", "json"},
      {"check", "-o", "yaml"},
      {"inspect", "-o", "json"},
  };
  for (std::vector<std::string> words : lines) {
    words.insert(words.end(), {"--file", file});
    const Outcome outcome = run_in_pipe("tessera", words);
    const std::string all = outcome.out + outcome.err;
    EXPECT_FALSE(all.empty()) << words[0];
    EXPECT_EQ(printable_lines(all), all) << words[0] << " " << words[1];
    if (words[1] == "-o" && words[2] == "json") {
      boost::json::error_code error;
      boost::json::parse(outcome.out, error);
      EXPECT_FALSE(error) << words[0] << ": " << outcome.out;
    }
  }
  const std::string shown = run_in_pipe("tessera", {"inspect", "-o", "wide", "--file", file}).out;
  EXPECT_TRUE(has(shown, R"(T4\u001b]0;pwned)")) << shown;
}

}  // namespace
}  // namespace tessera::cli
