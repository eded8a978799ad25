// cli/output/json_print.h
//
// Prints JSON for people and scripts. Numbers are plain: 0, 5.133333333333333. Boost.JSON would
// print 0E0 and 5.133333333333333E0, which some YAML parsers read as text.
#pragma once

#include <boost/json/value.hpp>
#include <string>

namespace tessera::cli {

// Returns `value` in the layout of kubectl. Each level is indented by four spaces, and the text
// ends with a newline.
std::string pretty_json(const boost::json::value& value);

// Returns `value` on one line, without spaces and without a newline.
std::string compact_json(const boost::json::value& value);

// Returns the shortest text that parses back to `number`. It has an exponent only below 1e-6 and
// from 1e21 on. Returns "null" for infinities and NaN, which JSON does not have.
std::string number_text(double number);

}  // namespace tessera::cli
