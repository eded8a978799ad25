#include "http/headers.h"

#include <algorithm>

#include "base/strings.h"

namespace tessera::http {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

bool is_one_line(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

void Headers::add(std::string_view name, std::string_view value) {
  entries_.push_back({static_cast<std::uint32_t>(text_.size()), static_cast<std::uint32_t>(name.size()),
                      static_cast<std::uint32_t>(value.size())});
  text_.append(name).append(value);
}

void Headers::clear() {
  text_.clear();
  entries_.clear();
}

std::string_view Headers::find(std::string_view wanted) const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (equals_ignoring_case(name(i), wanted)) {
      return value(i);
    }
  }
  return {};
}

bool Headers::has(std::string_view wanted) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return equals_ignoring_case(std::string_view(text_).substr(entry.name_at, entry.name_size), wanted);
  });
}

bool Headers::has_token(std::string_view wanted, std::string_view token) const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!equals_ignoring_case(name(i), wanted)) {
      continue;
    }
    for (const std::string_view part : split(value(i), ',')) {
      if (equals_ignoring_case(trim(part), token)) {
        return true;
      }
    }
  }
  return false;
}

std::string_view Headers::name(std::size_t i) const {
  return std::string_view(text_).substr(entries_[i].name_at, entries_[i].name_size);
}

std::string_view Headers::value(std::size_t i) const {
  return std::string_view(text_).substr(entries_[i].name_at + entries_[i].name_size, entries_[i].value_size);
}

}  // namespace tessera::http
