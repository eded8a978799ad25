// cli/cluster/cluster_ledger.h
//
// Rebuilds the extender's ledger from the nodes and pods of a cluster.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "alloc/ledger.h"
#include "cli/cluster/cluster.h"

namespace tessera::cli {

// Returns the memory unit that most inventories use. If two units are equally frequent, returns the
// larger one. Returns GiB if there is no inventory.
alloc::Unit common_unit(const Cluster& cluster);

// Fences the nodes with a node_problem(), as the extender does when it sees that an agent is down.
std::unique_ptr<alloc::Ledger> make_ledger(const Cluster& cluster, alloc::Unit unit);

// Returns an amount of memory as the screens show it: "8 GiB", "768 MiB".
std::string amount_text(alloc::Unit unit, std::uint64_t units);

}  // namespace tessera::cli
