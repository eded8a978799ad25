// cli/output/json_print.h
//
// JSON as kubectl prints it.
#pragma once

#include <boost/json/value.hpp>
#include <string>

namespace tessera::cli {

// Four spaces a level, a newline at the end.
std::string pretty_json(const boost::json::value& value);

}  // namespace tessera::cli
