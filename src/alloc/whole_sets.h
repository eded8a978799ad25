// alloc/whole_sets.h
//
// Chooses the GPUs of a node for a whole-GPU pod: the policies `simple`, `static`, `prim`,
// `best_effort` and `ring`. The same few situations occur again and again, so results are cached.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "alloc/node_state.h"
#include "alloc/request.h"
#include "topology/set_search.h"
#include "topology/static_sets.h"

namespace tessera::alloc {

// The two names under which the tables of the policy `static` may list a machine. `own` is the name
// that the agent read from the firmware; it is tried first. `instance_type` is the name that the
// cloud uses. In a cloud all machines may have the same name in the firmware, so that only
// `instance_type` distinguishes them.
struct MachineNames {
  std::string_view own;
  std::string_view instance_type;
};

class WholeSets {
 public:
  explicit WholeSets(std::shared_ptr<const topology::StaticSets> static_sets)
      : static_sets_(std::move(static_sets)) {}

  // Returns the best `count` GPUs of `free`. Among equally good sets prefers the one with the
  // fewest GPUs in `spare`, which are the GPUs to keep for shares. Returns nullopt if there are too
  // few GPUs.
  std::optional<topology::SetChoice> choose(const NodeView& view, const MachineNames& machine, Policy policy,
                                            GpuMask free, unsigned count, GpuMask spare);

 private:
  struct Situation {
    std::uint32_t topology = 0;
    Policy policy{};
    std::uint8_t count = 0;
    GpuMask free = 0;
    GpuMask spare = 0;

    friend bool operator==(const Situation&, const Situation&) = default;
  };
  struct SituationHash {
    std::size_t operator()(const Situation& situation) const;
  };

  std::shared_ptr<const topology::StaticSets> static_sets_;
  std::unordered_map<Situation, topology::SetChoice, SituationHash> known_;
};

}  // namespace tessera::alloc
