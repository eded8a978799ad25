// cli/output/json_print.h
//
// Prints JSON in the layout of kubectl.
#pragma once

#include <boost/json/value.hpp>
#include <string>

namespace tessera::cli {

// Indents each level by four spaces and ends with a newline.
std::string pretty_json(const boost::json::value& value);

}  // namespace tessera::cli
