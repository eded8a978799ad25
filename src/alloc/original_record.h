// alloc/original_record.h
//
// Converts records from and to the annotations and container variables of the original systems.
// Reads the records that those systems wrote, and writes Tessera's records in their format for
// tools that know only that format.
#pragma once

#include <cstdint>
#include <span>

#include "alloc/gpu_name.h"
#include "alloc/pod.h"
#include "alloc/record.h"
#include "alloc/request.h"
#include "base/result.h"

namespace tessera::alloc {

// Reads a record from the annotations of the original schedulers. The record names GPUs by index
// ("index-3"). Shares are in scheduler.framework.gpushare.allocation or ALIYUN_COM_GPU_MEM_IDX.
// Whole GPUs are in ALIYUN_COM_GPU_GROUP or ALIYUN_COM_GPU_IDX. Returns kNotFound if the pod has
// none of these annotations, and kInvalid if they differ from the request.
Result<Record> original_record(const Annotations& annotations, const GpuRequest& request);

struct BindingFacts {
  std::int64_t assume_time_ns = 0;  // since 1970; the original plugins serve pods in this order
  // Whether tessera-agent runs on the node. If not, the node runs the original plugin, which serves
  // only pods whose ..._ASSIGNED annotation is "false".
  bool has_agent = true;
};

// Returns all annotations of a Binding: the original ones, derived from the record, and
// tessera.io/allocation if the node has an agent. Fails if the record differs from the request or
// names a GPU that is not in `gpus`.
Result<Annotations> binding_annotations(const GpuRequest& request, const Record& record,
                                        std::span<const GpuName> gpus, const BindingFacts& facts);

// Returns which annotations of key::kRecord a pod has, one bit for each.
using RecordKeys = std::uint8_t;
RecordKeys record_keys(const Annotations& annotations);
// Adds an empty value to the Binding for each record annotation that the pod had before it was
// scheduled (`carried`) and that the Binding does not overwrite. Otherwise readers would mistake
// the stale annotation for a valid record.
void empty_stale_records(RecordKeys carried, Annotations& binding);

// Returns the environment variables of one container: NVIDIA_VISIBLE_DEVICES and, if the container
// shares GPUs, the four variables of the original plugin. A container that is not in the record, or
// whose GPU is missing, sees no GPU ("void").
Annotations container_env(const GpuRequest& request, const Record& record, std::span<const GpuName> gpus,
                          std::string_view container);

}  // namespace tessera::alloc
