// alloc/query.h
//
// A request prepared for many nodes: everything that can be computed once. Private to the files of
// the placer.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "alloc/choice.h"
#include "alloc/gpu_uuid.h"
#include "alloc/node_state.h"
#include "alloc/request.h"
#include "alloc/search_budget.h"
#include "topology/set_search.h"

namespace tessera::alloc {

// The smallest thing that is placed: one or more containers that share the same `share.gpus` GPUs.
struct Part {
  SharePart share;
  ContainerKind kind = ContainerKind::kMain;
  // Position in GpuRequest::containers; -1: all containers that share GPUs.
  std::int16_t container = -1;

  friend bool operator==(const Part&, const Part&) = default;
};

// Returns what one container requests of each of its GPUs.
inline SharePart part_of(const ContainerRequest& container, std::uint16_t split) {
  return {.units = container.units / split,
          .core_percent = static_cast<std::uint16_t>(container.core_percent / split),
          .gpus = split};
}

struct Query {
  const Request* request = nullptr;
  SearchBudget* budget = nullptr;  // of the call; never null
  Policy share_policy{};
  Policy whole_policy{};
  // `parts` are placed together, the largest first. `init_parts` lists sidecars and init containers
  // in the order of the pod. It is used only with per-container placement.
  std::vector<Part> parts;
  std::vector<Part> init_parts;
  // plain_share: the request is one memory share of one GPU. plain_whole: the request is only whole
  // GPUs. Both require that the model is the only constraint. On nodes whose GPUs all have one
  // model, filter() then needs only the columns of NodeStates and no NodeView.
  bool plain_share = false;
  bool plain_whole = false;
  // The original plugins that can serve the request.
  OriginalPlugins original;
  // By ModelId; empty: all models.
  std::vector<std::uint8_t> model_allowed;
  std::vector<GpuUuid> uuids;
  std::vector<GpuUuid> uuids_excluded;
};

// Returns whether the device plugin of a node with these original plugins cannot serve the request.
inline bool is_beyond_plugin(const Query& query, OriginalPlugins node) {
  return node.any() && !(node.shares && query.original.shares) && !(node.whole && query.original.whole);
}

// The GPUs of one node that a policy chose, and the values that their score depends on. One object
// is reused for many nodes, so its fields are not cleared in between.
struct GpuChoice {
  // First for each of Query::parts, then for each of Query::init_parts.
  std::array<GpuMask, 2 * GpuRequest::kMostContainers> part_gpus;
  GpuMask share_gpus = 0;
  GpuMask whole_gpus = 0;
  topology::SetChoice set;       // of whole_gpus
  unsigned opened = 0;           // wholly free GPUs that would become shared
  std::uint32_t damage = 0;      // what `opened` costs requests of several GPUs: group_damage()
  std::uint64_t leftover = 0;    // units that stay free on the chosen GPUs
  std::uint32_t least_free = 0;  // smallest number of free units on a chosen GPU before the choice
  std::int32_t level = 0;        // level of `fgd`
};

}  // namespace tessera::alloc
