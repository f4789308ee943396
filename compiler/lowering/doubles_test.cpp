#include "compiler/layers/doubles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "compiler/lowering/lowering_test_util.h"

namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A double with an exponent in a range.
double random_double(std::mt19937_64& random, int low, int high) {
  const auto exponent = static_cast<int>(random() % static_cast<uint64_t>(high - low + 1)) + low;
  const double value = std::ldexp(1 + static_cast<double>(random() >> 12) * 0x1p-52, exponent);
  return (random() & 1) != 0 ? -value : value;
}

std::vector<double> words(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  return {static_cast<double>(static_cast<int32_t>(bits >> 32)),
          static_cast<double>(static_cast<int32_t>(bits))};
}

double value_of(Formula& f, Term result, const std::vector<double>& operands) {
  std::vector<double> inputs;
  for (const double operand : operands) {
    const std::vector<double> pair = words(operand);
    inputs.insert(inputs.end(), pair.begin(), pair.end());
  }
  const Integer bits = bits_of_double(result);
  const auto word = [&](Term term) {
    return static_cast<uint64_t>(
        static_cast<uint32_t>(static_cast<int64_t>(f.result(term).evaluate(inputs))));
  };
  return std::bit_cast<double>(word(bits.high) << 32 | word(bits.low));
}
Term double_operand(Formula& f, int number) {
  return pair(f.x(2 * number), f.x(2 * number + 1));
}

void expect_function(Term (*formula)(Term), double (*function)(double), int low, int high, double units) {
  Formula f;
  const Term result = formula(double_operand(f, 0));
  std::mt19937_64 random(1);
  for (int k = 0; k < 3000; ++k) {
    const double x = random_double(random, low, high);
    const double expected = function(x);
    if (std::isnan(expected)) continue;
    const double unit = std::ldexp(1.0, std::ilogb(expected) - 52);
    const double found = value_of(f, result, {x});
    if (std::abs(expected) < std::numeric_limits<double>::min() || std::isinf(expected)) {
      EXPECT_NEAR(std::isinf(expected) ? (found == expected ? 0 : 1) : found, 0, 1e-300) << x;
    } else {
      ASSERT_LE(std::abs(found - expected), units * unit) << x << ": " << found << ", not " << expected;
    }
  }
}

TEST(Doubles, FunctionsAreTheFunctions) {
  expect_function(exp, std::exp, -40, 10, 3);
  expect_function(log, std::log, -1000, 1000, 3);
  expect_function(tanh, std::tanh, -30, 6, 6);
  expect_function(
      sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -20, 9, 6);
  Formula f;
  const Term near_one = log(double_operand(f, 0));
  for (const double x :
       {1.0, 1 + 0x1p-52, 1 - 0x1p-53, 1.0001, 0.9999, std::exp(1.0), 0.70710678, 1.41421357})
    EXPECT_NEAR(value_of(f, near_one, {x}), std::log(x), 4e-16 * std::abs(std::log(x))) << x;
  EXPECT_EQ(value_of(f, near_one, {0.0}), -kInfinity);
  EXPECT_EQ(value_of(f, near_one, {kInfinity}), kInfinity);
}

TEST(Doubles, Powers) {
  Formula f;
  const Term result = pow(double_operand(f, 0), double_operand(f, 1));
  std::mt19937_64 random(2);
  for (int k = 0; k < 3000; ++k) {
    const double x = random_double(random, -20, 20), y = random_double(random, -5, 5);
    const double expected = std::pow(std::abs(x), y);
    if (std::isinf(expected) || expected < std::numeric_limits<double>::min()) continue;
    ASSERT_NEAR(std::abs(value_of(f, result, {x, y})), expected, 1e-13 * expected) << x << " ^ " << y;
  }
  EXPECT_EQ(value_of(f, result, {-2, 3}), -8);
  EXPECT_EQ(value_of(f, result, {-2, 4}), 16);
  EXPECT_EQ(value_of(f, result, {3, 33}), 5559060566555523.0);
  EXPECT_NEAR(value_of(f, result, {-1.5, 65}), -std::pow(1.5, 65), 1e-13 * std::pow(1.5, 65));
  EXPECT_EQ(value_of(f, result, {0, 0}), 1);
  EXPECT_EQ(value_of(f, result, {0, 2}), 0);
  EXPECT_EQ(value_of(f, result, {0, -2}), kInfinity);
}

