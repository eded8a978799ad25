// kube/pod_decoder.h
//
// Reads a Pod of the API into what the ledger wants of it, in one pass.
#pragma once

#include "alloc/names.h"
#include "alloc/pod.h"
#include "base/result.h"
#include "kube/object_sink.h"
#include "kube/pod_details.h"

namespace tessera::kube {

// Fills `pod` anew (its memory is used again) and `meta`. kInvalid, with `meta` as far as it goes, when a
// field has the wrong type or a quantity is not one. `container_ids`: ContainerSpec::id as well. `details`,
// where given, is filled anew too.
Status decode_pod(ObjectJson& object, const alloc::ResourceNames& names, ObjectMeta& meta,
                  alloc::PodSpec& pod, bool container_ids = false, PodDetails* details = nullptr);

}  // namespace tessera::kube
