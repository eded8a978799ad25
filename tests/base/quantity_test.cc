#include "base/quantity.h"

#include <gtest/gtest.h>

#include <limits>

namespace tessera {
namespace {

std::string printed(std::string_view text) {
  const auto quantity = Quantity::parse(text);
  return quantity ? quantity->text() : quantity.error().text();
}

TEST(Quantity, ParsesEveryKubernetesNotation) {
  struct Case {
    std::string_view text;
    std::int64_t milli;
  };
  for (const Case c :
       {Case{"0", 0}, Case{"3", 3000}, Case{"500m", 500}, Case{"1e3", 1'000'000}, Case{"1E3", 1'000'000},
        Case{"1.5", 1500}, Case{".5", 500}, Case{"5.", 5000}, Case{"1k", 1'000'000}, Case{"1Ki", 1'024'000},
        Case{"1.5Ki", 1'536'000}, Case{"-2", -2000}, Case{"+2", 2000}, Case{"12e-1", 1200},
        Case{"1e+2", 100'000}, Case{"0.1Ki", 102'400}, Case{"1M", 1'000'000'000}}) {
    const auto quantity = Quantity::parse(c.text);
    ASSERT_TRUE(quantity) << c.text << ": " << quantity.error().text();
    EXPECT_EQ(quantity->milli().value(), c.milli) << c.text;
  }
}

// Common amounts take a fast path; a leading "+" forces the general one.
TEST(Quantity, FastPathAgreesWithTheGeneralPath) {
  for (const std::string suffix : {"", "m", "Ki", "Mi", "Gi", "k", "G", "Ti", "u"}) {
    for (const std::string digits : {"0", "1", "7", "1000", "1024", "999999999999999", "1000000000000000",
                                     "8589934591", "8589934592", "9007199254740991", "9223372036854775807"}) {
      const auto plain = Quantity::parse(digits + suffix);
      const auto other = Quantity::parse("+" + digits + suffix);
      ASSERT_EQ(plain.has_value(), other.has_value()) << digits << suffix;
      if (plain) {
        EXPECT_EQ(*plain, *other) << digits << suffix;
        EXPECT_EQ(plain->text(), other->text()) << digits << suffix;
        EXPECT_EQ(plain->rounded_up(), other->rounded_up()) << digits << suffix;
      }
    }
  }
}

TEST(Quantity, RoundsFractionsUpOnBothSidesOf64BitsOfNanos) {
  for (const std::string whole : {"0", "5", "9223372036", "9223372037", "123456789012"}) {
    const std::int64_t units = std::stoll(whole);
    EXPECT_EQ(Quantity::parse(whole)->rounded_up(), units);
    EXPECT_EQ(Quantity::parse(whole + ".0001")->rounded_up(), units + 1);
    EXPECT_EQ(Quantity::parse("-" + whole + ".0001")->rounded_up(), -units);
    EXPECT_EQ(Quantity::parse(whole + ".0001")->milli().value(), units * 1000 + 1);
    EXPECT_EQ(Quantity::parse("-" + whole + ".0001")->milli().value(), -units * 1000);
  }
}

TEST(Quantity, PrintsAsKubernetesDoes) {
  EXPECT_EQ(printed("1.5Gi"), "1536Mi");
  EXPECT_EQ(printed("1024Mi"), "1Gi");
  EXPECT_EQ(printed("1000m"), "1");
  EXPECT_EQ(printed("1500m"), "1500m");
  EXPECT_EQ(printed("0.1Ki"), "102400m");
  EXPECT_EQ(printed("1000k"), "1M");
  EXPECT_EQ(printed("1e3"), "1e3");
  EXPECT_EQ(printed("10e3"), "10e3");
  EXPECT_EQ(printed("-0.5"), "-500m");
  EXPECT_EQ(printed("0Gi"), "0");
  EXPECT_EQ(printed("0.000000001"), "1n");
  EXPECT_EQ(printed("9223372036854775807"), "9223372036854775807");
  EXPECT_EQ(printed("9223372036854775806.999999999"), "9223372036854775806999999999n");
}

TEST(Quantity, RejectsTextThatItCannotRepresentExactly) {
  for (const char* bad : {"",
                          "Gi",
                          "1GiB",
                          "1 Gi",
                          " 1",
                          "1gi",
                          "1e",
                          "1e1.5",
                          "--1",
                          "1.2.3",
                          "0x10",
                          "1Zi",
                          "NaN",
                          "inf",
                          "9223372036854775808",
                          "8Ei",
                          "1e19",
                          "1e9999999999",
                          "0.0000000001",
                          "1e-10",
                          "0.1n",
                          "999999999999999999999999999999999999999999"}) {
    const auto quantity = Quantity::parse(bad);
    EXPECT_FALSE(quantity) << bad << " was read as " << quantity->text();
    EXPECT_EQ(quantity.error().code(), ErrorCode::kInvalid);
  }
  EXPECT_EQ(printed("1GiB"),
            "quantity \"1GiB\" ends in \"GiB\", which is not a unit; use one of n u m k M G T P E Ki Mi Gi "
            "Ti Pi Ei");
}

TEST(Quantity, IgnoresTrailingZeros) {
  EXPECT_EQ(printed("1." + std::string(200, '0')), "1");
  EXPECT_EQ(printed("0e5000"), "0");
}

TEST(Quantity, WholeRejectsFractionsAndRoundedUpRoundsThem) {
  EXPECT_EQ(Quantity::parse("3")->whole().value(), 3);
  EXPECT_EQ(Quantity::parse("2Ki")->whole().value(), 2048);
  EXPECT_EQ(Quantity::parse("1500m")->whole().error().text(), "quantity \"1500m\" is not a whole number");
  EXPECT_EQ(Quantity::parse("1500m")->rounded_up(), 2);
  EXPECT_EQ(Quantity::parse("-1500m")->rounded_up(), -1);
  EXPECT_EQ(Quantity::parse("1n")->milli().value(), 1);
  EXPECT_FALSE(Quantity::parse("9223372036854775807")->milli());
}

TEST(Quantity, ComparesByAmount) {
  EXPECT_EQ(Quantity::parse("1Ki").value(), Quantity::parse("1024").value());
  EXPECT_LT(Quantity::parse("999m").value(), Quantity::units(1));
}

TEST(Quantity, SumOverflowIsAnError) {
  const Quantity most = Quantity::units(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(Quantity::units(1).plus(Quantity::units(2)).value(), Quantity::units(3));
  EXPECT_FALSE(most.plus(Quantity::units(1)));
  EXPECT_TRUE(most.plus(Quantity::units(-1)));
}

}  // namespace
}  // namespace tessera
