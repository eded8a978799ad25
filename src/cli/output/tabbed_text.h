// cli/output/tabbed_text.h
//
// Lays out tab-terminated cells in columns by the rules of Go's text/tabwriter. The original tools
// print with text/tabwriter, and Tessera's output must equal theirs byte for byte.
#pragma once

#include <string>
#include <string_view>

namespace tessera::cli {

// Returns `text` with its cells padded. A column is a run of consecutive lines that have a
// tab-terminated cell in the same position. It is `padding` spaces wider than its widest cell. Text
// after the last tab of a line belongs to no column. Widths count UTF-8 characters.
std::string tabbed_text(std::string_view text, std::size_t padding = 2);

}  // namespace tessera::cli
