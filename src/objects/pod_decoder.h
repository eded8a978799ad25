// objects/pod_decoder.h
//
// Reads a Pod of the API into what the ledger wants of it, in one pass.
#pragma once

#include <string>
#include <vector>

#include "alloc/names.h"
#include "alloc/pod.h"
#include "base/result.h"
#include "kube/object_sink.h"
#include "objects/label_hashes.h"
#include "objects/pod_details.h"

namespace tessera::objects {

// What only some want of a pod.
struct PodExtras {
  bool container_ids = false;  // ContainerSpec::id
  bool past = false;           // ContainerSpec::ran_before
  // ContainerSpec::other_limits of these resources; must live as long as the call.
  const std::vector<std::string>* resources = nullptr;
  PodDetails* details = nullptr;  // where given, filled anew
  LabelHashes* labels = nullptr;  // where given, filled anew; not with `details`, which has them in full
};

// Fills `pod` anew (its memory is used again) and `meta`. kInvalid, with `meta` as far as it goes, when a
// field has the wrong type or a quantity is not one.
Status decode_pod(kube::ObjectJson& object, const alloc::ResourceNames& names, kube::ObjectMeta& meta,
                  alloc::PodSpec& pod, const PodExtras& extras = {});

}  // namespace tessera::objects
