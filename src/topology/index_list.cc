#include "topology/index_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "base/strings.h"
#include "topology/gpu_mask.h"

namespace tessera::topology {

namespace {

std::optional<std::uint32_t> parse_index(std::string_view text) {
  const auto number = parse_int(trim(text));
  if (!number || *number < 0 || *number > IndexList::kMaxIndex) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(*number);
}

std::optional<IndexRange> parse_range(std::string_view text) {
  const auto dash = text.find('-');
  const auto first = parse_index(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_index(text.substr(dash + 1));
  if (!first || !last || *last < *first) {
    return std::nullopt;
  }
  return IndexRange{*first, *last};
}

}  // namespace

Result<IndexList> IndexList::parse(std::string_view text) {
  IndexList list;
  if (trim(text).empty()) {
    return list;
  }
  for (const std::string_view part : split(text, ',')) {
    const auto range = parse_range(part);
    if (!range) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("{} is not a list of numbers like 0-3,8", in_quotes(trim(text))));
    }
    list.ranges_.push_back(*range);
  }
  std::ranges::sort(list.ranges_, {}, &IndexRange::first);
  std::vector<IndexRange> merged;
  for (const IndexRange& range : list.ranges_) {
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  list.ranges_ = std::move(merged);
  return list;
}

std::string IndexList::text() const {
  std::string out;
  for (const IndexRange& range : ranges_) {
    out += out.empty() ? "" : ",";
    out += range.first == range.last ? fmt::format("{}", range.first)
                                     : fmt::format("{}-{}", range.first, range.last);
  }
  return out;
}

std::string gpu_list(GpuMask mask) {
  std::string out;
  while (mask != 0) {
    const unsigned first = lowest_gpu(mask);
    const auto length = static_cast<unsigned>(std::countr_one(mask >> first));
    out += out.empty() ? "" : ",";
    out += length == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, first + length - 1);
    mask &= ~(first_gpus(length) << first);
  }
  return out;
}

Result<GpuMask> parse_gpu_list(std::string_view text) {
  const IndexList list = TRY(IndexList::parse(text));
  GpuMask mask = 0;
  for (const IndexRange& range : list.ranges()) {
    if (range.last >= kMaxGpus) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("GPU {} does not exist; a node has at most {} GPUs", range.last, kMaxGpus));
    }
    mask |= first_gpus(range.last - range.first + 1) << range.first;
  }
  return mask;
}

}  // namespace tessera::topology
