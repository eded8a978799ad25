#include "cli/output/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/strings.h"

namespace tessera::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Terminal screen(unsigned columns) {
  return {.is_terminal = true, .rows = 24, .columns = columns};
}

Table nodes() {
  Table table({"NAME", "ROLE", "GPU_MEMORY(Allocated/Total)", "TEXT"},
              {.short_headers = {{"GPU_MEMORY(Allocated/Total)", "MEMORY"}},
               .drop = {"ROLE", "GPU_MEMORY(Allocated/Total)"},
               .wrap_last = true,
               .shorten = {"NAME"}});
  table.add({"gpu-a", "<none>", "3/32 GiB", "the pod does not tolerate the taint gpu=x:NoSchedule"});
  table.add({"gpu-b", "<none>", "0/32 GiB", "free"});
  return table;
}

TEST(Table, IsCompleteInAPipeAndOnAWideTerminal) {
  const std::string full =
      "NAME   ROLE    GPU_MEMORY(Allocated/Total)  TEXT\n"
      "gpu-a  <none>  3/32 GiB                     the pod does not tolerate the taint gpu=x:NoSchedule\n"
      "gpu-b  <none>  0/32 GiB                     free\n";
  EXPECT_EQ(nodes().text({}), full);
  EXPECT_EQ(nodes().text(screen(200)), full);
  EXPECT_EQ(nodes().text(screen(60).for_output("wide")), full);
}

TEST(Table, UsesShortHeadersBeforeItDropsColumns) {
  EXPECT_EQ(nodes().text(screen(70)),
            "NAME   ROLE    MEMORY    TEXT\n"
            "gpu-a  <none>  3/32 GiB  the pod does not tolerate the taint\n"
            "                         gpu=x:NoSchedule\n"
            "gpu-b  <none>  0/32 GiB  free\n");
}

TEST(Table, DropsColumnsInTheStatedOrder) {
  const std::string without_role = nodes().text(screen(46));
  EXPECT_THAT(without_role, Not(HasSubstr("ROLE")));
  EXPECT_THAT(without_role, HasSubstr("MEMORY"));
  const std::string without_memory = nodes().text(screen(34));
  EXPECT_EQ(without_memory,
            "NAME   TEXT\n"
            "gpu-a  the pod does not tolerate\n"
            "       the taint gpu=x:NoSchedule\n"
            "gpu-b  free\n");
}

TEST(Table, ContinuesColumnsBelowThatMustNotBeDropped) {
  Table matrix({"LINK", "GPU0", "GPU1", "GPU2"});
  matrix.add({"GPU0", ".", "NV1", "NV2"});
  EXPECT_EQ(matrix.text(screen(17)),
            "LINK  GPU0  GPU1\n"
            "GPU0  .     NV1\n"
            "\n"
            "LINK  GPU2\n"
            "GPU0  NV2\n");
}

TEST(Table, RepeatsTheColumnsThatIdentifyARow) {
  Table table({"NAMESPACE", "POD", "NEEDS", "NODE"}, {.keys = {"NAMESPACE", "POD"}});
  table.add({"ml", "a", "3 GiB on one GPU", "gpu-a"});
  table.add({"ml", "b", "4 GiB on one GPU", "gpu-b"});
  EXPECT_EQ(table.text(screen(34)),
            "NAMESPACE  POD  NEEDS\n"
            "ml         a    3 GiB on one GPU\n"
            "ml         b    4 GiB on one GPU\n"
            "\n"
            "NAMESPACE  POD  NODE\n"
            "ml         a    gpu-a\n"
            "ml         b    gpu-b\n");
}

TEST(Table, BreaksLongKeysInsteadOfLosingTheirEnd) {
  Table table({"NAMESPACE", "POD", "TEXT"}, {.wrap_last = true, .keys = {"NAMESPACE", "POD"}});
  table.add({"ml", "train-7b9c5d8f6-abcde", "no single GPU has room"});
  EXPECT_EQ(table.text(screen(40)),
            "NAMESPACE  POD          TEXT\n"
            "ml         train-7b9c5  no single GPU\n"
            "           d8f6-abcde   has room\n");
}

// Wrapping before the split into blocks left empty lines in the other blocks.
TEST(Table, HasNoEmptyLinesInABlockWhoseCellsFit) {
  Table table({"NODE", "SHORT BY", "FITS WHEN"}, {.wrap_last = true});
  table.add({"gpu-node-with-a-name", "3 GiB", "ml/notebook-with-a-long-name (11 GiB) and another pod end"});
  table.add({"gpu-b", "4 GiB", "never"});
  EXPECT_EQ(table.text(screen(40)),
            "NODE                  SHORT BY\n"
            "gpu-node-with-a-name  3 GiB\n"
            "gpu-b                 4 GiB\n"
            "\n"
            "NODE                  FITS WHEN\n"
            "gpu-node-with-a-name  ml/notebook-with-a\n"
            "                      -long-name (11\n"
            "                      GiB) and another\n"
            "                      pod end\n"
            "gpu-b                 never\n");
}

TEST(Table, ShortensLongNamesInTheirMiddle) {
  Table table({"NAME", "MEMORY"}, {.shorten = {"NAME"}});
  table.add({"ip-10-20-30-40.eu-central-1.compute.internal", "3/32 GiB"});
  EXPECT_EQ(table.text(screen(30)),
            "NAME                  MEMORY\n"
            "ip-10-20-...internal  3/32 GiB\n");
}

TEST(Shortened, KeepsBothEndsAndWholeCharacters) {
  EXPECT_EQ(shortened("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(shortened("abcdefghijk", 10), "abcd...ijk");
  EXPECT_EQ(shortened("ääääääääääää", 8), "äää...ää");
}

TEST(WrappedLines, BreakBetweenWords) {
  EXPECT_THAT(wrapped_lines("a bb ccc", 4), ElementsAre("a bb", "ccc"));
  EXPECT_THAT(wrapped_lines("a bb ccc", 0), ElementsAre("a bb ccc"));
  EXPECT_THAT(wrapped_lines("a\nb", 80), ElementsAre("a", "b"));
  EXPECT_THAT(wrapped_lines("x abcdefgh", 4), ElementsAre("x", "abcd", "efgh"));
  EXPECT_THAT(wrapped_lines("", 4), ElementsAre(""));
}

// For tables of random words at every width: no line is wider than the screen (unless one cell
// alone is), and colours are never cut.
TEST(Table, HasNoLineThatIsWiderThanTheScreen) {
  std::mt19937_64 random(13);
  const auto words = [&](std::size_t most) {
    std::string text;
    for (std::size_t n = 1 + random() % most; n > 0; --n) {
      text += (text.empty() ? "" : " ") + std::string(1 + random() % 9, "xyä"[random() % 2]);
    }
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    Table table({"AAAA", "BBBB(long)", "CC", "DDD", "TEXT"}, {.short_headers = {{"BBBB(long)", "BB"}},
                                                              .drop = {"DDD", "BBBB(long)"},
                                                              .wrap_last = round % 2 == 0,
                                                              .shorten = {"AAAA"}});
    for (int row = 0; row < 4; ++row) {
      table.add({words(2), words(1), {words(1), Colour::kRed}, words(1), words(round % 2 == 0 ? 12 : 1)});
    }
    for (unsigned columns = 30; columns < 130; columns += 7) {
      const std::string text = table.text(screen(columns));
      for (const std::string_view line : split(text, '\n')) {
        EXPECT_LE(display_width(line), columns) << line;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::cli
