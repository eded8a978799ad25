// base/quantity.h
//
// Kubernetes resource quantities: "1Gi", "500m", "1e3", exactly.
//
// A quantity is a whole number of nanos (10^-9) of at most 2^63-1 units either way, which is the range the
// API server accepts. What is finer or larger is an error and never rounded or clamped: an amount of GPU
// memory that is silently another one gives a GPU away twice.
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
  // How it was written, and so how it is printed.
  enum class Notation { kDecimal, kBinary, kExponent };

  Quantity() = default;

  static Quantity units(std::int64_t whole, Notation notation = Notation::kDecimal);

  // The grammar of Kubernetes: optional sign, decimal number, then a suffix (n u m k M G T P E), a binary
  // suffix (Ki Mi Gi Ti Pi Ei) or an exponent (e3, E-2).
  static Result<Quantity> parse(std::string_view text);

  // The amount, for resources that only come whole. kInvalid when a fraction is left.
  [[nodiscard]] Result<std::int64_t> whole() const;

  // The amount, fractions counted as one more, as Kubernetes does where it needs a whole number.
  [[nodiscard]] std::int64_t rounded_up() const;

  // The amount in thousandths (CPU), rounded up; kInvalid when that does not fit 64 bits.
  [[nodiscard]] Result<std::int64_t> milli() const;

  // As Kubernetes prints it: no fraction, the largest suffix that needs none ("1.5Gi" -> "1536Mi").
  [[nodiscard]] std::string text() const;

  [[nodiscard]] Notation notation() const { return notation_; }

  // Sum; kInvalid on overflow. Printed in the notation of the left one.
  [[nodiscard]] Result<Quantity> plus(const Quantity& other) const;

  // By amount alone: 1Ki equals 1024.
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
