#include "base/uuid.h"

#include <fmt/format.h>

#include <utility>

namespace tessera {
namespace {

constexpr std::string_view kForm = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

std::optional<Uuid> Uuid::parse(std::string_view text) {
  if (text.size() != kForm.size()) {
    return std::nullopt;
  }
  Uuid uuid;
  std::size_t digits = 0;
  std::uint64_t half = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (kForm[i] == '-') {
      if (text[i] != '-') {
        return std::nullopt;
      }
      continue;
    }
    const int digit = hex_digit(text[i]);
    if (digit < 0) {
      return std::nullopt;
    }
    half = (half << 4U) | static_cast<std::uint64_t>(digit);
    if (++digits == 16) {
      uuid.high = std::exchange(half, 0);
    }
  }
  uuid.low = half;
  return uuid;
}

std::string Uuid::text() const {
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32U, (high >> 16U) & 0xFFFFU,
                     high & 0xFFFFU, low >> 48U, low & 0xFFFF'FFFF'FFFFU);
}

}  // namespace tessera
