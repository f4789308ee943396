#include "compiler/reference/reference_test_util.h"

namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT

TEST(Unique, OfAnyTypeAndAlongAxes) {
  EXPECT_EQ(run_one("y = Unique(x)", {strings({2, 2}, {"b", "a", "b", "c"})}), strings({3}, {"a", "b", "c"}));
  const Tensor x = floats({5}, {NAN, 2, -1, NAN, 2});
  const auto out = run_all("y, i, n, c = Unique(x)", {&x});
  EXPECT_EQ(out[1], ints({3}, {2, 1, 0}));  // NaN last, and once
  EXPECT_EQ(out[2], ints({5}, {2, 1, 0, 2, 1}));
  EXPECT_EQ(out[3], ints({3}, {1, 2, 2}));
  EXPECT_EQ(run_one("y = Unique<sorted=0, axis=1>(x)", {ints({2, 4}, {3, 1, 3, 1, 0, 2, 0, 5})}),
            ints({2, 3}, {3, 1, 1, 0, 2, 5}));
  EXPECT_EQ(run_one("y = Unique(x)", {ints({0}, {})}), ints({0}, {}));
}

}  // namespace
}  // namespace kodama::compiler
