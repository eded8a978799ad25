// alloc/units.h
//
// The amount of memory in one unit of aliyun.com/gpu-mem: 1 GiB, unless the cluster is configured
// otherwise.
//
//   const Unit unit = TRY(Unit::parse("256MiB"));
//   unit.units_of_mib(16130);   // 63: the rest is not allocated
//   unit.amount(8);             // "2GiB"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera::alloc {

class Unit {
 public:
  static constexpr std::uint32_t kLargestMib = 1U << 20U;

  // 1 GiB.
  Unit() = default;

  static Unit gib() { return Unit(1024); }
  static Unit mib() { return Unit(1); }

  // Accepts "GiB", "MiB", or a number in front of either: "256MiB", "2GiB". The unit is at most 1
  // TiB.
  static Result<Unit> parse(std::string_view text);

  [[nodiscard]] std::uint32_t in_mib() const { return mib_; }

  // Returns how many units fit into this much memory, rounded down.
  [[nodiscard]] std::uint32_t units_of_mib(std::int64_t mib) const;

  // Returns "GiB" or "256MiB". parse() of this text returns the same unit.
  [[nodiscard]] std::string text() const;

  // Returns the amount as text: "8GiB", "768MiB".
  [[nodiscard]] std::string amount(std::uint64_t units) const;

  friend bool operator==(const Unit&, const Unit&) = default;

 private:
  explicit Unit(std::uint32_t mib) : mib_(mib) {}

  std::uint32_t mib_ = 1024;
};

}  // namespace tessera::alloc
