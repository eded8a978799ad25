// base/uuid.h
//
// A UUID, stored in 16 bytes instead of 36 characters.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

struct Uuid {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  // Parses "5d3c0f1e-0000-4a5b-8c9d-ffffffffffff". Accepts only the form that text() prints, with
  // lower-case digits.
  static std::optional<Uuid> parse(std::string_view text);
  [[nodiscard]] std::string text() const;

  friend auto operator<=>(const Uuid&, const Uuid&) = default;
};

}  // namespace tessera
