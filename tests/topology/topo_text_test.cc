#include "topology/topo_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "topology/bandwidth.h"

namespace tessera::topology {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::string text_error_of(std::string_view text) {
  const auto result = parse_topo_text(text);
  return result ? "" : result.error().text();
}

// The output of driver 535 on a terminal: underlined header, padded X, two tabs before the last
// column.
constexpr std::string_view kTerminal =
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\r\n"
    "GPU0\t X \tNV12\tPIX\t0-31,64-95\t0\t\tN/A\r\n"
    "GPU1\tNV12\t X \tSYS\t32-63,96-127\t1\t\tN/A\r\n"
    "NIC0\tPIX\tSYS\t X \t\t\t\t\r\n"
    "\r\n"
    "Legend:\r\n\r\n  X    = Self\r\n  SYS  = Connection traversing PCIe as well as the SMP interconnect\r\n"
    "\r\nNIC Legend:\r\n\r\n  NIC0: mlx5_0\r\n";

TEST(TopoText, ParsesNvidiaSmiOutputOfATerminal) {
  const auto read = parse_topo_text(kTerminal);
  ASSERT_TRUE(read) << read.error().text();
  const Topology& box = read->topology;
  EXPECT_TRUE(read->notes.empty());
  EXPECT_EQ(box.size(), 2U);
  EXPECT_EQ(box.link(0, 1), (Link{.nvlinks = 12, .generation = 3}));
  EXPECT_EQ(box.place(0).cpus.text(), "0-31,64-95");
  EXPECT_EQ(box.numa_node(1), 1);
  EXPECT_EQ(box.place(0).memory_numa, -1);
  ASSERT_EQ(box.nics.size(), 1U);
  EXPECT_EQ(box.nics[0].device, "mlx5_0");
  EXPECT_EQ(box.near_nics(0), 1U);
  EXPECT_EQ(box.near_nics(1), 0U);
}

TEST(TopoText, ParsesColumnsSeparatedBySpaces) {
  const auto read = parse_topo_text(
      "$ nvidia-smi topo -m\n"
      "      GPU0  GPU1  NIC0  CPU Affinity  NUMA Affinity  GPU NUMA ID\n"
      "GPU0   X    NV12  PIX   0-31,64-95    0              N/A\n"
      "GPU1  NV12   X    SYS   32-63,96-127  1              N/A\n"
      "NIC0  PIX   SYS    X\n"
      "NIC Legend:\n  NIC0: mlx5_0\n");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->topology, parse_topo_text(kTerminal)->topology);
}

TEST(TopoText, ParsesASingleGpu) {
  const auto read = parse_topo_text("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-7\t0\n");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->topology.size(), 1U);
  EXPECT_EQ(read->topology.numa_node(0), 0);
}

TEST(TopoText, HandlesBlankAffinityColumns) {
  // Inside a cpuset the CPU column of the other socket is blank.
  const auto tabs = parse_topo_text(
      "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
      "GPU0\t X \tSYS\t\t0\t\tN/A\n"
      "GPU1\tSYS\t X \t8-15\t1\t\tN/A\n");
  ASSERT_TRUE(tabs) << tabs.error().text();
  EXPECT_TRUE(tabs->topology.place(0).cpus.empty());
  EXPECT_EQ(tabs->topology.numa_node(0), 0);
  EXPECT_EQ(tabs->topology.place(1).cpus.text(), "8-15");

  const auto spaces = parse_topo_text(
      "GPU0 GPU1 CPUAffinity NUMAAffinity GPUNUMAID\n"
      "GPU0 X SYS 0 N/A\n"
      "GPU1 SYS X 8-15 1 N/A\n");
  ASSERT_TRUE(spaces) << spaces.error().text();
  EXPECT_EQ(spaces->topology, tabs->topology);
}

TEST(TopoText, KeepsNumaListsAndTheNodeOfGpuMemory) {
  const auto read = parse_topo_text(
      "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
      "GPU0\t X \tNV18\t0-71\t0,3-9,11-17\t\t2\n"
      "GPU1\tNV18\t X \t72-143\t1,19-25\t\t18\n");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->topology.place(0).numa.text(), "0,3-9,11-17");
  EXPECT_EQ(read->topology.numa_node(1), 1);
  EXPECT_EQ(read->topology.place(1).memory_numa, 18);
}

