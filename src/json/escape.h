// json/escape.h
//
// The one way in which our hot replies turn text into JSON.
//
// Cold paths build a boost::json::value and serialise it. A reply to kube-scheduler names thousands of nodes
// and is appended to a reused string instead:
//
//   out += "{\"NodeNames\":[";
//   append_quoted(out, name);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::json {

// Appends `text` as a JSON string with its quotes. Any bytes give valid JSON: control characters are escaped,
// and what is not UTF-8 becomes U+FFFD, one for each byte that fits nowhere.
void append_quoted(std::string& out, std::string_view text);

// The same without the quotes.
void append_escaped(std::string& out, std::string_view text);

void append_number(std::string& out, std::int64_t value);

}  // namespace tessera::json
