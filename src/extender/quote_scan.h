// extender/quote_scan.h
//
// Finds the quotes of a text, sixteen bytes at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "json/padded_buffer.h"

namespace tessera::extender {

// Writes the positions of all '"' in `text` to the first elements of `quotes`. Returns the number
// of positions. May enlarge `quotes`; its other elements are undefined. Sets `odd` to true if the
// text has an odd byte: a backslash, a control character or a non-ASCII byte. A JSON parser must
// decode or reject such a text.
std::size_t find_quotes(json::PaddedView text, std::vector<std::uint32_t>& quotes, bool& odd);

// Returns the position of the closing quote of the name whose opening quote is at `begin`. Returns
// 0 if a quote is missing, or if the name has an odd byte.
std::size_t end_of_name(json::PaddedView text, std::size_t begin);

}  // namespace tessera::extender
