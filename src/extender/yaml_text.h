// extender/yaml_text.h
//
// Writes a YAML tree as text that parses to the same tree. The emitter of yaml-cpp alone does not
// guarantee that. For example, it writes the string "true" without quotes, which parses as a
// boolean.
#pragma once

#include <string>

#include "base/result.h"

namespace YAML {
class Node;
}

namespace tessera::extender {

// Returns the text of `root`. Scalars that were quoted or had several lines get double quotes.
// Aliases stay aliases, with numbers as names. Keys keep their order, and comments are lost.
// Returns kInvalid if a tag has characters that yaml-cpp can read but not write.
Result<std::string> yaml_text(const YAML::Node& root);

}  // namespace tessera::extender
