// agent/gpu/node_metadata.h
//
// Computes the annotations and labels that the agent writes to its Node, and the patch that sets
// them. Pure.
//
// The agent owns the annotations tessera.io/inventory, GPU_TOPOLOGY and GSOC_DEV_<i>_<j>
// (contract.md). Labels are shared with other writers, such as NVIDIA's GPU feature discovery. So
// the annotation tessera.io/labels lists the labels that the agent wrote. The agent does not change
// a label that is not in this list. It also does not change a listed label if another writer has
// changed its value.
//
// The labels have the names by which users already select nodes: those of NVIDIA's GPU feature
// discovery, and those of Alibaba's clusters, where gpushare comes from:
//
//   nvidia.com/gpu.product=Tesla-V100-SXM2-32GB, gpu.count=8, gpu.memory=32768 (MiB),
//     gpu.family=volta, gpu.compute.major=7, gpu.compute.minor=0, gpu.machine=DGX-1
//   nvidia.com/cuda.driver-version.full=550.54.15 (.major .minor .revision),
//     cuda.runtime-version.full=12.4
//   aliyun.accelerator/nvidia_name, nvidia_count, nvidia_mem=32768MiB
//   tessera.io/gpu.nvlink=NV2                     the best NVLink of two GPUs, or "none"
//   tessera.io/gpu.nvswitch=true
//
// A node with several models is labelled with the most frequent one. If several models are equally
// frequent, the GPU with the lowest index decides. nvidia.com/gpu.present is not set, because
// NVIDIA's DaemonSets would then run here and serve the same GPUs.
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

// Facts that the labels need and the inventory does not contain.
struct GpuSoftware {
  std::vector<std::string> compute{};  // compute capability per GPU: "7.0"; empty: unknown
  std::string cuda{};                  // "12.4"; empty: unknown
};

// Returns the labels of the node; none for a node without GPUs. Omits labels with unknown values.
alloc::Annotations node_labels(const alloc::Inventory& inventory, const GpuSoftware& software);

// Converts any text to a label value that Kubernetes accepts: replaces each run of white space with one
// dash, removes invalid characters, and cuts the result to 63 characters. May return "".
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

// Nodes with more GPUs than this get no annotations of the original. The size of these annotations
// grows with the square of the number of GPUs. The tools that read them never supported such nodes.
inline constexpr std::size_t kMaxOriginalGpus = 16;

// Fails if the annotations are too large for the API server.
Result<NodeMetadata> node_metadata(const alloc::Inventory& inventory, const GpuSoftware& software,
                                   const NodeMetadataOptions& options);

// For each label of the agent, the values by which the agent recognizes the label as its own: the
// value that this process found first, and every value that it has tried to write since. If the
// label has any other value, another writer has taken it over.
using LabelValues = std::map<std::string, std::set<std::string>, std::less<>>;

// Returns the JSON merge patch that brings the Node object `node` to the wanted state. Returns
// nullopt if nothing has to change. Fails if `node` is not a Node. The patch contains the
// resourceVersion, so the API server rejects it if another client has changed the node since. Pass
// an empty `known` to the first call, and the same variable to later ones.
Result<std::optional<std::string>> metadata_patch(const boost::json::value& node, const NodeMetadata& wanted,
                                                  LabelValues& known);

}  // namespace tessera::agent
