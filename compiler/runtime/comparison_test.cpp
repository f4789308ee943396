#include "compiler/runtime/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kodama::compiler {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kSubnormal = 1e-39F;

Tensor floats(const std::vector<float>& values) {
  return Tensor::from_values<float>(DataType::kFloat32, {static_cast<int64_t>(values.size())}, values);
}

TEST(ChipNumbers, WhatTheChipReads) {
  const Tensor read = as_chip_reads(floats({1, kNan, -kNan, kSubnormal, -kSubnormal, -kInfinity, 2e-38F}));
  EXPECT_TRUE(read == floats({1, kInfinity, -kInfinity, 0, -0.0F, -kInfinity, 2e-38F}));
  const auto doubles = [](const std::vector<double>& values) {
    return Tensor::from_values<double>(DataType::kFloat64, {static_cast<int64_t>(values.size())}, values);
  };
  EXPECT_TRUE(as_chip_reads(doubles({1e-310, 1e-40, 1e-300, 0.1})) == doubles({0, 1e-40, 1e-300, 0.1}));
  const auto halves = [](const std::vector<uint16_t>& values) {
    return Tensor::from_values<uint16_t>(DataType::kFloat16, {static_cast<int64_t>(values.size())}, values);
  };
  // The smallest half, which is subnormal there, is a normal float.
  EXPECT_TRUE(as_chip_reads(halves({0x0001, 0x7e00, 0xfe00})) == halves({0x0001, 0x7c00, 0xfc00}));
}

/// Only what a NaN reaches is excused, and only as far as the chip reads it as infinity.
TEST(ChipNumbers, ExplainDifferences) {
  const auto explained = [](const std::vector<float>& actual, const std::vector<float>& expected,
                            const std::vector<float>& as_read) {
    return explained_by_number_format(floats(actual), floats(expected), floats(as_read), 1e-7, 1e-3);
  };
  // Relu of {NaN, 2}: the first element reads infinity; that the second is wrong has nothing to do with it.
  EXPECT_TRUE(explained({kInfinity, 2}, {kNan, 2}, {kInfinity, 2}));
  EXPECT_FALSE(explained({kInfinity, 3}, {kNan, 2}, {kInfinity, 2}));
  EXPECT_FALSE(explained({kInfinity, kNan}, {kNan, 2}, {kInfinity, 2}));
  // Max of a NaN and 2 is 2 for who ignores NaN, infinity on the chip, and nothing else.
  EXPECT_TRUE(explained({kInfinity}, {2}, {kInfinity}));
  EXPECT_TRUE(explained({2}, {2}, {kInfinity}));
  EXPECT_FALSE(explained({1}, {2}, {kInfinity}));
  EXPECT_FALSE(explained({-kInfinity}, {2}, {kInfinity}));
  // Infinity minus infinity: the chip has no NaN to say it with.
  EXPECT_TRUE(explained({0}, {kNan}, {kNan}));
  EXPECT_TRUE(explained({0}, {kSubnormal}, {kSubnormal}));
  EXPECT_FALSE(explained({1}, {kSubnormal}, {kSubnormal}));
  EXPECT_FALSE(explained_by_number_format(floats({1}), floats({1, 1}), floats({1, 1}), 0, 0));
  // What is no float is as exact as ever: IsNaN of infinity.
  const auto booleans = [](uint8_t value) {
    return Tensor::from_values<uint8_t>(DataType::kBool, {2}, {value, 0});
  };
  EXPECT_TRUE(explained_by_number_format(booleans(0), booleans(1), booleans(0), 0, 0));
  EXPECT_FALSE(explained_by_number_format(booleans(1), booleans(0), booleans(0), 0, 0));
}

}  // namespace
}  // namespace kodama::compiler
