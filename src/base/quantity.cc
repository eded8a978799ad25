#include "base/quantity.h"

#include <array>
#include <limits>
#include <optional>

#include "base/strings.h"

namespace tessera {

namespace {

using Wide = __int128;

constexpr Wide kNanosPerUnit = 1'000'000'000;
constexpr Wide kMaxNanos = Wide{std::numeric_limits<std::int64_t>::max()} * kNanosPerUnit;

struct Suffix {
  std::string_view name;
  Wide nanos;  // how many nanos one of it is
};

constexpr std::array<Suffix, 10> kDecimalSuffixes{{{"E", 1'000'000'000'000'000'000 * kNanosPerUnit},
                                                   {"P", 1'000'000'000'000'000 * kNanosPerUnit},
                                                   {"T", 1'000'000'000'000 * kNanosPerUnit},
                                                   {"G", 1'000'000'000 * kNanosPerUnit},
                                                   {"M", 1'000'000 * kNanosPerUnit},
                                                   {"k", 1'000 * kNanosPerUnit},
                                                   {"", kNanosPerUnit},
                                                   {"m", 1'000'000},
                                                   {"u", 1'000},
                                                   {"n", 1}}};

constexpr std::array<Suffix, 6> kBinarySuffixes{{{"Ei", (Wide{1} << 60U) * kNanosPerUnit},
                                                 {"Pi", (Wide{1} << 50U) * kNanosPerUnit},
                                                 {"Ti", (Wide{1} << 40U) * kNanosPerUnit},
                                                 {"Gi", (Wide{1} << 30U) * kNanosPerUnit},
                                                 {"Mi", (Wide{1} << 20U) * kNanosPerUnit},
                                                 {"Ki", (Wide{1} << 10U) * kNanosPerUnit}}};

tl::unexpected<Error> bad(std::string_view text, std::string_view why) {
  return fail(ErrorCode::kInvalid, "quantity " + in_quotes(text) + " " + std::string(why));
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// The digits of a number with the decimal point taken out, and how many stood behind it.
struct Decimal {
  Wide digits = 0;
  int behind_point = 0;
  bool any = false;
  bool too_long = false;
};

// Takes the number off the front of `rest`.
Decimal take_decimal(std::string_view& rest) {
  // 10^28 is above every amount in range, and times ten it still fits 128 bits.
  constexpr Wide kEnough = kMaxNanos;
  Decimal number;
  bool behind = false;
  int zeros_behind = 0;  // trailing zeros of the fraction add nothing and may be many
  while (!rest.empty() && (is_digit(rest.front()) || (rest.front() == '.' && !behind))) {
    const char c = rest.front();
    rest.remove_prefix(1);
    if (c == '.') {
      behind = true;
      continue;
    }
    number.any = true;
    if (behind && c == '0') {
      ++zeros_behind;
      continue;
    }
    for (; zeros_behind > 0 && !number.too_long; --zeros_behind) {
      number.digits *= 10;
      ++number.behind_point;
      number.too_long = number.digits > kEnough;
    }
    if (number.too_long || number.digits > kEnough) {
      number.too_long = true;
      continue;
    }
    number.digits = number.digits * 10 + (c - '0');
    number.behind_point += behind ? 1 : 0;
  }
  return number;
}

struct Scale {
  Wide nanos;
  Quantity::Notation notation;
};

std::optional<Scale> scale_of_suffix(std::string_view suffix) {
  for (const Suffix& s : kDecimalSuffixes) {
    if (suffix == s.name) {
      return Scale{s.nanos, Quantity::Notation::kDecimal};
    }
  }
  for (const Suffix& s : kBinarySuffixes) {
    if (suffix == s.name) {
      return Scale{s.nanos, Quantity::Notation::kBinary};
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> exponent_of_suffix(std::string_view suffix) {
  if (suffix.size() < 2 || (suffix.front() != 'e' && suffix.front() != 'E')) {
    return std::nullopt;
  }
  suffix.remove_prefix(1);
  if (suffix.size() > 1 && suffix.front() == '+' && is_digit(suffix[1])) {
    suffix.remove_prefix(1);
  }
  return parse_int(suffix);
}

}  // namespace

Result<Quantity> Quantity::checked(Nanos nanos, Notation notation) {
  if (nanos > kMaxNanos || nanos < -kMaxNanos) {
    return fail(ErrorCode::kInvalid, "quantity is outside the range of 64 bits");
  }
  return Quantity(nanos, notation);
}

Quantity Quantity::units(std::int64_t whole, Notation notation) {
  return {Nanos{whole} * kNanosPerUnit, notation};
}

// Nearly all amounts there are: a few digits, and one of the units that people use. Without a division of
// 128 bits, which would cost more than all else that is read of a pod's requests.
std::optional<Quantity> Quantity::parse_plain(std::string_view text) {
  constexpr std::size_t kFewDigits = 15;
  constexpr std::array<Suffix, 5> kPlainSuffixes{{{"", kNanosPerUnit},
                                                  {"Gi", (Wide{1} << 30U) * kNanosPerUnit},
                                                  {"Mi", (Wide{1} << 20U) * kNanosPerUnit},
                                                  {"Ki", (Wide{1} << 10U) * kNanosPerUnit},
                                                  {"m", kNanosPerUnit / 1'000}}};
  std::int64_t digits = 0;
  std::size_t at = 0;
  for (; at < text.size() && at < kFewDigits && is_digit(text[at]); ++at) {
    digits = digits * 10 + (text[at] - '0');
  }
  for (const Suffix& suffix : kPlainSuffixes) {
    if (at > 0 && text.substr(at) == suffix.name && Wide{digits} * suffix.nanos <= kMaxNanos) {
      return Quantity(Wide{digits} * suffix.nanos,
                      suffix.name.size() == 2 ? Notation::kBinary : Notation::kDecimal);
    }
  }
  return std::nullopt;
}

Result<Quantity> Quantity::parse(std::string_view text) {
  if (const auto plain = parse_plain(text)) {
    return *plain;
  }
  std::string_view rest = text;
  bool negative = false;
  if (!rest.empty() && (rest.front() == '-' || rest.front() == '+')) {
    negative = rest.front() == '-';
    rest.remove_prefix(1);
  }
  const Decimal number = take_decimal(rest);
  if (!number.any) {
    return bad(text, "has no number; write for example 3, 500m or 1Gi");
  }
  Scale scale{kNanosPerUnit, Notation::kDecimal};
  std::int64_t tens = -number.behind_point;
  if (const auto known = scale_of_suffix(rest)) {
    scale = *known;
  } else if (const auto exponent = exponent_of_suffix(rest)) {
    scale.notation = Notation::kExponent;
    // Far outside any amount in range either way, and safe from overflow here.
    if (*exponent > 1000 || *exponent < -1000) {
      return number.digits == 0 && !number.too_long ? Result<Quantity>(Quantity(0, scale.notation))
                                                    : bad(text, "has an exponent out of range");
    }
    tens += *exponent;
  } else {
    return bad(text, "ends in " + in_quotes(rest) +
                         ", which is no unit; use one of n u m k M G T P E Ki Mi Gi Ti Pi Ei");
  }
  if (number.digits == 0 && !number.too_long) {
    return Quantity(0, scale.notation);
  }
  if (number.too_long) {
    return bad(text, "has more digits than any amount needs");
  }
  // digits * scale * 10^tens, without ever leaving 128 bits.
  Wide nanos = number.digits;
  Wide factor = scale.nanos;
  for (; tens < 0; ++tens) {
    if (factor % 10 == 0) {
      factor /= 10;
    } else if (nanos % 10 == 0) {
      nanos /= 10;
    } else if (factor % 5 == 0 && nanos % 2 == 0) {
      factor /= 5;
      nanos /= 2;
    } else if (factor % 2 == 0 && nanos % 5 == 0) {
      factor /= 2;
      nanos /= 5;
    } else {
      return bad(text, "is finer than 1n");
    }
  }
  for (; tens > 0; --tens) {
    if (nanos > kMaxNanos / 10) {
      return bad(text, "is outside the range of 64 bits");
    }
    nanos *= 10;
  }
  if (nanos > kMaxNanos / factor) {
    return bad(text, "is outside the range of 64 bits");
  }
  nanos *= factor;
  return Quantity(negative ? -nanos : nanos, scale.notation);
}

Result<std::int64_t> Quantity::whole() const {
  if (nanos_ % kNanosPerUnit != 0) {
    return fail(ErrorCode::kInvalid, "quantity " + in_quotes(text()) + " is not a whole number");
  }
  return static_cast<std::int64_t>(nanos_ / kNanosPerUnit);
}

std::int64_t Quantity::rounded_up() const {
  if (const auto small = static_cast<std::int64_t>(nanos_); small == nanos_) {
    constexpr auto kUnit = static_cast<std::int64_t>(kNanosPerUnit);
    return small / kUnit + (small % kUnit > 0 ? 1 : 0);
  }
  const Nanos whole = nanos_ / kNanosPerUnit;
  const Nanos left = nanos_ % kNanosPerUnit;
  return static_cast<std::int64_t>(left > 0 ? whole + 1 : whole);
}

Result<std::int64_t> Quantity::milli() const {
  constexpr std::int64_t kNanosPerMilli = 1'000'000;
  if (const auto small = static_cast<std::int64_t>(nanos_); small == nanos_) {
    return small / kNanosPerMilli + (small % kNanosPerMilli > 0 ? 1 : 0);
  }
  Nanos thousandths = nanos_ / kNanosPerMilli;
  if (nanos_ % kNanosPerMilli > 0) {
    ++thousandths;
  }
  if (thousandths > std::numeric_limits<std::int64_t>::max() ||
      thousandths < std::numeric_limits<std::int64_t>::min()) {
    return fail(ErrorCode::kInvalid,
                "quantity " + in_quotes(text()) + " in thousandths does not fit 64 bits");
  }
  return static_cast<std::int64_t>(thousandths);
}

std::string Quantity::text() const {
  if (nanos_ == 0) {
    return "0";
  }
  if (notation_ == Notation::kBinary) {
    for (const Suffix& suffix : kBinarySuffixes) {
      if (nanos_ % suffix.nanos == 0) {
        return std::to_string(static_cast<std::int64_t>(nanos_ / suffix.nanos)) + std::string(suffix.name);
      }
    }
  }
  int exponent = 18;
  for (const Suffix& suffix : kDecimalSuffixes) {
    if (nanos_ % suffix.nanos == 0) {
      std::string amount;
      // Only nanos can need more than 64 bits, and only when the amount itself is above 2^33.
      Nanos left = nanos_ / suffix.nanos;
      const bool negative = left < 0;
      for (left = negative ? -left : left; left > 0; left /= 10) {
        amount.insert(amount.begin(), static_cast<char>('0' + static_cast<int>(left % 10)));
      }
      if (negative) {
        amount.insert(amount.begin(), '-');
      }
      if (notation_ == Notation::kExponent) {
        return exponent == 0 ? amount : amount + "e" + std::to_string(exponent);
      }
      return amount + std::string(suffix.name);
    }
    exponent -= 3;
  }
  return "0";
}

Result<Quantity> Quantity::plus(const Quantity& other) const {
  // Two amounts in range cannot overflow 128 bits.
  return checked(nanos_ + other.nanos_, notation_);
}

}  // namespace tessera