TEST(Doubles, ConversionsRoundOnce) {
  std::mt19937_64 random(3);
  for (int k = 0; k < 3000; ++k) {
    const auto bits = static_cast<int64_t>(random()) >> (random() % 64);
    const double low = static_cast<int32_t>(bits), high = static_cast<int32_t>(bits >> 32);
    Formula f;
    const auto convert_from = [&](IntegerType type) {
      const Term result = to_double({f.x(0), f.x(1), type});
      const Integer made = bits_of_double(result);
      const std::vector<double> inputs = {low, high};
      const auto word = [&](Term term) {
        return static_cast<uint64_t>(
            static_cast<uint32_t>(static_cast<int64_t>(f.result(term).evaluate(inputs))));
      };
      return std::bit_cast<double>(word(made.high) << 32 | word(made.low));
    };
    EXPECT_EQ(convert_from({64, true}), static_cast<double>(bits));
    EXPECT_EQ(convert_from({64, false}), static_cast<double>(static_cast<uint64_t>(bits)));
    EXPECT_EQ(convert_from({32, true}), static_cast<double>(static_cast<int32_t>(bits)));
    EXPECT_EQ(convert_from({32, false}), static_cast<double>(static_cast<uint32_t>(bits)));

    const double x = random_double(random, -24, 16);
    Formula g;
    const Term wide = double_operand(g, 0);
    const std::vector<double> inputs = words(x);
    const auto narrowed = [&](DataType type) {
      return g.result(round_to_type(narrow(wide, type), type)).evaluate(inputs);
    };
    EXPECT_EQ(narrowed(DataType::kFloat32), static_cast<float>(x));
    EXPECT_EQ(narrowed(DataType::kFloat16), half_to_float(float_to_half(round_to_odd(x)))) << x;
    EXPECT_EQ(narrowed(DataType::kBfloat16), bfloat16_to_float(float_to_bfloat16(round_to_odd(x)))) << x;
  }
}

TEST(Doubles, ToIntegersTowardZero) {
  for (const double x : {0.0, 0.9, -0.9, 1.5, -1.5, 127.9, 2147483647.5, -2147483648.0, 4294967295.0,
                         9007199254740993.0, -9e18, 9e18, 9223372036854775808.0, 1.8e19}) {
    Formula f;
    const Term value = double_operand(f, 0);
    const auto converted = [&](IntegerType type) {
      const Integer result = double_to_integer(value, type);
      const std::vector<double> inputs = words(x);
      const auto word = [&](Term term) {
        return static_cast<uint64_t>(
            static_cast<uint32_t>(static_cast<int64_t>(f.result(term).evaluate(inputs))));
      };
      return word(result.high) << 32 | word(result.low);
    };
    if (std::abs(x) < 0x1p63) {
      EXPECT_EQ(static_cast<int64_t>(converted({64, true})), static_cast<int64_t>(x));
    }
    if (x >= 0) {
      EXPECT_EQ(converted({64, false}), static_cast<uint64_t>(x));
    }
    if (std::abs(x) < 0x1p31) {
      EXPECT_EQ(static_cast<int64_t>(converted({32, true})), static_cast<int64_t>(x));
    }
    EXPECT_EQ(converted({1, false}), x != 0 ? 1U : 0U);
  }
}

/// Whole models in double precision: no host, and far more exact than floats are.
void expect_on_chip(const std::string& text, double tolerance = 1e-13) {
  const std::string found = check_text(text, tolerance);
  EXPECT_EQ(found.find("Host"), std::string::npos) << text << ": " << found;
}

TEST(LowerDoubles, Elementwise) {
  for (const char* op :
       {"Neg", "Abs", "Relu", "Reciprocal", "Exp", "Tanh", "Sigmoid", "Floor", "Ceil", "Sign", "LeakyRelu",
        "Elu", "Selu", "Softplus", "Softsign", "HardSigmoid", "ThresholdedRelu", "Shrink", "Round"})
    expect_on_chip(fmt::format("g (double[3,7] a) => (double[3,7] y) {{ y = {} (a) }}", op), 1e-14);
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "PRelu"})
    expect_on_chip(fmt::format("g (double[3,7] a, double[7] b) => (double[3,7] y) {{ y = {} (a, b) }}", op));
  for (const char* op : {"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"})
    expect_on_chip(fmt::format("g (double[3,7] a, double[7] b) => (bool[3,7] y) {{ y = {} (a, b) }}", op), 0);
  expect_on_chip("g (double[40] a) => (double[40] y) { b = Abs (a) c = Sqrt (b) d = Log (c) y = Neg (d) }");
  expect_on_chip("g (double[40] a, double[40] b) => (double[40] y) { y = Mod <fmod = 1> (a, b) }");
  expect_on_chip("g (double[40] a, double[40] b) => (double[40] y) { c = Abs (a) y = Pow (c, b) }");
  expect_on_chip("g (int64[40] a, float[40] b) => (int64[40] y) { y = Pow (a, b) }", 0);
  expect_on_chip(
      "g (int64[40] a) => (int32[40] y) { b = Cast <to = 6> (a) e = Constant <value_float = 0.5> () "
      "c = Mul (b, b) y = Pow (c, e) }",
      0);
  expect_on_chip("g (bool[9] c, double[9] a, double[9] b) => (double[9] y) { y = Where (c, a, b) }", 0);
  expect_on_chip("g (double[9] a) => (bool[9] y) { y = IsNaN (a) }", 0);
  expect_on_chip("g (double[9] a, double l, double h) => (double[9] y) { y = Clip (a, l, h) }", 0);
}

