#include "compiler/tensor/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace kodama::compiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor floats(Shape shape, const std::vector<float>& values) {
  return Tensor::from_values<float>(DataType::kFloat32, std::move(shape), values);
}

TEST(Comparison, SaysWhereTheWorstIs) {
  const Comparison same = compare_tensors(floats({2, 2}, {1, 2, 3, 4}), floats({2, 2}, {1, 2, 3, 4}));
  EXPECT_TRUE(within(same, 0));
  EXPECT_FALSE(same.worst_place);
  const Comparison worst =
      compare_tensors(floats({2, 3}, {1, 2, 3, 4.5, 5, 6.25}), floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(*worst.worst_place, ElementsAre(1, 0));
  EXPECT_EQ(worst.found, "4.5");
  EXPECT_EQ(worst.expected, "4");
  EXPECT_EQ(worst.max_absolute, 0.5);
  EXPECT_EQ(worst.max_relative, 0.5 / 6);
}

TEST(Comparison, WhatIsNotComparableComesFirst) {
  const Comparison comparison =
      compare_tensors(floats({4}, {9, kInfinity, -kInfinity, 1}), floats({4}, {1, 1, kInfinity, 1}));
  EXPECT_EQ(comparison.unequal, 2);
  EXPECT_THAT(*comparison.worst_place, ElementsAre(1));
  EXPECT_EQ(comparison.found, "inf");
}

TEST(Comparison, NamesElementsOfEveryType) {
  const auto big = Tensor::from_values<int64_t>(DataType::kInt64, {}, {(int64_t{1} << 60) + 1});
  const auto other = Tensor::from_values<int64_t>(DataType::kInt64, {}, {int64_t{1} << 60});
  const Comparison integers = compare_tensors(big, other);
  EXPECT_THAT(*integers.worst_place, ElementsAre());
  EXPECT_EQ(integers.found, "1152921504606846977");
  Tensor a(DataType::kString, {2});
  Tensor b = a;
  b.strings()[1] = "x";
  EXPECT_EQ(compare_tensors(a, b).expected, "'x'");
  EXPECT_EQ(compare_tensors(a, b).found, "''");
  Tensor halves(DataType::kFloat16, {1});
  halves.data<uint16_t>()[0] = float_to_half(0.5F);
  EXPECT_EQ(compare_tensors(halves, Tensor(DataType::kFloat16, {1})).found, "0.5");
  Tensor complex(DataType::kComplex64, {1});
  complex.bytes()[7] = std::byte{0x40};
  EXPECT_EQ(compare_tensors(complex, Tensor(DataType::kComplex64, {1})).found, "0+2i");
  EXPECT_THAT(compare_tensors(a, floats({2}, {1, 2})).problem, HasSubstr("expected float32 [2]"));
  EXPECT_TRUE(within(compare_tensors(floats({0, 2}, {}), floats({0, 2}, {})), 0));
}

}  // namespace
}  // namespace kodama::compiler
