// cli/cluster/cluster_books.h
//
// The books that the extender would keep of a cluster, rebuilt from what was read of it.
#pragma once

#include <memory>
#include <optional>

#include "alloc/ledger.h"
#include "cli/cluster/cluster.h"

namespace tessera::cli {

// The unit that most agents count in; GiB where there are none. Of equally many the larger one.
alloc::Unit common_unit(const Cluster& cluster);

std::unique_ptr<alloc::Ledger> make_books(const Cluster& cluster, alloc::Unit unit);

}  // namespace tessera::cli
