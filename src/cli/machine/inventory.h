// cli/machine/inventory.h
//
// `tessera inventory`: Node objects of machines that need not exist, as tessera-agent would have made them,
// for test clusters whose nodes are simulated by kwok.
#pragma once

#include <iosfwd>
#include <string>

#include "base/result.h"
#include "cli/command/command.h"

namespace tessera::cli {

struct InventoryOptions {
  std::string machine{};  // a built-in machine or the path of a description
  std::string name{};     // of the node; with several, a number follows; empty: the machine's name
  unsigned count = 1;
  std::string unit = "GiB";
  std::string output = "yaml";  // or json
};

// Whether a node can be called so.
Status check_node_name(const std::string& name);

// 0, or 1 with the reason on `err`.
int run_inventory(const InventoryOptions& options, std::ostream& out, std::ostream& err);

void add_inventory_command(CLI::App& app, Action& action);

}  // namespace tessera::cli
