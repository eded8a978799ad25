// extender/yaml_keys.h
//
// Finds keys that occur twice in a map of a scheduler Policy. Parsers differ in which of the two
// values they use, so such a file is rejected.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

#include "base/result.h"

namespace tessera::extender {

// Returns kInvalid, with line and column, if a key of `root` occurs twice, or if the file is larger
// or more deeply nested than any real one. `name` is the name of the file.
Status check_keys(const YAML::Node& root, const std::string& name);

}  // namespace tessera::extender
