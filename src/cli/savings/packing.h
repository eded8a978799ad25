// cli/savings/packing.h
//
// Places the pods of a cluster on an empty ledger: first the pods that keep their node and whole
// GPUs, then the others, in a given order, as shares. Private to cli/savings.
//
//   const Packing packing = pack(input, Policy::kBinpack, order);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "alloc/names.h"
#include "alloc/request.h"
#include "alloc/units.h"
#include "cli/savings/plan_nodes.h"

namespace tessera::cli {

// A pod that keeps its node.
struct FixedPod {
  std::size_t node = 0;
  const alloc::PodSpec* spec = nullptr;
  std::int64_t gpus = 0;    // whole GPUs; 0: the pod has shares already
  bool has_record = false;  // it requests Tessera's resources, so it may have a record
};

// A pod that may share a GPU.
struct SharingPod {
  std::size_t pod = 0;  // in SavingsReport::pods
  const alloc::PodSpec* spec = nullptr;
  std::size_t node = 0;        // where it runs now
  std::size_t candidates = 0;  // in PackInput::candidates
  bool has_record = false;     // as in FixedPod
  alloc::Request request{};
};

struct PackInput {
  alloc::Unit unit{};
  alloc::ResourceNames names{};
  std::vector<PlanNode> nodes{};
  std::vector<FixedPod> fixed{};
  std::vector<SharingPod> sharing{};
  std::vector<std::vector<std::size_t>> candidates{};  // lists of positions in `nodes`
};

enum class SlotUse : std::uint8_t { kFree, kWhole, kShared };

struct Packing {
  struct Place {
    std::size_t node = 0;
    unsigned slot = 0;
  };
  std::vector<std::optional<Place>> places{};            // of PackInput::sharing; nothing: stays whole
  std::vector<std::vector<SlotUse>> slots{};             // by node and slot
  std::vector<std::vector<std::uint32_t>> used_units{};  // by shares, by node and slot
  std::vector<std::vector<std::uint32_t>> used_core{};   // percent, by shares, by node and slot
  std::vector<alloc::NodeUse> left{};                    // free CPU and memory, by node
  std::vector<std::string> warnings{};                   // about fixed pods that do not fit on their node

  [[nodiscard]] std::int64_t gpus() const;  // not free
};

// Places the sharing pods in the order `order` (positions in PackInput::sharing; those not listed
// stay whole). A pod that fits on none of its candidates stays whole on its node. Such pods are
// placed first, so the result is always possible.
Packing pack(const PackInput& input, alloc::Policy policy, std::span<const std::size_t> order);

}  // namespace tessera::cli
