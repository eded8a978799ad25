// objects/node_decoder.h
//
// Reads a Node of the API into what the ledger wants of it, in one pass.
#pragma once

#include "alloc/names.h"
#include "alloc/node.h"
#include "base/result.h"
#include "kube/object_sink.h"

namespace tessera::objects {

// Fills `node` anew (all but unhealthy_gpus, which is not in a Node) and `meta`. kInvalid as decode_pod().
Status decode_node(kube::ObjectJson& object, const alloc::ResourceNames& names, kube::ObjectMeta& meta,
                   alloc::NodeSpec& node);

}  // namespace tessera::objects
