// alloc/query.h
//
// A request made ready for being asked of every node: what can be worked out once stands here. Private to the
// placer's files.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "alloc/choice.h"
#include "alloc/gpu_uuid.h"
#include "alloc/node_state.h"
#include "alloc/request.h"
#include "topology/set_search.h"

namespace tessera::alloc {

// Containers that go together onto the same `share.gpus` GPUs.
struct Part {
  SharePart share;
  ContainerKind kind = ContainerKind::kMain;
  std::int16_t container = -1;  // in GpuRequest::containers; -1: all of them that share GPUs

  friend bool operator==(const Part&, const Part&) = default;
};

// What one container wants of each of its GPUs.
inline SharePart part_of(const ContainerRequest& container, std::uint16_t split) {
  return {.units = container.units / split,
          .core_percent = static_cast<std::uint16_t>(container.core_percent / split),
          .gpus = split};
}

struct Query {
  const Request* request = nullptr;
  Policy share_policy{};
  Policy whole_policy{};
  // What runs together, largest first; then, only where containers are placed one by one, the init containers
  // in the order of the pod.
  std::vector<Part> parts;
  std::vector<Part> init_parts;
  // One share or whole GPUs, without wishes but for their model: where the model is right, the columns of
  // NodeStates know the answer.
  bool plain_share = false;
  bool plain_whole = false;
  bool beyond_old_plugin = false;  // more than a share of one GPU for one container
  // By ModelId; empty: all.
  std::vector<std::uint8_t> model_allowed;
  std::vector<GpuUuid> uuids;
  std::vector<GpuUuid> uuids_excluded;
};

// Where a request would go on one node. Written over for node after node, so nothing in it is cleared.
struct GpuChoice {
  std::array<GpuMask, 2 * GpuRequest::kMostContainers> part_gpus;  // by Query::parts, then Query::init_parts
  GpuMask share_gpus = 0;
  GpuMask whole_gpus = 0;
  topology::SetChoice set;     // of whole_gpus
  unsigned opened = 0;         // wholly free GPUs that shares would break up
  std::uint32_t damage = 0;    // what that costs those who want several GPUs
  std::uint64_t leftover = 0;  // units that stay free on the GPUs used, beside the pod
  std::uint32_t roomiest = 0;  // least that was free on any of them before
  std::int32_t level = 0;      // what `fgd` makes of it
};

}  // namespace tessera::alloc
