// base/nearest_name.h
//
// Suggests a name for a misspelt one:
//
//   nearest_name("gpumem", {"gpu", "gpu-mem", "gpu-count"})   // "gpu-mem"
//
// Pure, and bounded for hostile input: a word that is longer than kMostNameBytes gets no suggestion.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

// Longer words and names are not compared.
inline constexpr std::size_t kMostNameBytes = 64;

// Returns the entry of `known` that `word` most likely means: the one with the fewest edits (a
// letter inserted, removed or replaced, or two neighbours swapped; case does not count). The first
// of equally near entries wins. Returns nothing if every entry needs more edits than a third of the
// letters of the longer word, or more than 3. The result points into `known`.
//
// Compare only the part of a name that may be misspelt: in names with a long common prefix, three
// edits can replace everything after the prefix.
std::optional<std::string_view> nearest_name(std::string_view word, std::span<const std::string_view> known);

// Returns "; did you mean binpack?" for the end of an error message, or "" without a suggestion.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

}  // namespace tessera
