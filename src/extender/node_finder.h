// extender/node_finder.h
//
// From the names of a body to the ids of the ledger, fast.
//
// kube-scheduler sends thousands of names in nearly the same order each time, so the node that came after
// this one last time is tried first: one comparison of text instead of a hash and a walk. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "alloc/ledger.h"

namespace tessera::extender {

class NodeFinder {
 public:
  // Refers to the ledger, which must live longer.
  explicit NodeFinder(const alloc::Ledger& ledger) : ledger_(&ledger) {}

  // The nodes that the ledger knows, in the order of `names`, and the places in `names` of those it does not.
  // Valid until the next call.
  struct Found {
    std::span<const alloc::NodeId> known;
    std::span<const std::size_t> unknown;
  };
  Found find(std::span<const std::string_view> names);

 private:
  const alloc::Ledger* ledger_;
  std::vector<alloc::NodeId> next_;  // by node: who came after it
  std::vector<alloc::NodeId> known_;
  std::vector<std::size_t> unknown_;
};

}  // namespace tessera::extender
