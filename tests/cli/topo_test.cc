#include "cli/machine/topo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "../base/temporary_directory.h"
#include "base/file.h"
#include "base/json_reader.h"
#include "cli/app.h"
#include "golden.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

Outcome topo(const TopoOptions& options) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = run_topo(options, out, err);
  return {code, out.str(), err.str()};
}

// Runs the whole program and returns its exit code.
int tessera_exits(std::vector<std::string> words) {
  words.insert(words.begin(), "tessera");
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int code = run(static_cast<int>(arguments.size()), arguments.data());
  ::testing::internal::GetCapturedStdout();
  ::testing::internal::GetCapturedStderr();
  return code;
}

TEST(TopoCommand, ShowsTheLinksOfAMachine) {
  expect_golden("topo-dgx1v.txt", topo({.machine = "dgx1v"}).out);
  expect_golden("topo-dgx2.txt", topo({.machine = "dgx2"}).out);
}

TEST(TopoCommand, ShowsWhatEachPolicyChooses) {
  expect_golden("topo-dgx1v-ring.txt", topo({.machine = "dgx1v", .count = 5, .taken = "0"}).out);
  expect_golden("topo-dgx1v-best-effort.txt",
                topo({.machine = "dgx1v", .count = 2, .policy = "best_effort"}).out);
  expect_golden("topo-mixed-simple.txt",
                topo({.machine = "mixed", .count = 3, .policy = "simple", .taken = "1-2"}).out);
}

TEST(TopoCommand, PrintsTheSameFactsAsYaml) {
  const Outcome printed = topo({.machine = "dgx1v", .count = 4, .output = "yaml"});
  EXPECT_EQ(printed.code, 0) << printed.err;
  EXPECT_THAT(printed.out, HasSubstr("topology:\n"));
  EXPECT_THAT(printed.out, HasSubstr("\n  policy: ring\n"));
  EXPECT_EQ(tessera_exits({"topo", "--machine", "dgx1v", "-o", "yaml"}), 0);
}

TEST(TopoCommand, PrintsJsonThatItCanRead) {
  const Outcome printed = topo({.machine = "dgx1v", .count = 4, .taken = "0,3", .output = "json"});
  expect_golden("topo-dgx1v.json", printed.out);
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/topo.json";
  ASSERT_TRUE(write_file(path, printed.out));
  EXPECT_EQ(make_topo_view({.file = path})->topology, make_topo_view({.machine = "dgx1v"})->topology);
}

TEST(TopoCommand, DrawsAPicture) {
  expect_golden("topo-dgx1v.svg", topo({.machine = "dgx1v", .count = 4, .taken = "1", .output = "svg"}).out);
  expect_golden("topo-dgx2.svg", topo({.machine = "dgx2", .output = "svg"}).out);
}

class TopoFile : public ::testing::Test {
 protected:
  std::string file(const std::string& text) {
    const std::string path = directory_.path() + "/matrix.txt";
    EXPECT_TRUE(write_file(path, text));
    return path;
  }

  TemporaryDirectory directory_;
};

TEST_F(TopoFile, ReadsTheOutputOfNvidiaSmiAndNotesItsGuesses) {
  const Outcome shown = topo({.file = file("\tGPU0\tGPU1\tGPU2\tCPU Affinity\n"
                                           "GPU0\t X \tNV2\tSYS\t0-3\n"
                                           "GPU1\tNV1\t X \tSYS\t0-3\n")});
  EXPECT_EQ(shown.code, 0);
  EXPECT_THAT(shown.out, HasSubstr("3 GPUs, PCIe generation 3, 6 GB/s between sockets (guessed)"));
  EXPECT_THAT(shown.out,
              HasSubstr("note: GPU0 and GPU1: one side says NV2, the other NV1; using the slower one"));
  EXPECT_THAT(shown.out, HasSubstr("note: no row for GPU 2; its links are taken from the other rows"));
}

TEST_F(TopoFile, LocatesTheErrorInInvalidText) {
  const std::string path = file("GPU0 GPU1\nGPU0 X NVX\n");
  const Outcome bad = topo({.file = path});
  EXPECT_EQ(bad.code, 1);
  EXPECT_EQ(bad.out, "");
  EXPECT_EQ(bad.err,
            "tessera: " + path +
                ": line 2, column 8: \"NVX\" is not a link (SYS, NODE, PHB, PXB, PIX, PSB or NV1 to NV36)\n");
}

