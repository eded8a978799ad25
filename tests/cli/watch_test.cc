// --watch, colours and narrow terminals of why, check and topo, in the real program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "program.h"
#include "saved_cluster.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Environment kColours{{"TERM", "xterm"}, {"NO_COLOR", ""}};
const Environment kNoColours{{"TERM", "xterm"}, {"NO_COLOR", "1"}};

// A node with one GPU that a pod fills, and a pod that waits for it.
void fill_node(SavedCluster& cluster) {
  cluster.node("gpu-a", inventory_of("a", 1, 16384));
  cluster.pod("ml", "train", "gpu-a", {.units = 16, .annotations = record(share_record({{"GPU-a-0", 16}}))});
  cluster.pod("ml", "next", "", {.units = 8, .phase = "Pending"});
}

TEST(Watch, WhyRedrawsWhenThePodFits) {
  SavedCluster cluster;
  fill_node(cluster);
  TerminalProgram program(
      "tessera", {"why", "ml/next", "--file", cluster.write(), "--watch", "--interval", "1"}, kColours);
  ASSERT_TRUE(program.read_until("\x1b[?1049h")) << program.output();
  ASSERT_TRUE(program.read_until("No node fits now.")) << program.output();
  cluster.node("gpu-b", inventory_of("b", 1, 16384));
  cluster.write();
  ASSERT_TRUE(program.read_until("\x1b[H")) << "the cursor must move home, so that nothing flickers";
  ASSERT_TRUE(program.read_until("It fits now on 1 node")) << program.output();
  program.signal(SIGINT);
  EXPECT_EQ(program.finish(), 0);
  EXPECT_THAT(program.output().substr(program.output().rfind("\x1b[?1049l")),
              HasSubstr("It fits now on 1 node"));
}

TEST(Watch, CheckEndsWithTheCodeOfTheLastFindings) {
  SavedCluster cluster;
  fill_node(cluster);
  TerminalProgram program("tessera", {"check", "--file", cluster.write(), "--watch", "--interval", "1"},
                          kColours);
  ASSERT_TRUE(program.read_until("0 errors")) << program.output();
  cluster.pod("ml", "ghost", "gone", {.units = 3});
  cluster.write();
  ASSERT_TRUE(program.read_until("1 error")) << program.output();
  program.signal(SIGTERM);
  EXPECT_EQ(program.finish(), 3);
}

TEST(Watch, TopoRedrawsAtTheNewWidthOfTheTerminal) {
  SavedCluster cluster;
  cluster.node("gpu-a", inventory_of("a", 12, 16384));
  TerminalProgram program(
      "tessera", {"topo", "gpu-a", "--file", cluster.write(), "--watch", "--interval", "3600"}, kColours);
  ASSERT_TRUE(program.read_until("GPU11  NUMA")) << program.output();
  program.resize(24, 60);
  ASSERT_TRUE(program.read_until("\x1b[H")) << program.output();
  ASSERT_TRUE(program.read_until("GPU8\x1b[K")) << "the matrix must continue below: " << program.output();
  program.signal(SIGINT);
  EXPECT_EQ(program.finish(), 0);
}

TEST(Watch, LeavesTheLastColumnFree) {
  SavedCluster cluster;
  cluster.node("gpu-a", inventory_of("a", 12, 16384));
  TerminalProgram program(
      "tessera", {"topo", "gpu-a", "--file", cluster.write(), "--watch", "--interval", "3600"}, kColours);
  ASSERT_TRUE(program.read_until("GPU11  NUMA")) << program.output();
  program.resize(24, 59);
  ASSERT_TRUE(program.read_until("GPU7\x1b[K")) << "GPU8 would end in column 59, which \\x1b[K would erase";
  program.signal(SIGINT);
  EXPECT_EQ(program.finish(), 0);
}

TEST(Watch, WritesIntoAPipeAndEndsWithItsReader) {
  SavedCluster cluster;
  fill_node(cluster);
  const std::string directory = cluster.write();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"why", "ml/next"}, {"check"}, {"topo", "gpu-a"}}) {
    std::vector<std::string> line = words;
    line.insert(line.end(), {"--file", directory, "--watch"});
    EXPECT_NE(run_and_close_pipe("tessera", line, words[0] == "topo" ? "LINK" : "node"), -1) << words[0];
  }
}

TEST(Watch, NeedsANodeForTopo) {
  const Outcome outcome = run_in_pipe("tessera", {"topo", "--machine", "dgx1v", "--watch"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--watch: NODE is required"));
}

TEST(Watch, ReportsFilesThatDoNotExist) {
  EXPECT_EQ(run_in_pipe("tessera", {"inspect", "--file", "/nowhere", "--watch"}).code, 1);
}

TEST(Colours, AreOnlyUsedOnATerminalThatWantsThem) {
  SavedCluster cluster;
  fill_node(cluster);
  const std::string directory = cluster.write();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"why", "ml/next"}, {"check"}, {"topo", "gpu-a"}}) {
    std::vector<std::string> line = words;
    line.insert(line.end(), {"--file", directory});
    EXPECT_THAT(run_on_terminal("tessera", line, kColours).out, HasSubstr("\x1b[33m")) << words[0];
    EXPECT_THAT(run_on_terminal("tessera", line, kNoColours).out, Not(HasSubstr("\x1b["))) << words[0];
    EXPECT_THAT(run_in_pipe("tessera", line, kColours).out, Not(HasSubstr("\x1b["))) << words[0];
  }
}

}  // namespace
}  // namespace tessera::cli
