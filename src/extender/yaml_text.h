// extender/yaml_text.h
//
// Writes a YAML tree as text that parses to the same tree. The emitter of yaml-cpp writes quotes
// only where the text could not be parsed without them: the string "true" comes out as true, which
// is a boolean.
#pragma once

#include <string>

#include "base/result.h"

namespace YAML {
class Node;
}

namespace tessera::extender {

// Writes `root` as it was read. Scalars that were quoted or had several lines get double quotes,
// aliases stay aliases (their names become numbers), keys keep their order, and comments are lost.
// Returns kInvalid for tags with characters that yaml-cpp can read but not write.
Result<std::string> yaml_text(const YAML::Node& root);

}  // namespace tessera::extender