TEST_F(TopoFile, NotesThatEighteenLinksExistInTwoGenerations) {
  const Outcome shown = topo({.file = file("\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n")});
  EXPECT_THAT(shown.out, HasSubstr("note: 18 NVLinks: assuming generation 4 (H100)"));
}

TEST_F(TopoFile, ShowsTheRingOverTheFastestLinks) {
  // Bridges join 0 and 2, 1 and 3; the slowest link is the same without them.
  const std::string path = file(
      "\tGPU0\tGPU1\tGPU2\tGPU3\n"
      "GPU0\t X \tSYS\tNV4\tSYS\n"
      "GPU1\tSYS\t X \tSYS\tNV4\n"
      "GPU2\tNV4\tSYS\t X \tSYS\n"
      "GPU3\tSYS\tNV4\tSYS\t X \n");
  EXPECT_THAT(topo({.file = path, .count = 4}).out, HasSubstr("0 -NV4- 2 -SYS- 1 -NV4- 3 -SYS- 0"));
}

TEST_F(TopoFile, NamesTheInvalidFieldOfJson) {
  const std::string path = file(R"({"v":1,"gpus":2,"links":["NVX"]})");
  EXPECT_EQ(topo({.file = path}).err,
            "tessera: " + path + ": topology.links[0] has \"NVX\", which is not a link\n");
}

TEST_F(TopoFile, ChoosesByAStaticTable) {
  const std::string path = file(R"({"dgx1v": {"2": [[4,7]]}})");
  EXPECT_THAT(topo({.machine = "dgx1v", .count = 2, .policy = "static", .static_table = path}).out,
              HasSubstr("2 of 8 free GPUs by static: GPU 4,7"));
  EXPECT_EQ(topo({.machine = "dgx1v", .count = 4, .policy = "static", .static_table = path}).err,
            "tessera: no set of 4 GPUs listed for machine type \"dgx1v\" is free\n");
}

TEST(TopoCommand, ExplainsWhyItCannotChooseGpus) {
  EXPECT_EQ(topo({.machine = "l40s", .count = 4, .taken = "2"}).err,
            "tessera: 4 GPUs requested, but only 3 of 4 are free\n");
  EXPECT_EQ(topo({.machine = "l40s", .taken = "4"}).err,
            "tessera: --taken: GPU 4 does not exist; the machine has GPU 0 to 3\n");
  EXPECT_EQ(topo({.file = "/nowhere"}).code, 1);
}

TEST(TopoCommand, ExitsWithTwoOnAnInvalidCommandLine) {
  EXPECT_EQ(tessera_exits({"topo", "--machine", "dgx1v"}), 0);
  EXPECT_EQ(tessera_exits({"topo", "--help"}), 0);
  EXPECT_EQ(tessera_exits({"topo"}), 2);
  EXPECT_EQ(tessera_exits({"topo", "--machine", "dgx1v", "--file", "x"}), 2);
  EXPECT_EQ(tessera_exits({"topo", "--machine", "dgx1v", "--count", "0"}), 2);
  EXPECT_EQ(tessera_exits({"topo", "--machine", "dgx1v", "--count", "2", "--policy", "best"}), 2);
  EXPECT_EQ(tessera_exits({"topo", "--machine", "dgx1v", "--count", "2", "--policy", "static"}), 2);
  EXPECT_EQ(tessera_exits({"topo", "--machine", "dgx1v", "-o", "png"}), 2);
  EXPECT_EQ(tessera_exits({"topo", "--machine", "no-such-machine"}), 1);
  EXPECT_EQ(tessera_exits({"topology"}), 2);
}

TEST(Gigabytes, HaveAtMostOneDecimal) {
  EXPECT_EQ(gigabytes(40'000), "40");
  EXPECT_EQ(gigabytes(9'600), "9.6");
  EXPECT_EQ(gigabytes(370'800), "370.8");
  EXPECT_EQ(gigabytes(0), "0");
}

}  // namespace
}  // namespace tessera::cli