TEST(TopoText, FillsMissingRowsFromTheOtherRows) {
  const auto read = parse_topo_text(
      "GPU0\tGPU1\tGPU2\n"
      "GPU0\tX\tNV6\tSYS\n");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->topology.link(2, 0).path, PciePath::kSys);
  EXPECT_EQ(read->topology.link(2, 1), Link{});
  EXPECT_THAT(read->notes, Contains("no row for GPU 1-2; 1 pairs are unknown and treated as SYS"));
}

TEST(TopoText, UsesTheSlowerSideOfAContradiction) {
  const auto read = parse_topo_text("GPU0 GPU1\nGPU0 X NV2\nGPU1 NV1 X\n");
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->topology.link(0, 1).nvlinks, 1);
  EXPECT_THAT(read->notes, Contains("GPU0 and GPU1: one side says NV2, the other NV1; using the slower one"));
}

std::string uniform(unsigned gpus, const std::string& link) {
  std::string text;
  for (unsigned i = 0; i < gpus; ++i) {
    text += "\tGPU" + std::to_string(i);
  }
  for (unsigned i = 0; i < gpus; ++i) {
    text += "\nGPU" + std::to_string(i);
    for (unsigned j = 0; j < gpus; ++j) {
      text += i == j ? "\t X " : "\t" + link;
    }
  }
  return text;
}

TEST(TopoText, InfersSwitchesAndGenerationsFromTheNumberOfLinks) {
  struct Case {
    unsigned gpus;
    const char* link;
    bool nvswitch;
    int generation;
  };
  for (const Case& c : {Case{16, "NV6", true, 2},   // DGX-2
                        Case{8, "NV12", true, 3},   // HGX A100
                        Case{8, "NV18", true, 4},   // HGX H100
                        Case{4, "NV4", false, 3},   // four A100, meshed without a switch
                        Case{4, "NV6", false, 4},   // four H100, meshed without a switch
                        Case{2, "NV12", false, 3},  // a bridged pair
                        Case{8, "NV36", true, 5}}) {
    const auto read = parse_topo_text(uniform(c.gpus, c.link));
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(read->topology.link(0, 1).nvswitch, c.nvswitch) << c.gpus << " x " << c.link;
    EXPECT_EQ(read->topology.link(0, 1).generation, c.generation) << c.gpus << " x " << c.link;
  }
}

TEST(TopoText, ErrorsNameLineAndColumn) {
  EXPECT_EQ(text_error_of(""),
            "line 1, column 1: no matrix found; expected the output of nvidia-smi topo -m");
  EXPECT_EQ(
      text_error_of("\nhello world\n"),
      "line 2, column 1: \"hello\" is not a header; expected GPU0 GPU1 ... as nvidia-smi topo -m prints");
  EXPECT_EQ(text_error_of("GPU0 GPU1\nGPU0 X NVX\n"),
            "line 2, column 8: \"NVX\" is not a link (SYS, NODE, PHB, PXB, PIX, PSB or NV1 to NV36)");
  EXPECT_EQ(text_error_of("\tGPU0\tGPU1\nGPU0\t X \t\x1b[4mNV37\x1b[0m\n"),
            "line 2, column 14: \"NV37\" is not a link (SYS, NODE, PHB, PXB, PIX, PSB or NV1 to NV36)");
  EXPECT_EQ(text_error_of("GPU0 GPU1\nGPU0 SYS X\n"),
            "line 2, column 6: \"SYS\" on the diagonal of GPU0; expected X");
  EXPECT_EQ(text_error_of("GPU0 GPU1\nGPU0 X\n"),
            "line 2, column 7: the row of GPU0 ends after 1 of 2 columns");
  EXPECT_EQ(text_error_of("GPU0 GPU1\nGPU0 X SYS\nGPU0 X SYS\n"), "line 3, column 1: a second row for GPU0");
  EXPECT_EQ(text_error_of("GPU0 GPU1\nGPU2 X SYS\n"),
            "line 2, column 1: \"GPU2\" is neither a GPU nor a NIC of the header");
  EXPECT_EQ(text_error_of("GPU0 GPU2\n"),
            "line 1, column 6: \"GPU2\" in the header; expected GPU1, a NIC or an affinity column (GPUs are "
            "numbered in order, without gaps)");
  EXPECT_EQ(text_error_of("GPU0 mlx5_0\nGPU0 X NV2\n"),
            "line 2, column 8: \"NV2\" is not a path to a NIC (SYS, NODE, PHB, PXB, PIX or PSB)");
  EXPECT_EQ(text_error_of("GPU0 CPU Affinity\nGPU0 X 5-2\n"),
            "line 2, column 8: \"5-2\" is not a list of numbers like 0-3,8");
  EXPECT_EQ(text_error_of("GPU0 CPU Affinity\nGPU0 X 0-3 9\n"),
            "line 2, column 12: \"9\" has no column in the header");
  EXPECT_EQ(text_error_of("GPU0 GPU1\n"), "line 1, column 10: the header is not followed by rows of GPUs");
}

