#include "sim/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "topology/bandwidth.h"
#include "topology/set_search.h"

namespace tessera::sim {
namespace {

using ::testing::ElementsAre;

Machine builtin(const std::string& name) {
  auto machine = load_machine(name);
  EXPECT_TRUE(machine) << (machine ? "" : machine.error().text());
  return machine ? std::move(*machine) : Machine();
}

constexpr std::string_view kSmall = R"(v: 1
about: two GPUs
driver: "550.54.15"
cuda: "12.4"
cpus: 8
memory_gib: 64
gpus:
  - {count: 2, model: Tesla T4, memory_mib: 15360, reserved_mib: 448, compute: "7.5"}
links:
  rules:
    - {pcie: PIX}
)";

std::string error_of(std::string text, std::string_view from, std::string_view to) {
  text.replace(text.find(from), from.size(), to);
  const auto machine = parse_machine(text, "box.yaml", [](const std::string& file) -> Result<std::string> {
    return fail(ErrorCode::kNotFound, "no " + file);
  });
  return machine ? "" : machine.error().text();
}

TEST(Machine, BuiltInMachinesAreComplete) {
  EXPECT_THAT(builtin_machines(),
              ElementsAre("b200", "dgx1v", "dgx2", "dgxa100", "hgxh100", "l40s", "mixed", "pcie2s"));
  for (const std::string& name : builtin_machines()) {
    const Machine machine = builtin(name);
    EXPECT_EQ(machine.name, name);
    EXPECT_EQ(machine.topology.size(), machine.gpus.size()) << name;
    for (unsigned a = 0; a < machine.topology.size(); ++a) {
      EXPECT_GE(machine.topology.numa_node(a), 0) << name << " GPU " << a;
      EXPECT_FALSE(machine.topology.place(a).cpus.empty()) << name << " GPU " << a;
      for (unsigned b = 0; b < a; ++b) {
        EXPECT_NE(machine.topology.link(a, b).path, topology::PciePath::kUnknown)
            << name << " " << a << "-" << b;
      }
    }
  }
}

TEST(Machine, Dgx1vHasTheNvlinksAndPciePathsOfTheRealMachine) {
  const Machine dgx1 = builtin("dgx1v");
  EXPECT_EQ(topology::pair_sum(dgx1.topology, 0xff),
            3'000);  // the score of the whole machine by NVIDIA's rules
  EXPECT_EQ(dgx1.topology.link(0, 3), (topology::Link{topology::PciePath::kPhb, 2, 2, false}));
  EXPECT_EQ(dgx1.topology.near_nics(7), 0b1000U);
  EXPECT_EQ(dgx1.gpus[4].pci_bus_id, "00000000:85:00.0");
  EXPECT_EQ(dgx1.memory_mib, 512U * 1024);
}

TEST(Machine, SwitchesLinkAllPairsEqually) {
  const Machine dgx2 = builtin("dgx2");
  EXPECT_EQ(dgx2.gpus.size(), 16U);
  EXPECT_EQ(dgx2.topology.link(0, 15), (topology::Link{topology::PciePath::kSys, 6, 2, true}));
  EXPECT_EQ(topology::pair_mbps(builtin("b200").topology, 0, 7), 18U * 40'100);
  const topology::SetTables tables(builtin("dgxa100").topology);
  EXPECT_EQ(topology::gpu_list(choose_ring(tables, {.free = 0xff, .count = 2})->gpus), "0-1");
}

TEST(Machine, MixedModelsKeepTheirMemory) {
  const Machine mixed = builtin("mixed");
  EXPECT_EQ(mixed.gpus[0].model, "NVIDIA A100-PCIE-40GB");
  EXPECT_EQ(mixed.gpus[7].memory_mib, 15'360U);
  EXPECT_EQ(mixed.topology.link(0, 1).nvlinks, 12);
  EXPECT_EQ(mixed.topology.link(1, 2).nvlinks, 0);
}

TEST(Machine, UuidsDifferByNodeMachineAndIndexAndNeverChange) {
  const Machine one = builtin("dgx1v");
  std::set<std::string> seen;
  for (int node = 0; node < 1'000; ++node) {
    for (std::size_t gpu = 0; gpu < 8; ++gpu) {
      seen.insert(one.gpu_uuid("gpu-" + std::to_string(node), gpu));
    }
  }
  EXPECT_EQ(seen.size(), 8'000U);
  EXPECT_EQ(one.gpu_uuid("gpu-1", 0), builtin("dgx1v").gpu_uuid("gpu-1", 0));
  EXPECT_NE(one.gpu_uuid("gpu-1", 0), builtin("dgx2").gpu_uuid("gpu-1", 0));
  EXPECT_THAT(one.gpu_uuid("gpu-1", 0),
              ::testing::MatchesRegex("GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
}

TEST(Machine, InventoriesCanBeParsedAgain) {
  for (const std::string& name : builtin_machines()) {
    const alloc::Inventory inventory = builtin(name).inventory("node-1", alloc::Unit::gib());
    const auto again = alloc::Inventory::parse(inventory.json());
    ASSERT_TRUE(again) << name << ": " << again.error().text();
    EXPECT_EQ(*again, inventory);
    EXPECT_LT(inventory.json().size(), 32U * 1024) << name;
  }
}

TEST(Machine, ReadsTheMatrixFromAFileNextToTheDescription) {
  const auto machine = load_machine(std::string(TESSERA_SOURCE_DIR) + "/sim/machines/dgx1v.yaml");
  ASSERT_TRUE(machine) << machine.error().text();
  EXPECT_EQ(machine->topology, builtin("dgx1v").topology);
}

TEST(Machine, ErrorsNameFileAndLine) {
  const std::string text(kSmall);
  EXPECT_EQ(error_of(text, "cpus: 8", "cpus: many"),
            "box.yaml:5: cpus is not a whole number from 1 to 1048576");
  EXPECT_EQ(error_of(text, "cpus: 8", "cpu: 8"),
            "box.yaml:5: cpu is not a key of machine descriptions (sim/machines/README.md lists them)");
  EXPECT_EQ(error_of(text, "cuda: \"12.4\"\n", ""), "box.yaml:1: has no \"cuda\"");
  EXPECT_EQ(error_of(text, "model: Tesla T4, ", ""), "box.yaml:8: gpus[0] has no \"model\"");
  EXPECT_EQ(error_of(text, "pcie: PIX", "pcie: PIXX"),
            "box.yaml:11: links.rules[0].pcie is \"PIXX\", not SYS, NODE, PHB, PXB, PIX or PSB");
  EXPECT_EQ(error_of(text, "{pcie: PIX}", "{nvlink: 2}"),
            "box.yaml:11: links.rules[0] names NVLinks, so links.nvlink_generation is needed");
  EXPECT_EQ(error_of(text, "{pcie: PIX}", "{pcie: PIX, groups: [\"0-2\"]}"),
            "box.yaml:11: links.rules[0].groups[0] is \"0-2\", but the machine has 2 GPUs");
  EXPECT_EQ(error_of(text, "  rules:", "  topo: box.topo\n  rules:"),
            "box.yaml:10: links.topo cannot be read: no box.topo");
  EXPECT_EQ(
      error_of(text, "  rules:", "  matrix: \"GPU0 GPU1\"\n  rules:"),
      "box.yaml:10: links.matrix is not a matrix: line 1, column 10: the header is not followed by rows "
      "of GPUs");
  EXPECT_EQ(error_of(text, "v: 1", "v: [1"), "box.yaml:2: not YAML: end of sequence flow not found");
  EXPECT_EQ(error_of(text, "v: 1", "v: 2"), "box.yaml:1: v is not a whole number from 1 to 1");
  EXPECT_EQ(error_of(text, "cpus: 8", "cpus: 8\ncpus: 9"), "box.yaml:6: cpus occurs twice");
}

TEST(Machine, ListsTheBuiltInMachinesWhenTheNameIsUnknown) {
  const std::string list =
      "built-in machines are b200, dgx1v, dgx2, dgxa100, hgxh100, l40s, mixed and pcie2s; or use the path of "
      "a description (./my-box.yaml)";
  EXPECT_EQ(load_machine("superbox").error().text(), "there is no machine \"superbox\"; the " + list);
  EXPECT_EQ(load_machine("dgx9").error().text(),
            "there is no machine \"dgx9\"; did you mean dgx2? The " + list);
}

}  // namespace
}  // namespace tessera::sim
