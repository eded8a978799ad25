// extender/yaml_text.h
//
// A YAML tree as text that reads back as the same tree. yaml-cpp's own writer puts quotes only where a text
// could not be parsed without them: a loaded "true" comes out as true, which is no text to whoever reads it.
#pragma once

#include <string>

#include "base/result.h"

namespace YAML {
class Node;
}

namespace tessera::extender {

// `root` is written as it was read: what stood in quotes or in several lines is in double quotes, aliases
// stay aliases (their names become numbers), and keys keep their order. Comments are not part of a tree.
// kInvalid for what yaml-cpp reads and cannot write: tags with signs that no tag may have.
Result<std::string> yaml_text(const YAML::Node& root);

}  // namespace tessera::extender
