#include "isa/number_formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "isa/error.h"
#include "isa/rounds_test_util.h"

namespace kodama::isa {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Half, AllPatternsRoundTrip) {
  for (uint64_t bits = 0; bits < 0x10000; ++bits) {
    const Unpacked fields = unpack(bits, kHalfFormat);
    EXPECT_EQ(pack(fields, kHalfFormat), bits);
    const double value = to_double(bits, kHalfFormat);
    ASSERT_FALSE(std::isnan(value));
    EXPECT_EQ(std::signbit(value), fields.sign);
    if (fields.exponent == 0) {
      EXPECT_EQ(value, 0.0);
    } else if (fields.exponent == 63) {
      EXPECT_TRUE(std::isinf(value));
    } else {
      EXPECT_EQ(std::fabs(value), std::pow(2.0, fields.exponent - 31) * (1 + double(fields.mantissa) / 512));
    }
    EXPECT_EQ(from_double(value, kHalfFormat), normalize(bits, kHalfFormat));
    EXPECT_EQ(convert(convert(bits, kHalfFormat, kFloatFormat), kFloatFormat, kHalfFormat),
              normalize(bits, kHalfFormat));
  }
  EXPECT_EQ(from_double(1.0, kHalfFormat), 0x3e00U);
}

TEST(Normalize, ZerosAndInfinities) {
  EXPECT_EQ(normalize(0x80000000, kFloatFormat), 0U);
  EXPECT_EQ(normalize(0x807fffff, kFloatFormat), 0U);
  EXPECT_EQ(normalize(0x7fc00001, kFloatFormat), 0x7f800000U);
  EXPECT_EQ(normalize(0xff800001, kFloatFormat), 0xff800000U);
  EXPECT_EQ(normalize(0xc0490fdb, kFloatFormat), 0xc0490fdbU);
  EXPECT_EQ(from_double(std::nan(""), kFloatFormat), 0x7f800000U);
  EXPECT_EQ(from_double(-std::nan(""), kFloatFormat), 0xff800000U);
  EXPECT_EQ(from_double(1e-310, kDoubleFormat), 0U);
  EXPECT_EQ(to_double(std::bit_cast<uint64_t>(1e-310), kDoubleFormat), 0.0);
  EXPECT_EQ(from_double(-0.0, kHalfFormat), 0U);
}

/// All finite values of a format in increasing order, from +0, as exact doubles.
std::vector<double> magnitudes(FloatFormat format) {
  std::vector<double> values{0.0};
  for (uint64_t bits = uint64_t{1} << format.mantissa_bits; bits < format.infinity(); ++bits) {
    values.push_back(to_double(bits, format));
  }
  return values;
}

/// Rounding by search: nearest neighbour, ties to the even pattern. Independent of shifts.
uint64_t round_by_search(double magnitude, FloatFormat format) {
  static const std::vector<double> values = magnitudes(kHalfFormat);
  const double smallest = values[1];
  // Full precision below the smallest number: what would round up to it becomes it, the rest is zero.
  if (magnitude < smallest) {
    const double half_unit = std::ldexp(smallest, -format.mantissa_bits - 2);
    return magnitude >= smallest - half_unit ? uint64_t{1} << format.mantissa_bits : 0;
  }
  const double largest = values.back();
  const double unit = largest - values[values.size() - 2];
  if (magnitude >= largest + unit / 2) return format.infinity();
  const auto above = std::upper_bound(values.begin(), values.end(), magnitude);
  const size_t low = static_cast<size_t>(above - values.begin()) - 1;
  const auto pattern = [&](size_t i) { return (uint64_t{1} << format.mantissa_bits) + i - 1; };
  if (low + 1 == values.size()) return pattern(low);
  const double down = magnitude - values[low];
  const double up = values[low + 1] - magnitude;
  if (down != up) return pattern(down < up ? low : low + 1);
  return pattern(low) % 2 == 0 ? pattern(low) : pattern(low + 1);
}

TEST(Rounding, AgreesWithSearch) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    // Few significant bits make ties frequent; exponents reach beyond both ends of the format.
    const int bits = 1 + static_cast<int>(random() % 14);
    const uint64_t significand = random() >> (64 - bits);
    const int exponent = static_cast<int>(random() % 90) - 50;
    const bool sign = (random() & 1) != 0;
    const double magnitude = std::ldexp(static_cast<double>(significand), exponent);
    uint64_t expected = round_by_search(magnitude, kHalfFormat);
    if (expected != 0 && sign) expected |= kHalfFormat.sign_bit();
    ASSERT_EQ(round_to_format(sign, significand, exponent, false, kHalfFormat), expected)
        << significand << " * 2^" << exponent;
    ASSERT_EQ(from_double(sign ? -magnitude : magnitude, kHalfFormat), expected);
  }
}

