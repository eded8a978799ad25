// objects/pod_decoder.h
//
// Decodes a Pod of the API into the fields that the ledger needs, in one pass.
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

// Optional parts of a pod. By default none is read.
struct PodExtras {
  bool container_ids = false;  // ContainerSpec::id
  // The resources to read into ContainerSpec::other_limits. A name that ends in '*' stands for all
  // resources with this prefix. The list must stay valid during the call.
  const std::vector<std::string>* resources = nullptr;
  PodDetails* details = nullptr;  // replaced if not null
  LabelHashes* labels = nullptr;  // replaced if not null; then `details` gets no labels
};

// Replaces the contents of `pod` and `meta` with those of the object, and reuses the memory of
// `pod`. Returns kInvalid if a field has the wrong type or a quantity is malformed. `meta` then has
// the fields that were read before the error.
Status decode_pod(kube::ObjectJson& object, const alloc::ResourceNames& names, kube::ObjectMeta& meta,
                  alloc::PodSpec& pod, const PodExtras& extras = {});

}  // namespace tessera::objects
