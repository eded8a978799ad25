// agent/gpu/node_metadata.h
//
// The annotations and labels that the agent writes to its Node, and what has to be changed to get
// there. Pure.
//
// Owner of a key: the annotations tessera.io/inventory, GPU_TOPOLOGY and GSOC_DEV_<i>_<j> are ours
// by name (contract.md). Labels are shared with NVIDIA's feature discovery and others, so the
// annotation tessera.io/labels lists the labels that we wrote. A label that exists but is not in
// the list belongs to another writer and is left alone, whatever its value; so is one of ours whose
// value another writer changed.
//
// Labels, under the names that people already select nodes by: those of NVIDIA's GPU feature
// discovery, and those of Alibaba's clusters, where gpushare comes from:
//
//   nvidia.com/gpu.product=Tesla-V100-SXM2-32GB, gpu.count=8, gpu.memory=32768 (MiB),
//     gpu.family=volta, gpu.compute.major=7, gpu.compute.minor=0, gpu.machine=DGX-1
//   nvidia.com/cuda.driver-version.full=550.54.15 (.major .minor .revision),
//     cuda.runtime-version.full=12.4
//   aliyun.accelerator/nvidia_name, nvidia_count, nvidia_mem=32768MiB
//   tessera.io/gpu.nvlink=NV2                     the best link between two GPUs; "none"
//   tessera.io/gpu.nvswitch=true
//
// A node with several models is labelled with the most frequent one (if equal, the one with the
// lowest index). nvidia.com/gpu.present is not set: it would make NVIDIA's own DaemonSets run here
// and serve the same GPUs.
#pragma once

#include <boost/json/value.hpp>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/inventory.h"
#include "base/result.h"

namespace tessera::agent {

// What the inventory does not contain.
struct GpuSoftware {
  std::vector<std::string> compute{};  // capability of each of inventory.gpus: "7.0"; may be empty
  std::string cuda{};                  // "12.4"; may be empty
};

// None for a node without GPUs. Unknown values have no label.
alloc::Annotations node_labels(const alloc::Inventory& inventory, const GpuSoftware& software);

// Converts any text to a label value that Kubernetes accepts: white space becomes one dash, invalid
// characters are removed, at most 63 characters. Empty when nothing is left.
std::string label_value(std::string_view text);

struct NodeMetadata {
  alloc::Annotations annotations;
  alloc::Annotations labels;

  friend bool operator==(const NodeMetadata&, const NodeMetadata&) = default;
};

struct NodeMetadataOptions {
  bool labels = true;
  bool original_annotations = true;  // GPU_TOPOLOGY, GSOC_DEV_<i>_<j>
};

// Machines with more GPUs get no legacy annotations: their size grows with the square, and the
// tools that read them never supported such machines.
inline constexpr std::size_t kMaxOriginalGpus = 16;

// Fails if the annotations are too large for the API server.
Result<NodeMetadata> node_metadata(const alloc::Inventory& inventory, const GpuSoftware& software,
                                   const NodeMetadataOptions& options);

// The values that our labels have had, as far as this process knows: seen as ours, or tried to
// write. A label with any other value has been taken over by another writer.
using LabelValues = std::map<std::string, std::set<std::string>, std::less<>>;

// Returns the JSON merge patch that brings `node` (an API object) to the wanted state; nothing when
// it is there. The patch carries the node's resourceVersion, so it fails if another client changed
// the node in between. `known` is kept from call to call, empty at first. Fails if `node` is not a
// Node.
Result<std::optional<std::string>> metadata_patch(const boost::json::value& node, const NodeMetadata& wanted,
                                                  LabelValues& known);

}  // namespace tessera::agent
