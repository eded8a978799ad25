// alloc/problem.h
//
// Contradictions that the ledger finds in nodes and pods. No problem stops the ledger: each is
// counted, reported and worked around.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::alloc {

enum class ProblemKind : std::uint8_t {
  kInvalidRequest,       // pod: its limits are invalid, so the ledger holds nothing for it
  kUnreadableRecord,     // pod: its record cannot be parsed
  kWrongRecord,          // pod: its record differs from what the containers request
  kUnknownIndex,         // pod: its original record names a GPU index that the node does not have
  kLostGpu,              // pod: its record names a GPU that the node does not have (any more)
  kUndecided,            // pod: is on a node with several GPUs and has no record
  kChangedRecord,        // pod: its record was removed or changed after it got its GPUs
  kOvercommitted,        // node: pods hold more of a GPU than it has
  kUnreadableInventory,  // node: its inventory cannot be parsed, or is missing
  kUnitDiffers,          // node: its unit of GPU memory differs from the cluster's
  kSecondPlugin,         // node: another device plugin allocates the same GPUs
  kUnrecordedPod,        // node: a pod has started there and has no valid record
  kCapacityDiffers,      // node: the GPU memory that kubelet reports differs from the inventory
  kUnreadablePod,        // pod: it cannot be read, and what it holds is not known
};
inline constexpr std::size_t kProblemKinds = 14;

// "invalid_request", ...: for metric labels.
std::string_view to_string(ProblemKind kind);

struct Problem {
  ProblemKind kind{};
  std::string node;
  std::string pod;   // "namespace/name"; empty for a problem of the node
  std::string text;  // a sentence that says what is wrong, where, and what to do
  std::string uid;   // of the pod

  friend bool operator==(const Problem&, const Problem&) = default;
};

}  // namespace tessera::alloc
