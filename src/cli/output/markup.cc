#include "cli/output/markup.h"

#include "cli/output/safe_output.h"

namespace tessera::cli {

std::string xml_text(std::string_view text) {
  std::string safe = printable(text);
  // XML allows neither of these two characters, although both are valid UTF-8.
  for (const std::string_view forbidden : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {
    for (std::size_t at = safe.find(forbidden); at != std::string::npos; at = safe.find(forbidden)) {
      safe.replace(at, forbidden.size(), "\xEF\xBF\xBD");
    }
  }
  std::string out;
  for (const char c : safe) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string markdown_text(std::string_view text) {
  static constexpr std::string_view kSpecial = "\\`*_[]<>|~&@";
  std::string out;
  for (const char c : printable(text)) {
    const bool link = c == ':' && (out.ends_with("http") || out.ends_with("https"));
    if (link || kSpecial.find(c) != std::string_view::npos) {
      out += '\\';
    }
    out += c;
  }
  return out;
}

}  // namespace tessera::cli