TEST(LowerDoubles, ReductionsAreMaps) {
  for (const char* op : {"ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd", "ReduceL1",
                         "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"})
    expect_on_chip(fmt::format("g (double[3,7,5] a) => (double[] y) {{ y = {} (a) }}", op));
  expect_on_chip("g (double[3,7,5] a) => (double[] y) { y = ReduceMean <axes = [0, 2], keepdims = 0> (a) }");
  for (const char* attributes : {"", "<exclusive = 1>", "<reverse = 1>", "<exclusive = 1, reverse = 1>"}) {
    for (const char* shape : {"[2,1]", "[2,13]", "[2,40]"}) {
      auto model = parse_model(
          fmt::format("g (double{0} a) => (double{0} y) {{ y = CumSum {1} (a, axis) }}", shape, attributes));
      add_initializer(model, "axis", Tensor::from_values<int64_t>(DataType::kInt64, {}, {1}));
      const std::string found = check_model(model, 1e-14);
      EXPECT_EQ(found.find("Host"), std::string::npos);
    }
  }
}

TEST(LowerDoubles, Products) {
  expect_on_chip("g (double[2,3,4] a, double[4,5] b) => (double[2,3,5] y) { y = MatMul (a, b) }");
  expect_on_chip("g (double[4] a, double[4] b) => (double y) { y = MatMul (a, b) }");
  expect_on_chip(
      "g (double[2,4,6,5] x, double[6,2,3,2] w, double[6] b) => (double[] y) "
      "{ y = Conv <group = 2, strides = [2, 1], pads = [1, 0, 1, 1]> (x, w, b) }");
  expect_on_chip(
      "g (double[2,3,4] x, double[3] s, double[3] b, double[3] m, double[3] v) => (double[] y) "
      "{ w = Abs (v) y = BatchNormalization (x, s, b, m, w) }");
  expect_on_chip(
      "g (double[1,2,7] x, double[3,2,3] w) => (double[] y) "
      "{ y = Conv <dilations = [3], pads = [4, 2]> (x, w) }");
  expect_on_chip("g (int64[2,3] a, int64[3,5] b) => (int64[2,5] y) { y = MatMul (a, b) }", 0);
  expect_on_chip(
      "g (double[4,3] a, double[5,4] b, double[3,1] c) => (double[3,5] y) "
      "{ y = Gemm <transA = 1, transB = 1, alpha = 0.5, beta = 2.0> (a, b, c) }");
  for (const char* equation :
       {"ij,jk->ik", "bij,bjk->bki", "i,i->", "...ii->...i", "ij->j", "ij,kj,jl->il"}) {
    const std::string text = equation;
    const auto commas = std::count(text.begin(), text.end(), ',');
    expect_on_chip(
        fmt::format("g (double{0} a, double{0} b, double{0} c) => (double[] y) {{ y = Einsum "
                    "<equation = \"{1}\"> (a{2}{3}) }}",
                    text.starts_with("b")    ? "[3,3,3]"
                    : text.starts_with("i,") ? "[3]"
                    : text.starts_with(".")  ? "[2,3,3]"
                                             : "[3,3]",
                    equation, commas > 0 ? ", b" : "", commas > 1 ? ", c" : ""));
  }
}

TEST(LowerDoubles, MovedAsWords) {
  expect_on_chip("g (double[2,3] a) => (double[3,2] y) { y = Transpose (a) }", 0);
  expect_on_chip("g (double[2,3] a, double[2,1] b) => (double[2,4] y) { y = Concat <axis = 1> (a, b) }", 0);
  auto model = parse_model("g (double[3,4] x) => (double[6,8] y) { y = Pad (x, pads, value) }");
  add_ints(model, "pads", {1, 0, 2, 4});
  add_initializer(model, "value", Tensor::from_values<double>(DataType::kFloat64, {}, {0.1}));
  EXPECT_EQ(check_model(model, 0), "Rearrange");
}

TEST(LowerDoubles, AChainIsOneMap) {
  EXPECT_EQ(check_text("g (double[5] a, double[5] b) => (double[5] y) { c = Add (a, b) d = Mul (c, b) "
                       "y = Sub (d, a) }",
                       1e-14),
            "Map");
  EXPECT_EQ(check_text("g (int64[5] a, int64[5] b) => (int64[5] y) { c = Add (a, b) d = Max (c, b) "
                       "y = Sub (d, a) }",
                       0),
            "Map");
}

}  // namespace
}  // namespace kodama::compiler