TEST(Rounding, StickyBreaksTiesUpwards) {
  for (uint64_t significand = 0x400; significand < 0x800; ++significand) {  // one bit more than kept
    const uint64_t exact = round_to_format(false, significand, 0, false, kHalfFormat);
    const uint64_t more = round_to_format(false, significand, 0, true, kHalfFormat);
    const bool tie = (significand & 1) != 0;
    const bool down = tie && (significand >> 1) % 2 == 0;
    EXPECT_EQ(more, exact + (down ? 1 : 0)) << significand;
  }
  EXPECT_THROW(round_to_format(false, 3, 0, true, kHalfFormat), InternalError);
}

TEST(Rounding, SingleAgreesWithTheHostForNormalResults) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (std::isnan(value) || std::fabs(value) < 2e-38) continue;
    ASSERT_EQ(from_double(value, kFloatFormat), std::bit_cast<uint32_t>(static_cast<float>(value))) << value;
    ASSERT_EQ(from_double(value, kDoubleFormat), std::bit_cast<uint64_t>(value)) << value;
    ASSERT_EQ(to_double(std::bit_cast<uint64_t>(value), kDoubleFormat), value);
  }
}

TEST(Rounding, WideSignificands) {
  const unsigned __int128 wide = (static_cast<unsigned __int128>(1) << 127) + 1;
  EXPECT_EQ(round_to_format(true, wide, -127, false, kDoubleFormat), std::bit_cast<uint64_t>(-1.0));
  const unsigned __int128 ones = ~static_cast<unsigned __int128>(0);
  EXPECT_EQ(round_to_format(false, ones, -127, false, kFloatFormat), std::bit_cast<uint32_t>(2.0F));
  EXPECT_EQ(round_to_format(true, 0, 5, false, kFloatFormat), 0U);
  EXPECT_EQ(round_to_format(false, 1, 128, false, kFloatFormat), 0x7f800000U);
  EXPECT_EQ(round_to_format(true, 1, -127, false, kFloatFormat), 0U);
}

TEST(Convert, FloatsToHalvesQuickly) {
  const auto check = [](uint32_t bits) {
    ASSERT_EQ(half_of(std::bit_cast<float>(bits)), convert(bits, kFloatFormat, kHalfFormat))
        << std::hex << bits;
  };
  // Every exponent, around what is rounded up, down and to even.
  for (uint32_t high = 0; high < 1U << 20; high += random_cases(3U, 23U, 3U)) {
    for (const uint32_t low : {0U, 1U, 0x7ffU, 0x800U, 0xfffU}) check(high << 12 | low);
  }
}

TEST(Convert, InfinityAndZero) {
  EXPECT_EQ(convert(0xfe01, kHalfFormat, kFloatFormat), 0xff800000U);
  EXPECT_EQ(convert(0x81ff, kHalfFormat, kFloatFormat), 0U);
  EXPECT_EQ(convert(0x47800000, kFloatFormat, kHalfFormat), from_double(65536.0, kHalfFormat));
  // Largest half: 2^31 * (2 - 2^-9).
  EXPECT_EQ(to_double(0x7dff, kHalfFormat), std::ldexp(2.0 - std::ldexp(1.0, -9), 31));
}

TEST(BlockFloat, WorkedExampleFour) {
  std::vector<uint64_t> block{0x40400000, 0, 0xbf800000, 0x3f800000};  // 3, 0, -1, 1
  EXPECT_EQ(block_normalize(block, kFloatFormat, 0, false), 128);
  EXPECT_EQ(block, (std::vector<uint64_t>{0x40600000, 0x40000000, 0xc0200000, 0x40200000}));
  EXPECT_EQ(block_float_to_double(block[0], kFloatFormat), 3.0);
  EXPECT_EQ(block_float_to_double(block[1], kFloatFormat), 0.0);
  EXPECT_EQ(block_float_to_double(block[2], kFloatFormat), -1.0);
}

