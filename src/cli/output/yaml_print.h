// cli/output/yaml_print.h
//
// Prints a JSON value as YAML that people can read and kubectl can apply.
#pragma once

#include <boost/json/value.hpp>
#include <string>

namespace tessera::cli {

// Returns `value` in block style, indented by two spaces. Quotes strings that YAML could read as
// another type.
std::string yaml_text(const boost::json::value& value);

}  // namespace tessera::cli