TEST(TopoText, RejectsMoreThan64Gpus) {
  EXPECT_THAT(text_error_of(uniform(65, "SYS")), HasSubstr("more than 64 GPUs"));
  EXPECT_TRUE(parse_topo_text(uniform(64, "SYS")));
}

// The matrices of real machines.
class TopoFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(directory_)) {
      GTEST_SKIP() << "no shared data at " << directory_ << "; the matrices of real machines are not read";
    }
  }

  Topology read(const std::string& name) const {
    const auto text = read_file((directory_ / name).string());
    EXPECT_TRUE(text) << name;
    const auto parsed = parse_topo_text(*text);
    EXPECT_TRUE(parsed) << name << ": " << (parsed ? "" : parsed.error().text());
    return parsed ? parsed->topology : Topology();
  }

  const std::filesystem::path directory_ = std::filesystem::path(TESSERA_SHARED_DATA) / "topologies";
};

TEST_F(TopoFiles, AllCanBeParsedPrintedAndParsedAgain) {
  unsigned files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    if (entry.path().extension() != ".txt") {
      continue;
    }
    const Topology box = read(entry.path().filename().string());
    const std::string printed = print_topo_text(box);
    const auto again = parse_topo_text(printed);
    ASSERT_TRUE(again) << entry.path() << ": " << again.error().text() << "\n" << printed;
    EXPECT_EQ(again->topology, box) << entry.path() << "\n" << printed;
    EXPECT_EQ(print_topo_text(again->topology), printed) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 10U);
}

TEST_F(TopoFiles, Dgx1HasItsCubeMeshAndItsNics) {
  const Topology box = read("01-dgx1-v100-8gpu-hybrid-cube-mesh.txt");
  EXPECT_EQ(box.size(), 8U);
  EXPECT_EQ(pair_mbps(box, 0, 3), 40'000U);
  EXPECT_EQ(pair_mbps(box, 3, 7), 20'000U);
  EXPECT_EQ(pair_mbps(box, 0, 7), 6'000U);
  EXPECT_EQ(box.numa_node(3), 0);
  EXPECT_EQ(box.numa_node(4), 1);
  EXPECT_EQ(box.nics.size(), 4U);
  EXPECT_EQ(box.near_nics(0), 0b0001U);  // mlx5_0
  EXPECT_EQ(box.near_nics(2), 0b0100U);  // mlx5_1 is the third column
  EXPECT_FALSE(box.link(0, 1).nvswitch);
}

TEST_F(TopoFiles, Dgx2IsCompleteAlthoughElevenRowsAreMissing) {
  const Topology box = read("04-dgx2-v100-16gpu-nvswitch-PARTIAL.txt");
  EXPECT_EQ(box.size(), 16U);
  EXPECT_EQ(box.link(14, 15), (Link{.nvlinks = 6, .generation = 2, .nvswitch = true}));
}

TEST_F(TopoFiles, NumaNodesAreReadAlthoughCpuColumnsAreBlank) {
  const Topology box = read("22-nv18-8gpu-blank-cpu-affinity.txt");
  EXPECT_EQ(box.numa_node(0), 0);
  EXPECT_EQ(box.numa_node(7), 1);
}

}  // namespace
}  // namespace tessera::topology
