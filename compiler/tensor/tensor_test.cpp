#include "compiler/tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace kodama::compiler {
namespace {

using isa::UserError;

TEST(Shape, CountsElementsAndRefusesWhatCannotBe) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({2, 3, 4}), 24);
  EXPECT_EQ(element_count({int64_t{1} << 40, int64_t{1} << 40, 0}), 0);
  EXPECT_THROW(element_count({2, -1}), UserError);
  EXPECT_THROW(element_count({int64_t{1} << 40, int64_t{1} << 40}), UserError);
  EXPECT_THROW(Tensor(DataType::kFloat32, {int64_t{1} << 50}), UserError);
  EXPECT_THROW(Tensor(DataType::kUndefined, {1}), UserError);
  EXPECT_EQ(Tensor().data<float>()[0], 0.0f);
}

TEST(Formats, HalfToFloatIsExactForAllPatterns) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = static_cast<int>((bits >> 10) & 0x1f);
    const int fraction = static_cast<int>(bits & 0x3ff);
    const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
    const float value = half_to_float(static_cast<uint16_t>(bits));
    if (exponent == 31 && fraction != 0) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
      continue;
    }
    const float expected = exponent == 31 ? sign * std::numeric_limits<float>::infinity()
                           : exponent == 0
                               ? sign * std::ldexp(static_cast<float>(fraction), -24)
                               : sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
    ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(expected)) << bits;
    ASSERT_EQ(float_to_half(value), bits);
  }
}

/// Rounding against brute force: the nearest of the two neighbours, the even one in the middle.
template <typename ToFloat, typename FromFloat>
void check_rounding(ToFloat to_float, FromFloat from_float, uint16_t largest_finite) {
  for (uint32_t low = 0; low < largest_finite; ++low) {
    const auto lower = static_cast<double>(to_float(static_cast<uint16_t>(low)));
    const auto upper = static_cast<double>(to_float(static_cast<uint16_t>(low + 1)));
    const double middle = (lower + upper) / 2;
    const auto as_float = static_cast<float>(middle);  // exact: float has at least one more bit
    const uint32_t even = low % 2 == 0 ? low : low + 1;
    ASSERT_EQ(from_float(as_float), even) << low;
    ASSERT_EQ(from_float(std::nextafter(as_float, 0.0f)), low) << low;
    ASSERT_EQ(from_float(std::nextafter(as_float, INFINITY)), low + 1) << low;
    ASSERT_EQ(from_float(-as_float), even | 0x8000) << low;
  }
}

TEST(Formats, RoundingToHalfIsNearestEven) {
  check_rounding(half_to_float, float_to_half, 0x7bff);
  EXPECT_EQ(float_to_half(65519.996f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(float_to_half(-std::numeric_limits<float>::denorm_min()), 0x8000);
}

TEST(Formats, RoundingToBfloat16IsNearestEven) {
  check_rounding(bfloat16_to_float, float_to_bfloat16, 0x7f7f);
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace kodama::compiler
