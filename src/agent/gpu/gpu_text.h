// agent/gpu/gpu_text.h
//
// How a GPU is called where people and machines read it, and the words of the kind. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/devices/cdi_spec.h"
#include "agent/devices/device_kind.h"
#include "alloc/inventory.h"

namespace tessera::agent {

const KindWords& gpu_words();
// tessera.io/gpu, in files that have had their name since before there were other kinds.
CdiKind gpu_cdi_kind();

// "GPU 3 (GPU-5d3c...)".
std::string name_of(const alloc::Gpu& gpu);
// "GPU 3 (Tesla V100-SXM2-32GB, GPU-5d3c...)".
std::string describe(const alloc::Gpu& gpu);

// The GPUs of a node, for those who know devices only.
std::vector<NodeDevice> node_devices(const alloc::Inventory& inventory);

}  // namespace tessera::agent
