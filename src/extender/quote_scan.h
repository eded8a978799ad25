// extender/quote_scan.h
//
// Finds the quotes of a text, sixteen bytes at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "json/padded_buffer.h"

namespace tessera::extender {

// Writes the positions of all '"' of `text` to `quotes` and returns their number. `quotes` only
// grows; its other elements are undefined. Sets `odd` if the text has a backslash, a control
// character or a byte outside of ASCII, which do not stand for themselves in JSON.
std::size_t find_quotes(json::PaddedView text, std::vector<std::uint32_t>& quotes, bool& odd);

// Returns the position of the quote that ends the name whose opening quote is at `begin`. Returns 0
// if there is none, or if the name has one of those odd bytes.
std::size_t end_of_name(json::PaddedView text, std::size_t begin);

}  // namespace tessera::extender
