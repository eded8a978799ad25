// objects/node_decoder.h
//
// Decodes a Node of the API into the fields that the ledger needs, in one pass.
#pragma once

#include "alloc/names.h"
#include "alloc/node.h"
#include "base/result.h"
#include "kube/object_sink.h"

namespace tessera::objects {

// Replaces `node` and `meta` with what the object says. Does not change node.unhealthy_gpus, which
// comes from a ConfigMap. Returns kInvalid if a field has the wrong type or a quantity is
// malformed. `meta` then has the fields that were read before the error.
Status decode_node(kube::ObjectJson& object, const alloc::ResourceNames& names, kube::ObjectMeta& meta,
                   alloc::NodeSpec& node);

}  // namespace tessera::objects
