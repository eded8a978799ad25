#include "extender/known_order.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "extender/node_index.h"

namespace tessera::extender {

namespace {

// Returns the length of the common prefix, at most `most`. json::kPadding bytes after both must be
// readable.
std::size_t common_bytes(const char* a, const char* b, std::size_t most) {
  std::size_t at = 0;
  for (; at < most; at += sizeof(std::uint64_t)) {
    std::uint64_t left = 0;
    std::uint64_t right = 0;
    __builtin_memcpy(&left, a + at, sizeof(left));
    __builtin_memcpy(&right, b + at, sizeof(right));
    if (left != right) {
      // All supported platforms are little-endian.
      return std::min(most, at + static_cast<std::size_t>(std::countr_zero(left ^ right)) / 8);
    }
  }
  return most;
}

}  // namespace

void KnownOrder::learn(json::PaddedView text, std::span<const std::uint32_t> quotes,
                       std::span<const alloc::NodeId> ids) {
  text_.clear();
  text_.append(text.text());
  quotes_.assign(quotes.begin(), quotes.end());
  ids_.assign(ids.begin(), ids.end());
  std::ranges::fill(next_, 0U);
  for (std::uint32_t i = 0; i < ids_.size(); ++i) {
    if (ids_[i] == kUnknownNode) {
      continue;
    }
    if (raw(ids_[i]) >= next_.size()) {
      next_.resize(std::size_t{raw(ids_[i])} + 1);
    }
    next_[raw(ids_[i])] = i + 1;
  }
}

KnownOrder::Run KnownOrder::run_after(alloc::NodeId node, json::PaddedView text) const {
  const std::size_t place = raw(node) < next_.size() ? next_[raw(node)] : 0;
  if (place == 0 || place == ids_.size()) {
    return {};
  }
  const std::size_t begin = quotes_[2 * place];
  const std::string_view known = text_.text().substr(begin);
  const std::size_t common = common_bytes(text.data(), known.data(), std::min(text.size(), known.size()));
  // A name is complete if its closing quote is within the common prefix.
  std::size_t whole = place;
  std::size_t beyond = ids_.size();
  while (whole < beyond) {
    const std::size_t middle = whole + (beyond - whole) / 2;
    if (quotes_[2 * middle + 1] < begin + common) {
      whole = middle + 1;
    } else {
      beyond = middle;
    }
  }
  return {.place = place, .count = whole - place};
}

}  // namespace tessera::extender
