// topology/index_list.h
//
// Lists of CPU, NUMA and GPU numbers in the notation of Linux and nvidia-smi: "0-19,40-59".
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

// Ranges are ascending and merged where possible, so that equal sets compare equal.
class IndexList {
 public:
  // The largest number in a list. Larger numbers are typing errors.
  static constexpr std::uint32_t kMaxIndex = 65'535;

  IndexList() = default;

  // Parses numbers and ranges separated by commas; "" is the empty list. Returns kInvalid for any
  // other text.
  static Result<IndexList> parse(std::string_view text);

  // Returns a list with one number.
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
