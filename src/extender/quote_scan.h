// extender/quote_scan.h
//
// Where the quotes of a text are, sixteen bytes at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "json/padded_buffer.h"

namespace tessera::extender {

// Writes the places of all '"' of `text` into `quotes`, which is only ever made longer, and tells how many
// there are. `odd` becomes true when some byte does not stand for itself in JSON: a backslash, a control
// character, or one beyond ASCII.
std::size_t find_quotes(json::PaddedView text, std::vector<std::uint32_t>& quotes, bool& odd);

// The place of the quote that ends the name whose opening quote is at `begin`. 0: there is none, or bytes
// before it do not stand for themselves.
std::size_t end_of_name(json::PaddedView text, std::size_t begin);

}  // namespace tessera::extender
