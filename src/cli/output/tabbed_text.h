// cli/output/tabbed_text.h
//
// Text whose cells end with tabs, laid out in columns by the rules of Go's text/tabwriter, which the tools
// that Tessera replaces printed with: the output must have the same bytes.
#pragma once

#include <string>
#include <string_view>

namespace tessera::cli {

// A column is a run of neighbouring lines that have a tab-ended cell in that place; it is as wide as its
// widest cell and `padding` spaces more. What follows the last tab of a line belongs to no column. Widths
// count characters of UTF-8.
std::string tabbed_text(std::string_view text, std::size_t padding = 2);

}  // namespace tessera::cli
