// objects/original_annotations.h
//
// Reads the Node annotations of the original topology plugin. Includes simdjson, so include this
// header only in .cc files.
#pragma once

#include "alloc/node.h"
#include "objects/object_fields.h"

namespace tessera::objects {

// Reads the annotation `name` into `node` if it is one of the original topology plugin.
JsonError read_original(std::string_view name, JsonValue text, alloc::OriginalNode& node);

// Drops these annotations of a node that has an inventory, because tessera-agent writes them as well.
void forget_unused_original(alloc::NodeSpec& node);

}  // namespace tessera::objects
