// cli/output/yaml_print.h
//
// Prints a JSON value as YAML that people read and kubectl applies.
#pragma once

#include <boost/json/value.hpp>
#include <string>

namespace tessera::cli {

// Block style, two spaces. Texts that YAML could take for something else stand in quotes.
std::string yaml_text(const boost::json::value& value);

}  // namespace tessera::cli
