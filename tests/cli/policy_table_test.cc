// Reproduces the table of docs/policies.md that compares the policies for whole GPUs.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "base/file.h"
#include "cli/machine/topo.h"
#include "sim/machine.h"

namespace tessera::cli {
namespace {

constexpr std::array kPolicies = {"ring", "best_effort", "prim", "simple"};

// Fills the idle machine with pods of `count` GPUs. Returns the ring bandwidths in GB/s, in the order
// in which the policy places the pods: "40 40 20 20".
std::string fill(const std::string& machine, unsigned count, const std::string& policy) {
  std::string rings;
  TopoOptions options{.machine = machine, .count = count, .policy = policy};
  topology::GpuMask taken = 0;
  for (;;) {
    const auto view = make_topo_view(options);
    if (!view) {
      return rings;  // too few GPUs are left
    }
    rings += fmt::format("{}{}", rings.empty() ? "" : " ", gigabytes(view->choice->set.ring_mbps));
    taken |= view->choice->set.gpus;
    options.taken = topology::gpu_list(taken);
  }
}

// Returns a row for each machine and size for which the policies differ.
std::string comparison() {
  std::string table = "| Machine | GPUs per pod |";
  for (const char* policy : kPolicies) {
    table += fmt::format(" `{}` |", policy);
  }
  table += "\n|---|---|---|---|---|---|\n";
  for (const std::string& machine : sim::builtin_machines()) {
    const unsigned gpus = sim::load_machine(machine)->topology.size();
    for (unsigned count = 2; count <= gpus; ++count) {
      std::set<std::string> different;
      std::string row = fmt::format("| `{}` | {} |", machine, count);
      for (const char* policy : kPolicies) {
        const std::string rings = fill(machine, count, policy);
        different.insert(rings);
        row += fmt::format(" {} |", rings);
      }
      table += different.size() > 1 ? row + "\n" : "";
    }
  }
  return table;
}

TEST(PolicyTable, OfTheGuideIsWhatTopoChooses) {
  const auto guide = read_file(TESSERA_SOURCE_DIR "/docs/policies.md");
  ASSERT_TRUE(guide) << guide.error().text();
  const std::string table = comparison();
  EXPECT_NE(guide->find("\n\n" + table + "\n"), std::string::npos)
      << "docs/policies.md does not have this table:\n"
      << table;
}

}  // namespace
}  // namespace tessera::cli
