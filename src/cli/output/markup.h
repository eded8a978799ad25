// cli/output/markup.h
//
// Escapes untrusted text for SVG and Markdown, so that names from the cluster cannot add elements,
// links or table cells.
#pragma once

#include <string>
#include <string_view>

namespace tessera::cli {

// Returns `text` for use in XML, as the content of an element or in a quoted attribute. Control
// characters are written as \u001b, and bytes that are not UTF-8 become U+FFFD.
std::string xml_text(std::string_view text);

// Returns `text` for use in a line or table cell of Markdown.
std::string markdown_text(std::string_view text);

}  // namespace tessera::cli
