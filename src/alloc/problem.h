// alloc/problem.h
//
// What the ledger finds wrong with the facts they are given. Nothing here stops the ledger: each is counted,
// told and worked around.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::alloc {

enum class ProblemKind : std::uint8_t {
  kInvalidRequest,       // pod: its limits make no sense, so nothing can be held for it
  kUnreadableRecord,     // pod: the record is not one
  kWrongRecord,          // pod: the record gives other than the containers asked for
  kUnknownIndex,         // pod: an old tool's record names a GPU index that the node does not have
  kLostGpu,              // pod: the record names a GPU that the node does not have (any more)
  kUndecided,            // pod: runs on a node with several GPUs and nobody said on which
  kOvercommitted,        // node: more is promised of a GPU than it has
  kUnreadableInventory,  // node
  kUnitDiffers,          // node
  kSecondPlugin,         // node: another device plugin gives out the same GPUs
  kCapacityDiffers,      // node: kubelet reports another amount of GPU memory than the inventory
};
inline constexpr std::size_t kProblemKinds = 11;

// "invalid_request", ...: for metric labels.
std::string_view to_string(ProblemKind kind);

struct Problem {
  ProblemKind kind{};
  std::string node;
  std::string pod;   // "namespace/name"; empty when the node itself is the problem
  std::string text;  // a sentence with all names in it, and what to do
  std::string uid;   // of the pod

  friend bool operator==(const Problem&, const Problem&) = default;
};

}  // namespace tessera::alloc
