#include "base/uuid.h"

#include <fmt/core.h>

#include <array>

namespace tessera {
namespace {

// The value of each hexadecimal digit; 0xFF for all other characters.
constexpr auto kDigits = [] {
  std::array<std::uint8_t, 256> digits{};
  digits.fill(0xFF);
  for (std::uint8_t i = 0; i < 16; ++i) {
    digits[static_cast<unsigned char>("0123456789abcdef"[i])] = i;
  }
  return digits;
}();

// Appends the digits of text[from, to) to `number`. Sets high bits in `wrong` if one is not a
// digit.
void read_digits(std::string_view text, std::size_t from, std::size_t to, std::uint64_t& number,
                 std::uint8_t& wrong) {
  for (std::size_t i = from; i < to; ++i) {
    const std::uint8_t digit = kDigits[static_cast<unsigned char>(text[i])];
    wrong |= digit;
    number = number << 4U | (digit & 0xFU);
  }
}

}  // namespace

std::optional<Uuid> Uuid::parse(std::string_view text) {
  // xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx
  if (text.size() != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-') {
    return std::nullopt;
  }
  Uuid uuid;
  std::uint8_t wrong = 0;
  read_digits(text, 0, 8, uuid.high, wrong);
  read_digits(text, 9, 13, uuid.high, wrong);
  read_digits(text, 14, 18, uuid.high, wrong);
  read_digits(text, 19, 23, uuid.low, wrong);
  read_digits(text, 24, 36, uuid.low, wrong);
  return wrong > 0xF ? std::nullopt : std::optional(uuid);
}

std::string Uuid::text() const {
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32U, (high >> 16U) & 0xFFFFU,
                     high & 0xFFFFU, low >> 48U, low & 0xFFFF'FFFF'FFFFU);
}

}  // namespace tessera
