// json/escape.h
//
// Writes JSON strings and numbers into responses on hot paths.
//
// Other code builds a boost::json::value and serializes it. A response to kube-scheduler contains
// thousands of node names and is appended to a reused string instead:
//
//   out += "{\"NodeNames\":[";
//   append_quoted(out, name);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::json {

// Appends `text` as a quoted JSON string. Produces valid JSON for any input: control characters are
// escaped, and each byte that is not valid UTF-8 becomes U+FFFD.
void append_quoted(std::string& out, std::string_view text);

// Appends `text` like append_quoted(), but without the quotes around it.
void append_escaped(std::string& out, std::string_view text);

void append_number(std::string& out, std::int64_t value);

}  // namespace tessera::json
