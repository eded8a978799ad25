#include "json/escape.h"

#include <array>
#include <charconv>

namespace tessera::json {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Bytes that need no escaping: printable ASCII except the quote and the backslash.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (std::size_t c = 0x20; c < 0x7F; ++c) {
    plain[c] = c != '"' && c != '\\';
  }
  return plain;
}();

unsigned char byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Returns the length of the UTF-8 sequence at the front of `text`, or 0 if it is invalid
// (truncated, overlong, a surrogate, beyond U+10FFFF). The bounds of the second byte are from
// Unicode table 3-7.
std::size_t sequence_length(std::string_view text) {
  const unsigned char lead = byte_at(text, 0);
  std::size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    low = lead == 0xE0 ? 0xA0 : low;
    high = lead == 0xED ? 0x9F : high;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    low = lead == 0xF0 ? 0x90 : low;
    high = lead == 0xF4 ? 0x8F : high;
  } else {
    return 0;
  }
  if (text.size() < length || byte_at(text, 1) < low || byte_at(text, 1) > high) {
    return 0;
  }
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte_at(text, i) & 0xC0U) != 0x80) {
      return 0;
    }
  }
  return length;
}

void append_control(std::string& out, unsigned char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      constexpr std::string_view digits = "0123456789abcdef";
      out += "\\u00";
      out += digits[c >> 4U];
      out += digits[c & 0xFU];
  }
}

}  // namespace

void append_escaped(std::string& out, std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    std::size_t end = i;
    while (end < text.size() && kPlain[byte_at(text, end)]) {
      ++end;
    }
    out.append(text, i, end - i);
    i = end;
    if (i == text.size()) {
      return;
    }
    if (byte_at(text, i) <= 0x7F) {
      append_control(out, byte_at(text, i));
      ++i;
    } else if (const std::size_t length = sequence_length(text.substr(i)); length > 0) {
      out.append(text, i, length);
      i += length;
    } else {
      out += kReplacement;
      ++i;
    }
  }
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  append_escaped(out, text);
  out += '"';
}

void append_number(std::string& out, std::int64_t value) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

}  // namespace tessera::json
