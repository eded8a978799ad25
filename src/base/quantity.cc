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
  Wide nanos;  // nanos per unit
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

tl::unexpected<Error> bad(std::string_view text, std::string_view reason) {
  return fail(ErrorCode::kInvalid, "quantity " + in_quotes(text) + " " + std::string(reason));
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// A decimal number: its digits without the decimal point, and the number of fractional digits.
struct Decimal {
  Wide digits = 0;
  int fraction_digits = 0;
  bool any = false;
  bool too_long = false;
};

// Removes the number from the front of `rest` and returns it.
Decimal take_decimal(std::string_view& rest) {
  // Numbers above this are out of range; ten times as much still fits 128 bits.
  constexpr Wide kEnough = kMaxNanos;
  Decimal number;
  bool in_fraction = false;
  int zeros = 0;  // pending zeros of the fraction; trailing ones do not count
  while (!rest.empty() && (is_digit(rest.front()) || (rest.front() == '.' && !in_fraction))) {
    const char c = rest.front();
    rest.remove_prefix(1);
    if (c == '.') {
      in_fraction = true;
      continue;
    }
    number.any = true;
    if (in_fraction && c == '0') {
      ++zeros;
      continue;
    }
    for (; zeros > 0 && !number.too_long; --zeros) {
      number.digits *= 10;
      ++number.fraction_digits;
      number.too_long = number.digits > kEnough;
    }
    if (number.too_long || number.digits > kEnough) {
      number.too_long = true;
      continue;
    }
    number.digits = number.digits * 10 + (c - '0');
    number.fraction_digits += in_fraction ? 1 : 0;
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

// Fast path for the most common form: a few digits and a common suffix. It avoids 128-bit division,
// which would cost more than the rest of reading a pod's requests.
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
  std::int64_t tens = -number.fraction_digits;
  if (const auto known = scale_of_suffix(rest)) {
    scale = *known;
  } else if (const auto exponent = exponent_of_suffix(rest)) {
    scale.notation = Notation::kExponent;
    // Far out of range in both directions. The limit also keeps the next addition from overflowing.
    if (*exponent > 1000 || *exponent < -1000) {
      return number.digits == 0 && !number.too_long ? Result<Quantity>(Quantity(0, scale.notation))
                                                    : bad(text, "has an exponent out of range");
    }
    tens += *exponent;
  } else {
    return bad(text, "ends in " + in_quotes(rest) +
                         ", which is not a unit; use one of n u m k M G T P E Ki Mi Gi Ti Pi Ei");
  }
  if (number.digits == 0 && !number.too_long) {
    return Quantity(0, scale.notation);
  }
  if (number.too_long) {
    return bad(text, "has too many digits");
  }
  // Computes digits * scale * 10^tens without overflowing 128 bits.
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
      return bad(text, "has a finer resolution than 1n");
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
      // Only the nano suffix can need more than 64 bits, for amounts above 2^33.
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
  // The sum of two valid amounts cannot overflow 128 bits.
  return checked(nanos_ + other.nanos_, notation_);
}

}  // namespace tessera
