#include "cli/output/safe_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <utility>

#include "cli/output/terminal.h"

namespace tessera::cli {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: not UTF-8
};

// Returns how many bytes a character has that starts with `lead`; 0 if no character does.
std::size_t character_bytes(unsigned char lead) {
  return lead < 0x80U                     ? 1
         : lead >= 0xC2U && lead < 0xE0U  ? 2
         : lead >= 0xE0U && lead < 0xF0U  ? 3
         : lead >= 0xF0U && lead <= 0xF4U ? 4
                                          : 0;
}

// Decodes the first character of `text`, which is not empty.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t bytes = character_bytes(lead);
  if (bytes == 0 || bytes > text.size()) {
    return {};
  }
  std::uint32_t code = bytes == 1 ? lead : lead & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) {
      return {};
    }
    code = code << 6U | (byte(i) & 0x3FU);
  }
  const bool overlong = (bytes == 3 && code < 0x800U) || (bytes == 4 && code < 0x10000U);
  const bool surrogate = code >= 0xD800U && code < 0xE000U;
  return overlong || surrogate || code > 0x10FFFFU ? Character{} : Character{.code = code, .bytes = bytes};
}

// Returns how many bytes at the end of `text` are the start of an incomplete character.
std::size_t incomplete_bytes(std::string_view text) {
  for (std::size_t tail = 1; tail <= std::min<std::size_t>(text.size(), 3); ++tail) {
    const auto byte = static_cast<unsigned char>(text[text.size() - tail]);
    if ((byte & 0xC0U) != 0x80U) {
      return character_bytes(byte) > tail ? tail : 0;
    }
  }
  return 0;
}

bool controls_the_terminal(std::uint32_t code) {
  return code < 0x20U || (code >= 0x7FU && code < 0xA0U) ||  // C0, DEL, C1
         code == 0x061CU || code == 0x200EU || code == 0x200FU ||
         (code >= 0x2028U && code <= 0x202EU) ||  // line and paragraph separator, bidi embedding
         (code >= 0x2066U && code <= 0x2069U);    // bidi isolates
}

std::string escaped(std::string_view text, bool lines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character first = first_character(text);
    std::size_t bytes = std::max<std::size_t>(first.bytes, 1);
    if (first.bytes == 0) {
      out += kReplacement;
    } else if (!controls_the_terminal(first.code)) {
      out += text.substr(0, bytes);
    } else if (const std::size_t colour = lines ? colour_sequence(text) : 0; colour > 0) {
      bytes = colour;
      out += text.substr(0, bytes);
    } else if (lines && (text[0] == '\n' || text[0] == '\t')) {
      out += text[0];
    } else {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", first.code);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) {
  return escaped(text, false);
}

std::string printable_lines(std::string_view text) {
  return escaped(text, true);
}

SafeOutput::SafeOutput(std::ostream& stream) : stream_(stream), target_(stream.rdbuf()) {
  stream_.rdbuf(this);
}

SafeOutput::~SafeOutput() {
  const std::string rest = printable_lines(held_);
  target_->sputn(rest.data(), static_cast<std::streamsize>(rest.size()));
  stream_.flush();
  stream_.rdbuf(target_);
}

std::streamsize SafeOutput::xsputn(const char* text, std::streamsize size) {
  std::string whole = std::move(held_).append(text, static_cast<std::size_t>(size));
  held_ = whole.substr(whole.size() - incomplete_bytes(whole));
  whole.resize(whole.size() - held_.size());
  return write(printable_lines(whole)) ? size : 0;
}

bool SafeOutput::write(std::string_view text) {
  const auto size = static_cast<std::streamsize>(text.size());
  errno = 0;
  const bool written = target_->sputn(text.data(), size) == size;
  if (!written) {
    note_error();
  }
  return written;
}

void SafeOutput::note_error() {
  if (error_ == 0) {
    error_ = errno == 0 ? EIO : errno;
  }
}

SafeOutput::int_type SafeOutput::overflow(int_type symbol) {
  if (traits_type::eq_int_type(symbol, traits_type::eof())) {
    return traits_type::not_eof(symbol);
  }
  const char one = traits_type::to_char_type(symbol);
  return xsputn(&one, 1) == 1 ? symbol : traits_type::eof();
}

int SafeOutput::sync() {
  errno = 0;
  const int result = target_->pubsync();
  if (result != 0) {
    note_error();
  }
  return result;
}

void write_control(std::ostream& stream, std::string_view text) {
  auto* const safe = dynamic_cast<SafeOutput*>(stream.rdbuf());
  const auto size = static_cast<std::streamsize>(text.size());
  if (safe != nullptr ? !safe->write(text) : stream.rdbuf()->sputn(text.data(), size) != size) {
    stream.setstate(std::ios::badbit);
  }
}

}  // namespace tessera::cli