TEST(BlockFloat, ZeroAndInfiniteBlocks) {
  std::vector<uint64_t> zeros{0x80000001, 0x00000001};
  EXPECT_EQ(block_normalize(zeros, kFloatFormat, 0, false), 0);
  EXPECT_EQ(zeros, (std::vector<uint64_t>{0x80000000, 0}));
  std::vector<uint64_t> infinite{0xff800001, 0x3f800000};
  EXPECT_EQ(block_normalize(infinite, kFloatFormat, 0, false), 255);
  EXPECT_EQ(infinite, (std::vector<uint64_t>{0xff800000, 0x7f800000}));
  std::vector<uint64_t> overflow{0x7f7fffff, 0x3f800000};  // all-one mantissa at the top exponent
  EXPECT_EQ(block_normalize(overflow, kFloatFormat, 0, false), 255);
  EXPECT_EQ(overflow[1], 0x7f800000U);
}

/// Section 8.5 once more, in exact rational arithmetic on doubles: a half's value and every quotient here
/// are exact, so nearest even can be done with floor and a comparison.
std::vector<uint64_t> block_rules(const std::vector<uint64_t>& block, int k, bool extended) {
  const int b = 9 - k;
  int emax = 0;
  for (const uint64_t x : block) emax = std::max(emax, static_cast<int>(x >> 9 & 63));
  std::vector<uint64_t> out;
  bool carry = false;
  for (const uint64_t x : block) {
    const bool all_ones = ((x & 511) >> b) == (uint64_t{1} << k) - 1;
    carry = carry || (static_cast<int>(x >> 9 & 63) == emax && all_ones);
  }
  const int E = emax + b + (carry ? 1 : 0);
  for (const uint64_t x : block) {
    const uint64_t sign = x & 0x8000;
    const int e = static_cast<int>(x >> 9 & 63);
    if (emax == 0) {
      out.push_back(sign);
      continue;
    }
    if (E >= 63) {
      out.push_back(sign | 63 << 9);
      continue;
    }
    const double value = e == 0 ? 0.0 : std::ldexp(512.0 + static_cast<double>(x & 511), e);
    int exponent = E;
    if (extended && e != 0) {
      const bool all_ones = ((x & 511) >> b) == (uint64_t{1} << k) - 1;
      if (E - e > 6 + b || (E - e == 6 + b && !all_ones)) exponent = E - 6;
    }
    const double quotient = value / std::ldexp(2.0, exponent);  // in units of the mantissa field
    double m = std::floor(quotient);
    const double rest = quotient - m;
    if (rest > 0.5 || (rest == 0.5 && std::fmod(m, 2.0) == 1.0)) m += 1;
    uint64_t field = static_cast<uint64_t>(exponent);
    if (exponent != E || (extended && m == 0)) field = 0;
    out.push_back(sign | field << 9 | static_cast<uint64_t>(m));
  }
  return out;
}

TEST(BlockFloat, AgreesWithTheRules) {
  std::mt19937_64 random(3);
  for (int i = 0; i < isa::random_cases(50000, 6000, 100000); ++i) {
    const int k = 6 + static_cast<int>(random() % 4);
    const bool extended = (random() & 1) != 0;
    const int spread = 1 + static_cast<int>(random() % 20);
    const int top = static_cast<int>(random() % 64);
    std::vector<uint64_t> block(16);
    for (uint64_t& x : block) {
      const int exponent = std::max(0, top - static_cast<int>(random() % static_cast<unsigned>(spread)));
      uint64_t mantissa = random() & 511;
      if (random() % 4 == 0) mantissa |= 0x1f8;  // all ones at the top are the special case
      x = (random() & 1) << 15 | static_cast<uint64_t>(exponent) << 9 | mantissa;
    }
    const std::vector<uint64_t> expected = block_rules(block, k, extended);
    std::vector<uint64_t> actual = block;
    const int block_exponent = block_normalize(actual, kHalfFormat, 9 - k, extended);
    ASSERT_EQ(actual, expected) << "k " << k << (extended ? " extended" : "");
    // What is left represents the inputs to within one unit of the shifted mantissa.
    if (block_exponent == 0 || block_exponent == 63) continue;
    for (size_t j = 0; j < block.size(); ++j) {
      const double error =
          block_float_to_double(actual[j], kHalfFormat, block_exponent) - to_double(block[j], kHalfFormat);
      ASSERT_LE(std::fabs(error), std::ldexp(0.5, block_exponent - 31 - 8));
    }
  }
}

TEST(BlockFloat, InfinityReadsAsInfinity) {
  EXPECT_EQ(block_float_to_double(0xfe00, kHalfFormat), -kInf);
  EXPECT_EQ(block_float_to_double(0x0001, kHalfFormat), 0.0);
  EXPECT_EQ(block_float_to_double(0x0001, kHalfFormat, 31 + 6), std::ldexp(1.0, -8));
}

}  // namespace
}  // namespace kodama::isa
