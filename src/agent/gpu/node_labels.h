// agent/gpu/node_labels.h
//
// The GPUs of a node as labels, under the names that people already select nodes by: those of NVIDIA's GPU
// feature discovery, and those of Alibaba's clusters, where gpushare comes from. Pure.
//
//   nvidia.com/gpu.product=Tesla-V100-SXM2-32GB   gpu.count=8   gpu.memory=32768 (MiB)   gpu.family=volta
//   nvidia.com/gpu.compute.major=7                gpu.compute.minor=0                    gpu.machine=DGX-1
//   nvidia.com/cuda.driver-version.full=550.54.15 (.major .minor .revision), cuda.runtime-version.full=12.4
//   aliyun.accelerator/nvidia_name, nvidia_count, nvidia_mem=32768MiB
//   tessera.io/gpu.nvlink=NV2                     the best link between two GPUs; "none"
//   tessera.io/gpu.nvswitch=true
//
// A node with several models is labelled with the most frequent one (of equals, the one with the lowest
// index). nvidia.com/gpu.present is not set: NVIDIA's own DaemonSets would come and serve the same GPUs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "alloc/inventory.h"

namespace tessera::agent {

// What the inventory does not carry.
struct GpuSoftware {
  std::vector<std::string> compute{};  // capability of each of inventory.gpus: "7.0"; may be empty
  std::string cuda{};                  // "12.4"; may be empty
};

// None for a node without GPUs. What is not known has no label.
alloc::Annotations node_labels(const alloc::Inventory& inventory, const GpuSoftware& software);

// Foreign text as Kubernetes takes it in a label: white space becomes one dash, what may not stand there
// goes, at most 63 characters. Empty when nothing is left.
std::string label_value(std::string_view text);

}  // namespace tessera::agent
