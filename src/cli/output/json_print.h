// cli/output/json_print.h
//
// Prints JSON in the layout of kubectl.
#pragma once

#include <boost/json/value.hpp>
#include <string>

namespace tessera::cli {

// Returns `value` as text. Each level is indented by four spaces, and the text ends with a newline.
std::string pretty_json(const boost::json::value& value);

}  // namespace tessera::cli
