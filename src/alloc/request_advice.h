// alloc/request_advice.h
//
// Advice about requests that are valid, but often not what their author meant. Pure. The extender
// records it in Events, and `tessera why` prints it. The chart's admission policy warns about the
// same mixed requests.
#pragma once

#include <string>

#include "alloc/ledger.h"
#include "alloc/names.h"
#include "alloc/pod.h"
#include "alloc/request.h"
#include "alloc/units.h"

namespace tessera::alloc {

// Returns whether one container requests whole GPUs and GPU memory. Cheap, for every filter call.
bool mixes_whole_and_shared(const PodSpec& pod);

// Returns what such a container gets and what to write instead, for the first such container of the
// pod. Returns "" if there is none, or if its limits are invalid. For example:
//
//   container "main" gets 1 whole GPU (aliyun.com/gpu) and also 3GiB of another GPU
//   (aliyun.com/gpu-mem); for 3GiB of one GPU, remove aliyun.com/gpu; for whole GPUs only, remove
//   aliyun.com/gpu-mem
std::string mixed_request_advice(const PodSpec& pod, const ResourceNames& names, Unit unit);

// Returns advice about the first entry of tessera.io/gpu-model that matches no GPU of the cluster:
// a similar model, and the models that exist. Returns "" if all entries match or no model is known.
//
//   no GPU of the cluster is of model "A10O"; did you mean A100? The cluster has "NVIDIA A100-SXM4-80GB"
std::string unknown_model_advice(const Ledger& ledger, const Request& request);

}  // namespace tessera::alloc
