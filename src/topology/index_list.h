// topology/index_list.h
//
// Lists of CPU, NUMA and GPU numbers as Linux and nvidia-smi write them: "0-19,40-59".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera::topology {

struct IndexRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;  // inclusive
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

// Ascending, with neighbouring ranges merged, so that equal sets are equal lists.
class IndexList {
 public:
  // Largest number that may stand in a list; more is a typing error, not a machine.
  static constexpr std::uint32_t kMaxIndex = 65'535;

  IndexList() = default;

  // "" is the empty list. Fails on anything else that is not numbers, ranges and commas.
  static Result<IndexList> parse(std::string_view text);

  // The list of one number.
  static IndexList of(std::uint32_t index) {
    IndexList list;
    list.ranges_ = {{index, index}};
    return list;
  }

  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool empty() const { return ranges_.empty(); }
  [[nodiscard]] const std::vector<IndexRange>& ranges() const { return ranges_; }

  friend bool operator==(const IndexList&, const IndexList&) = default;

 private:
  std::vector<IndexRange> ranges_;
};

}  // namespace tessera::topology
