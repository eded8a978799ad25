// base/quantity.h
//
// Kubernetes resource quantities ("1Gi", "500m", "1e3"), represented exactly.
//
// A quantity is an integer number of nanos (10^-9). Its absolute value is at most 2^63-1 units, the
// range that the API server accepts. A finer or larger amount is an error. It is never rounded or
// clamped, because a changed amount of GPU memory could allocate the same memory twice.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera {

class Quantity {
 public:
  // The notation of the input. text() uses the same notation.
  enum class Notation { kDecimal, kBinary, kExponent };

  Quantity() = default;

  static Quantity units(std::int64_t whole, Notation notation = Notation::kDecimal);

  // Parses the Kubernetes grammar: optional sign, decimal number, then a decimal suffix
  // (n u m k M G T P E), a binary suffix (Ki Mi Gi Ti Pi Ei) or an exponent (e3, E-2). Returns
  // kInvalid for any other text.
  static Result<Quantity> parse(std::string_view text);

  // The amount in units. Returns kInvalid if it is not an integer.
  [[nodiscard]] Result<std::int64_t> whole() const;

  // The amount in units, rounded up, as Kubernetes does where it needs an integer.
  [[nodiscard]] std::int64_t rounded_up() const;

  // The amount in thousandths (for CPU), rounded up. Returns kInvalid if it does not fit 64 bits.
  [[nodiscard]] Result<std::int64_t> milli() const;

  // Prints as Kubernetes does: an integer with the largest possible suffix ("1.5Gi" -> "1536Mi").
  [[nodiscard]] std::string text() const;

  [[nodiscard]] Notation notation() const { return notation_; }

  // Returns the sum, in the notation of *this, or kInvalid on overflow.
  [[nodiscard]] Result<Quantity> plus(const Quantity& other) const;

  // Comparison ignores the notation: 1Ki equals 1024.
  friend bool operator==(const Quantity& a, const Quantity& b) { return a.nanos_ == b.nanos_; }
  friend std::strong_ordering operator<=>(const Quantity& a, const Quantity& b) {
    return a.nanos_ <=> b.nanos_;
  }

 private:
  using Nanos = __int128;

  Quantity(Nanos nanos, Notation notation) : nanos_(nanos), notation_(notation) {}
  static Result<Quantity> checked(Nanos nanos, Notation notation);
  static std::optional<Quantity> parse_plain(std::string_view text);

  Nanos nanos_ = 0;
  Notation notation_ = Notation::kDecimal;
};

}  // namespace tessera
