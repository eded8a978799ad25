#include "base/nearest_name.h"

#include <algorithm>
#include <array>

namespace tessera {

namespace {

constexpr std::size_t kMostEdits = 3;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same(char a, char b) {
  return lower(a) == lower(b);
}

// Returns the number of edits between two words of at most kMostNameBytes.
std::size_t edits(std::string_view from, std::string_view to) {
  using Row = std::array<std::size_t, kMostNameBytes + 1>;
  // Row i has the edits between the first i letters of `from` and each beginning of `to`. A swap
  // needs the row before the previous one.
  Row before{};
  Row previous{};
  Row current{};
  for (std::size_t j = 0; j <= to.size(); ++j) {
    previous[j] = j;
  }
  for (std::size_t i = 1; i <= from.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = previous[j - 1] + (same(from[i - 1], to[j - 1]) ? 0 : 1);
      current[j] = std::min({replaced, previous[j] + 1, current[j - 1] + 1});
      if (i > 1 && j > 1 && same(from[i - 1], to[j - 2]) && same(from[i - 2], to[j - 1])) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    before = previous;
    previous = current;
  }
  return previous[to.size()];
}

}  // namespace

std::optional<std::string_view> nearest_name(std::string_view word, std::span<const std::string_view> known) {
  if (word.size() > kMostNameBytes) {
    return std::nullopt;
  }
  std::optional<std::string_view> nearest;
  std::size_t fewest = kMostEdits + 1;
  for (const std::string_view name : known) {
    if (name.size() > kMostNameBytes) {
      continue;
    }
    const std::size_t allowed = std::min(kMostEdits, std::max(word.size(), name.size()) / 3);
    const std::size_t needed = edits(word, name);
    if (needed <= allowed && needed < fewest) {
      nearest = name;
      fewest = needed;
    }
  }
  return nearest;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  const auto nearest = nearest_name(word, known);
  return nearest ? "; did you mean " + std::string(*nearest) + "?" : "";
}

}  // namespace tessera
