// base/strings.h
//
// The few things about text that the standard library lacks. Nothing here knows a locale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Without the white space (space, tab, CR, LF) at both ends.
std::string_view trim(std::string_view text);

// The parts between the separators; "" has one part, "a,,b" has three. The views point into `text`.
std::vector<std::string_view> split(std::string_view text, char separator);

// The runs of characters that are not white space: " a  b" -> {"a", "b"}.
std::vector<std::string_view> split_words(std::string_view text);

// A whole decimal number and nothing else: no sign unless negative, no spaces, no overflow.
std::optional<std::int64_t> parse_int(std::string_view text);

// "a", "a and b", "a, b and c": for messages.
std::string join_words(const std::vector<std::string>& words);

// The text in double quotes with quotes, backslashes and control characters escaped and cut to `max_bytes`:
// how foreign text stands in our messages.
std::string in_quotes(std::string_view text, std::size_t max_bytes = 80);

}  // namespace tessera
