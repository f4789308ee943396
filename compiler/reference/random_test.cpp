#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <set>

#include "compiler/reference/kernels/threefry.h"
#include "compiler/reference/reference_test_util.h"

namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT
using reference::threefry;
using reference::ThreefryWords;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// The vectors that Random123, the generator's own library, publishes.
TEST(Threefry, KnownAnswers) {
  EXPECT_EQ(threefry({0, 0}, {0, 0}), (ThreefryWords{0x6b200159, 0x99ba4efe}));
  EXPECT_EQ(threefry({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (ThreefryWords{0x1cb996fc, 0xbb002be7}));
  EXPECT_EQ(threefry({0x13198a2e, 0x03707344}, {0x243f6a88, 0x85a308d3}),
            (ThreefryWords{0xc4923a9c, 0x483df7a0}));
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};
Moments moments_of(const Tensor& x) {
  Moments result;
  const auto count = static_cast<double>(x.size());
  for (int64_t i = 0; i < x.size(); ++i) result.mean += element_as_double(x, i) / count;
  for (int64_t i = 0; i < x.size(); ++i)
    result.deviation += std::pow(element_as_double(x, i) - result.mean, 2) / count;
  result.deviation = std::sqrt(result.deviation);
  return result;
}

TEST(RandomOperators, SeedAndIndexDecideTheNumbers) {
  const Tensor y = run_one("y = RandomUniform<shape=[2,3], seed=0.0>()", {});
  // Words of counter 0 and 1 under the key 0, 0.
  EXPECT_EQ(y.data<float>()[0], static_cast<float>(0x6b200159 >> 8) / 0x1p24f);
  EXPECT_EQ(y.data<float>()[1], static_cast<float>(threefry({0, 0}, {1, 0})[0] >> 8) / 0x1p24f);
  EXPECT_EQ(run_one("y = RandomUniform<shape=[6], seed=0.0>()", {}).reshaped({2, 3}), y);
  EXPECT_NE(run_one("y = RandomUniform<shape=[2,3], seed=1.0>()", {}), y);
  // Without a seed the node's name decides, or its output's.
  onnx::NodeProto node = parse_node("y = RandomUniform<shape=[2,3]>()");
  const Tensor named = run_node(node, {}, 17)[0];
  EXPECT_EQ(run_node(node, {}, 17)[0], named);
  node.set_name("n2");
  EXPECT_NE(run_node(node, {}, 17)[0], named);
  node.set_name("");
  node.set_output(0, "n1");
  EXPECT_EQ(run_node(node, {}, 17)[0], named);
}

TEST(RandomOperators, UniformAndNormalDistributions) {
  for (const int type : {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16}) {
    SCOPED_TRACE(type);
    const Tensor uniform = run_one(
        fmt::format("y = RandomUniform<shape=[100,100], low=-1.0, high=3.0, seed=7.0, dtype={}>()", type),
        {});
    EXPECT_EQ(uniform.type(), type);
    EXPECT_NEAR(moments_of(uniform).mean, 1, 0.04);
    EXPECT_NEAR(moments_of(uniform).deviation, 4 / std::sqrt(12), 0.02);
    for (int64_t i = 0; i < uniform.size(); ++i) {
      ASSERT_GE(element_as_double(uniform, i), -1);
      ASSERT_LE(element_as_double(uniform, i), 3);
    }
    const Tensor normal = run_one(
        fmt::format("y = RandomNormal<shape=[100,100], mean=2.0, scale=0.5, seed=7.0, dtype={}>()", type),
        {});
    EXPECT_NEAR(moments_of(normal).mean, 2, 0.015);
    EXPECT_NEAR(moments_of(normal).deviation, 0.5, 0.01);
    int64_t within = 0;
    for (int64_t i = 0; i < normal.size(); ++i)
      within += std::fabs(element_as_double(normal, i) - 2) < 0.5 ? 1 : 0;
    EXPECT_NEAR(static_cast<double>(within) / 10000, 0.6827, 0.015);
  }
  const Tensor like = run_one("y = RandomNormalLike(x)", {Tensor(DataType::kFloat64, {2, 5})});
  EXPECT_EQ(like.type(), DataType::kFloat64);
  EXPECT_EQ(like.shape(), (Shape{2, 5}));
  EXPECT_THAT([] { run_one("y = RandomNormalLike(x)", {ints({1}, {1})}); },
              ThrowsMessage<isa::UserError>(HasSubstr("int64")));
}

TEST(RandomOperators, BernoulliDrawsOneWithTheGivenProbability) {
  std::vector<float> probabilities(10000, 0.25f);
  probabilities[0] = 0;
  probabilities[1] = 1;
  const Tensor y = run_one("y = Bernoulli<seed=3.0, dtype=9>(p)", {floats({10000}, probabilities)});
  EXPECT_EQ(y.type(), DataType::kBool);
  EXPECT_EQ(element_as_double(y, 0), 0);
  EXPECT_EQ(element_as_double(y, 1), 1);
  EXPECT_NEAR(moments_of(y).mean, 0.25, 0.015);
  EXPECT_THAT([] { run_one("y = Bernoulli(p)", {floats({1}, {1.5})}); },
              ThrowsMessage<isa::UserError>(HasSubstr("1.5")));
}

TEST(RandomOperators, MultinomialDrawsClassesByTheirLogProbabilities) {
  const float none = -std::numeric_limits<float>::infinity();
  const Tensor x =
      floats({2, 3}, {std::log(0.2f) + 5, std::log(0.5f) + 5, std::log(0.3f) + 5, none, 100, none});
  const Tensor y = run_one("y = Multinomial<sample_size=10000, seed=3.0, dtype=7>(x)", {x});
  ASSERT_EQ(y.shape(), (Shape{2, 10000}));
  double counts[3] = {};
  for (size_t i = 0; i < 10000; ++i) {
    ++counts[y.data<int64_t>()[i]];
    ASSERT_EQ(y.data<int64_t>()[10000 + i], 1);
  }
  EXPECT_NEAR(counts[0] / 10000, 0.2, 0.015);
  EXPECT_NEAR(counts[1] / 10000, 0.5, 0.015);
  EXPECT_THAT(
      [&] {
        run_one("y = Multinomial(x)", {floats({1, 2}, {none, none})});
      },
      ThrowsMessage<isa::UserError>(HasSubstr("row 0")));
}

TEST(RandomOperators, DropoutKeepsTheMean) {
  const Tensor x = floats({10000}, std::vector<float>(10000, 1));
  const Tensor ratio = floats({}, {0.2});
  const Tensor training = Tensor::from_values<bool>(DataType::kBool, {}, {true});
  const auto out = run_all("y, m = Dropout<seed=5>(x, r, t)", {&x, &ratio, &training}, 13);
  EXPECT_NEAR(moments_of(out[0]).mean, 1, 0.02);
  EXPECT_NEAR(moments_of(out[1]).mean, 0.8, 0.015);
  for (int64_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(element_as_double(out[0], i), element_as_double(out[1], i) != 0 ? 1.25f : 0);
  }
  const auto inference = run_all("y, m = Dropout(x, r)", {&x, &ratio}, 13);
  EXPECT_EQ(inference[0], x);
  EXPECT_NEAR(moments_of(inference[1]).mean, 1, 1e-9);
  EXPECT_NEAR(moments_of(run_one("y = Dropout<is_test=0, ratio=0.5>(x)", {x}, 6)).mean, 1, 0.04);
  EXPECT_THAT(
      [&] {
        run_one("y = Dropout(x, r, t)", {x, floats({}, {1}), training});
      },
      ThrowsMessage<isa::UserError>(HasSubstr("ratio is 1")));
}

}  // namespace
}  // namespace kodama::compiler
