// base/strings.h
//
// String helpers that the standard library lacks. All are independent of the locale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Removes white space (space, tab, CR, LF) from both ends.
std::string_view trim(std::string_view text);

// Returns the parts between the separators, including empty ones: {""} for "", {"a", "", "b"} for
// "a,,b". The views point into `text`.
std::vector<std::string_view> split(std::string_view text, char separator);

// Splits at white space and drops empty words: " a  b" -> {"a", "b"}.
std::vector<std::string_view> split_words(std::string_view text);

// Parses a decimal integer. Returns nothing for a plus sign, spaces, other characters or overflow.
std::optional<std::int64_t> parse_int(std::string_view text);

// Returns "a", "a and b" or "a, b and c": for messages.
std::string join_words(const std::vector<std::string>& words);

// Quotes untrusted text for a message: escapes quotes, backslashes and control characters, and cuts
// the text after `max_bytes`.
std::string in_quotes(std::string_view text, std::size_t max_bytes = 80);

}  // namespace tessera
