#include "alloc/units.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "base/strings.h"

namespace tessera::alloc {

Result<Unit> Unit::parse(std::string_view text) {
  const auto wrong = [text] {
    return fail(
        ErrorCode::kInvalid,
        fmt::format("memory unit {} is not GiB, MiB or a number of either such as 256MiB", in_quotes(text)));
  };
  std::int64_t scale = 0;
  if (text.ends_with("GiB")) {
    scale = 1024;
  } else if (text.ends_with("MiB")) {
    scale = 1;
  } else {
    return wrong();
  }
  const std::string_view number = text.substr(0, text.size() - 3);
  const std::int64_t count = number.empty() ? 1 : parse_int(number).value_or(0);
  if (count < 1 || count > kLargestMib / scale) {
    return wrong();
  }
  return Unit(static_cast<std::uint32_t>(count * scale));
}

std::uint32_t Unit::units_of_mib(std::int64_t mib) const {
  const std::int64_t units = std::max<std::int64_t>(mib, 0) / mib_;
  return static_cast<std::uint32_t>(std::min<std::int64_t>(units, std::numeric_limits<std::uint32_t>::max()));
}

std::string Unit::text() const {
  if (mib_ % 1024 == 0) {
    return mib_ == 1024 ? "GiB" : fmt::format("{}GiB", mib_ / 1024);
  }
  return mib_ == 1 ? "MiB" : fmt::format("{}MiB", mib_);
}

std::string Unit::amount(std::uint64_t units) const {
  // Amounts come from 32-bit unit counts and their sums; the product stays far below 2^64.
  const std::uint64_t mib = units * mib_;
  return mib % 1024 == 0 ? fmt::format("{}GiB", mib / 1024) : fmt::format("{}MiB", mib);
}

}  // namespace tessera::alloc
