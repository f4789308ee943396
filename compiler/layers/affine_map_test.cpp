#include "compiler/layers/affine_map.h"

#include <gtest/gtest.h>

#include <random>

#include "isa/error.h"

namespace kodama::compiler {
namespace {

using Point = std::vector<int64_t>;

TEST(AffineMap, AppliesOffsetsAndCoefficients) {
  const AffineMap map =
      AffineMap(2, 3).set(0, 0, 2).set(0, 2, 1).set_offset(0, -1).set(1, 1, -1).set_offset(1, 4);
  EXPECT_EQ(map.apply({3, 1, 2}), (Point{7, 3}));
  EXPECT_EQ(map.to_string(), "(2*d0 + d2 - 1, -d1 + 4)");
  EXPECT_EQ(map.range(0, {4, 2, 3}), (std::pair<int64_t, int64_t>{-1, 7}));
  EXPECT_EQ(map.range(1, {4, 2, 3}), (std::pair<int64_t, int64_t>{3, 4}));
  EXPECT_EQ(map.range(1, {4, 0, 3}), (std::pair<int64_t, int64_t>{0, -1}));
  EXPECT_FALSE(map.stays_inside({4, 2, 3}, {8, 5}));
  EXPECT_TRUE(map.stays_inside({1, 0, 0}, {4, 2, 3}, {8, 5}));
}

TEST(AffineMap, BroadcastsAsNumpyDoes) {
  const AffineMap map = AffineMap::broadcast({3, 1}, {2, 3, 4});
  EXPECT_EQ(map.to_string(), "(d1, 0)");
  EXPECT_EQ(AffineMap::broadcast({}, {2, 3}).dims(), 2U);
  EXPECT_THROW(AffineMap::broadcast({2}, {3}), isa::InternalError);
  EXPECT_THROW(AffineMap::broadcast({1, 3}, {3}), isa::InternalError);
}

TEST(AffineMap, KeepsTheSpaceOfAScalar) {
  const AffineMap scalar(0, 3);
  EXPECT_EQ(scalar.dims(), 3U);
  // A tensor read at one point only, through a scalar in a space of rank 3.
  const AffineMap element = AffineMap(2, 0).set_offset(1, 5);
  EXPECT_EQ(element.after(scalar).dims(), 3U);
  EXPECT_EQ(element.after(scalar).apply({1, 2, 3}), (Point{0, 5}));
}

TEST(AffineMap, CompositionIsApplicationInTurn) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int64_t> number(-3, 3);
  const auto make = [&](size_t axes, size_t dims) {
    AffineMap map(axes, dims);
    for (size_t axis = 0; axis < axes; ++axis) {
      map.set_offset(axis, number(random));
      for (size_t dim = 0; dim < dims; ++dim) map.set(axis, dim, number(random));
    }
    return map;
  };
  for (int trial = 0; trial < 100; ++trial) {
    const AffineMap outer = make(2, 3);
    const AffineMap inner = make(3, 4);
    const Point point = {number(random), number(random), number(random), number(random)};
    EXPECT_EQ(outer.after(inner).apply(point), outer.apply(inner.apply(point)));
  }
  EXPECT_THROW(make(2, 3).after(make(2, 3)), isa::InternalError);
}

}  // namespace
}  // namespace kodama::compiler
