#include "base/strings.h"

#include <fmt/core.h>

#include <charconv>

namespace tessera {

namespace {
constexpr std::string_view kSpace = " \t\r\n";
}

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos) {
      return words;
    }
    text.remove_prefix(first);
    const std::size_t end = text.find_first_of(kSpace);
    words.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return words;
    }
    text.remove_prefix(end);
  }
}

std::optional<std::int64_t> parse_int(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end) {
    return std::nullopt;
  }
  return value;
}

std::string join_words(const std::vector<std::string>& words) {
  std::string joined;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) {
      joined += i + 1 == words.size() ? " and " : ", ";
    }
    joined += words[i];
  }
  return joined;
}

std::string in_quotes(std::string_view text, std::size_t max_bytes) {
  std::string result = "\"";
  const bool cut = text.size() > max_bytes;
  if (cut) {
    // Do not cut inside a UTF-8 sequence, whose continuation bytes are 10xxxxxx.
    while (max_bytes > 0 && (static_cast<unsigned char>(text[max_bytes]) & 0xC0U) == 0x80U) {
      --max_bytes;
    }
    text = text.substr(0, max_bytes);
  }
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  result += cut ? "…\"" : "\"";
  return result;
}

}  // namespace tessera
