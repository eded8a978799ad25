// agent/gpu/node_metadata.h
//
// What the agent writes into its Node, and what of it has to be changed. Pure.
//
// Whose a key is: the annotations tessera.io/inventory, GPU_TOPOLOGY and GSOC_DEV_<i>_<j> are ours by their
// names (contract.md). Labels are shared with NVIDIA's feature discovery and others, so the annotation
// tessera.io/labels lists those that we wrote. A label that is there but not in the list is somebody else's
// and is left alone, with whatever value; so is one of ours that somebody gave another value meanwhile.
#pragma once

#include <boost/json/value.hpp>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "agent/gpu/node_labels.h"
#include "alloc/inventory.h"
#include "base/result.h"

namespace tessera::agent {

struct NodeMetadata {
  alloc::Annotations annotations;
  alloc::Annotations labels;

  friend bool operator==(const NodeMetadata&, const NodeMetadata&) = default;
};

struct NodeMetadataOptions {
  bool labels = true;
  bool legacy = true;  // GPU_TOPOLOGY, GSOC_DEV_<i>_<j>
};

// Machines with more GPUs get no legacy annotations: they grow with the square, and the tools that read them
// never knew such machines.
inline constexpr std::size_t kMostLegacyGpus = 16;

// Fails when the API server would not take it.
Result<NodeMetadata> node_metadata(const alloc::Inventory& inventory, const GpuSoftware& software,
                                   const NodeMetadataOptions& options);

// The values that labels of ours have had, as far as this process knows: seen as ours or tried to write. A
// label with any other value has been taken over by somebody.
using LabelValues = std::map<std::string, std::set<std::string>, std::less<>>;

// The JSON merge patch that brings `node` (an API object) to what is wanted; nothing when it is there
// already. It carries the node's resourceVersion, so that a key that somebody adds meanwhile is seen first.
// `known` is kept from call to call, empty at first. Fails when `node` is no Node.
Result<std::optional<std::string>> metadata_patch(const boost::json::value& node, const NodeMetadata& wanted,
                                                  LabelValues& known);

// What the node's annotation says: the GPUs known from before this process started. Nothing when there is
// none that can be read.
std::optional<alloc::Inventory> published_inventory(const boost::json::value& node);

}  // namespace tessera::agent
