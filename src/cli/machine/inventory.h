// cli/machine/inventory.h
//
// `tessera inventory`: prints Node objects for test clusters whose nodes are simulated by kwok. The
// input is a machine description (sim/machines). Each Node has the inventory that tessera-agent
// would publish on such a machine.
#pragma once

#include <iosfwd>
#include <string>

#include "base/result.h"
#include "cli/command/command.h"

namespace tessera::cli {

struct InventoryOptions {
  std::string machine{};  // a built-in machine or the path of a machine description
  std::string name{};     // node name, plus a number if count > 1; empty: the name of the machine
  unsigned count = 1;
  std::string unit = "GiB";
  std::string output = "yaml";  // or json
};

// Returns kInvalid if `name` is not a valid node name.
Status check_node_name(const std::string& name);

// Prints the nodes and returns 0. On failure, returns 1 and writes the reason to `err`.
int run_inventory(const InventoryOptions& options, std::ostream& out, std::ostream& err);

void add_inventory_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
