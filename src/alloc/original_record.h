// alloc/original_record.h
//
// Decisions in the words of the systems that Tessera replaces: reading theirs, and writing ours for tools
// that know no others.
#pragma once

#include <cstdint>
#include <span>

#include "alloc/gpu_name.h"
#include "alloc/pod.h"
#include "alloc/record.h"
#include "alloc/request.h"
#include "base/result.h"

namespace tessera::alloc {

// What the annotations of old schedulers say, GPUs named by index ("index-3"): for shares
// scheduler.framework.gpushare.allocation or ALIYUN_COM_GPU_MEM_IDX, for whole GPUs ALIYUN_COM_GPU_GROUP or
// ALIYUN_COM_GPU_IDX. kNotFound when there are none; kInvalid when they do not agree with the containers.
Result<Record> original_record(const Annotations& annotations, const GpuRequest& request);

struct BindingFacts {
  std::int64_t assume_time_ns = 0;  // since 1970: old plugins serve pods in this order
  bool has_agent = true;            // false: the old plugin runs on the node and decides by ASSIGNED "false"
};

// All annotations of a Binding: tessera.io/allocation on nodes with an agent, and the old ones derived from
// the record. Fails when the record names a GPU that is not among `gpus`.
Result<Annotations> binding_annotations(const GpuRequest& request, const Record& record,
                                        std::span<const GpuName> gpus, const BindingFacts& facts);

// Which of key::kRecord a pod carries, a bit for each.
using RecordKeys = std::uint8_t;
RecordKeys record_keys(const Annotations& annotations);
// Adds to a Binding those that the pod carries before anybody has decided about it and that the Binding would
// leave as they are: emptied, for readers would believe them beside ours or instead.
void empty_stale_records(RecordKeys carried, Annotations& binding);

// The environment of one container: NVIDIA_VISIBLE_DEVICES and, where it shares GPUs, the four variables of
// the original. A container that is not in the record, and one whose GPU is gone, sees none ("void").
Annotations container_env(const GpuRequest& request, const Record& record, std::span<const GpuName> gpus,
                          std::string_view container);

}  // namespace tessera::alloc
