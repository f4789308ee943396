/// Map and Reduce kernels end to end on the simulator, against double-precision evaluation.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <random>

#include "compiler/kernels/fill_rows.h"
#include "compiler/kernels/kernel.h"
#include "compiler/kernels/kernel_test_util.h"
#include "compiler/kernels/lowering.h"
#include "compiler/kernels/rows_windows.h"
#include "compiler/kernels/split_reductions.h"
#include "compiler/kernels/spread.h"
#include "compiler/layers/integer.h"

namespace kodama::compiler {
namespace {

using testing::int_tensor;
using testing::run_candidate;
using testing::run_layer;
using testing::run_map;
using testing::tiny_chip;

constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor float_tensor(const Shape& shape, const std::vector<float>& values) {
  return Tensor::from_values<float>(DataType::kFloat32, shape, values);
}

std::vector<float> run_map(const ScalarExpr& expr, const std::vector<std::vector<float>>& inputs) {
  std::vector<Tensor> values;
  for (const std::vector<float>& input : inputs)
    values.push_back(float_tensor({static_cast<int64_t>(input.size())}, input));
  const Tensor out = run_map(expr, values, DataType::kFloat32);
  return {out.data<float>().begin(), out.data<float>().end()};
}
ScalarExpr unary(ScalarOp op) {
  ScalarExpr expr;
  expr.apply(op, expr.input(0));
  return expr;
}
ScalarExpr binary(ScalarOp op) {
  ScalarExpr expr;
  const int a = expr.input(0);
  expr.apply(op, a, expr.input(1));
  return expr;
}

/// Random normal floats over the exponents [low, high] with random signs, and ordinary values.
std::vector<float> spread_values(size_t count, int low, int high, bool negative, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    const int exponent = low + static_cast<int>(random() % static_cast<uint32_t>(high - low + 1));
    value = std::ldexp(1.0f + static_cast<float>(random() >> 8) * 0x1p-24f, exponent);
    if (negative && (random() & 1) != 0) value = -value;
  }
  return values;
}

/// Distance in units of the last place of the correctly rounded result.
double ulps(float actual, double expected) {
  if (std::isnan(expected)) return 0;
  const auto rounded = static_cast<float>(expected);
  if (std::abs(expected) < std::numeric_limits<float>::min())
    return std::abs(actual) <= std::numeric_limits<float>::min() ? 0 : 1e9;
  if (std::isinf(rounded)) return actual == rounded ? 0 : 1e9;
  const double unit = std::ldexp(1.0, std::ilogb(rounded) - 23);
  return std::abs(static_cast<double>(actual) - expected) / unit;
}

void expect_close(const ScalarExpr& expr, const std::vector<std::vector<float>>& inputs,
                  double allowed_ulps) {
  const std::vector<float> actual = run_map(expr, inputs);
  double worst = 0;
  for (size_t k = 0; k < actual.size(); ++k) {
    std::vector<double> arguments;
    for (const auto& input : inputs) arguments.push_back(input[k]);
    const double expected = expr.evaluate(arguments);
    const double distance = ulps(actual[k], expected);
    worst = std::max(worst, distance);
    ASSERT_LE(distance, allowed_ulps) << expr.to_string() << " of " << inputs[0][k]
                                      << (inputs.size() > 1 ? fmt::format(", {}", inputs[1][k]) : "") << ": "
                                      << actual[k] << " instead of " << expected;
  }
  fmt::print("{}: {:.2f} ulp\n", expr.to_string(), worst);
}

TEST(ScalarLowering, ArithmeticIsExactlyRounded) {
  const auto a = spread_values(500, -20, 20, true, 1);
  const auto b = spread_values(500, -20, 20, true, 2);
  for (ScalarOp op : {ScalarOp::kAdd, ScalarOp::kSub, ScalarOp::kMax, ScalarOp::kMin})
    expect_close(binary(op), {a, b}, 0.5);
  // The multiplier drops low partial products: 2^-38 of the product at most, seen only at ties.
  expect_close(binary(ScalarOp::kMul), {a, b}, 0.51);
  for (ScalarOp op : {ScalarOp::kNeg, ScalarOp::kAbs, ScalarOp::kRelu, ScalarOp::kFloor})
    expect_close(unary(op), {a}, 0);
}

TEST(ScalarLowering, Division) {
  const auto divide = [](int low, int high, double allowed) {
    expect_close(binary(ScalarOp::kDiv),
                 {spread_values(2000, low, high, true, 3), spread_values(2000, low, high, true, 4)}, allowed);
  };
  divide(-3, 3, 1.0);
  divide(-40, 40, 1.0);
  // Below 2^-102 the last correction of a quotient is too small to be a number.
  divide(-126, 127, 3.0);
  expect_close(unary(ScalarOp::kReciprocal), {spread_values(2000, -60, 60, true, 7)}, 1.0);
  expect_close(unary(ScalarOp::kReciprocal), {spread_values(2000, -125, 125, true, 7)}, 3.0);
}

TEST(ScalarLowering, DivisionOfSmallIntegersIsExact) {
  std::vector<float> a, b;
  for (int x = -20; x <= 20; ++x) {
    for (int y = 1; y <= 20; ++y) {
      a.push_back(static_cast<float>(x * y));
      b.push_back(static_cast<float>(y));
    }
  }
  expect_close(binary(ScalarOp::kDiv), {a, b}, 0);
}

TEST(ScalarLowering, Transcendentals) {
  std::vector<float> line;
  for (int k = -4000; k <= 4000; ++k) line.push_back(static_cast<float>(k) * 0.022f);
  std::ranges::copy(spread_values(1000, -60, 1, true, 8), std::back_inserter(line));
  const auto positive = spread_values(3000, -126, 127, false, 9);
  auto near_one = spread_values(1000, -1, 0, false, 10);
  expect_close(unary(ScalarOp::kExp), {line}, 2);
  expect_close(unary(ScalarOp::kLog), {positive}, 2);
  expect_close(unary(ScalarOp::kLog), {near_one}, 3);
  expect_close(unary(ScalarOp::kSqrt), {positive}, 2);
  expect_close(unary(ScalarOp::kTanh), {line}, 4);
  expect_close(unary(ScalarOp::kSigmoid), {line}, 4);
  expect_close(unary(ScalarOp::kErf), {line}, 6);
}

TEST(ScalarLowering, Powers) {
  const ScalarExpr pow = binary(ScalarOp::kPow);
  // Results from the smallest numbers to the largest.
  std::vector<float> bases, exponents;
  for (const float base : spread_values(1500, -126, 127, false, 13)) {
    bases.push_back(base);
    exponents.push_back(static_cast<float>(bases.size() % 250 - 125.0) / std::log2(base));
  }
  expect_close(pow, {bases, exponents}, 3);
  expect_close(pow, {spread_values(1500, -1, 0, false, 14), spread_values(1500, 0, 5, true, 15)}, 3);
  const auto at = [&](float x, float y) { return run_map(pow, {{x}, {y}})[0]; };
  EXPECT_EQ(at(3, 6), 729);
  EXPECT_EQ(at(-2, 3), -8);
  EXPECT_EQ(at(-2, 4), 16);
  EXPECT_EQ(at(-2, -1), -0.5F);
  EXPECT_EQ(at(0, 0), 1);
  EXPECT_EQ(at(0, 2), 0);
  EXPECT_EQ(at(0, 0.1F), 0);
  EXPECT_EQ(at(0, -1), kInf);
  EXPECT_EQ(at(5, 0), 1);
  EXPECT_EQ(at(kInf, 0), 1);
  EXPECT_EQ(at(kInf, 2), kInf);
  EXPECT_EQ(at(kInf, -2), 0);
  EXPECT_EQ(at(2, 200), kInf);
  EXPECT_EQ(at(2, -200), 0);
  EXPECT_EQ(at(1, 1e30F), 1);
  EXPECT_EQ(at(0.5F, kInf), 0);
}

TEST(ScalarLowering, SpecialValues) {
  const auto at = [](ScalarOp op, float x) { return run_map(unary(op), {{x}})[0]; };
  EXPECT_EQ(at(ScalarOp::kExp, kInf), kInf);
  EXPECT_EQ(at(ScalarOp::kExp, 100), kInf);
  EXPECT_EQ(at(ScalarOp::kExp, -kInf), 0);
  EXPECT_EQ(at(ScalarOp::kExp, 0), 1);
  EXPECT_EQ(at(ScalarOp::kLog, 0), -kInf);
  EXPECT_EQ(at(ScalarOp::kLog, kInf), kInf);
  EXPECT_EQ(at(ScalarOp::kLog, 1), 0);
  EXPECT_EQ(at(ScalarOp::kSqrt, 0), 0);
  EXPECT_EQ(at(ScalarOp::kSqrt, kInf), kInf);
  EXPECT_EQ(at(ScalarOp::kTanh, kInf), 1);
  EXPECT_EQ(at(ScalarOp::kTanh, -kInf), -1);
  EXPECT_EQ(at(ScalarOp::kSigmoid, -kInf), 0);
  EXPECT_EQ(at(ScalarOp::kSigmoid, kInf), 1);
  EXPECT_EQ(at(ScalarOp::kErf, kInf), 1);
  const auto divide = [](float a, float b) { return run_map(binary(ScalarOp::kDiv), {{a}, {b}})[0]; };
  EXPECT_EQ(divide(1, 0), kInf);
  EXPECT_EQ(divide(-1, 0), -kInf);
  EXPECT_EQ(divide(1, kInf), 0);
  EXPECT_EQ(divide(kInf, 4), kInf);
  EXPECT_EQ(divide(kInf, -0.25f), -kInf);
  EXPECT_EQ(divide(0, 5), 0);
}

TEST(ScalarLowering, EqualityIsExact) {
  const float least = std::numeric_limits<float>::min();
  const float next = std::nextafter(least, 1.0F);
  const std::vector<Tensor> inputs = {
      float_tensor({10}, {1, 1, least, least, 0, -0.0F, kInf, kInf, -1, -kInf}),
      float_tensor({10}, {1, 2, next, least, -0.0F, -0.0F, kInf, -kInf, 1, -kInf})};
  const auto found = [&](ScalarOp op) {
    const Tensor result = run_map(binary(op), inputs, DataType::kBool);
    const auto bytes = result.data<uint8_t>();
    return std::vector<int>(bytes.begin(), bytes.end());
  };
  EXPECT_EQ(found(ScalarOp::kEqual), (std::vector<int>{1, 0, 0, 1, 1, 1, 1, 0, 0, 1}));
  EXPECT_EQ(found(ScalarOp::kLess), (std::vector<int>{0, 1, 1, 0, 0, 0, 0, 0, 1, 0}));
}

/// Random words, and those around limits.
std::vector<int32_t> words(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  constexpr std::array<int32_t, 8> kLimits = {
      0, 1, -1, 2, 31, 32, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  std::vector<int32_t> values(count);
  for (int32_t& value : values)
    value = random() % 3 == 0 ? kLimits[random() % kLimits.size()] : static_cast<int32_t>(random());
  return values;
}

void expect_integers(const ScalarExpr& expr, const std::vector<std::vector<int32_t>>& inputs,
                     DataType type = DataType::kInt32) {
  std::vector<Tensor> values;
  for (const std::vector<int32_t>& input : inputs) values.push_back(int_tensor(input));
  const Tensor found = run_map(expr, values, type);
  for (size_t k = 0; k < inputs[0].size(); ++k) {
    std::vector<double> arguments;
    for (const std::vector<int32_t>& input : inputs) arguments.push_back(input[k]);
    ASSERT_EQ(
        element_as_double(found, static_cast<int64_t>(k)),
        type == DataType::kFloat32 ? static_cast<float>(expr.evaluate(arguments)) : expr.evaluate(arguments))
        << expr.to_string() << " of " << arguments[0] << ", " << arguments.back();
  }
}

TEST(ScalarLowering, OperationsOnIntegers) {
  const std::vector<std::vector<int32_t>> inputs = {words(400, 1), words(400, 2), words(400, 3)};
  for (const ScalarOp op : {ScalarOp::kIntAdd, ScalarOp::kIntSub, ScalarOp::kIntMax, ScalarOp::kIntMin,
                            ScalarOp::kUnsignedMax, ScalarOp::kAnd, ScalarOp::kOr, ScalarOp::kXor,
                            ScalarOp::kShiftLeft, ScalarOp::kShiftRight, ScalarOp::kShiftRightSigned})
    expect_integers(binary(op), {inputs[0], inputs[1]});
  expect_integers(unary(ScalarOp::kIsZero), {inputs[0]});
  ScalarExpr select;
  const int condition = select.apply(ScalarOp::kAnd, select.input(0), select.int_constant(1));
  const int yes = select.input(1);
  select.apply(ScalarOp::kSelect, condition, yes, select.input(2));
  expect_integers(select, inputs);
  const Tensor truncated =
      run_map(unary(ScalarOp::kToInt),
              {float_tensor({8}, {0, -0.9F, 1.9F, -7.5F, 3e9F, -kInf, kInf, 16777215})}, DataType::kInt32);
  EXPECT_EQ(truncated,
            int_tensor({0, 0, 1, -7, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min(),
                        std::numeric_limits<int32_t>::max(), 16777215}));
}

/// Dividends beside multiples of the divisor, where an estimate that is off by one shows.
TEST(ScalarLowering, DivisionOfWords) {
  std::mt19937 random(7);
  std::vector<int32_t> dividends, divisors;
  for (int k = 0; k < 4000; ++k) {
    const uint32_t divisor = (random() >> (random() % 32)) + 1;
    const auto quotient = static_cast<uint32_t>(random() % (0xffffffffULL / divisor + 1));
    dividends.push_back(static_cast<int32_t>(quotient * divisor + random() % 3 - 1));
    divisors.push_back(static_cast<int32_t>(divisor));
  }
  for (const IntegerType type : {IntegerType{32, true}, IntegerType{32, false}}) {
    Formula f;
    const Division division = divide(integer_of_word(f.x(0), type), integer_of_word(f.x(1), type));
    const Tensor found = run_map(f.result(division.quotient.low),
                                 {int_tensor(dividends), int_tensor(divisors)}, DataType::kInt32);
    for (size_t k = 0; k < dividends.size(); ++k) {
      const int64_t a = type.is_signed ? int64_t{dividends[k]} : int64_t{static_cast<uint32_t>(dividends[k])};
      const int64_t b = type.is_signed ? int64_t{divisors[k]} : int64_t{static_cast<uint32_t>(divisors[k])};
      ASSERT_EQ(found.data<int32_t>()[k], static_cast<int32_t>(b == 0 ? 0 : a / b)) << a << " / " << b;
    }
  }
}

TEST(ScalarLowering, FormulasOfIntegers) {
  const std::vector<std::vector<int32_t>> inputs = {words(300, 4), words(300, 5)};
  for (const IntegerType type : {IntegerType{32, true}, IntegerType{32, false}}) {
    Formula f;
    const Integer a = integer_of_word(f.x(0), type), b = integer_of_word(f.x(1), type);
    expect_integers(f.result((a * b).low), inputs);
    expect_integers(f.result(divide(a, b).quotient.low), inputs);
    expect_integers(f.result(to_float(a)), {inputs[0]}, DataType::kFloat32);
  }
  Formula f;
  const Integer a{f.x(0), f.x(1), {64, true}}, b{f.x(1), f.x(0), {64, true}};
  expect_integers(f.result((a * b).high), inputs);
  expect_integers(f.result((a - b).high), inputs);
  expect_integers(f.result(to_float(a)), inputs, DataType::kFloat32);
}

TEST(ScalarLowering, SelectAndFusedProducts) {
  ScalarExpr select;
  const int x = select.input(0);
  const int y = select.input(1);
  select.apply(ScalarOp::kSelectNotNegative, x, y, select.constant(7));
  EXPECT_EQ(run_map(select, {{1, -1, 0, -0.0f}, {2, 3, 4, 5}}), (std::vector<float>{2, 7, 4, 5}));

  ScalarExpr fma;  // x0 - x1 * x2
  const int a = fma.input(0);
  const int product = fma.apply(ScalarOp::kMul, fma.input(1), fma.input(2));
  fma.apply(ScalarOp::kSub, a, product);
  EXPECT_EQ(run_map(fma, {{10, 1}, {2, 3}, {3, 4}}), (std::vector<float>{4, -11}));
  ScalarExpr identity = ScalarExpr::identity();
  EXPECT_EQ(run_map(identity, {{10, 1}}), (std::vector<float>{10, 1}));
  ScalarExpr constant;
  constant.constant(3.5);
  EXPECT_EQ(run_map(constant, {{10, 1}}), (std::vector<float>{3.5, 3.5}));
}

TEST(Map, AllSizes) {
  for (size_t count : {1, 2, 7, 8, 31, 32, 33, 128, 1000, 1024, 4097, 100000}) {
    SCOPED_TRACE(count);
    const auto a = spread_values(count, -3, 3, true, 11);
    const auto b = spread_values(count, -3, 3, true, 12);
    const auto actual = run_map(binary(ScalarOp::kAdd), {a, b});
    for (size_t k = 0; k < count; ++k) ASSERT_EQ(actual[k], a[k] + b[k]) << k;
  }
}

/// Reduction of the last axis of [outputs, elements].
struct ReduceCase {
  LayerGraph graph;
  std::vector<Tensor> values;
};
ReduceCase make_reduce(ReduceLayer::Op op, int64_t outputs, int64_t elements, const ScalarExpr& expr,
                       uint32_t seed) {
  ReduceCase result;
  LayerTensor x;
  x.name = "x";
  x.shape = {outputs, elements};
  LayerTensor y;
  y.name = "y";
  y.shape = {outputs};
  result.graph.tensors = {x, y};
  ReduceLayer reduce;
  reduce.op = op;
  reduce.output_extents = {outputs};
  reduce.reduction_extents = {elements};
  reduce.inputs = {{0, AffineMap::identity(2), 0}};
  reduce.expr = expr;
  reduce.epilogue = ScalarExpr::identity();
  Layer layer;
  layer.name = "reduce";
  layer.outputs = {1};
  layer.body = reduce;
  result.graph.layers = {layer};
  result.graph.inputs = {0};
  result.graph.outputs = {1};
  result.values = {float_tensor({outputs, elements},
                                spread_values(static_cast<size_t>(outputs * elements), -2, 2, true, seed))};
  return result;
}

void check_reduce(ReduceCase& test, ReduceLayer::Op op, const ScalarExpr& expr, int64_t outputs,
                  int64_t elements, bool split) {
  if (split) split_reductions(test.graph, tiny_chip());
  std::vector<Tensor> values = test.values;
  values.resize(test.graph.tensors.size());
  for (size_t id = 0; id < test.graph.tensors.size(); ++id) {
    if (test.graph.tensors[id].constant) values[id] = *test.graph.tensors[id].constant;
  }
  for (const Layer& layer : test.graph.layers)
    values[static_cast<size_t>(layer.outputs[0])] = run_layer(layer, test.graph, values);
  const Tensor& actual = values[1];
  for (int64_t o = 0; o < outputs; ++o) {
    double expected = op == ReduceLayer::Op::kSum    ? 0
                      : op == ReduceLayer::Op::kProd ? 1
                      : op == ReduceLayer::Op::kMax  ? -kInf
                                                     : kInf;
    double magnitude = 0;
    for (int64_t k = 0; k < elements; ++k) {
      const double x = test.values[0].data<float>()[static_cast<size_t>(o * elements + k)];
      const double value = expr.evaluate(std::vector<double>{x});
      magnitude += std::abs(value);
      switch (op) {
        case ReduceLayer::Op::kSum:
          expected += value;
          break;
        case ReduceLayer::Op::kProd:
          expected *= value;
          break;
        case ReduceLayer::Op::kMax:
          expected = std::max(expected, value);
          break;
        case ReduceLayer::Op::kMin:
          expected = std::min(expected, value);
          break;
        default:
          FAIL() << "a reduction of integers";
      }
    }
    const double bound = op == ReduceLayer::Op::kSum    ? magnitude * 1e-5
                         : op == ReduceLayer::Op::kProd ? std::abs(expected) * 1e-5
                                                        : std::abs(expected) * 1e-6;
    ASSERT_NEAR(actual.data<float>()[static_cast<size_t>(o)], expected, bound)
        << o << " of " << outputs << " x " << elements;
  }
}

TEST(Reduce, SizesAndOperations) {
  for (auto op :
       {ReduceLayer::Op::kSum, ReduceLayer::Op::kMax, ReduceLayer::Op::kMin, ReduceLayer::Op::kProd}) {
    for (auto [outputs, elements] :
         {std::pair<int64_t, int64_t>{1, 1}, {1, 17}, {3, 40}, {33, 5}, {500, 9}, {2000, 3}}) {
      SCOPED_TRACE(fmt::format("op {} {} x {}", static_cast<int>(op), outputs, elements));
      ReduceCase test = make_reduce(op, outputs, elements, ScalarExpr::identity(), 21);
      check_reduce(test, op, ScalarExpr::identity(), outputs, elements, false);
    }
  }
}

TEST(Reduce, LongListsAreSplit) {
  const ScalarExpr exp = unary(ScalarOp::kExp);
  for (auto [outputs, elements] : {std::pair<int64_t, int64_t>{1, 1000}, {1, 1009}, {2, 4999}, {1, 100003}}) {
    SCOPED_TRACE(fmt::format("{} x {}", outputs, elements));
    for (auto op : {ReduceLayer::Op::kSum, ReduceLayer::Op::kMax}) {
      ReduceCase test = make_reduce(op, outputs, elements, exp, 22);
      check_reduce(test, op, exp, outputs, elements, true);
      EXPECT_GT(test.graph.layers.size(), 1U);
    }
  }
}

TEST(Reduce, LayersOfRepeatedSplitsHaveNamesOfTheirOwn) {
  ReduceCase test = make_reduce(ReduceLayer::Op::kSum, 1, 1000000, ScalarExpr::identity(), 24);
  LayerTensor taken;  // a name that a split would wish for
  taken.name = "y/parts";
  test.graph.tensors.push_back(taken);
  split_reductions(test.graph, tiny_chip());
  EXPECT_GT(test.graph.layers.size(), 2U);
  std::set<std::string> layers;
  for (const Layer& layer : test.graph.layers) EXPECT_TRUE(layers.insert(layer.name).second) << layer.name;
  std::set<std::string> tensors;
  for (const LayerTensor& tensor : test.graph.tensors) {
    EXPECT_TRUE(tensors.insert(tensor.name).second) << tensor.name;
  }
}

TEST(Reduce, TilesOfManyElements) {
  // More elements per output than the local memories hold.
  ReduceCase test = make_reduce(ReduceLayer::Op::kSum, 200, 3000, ScalarExpr::identity(), 23);
  check_reduce(test, ReduceLayer::Op::kSum, ScalarExpr::identity(), 200, 3000, false);
}

/// A layer over tensors [1, c, h, w], with random values of its operands.
struct ImageCase {
  LayerGraph graph;
  std::vector<Tensor> values;
};
void add_tensor(ImageCase& test, const Shape& shape) {
  LayerTensor tensor;
  tensor.name = fmt::format("t{}", test.graph.tensors.size());
  tensor.shape = shape;
  test.graph.tensors.push_back(tensor);
  test.values.push_back(float_tensor(shape, spread_values(static_cast<size_t>(element_count(shape)), -2, 2,
                                                          true, static_cast<uint32_t>(test.values.size()))));
}
void add_layer(ImageCase& test, decltype(Layer::body) body) {
  Layer layer;
  layer.name = "layer";
  layer.outputs = {static_cast<TensorId>(test.graph.tensors.size()) - 1};
  layer.body = std::move(body);
  test.graph.layers.push_back(std::move(layer));
}
/// Windows of 2 x 2 of the operand, one after the other, and a number per channel added.
ImageCase make_pooling(const Shape& shape) {
  ImageCase test;
  add_tensor(test, {shape[0], shape[1], 2 * shape[2], 2 * shape[3]});
  add_tensor(test, {shape[1]});
  add_tensor(test, shape);
  ReduceLayer reduce;
  reduce.op = ReduceLayer::Op::kMax;
  reduce.output_extents = shape;
  reduce.reduction_extents = {2, 2};
  AffineMap windows(4, 6);
  windows.set(0, 0, 1).set(1, 1, 1).set(2, 2, 2).set(3, 3, 2).set(2, 4, 1).set(3, 5, 1);
  AffineMap channels(1, 6);
  channels.set(0, 1, 1);
  reduce.inputs = {{0, windows, 0}, {1, channels, 0}};
  reduce.expr = binary(ScalarOp::kAdd);
  reduce.epilogue = ScalarExpr::identity();
  add_layer(test, reduce);
  return test;
}
ImageCase make_scaling(const Shape& shape) {
  ImageCase test;
  add_tensor(test, shape);
  add_tensor(test, {shape[1]});
  add_tensor(test, shape);
  MapLayer map;
  map.extents = shape;
  AffineMap channels(1, 4);
  channels.set(0, 1, 1);
  map.inputs = {{0, AffineMap::identity(4), 0}, {1, channels, 0}};
  map.expr = binary(ScalarOp::kMul);
  add_layer(test, map);
  return test;
}

void check_candidates(const ImageCase& test, const isa::Chip& chip, size_t at_least) {
  const Layer& layer = test.graph.layers[0];
  const std::vector<Candidate> candidates = layer_candidates(layer, test.graph, chip, {});
  EXPECT_GE(candidates.size(), at_least);
  std::optional<Tensor> first;
  for (const Candidate& candidate : candidates) {
    const Tensor result = run_candidate(candidate, layer, test.graph, test.values, chip).result;
    if (!first) first = result;
    ASSERT_TRUE(std::ranges::equal(first->data<float>(), result.data<float>())) << candidate.description;
  }
}

TEST(Spread, CandidatesComputeTheSame) {
  for (const Shape& shape : {Shape{1, 10, 1, 1}, Shape{1, 3, 5, 4}, Shape{1, 8, 7, 7}, Shape{2, 5, 30, 9}}) {
    SCOPED_TRACE(shape_to_string(shape));
    check_candidates(make_scaling(shape), tiny_chip(), 2);
    check_candidates(make_pooling(shape), tiny_chip(), 2);
  }
  check_candidates(make_scaling({1, 16, 10, 10}), isa::find_chip("mncore2"), 4);
  check_candidates(make_pooling({1, 8, 14, 14}), isa::find_chip("mncore2"), 4);
}

struct PoolSizes {
  int64_t images, channels, rows, columns, kernel, stride, pad;
};
/// op over windows, as ONNX's pooling is lowered.
ImageCase make_plain_pooling(const PoolSizes& s, ReduceLayer::Op op) {
  const auto results = [&](int64_t size) { return (size + 2 * s.pad - s.kernel) / s.stride + 1; };
  ImageCase test;
  add_tensor(test, {s.images, s.channels, s.rows, s.columns});
  add_tensor(test, {s.images, s.channels, results(s.rows), results(s.columns)});
  ReduceLayer reduce;
  reduce.op = op;
  reduce.output_extents = test.graph.tensors[1].shape;
  reduce.reduction_extents = {s.kernel, s.kernel};
  AffineMap windows(4, 6);
  windows.set(0, 0, 1).set(1, 1, 1).set(2, 2, s.stride).set(3, 3, s.stride).set(2, 4, 1).set(3, 5, 1);
  windows.set_offset(2, -s.pad).set_offset(3, -s.pad);
  reduce.inputs = {{0, windows, identity_of(op)}};
  reduce.expr = reduce.epilogue = ScalarExpr::identity();
  add_layer(test, reduce);
  return test;
}

/// Candidates may differ in the order of additions.
void check_near(const ImageCase& test, const isa::Chip& chip) {
  const Layer& layer = test.graph.layers[0];
  std::optional<Tensor> first;
  for (const Candidate& candidate : layer_candidates(layer, test.graph, chip, {})) {
    const Tensor result = run_candidate(candidate, layer, test.graph, test.values, chip).result;
    if (!first) first = result;
    for (size_t i = 0; i < result.data<float>().size(); ++i)
      ASSERT_NEAR(result.data<float>()[i], first->data<float>()[i], 1e-4) << candidate.description;
  }
}

/// The same of a concatenation of so many channels each, of one image.
ImageCase joined_pooling(const PoolSizes& s, ReduceLayer::Op op, const std::vector<int64_t>& parts) {
  ImageCase joined = make_plain_pooling(s, op);
  RearrangeLayer concat;
  concat.extents = joined.graph.tensors[0].shape;
  std::vector<int64_t> begin(4, 0);
  const int64_t places = s.rows * s.columns;
  for (const int64_t channels : parts) {
    Shape shape = concat.extents;
    shape[1] = channels;
    AffineMap map = AffineMap::identity(4);
    map.set_offset(1, -begin[1]);
    std::vector<int64_t> end = concat.extents;
    end[1] = begin[1] + channels;
    concat.pieces.push_back({{static_cast<TensorId>(joined.graph.tensors.size()), map, 0}, begin, end});
    add_tensor(joined, shape);
    const auto whole = joined.values[0].data<float>();
    std::copy_n(whole.begin() + begin[1] * places, channels * places,
                joined.values.back().data<float>().begin());
    begin[1] = end[1];
  }
  Layer layer;
  layer.name = "concat";
  layer.outputs = {0};
  layer.body = concat;
  joined.graph.layers.push_back(layer);
  return joined;
}

/// op over all rows and columns, with or without their axes.
ImageCase make_whole_images(const Shape& shape, ReduceLayer::Op op, bool keeps_axes) {
  ImageCase test;
  add_tensor(test, shape);
  const size_t outer = keeps_axes ? 4 : 2;
  ReduceLayer reduce;
  reduce.op = op;
  reduce.output_extents = {shape[0], shape[1]};
  reduce.output_extents.resize(outer, 1);
  add_tensor(test, reduce.output_extents);
  reduce.reduction_extents = {shape[2], shape[3]};
  AffineMap all(4, outer + 2);
  all.set(0, 0, 1).set(1, 1, 1).set(2, outer, 1).set(3, outer + 1, 1);
  reduce.inputs = {{0, all, identity_of(op)}};
  if (op == ReduceLayer::Op::kMax) {
    reduce.expr = ScalarExpr::identity();
  } else {
    reduce.expr.apply(ScalarOp::kRelu, reduce.expr.input(0));
  }
  reduce.epilogue.apply(ScalarOp::kMul, reduce.epilogue.input(0), reduce.epilogue.constant(0.125));
  add_layer(test, reduce);
  return test;
}

TEST(Rows, PoolingOfLanes) {
  isa::Chip chip = tiny_chip();
  chip.mab_per_l1b = 16;
  chip.l1b_per_l2b = 8;
  const auto check = [&](const ImageCase& test, size_t least, bool of_parts) {
    const Layer& layer = test.graph.layers[0];
    SCOPED_TRACE(shape_to_string(test.graph.tensors[0].shape));
    auto problem = pool_problem(std::get<ReduceLayer>(layer.body), layer.outputs[0], test.graph);
    ASSERT_TRUE(problem);
    if (of_parts) problem->in = concatenated_picture(problem->in, test.graph).value();
    const std::vector<RowsOption> options = window_lanes_options(*problem, chip, "lanes");
    EXPECT_GE(options.size(), least);
    const Candidate other = layer_candidates(layer, test.graph, chip, {}).at(0);
    const Tensor want = run_candidate(other, layer, test.graph, test.values, chip).result;
    for (const RowsOption& option : options) {
      verify_candidate(option.candidate, layer, test.graph, chip);
      for (const bool backwards : {false, true}) {
        Candidate candidate = option.candidate;
        if (backwards) candidate.emit = candidate.emit_backwards;
        const Tensor result = run_candidate(candidate, layer, test.graph, test.values, chip).result;
        for (size_t i = 0; i < result.data<float>().size(); ++i)
          ASSERT_NEAR(result.data<float>()[i], want.data<float>()[i], 1e-4)
              << candidate.description << (backwards ? ", backwards" : "") << ", element " << i;
      }
    }
  };
  const auto max = ReduceLayer::Op::kMax;
  check(make_plain_pooling({1, 64, 12, 24, 3, 2, 1}, max), 2, false);
  check(make_plain_pooling({1, 64, 11, 16, 2, 2, 0}, ReduceLayer::Op::kSum), 2, false);
  check(make_plain_pooling({2, 40, 5, 30, 3, 1, 1}, ReduceLayer::Op::kMin), 1, false);
  check(make_plain_pooling({1, 96, 9, 32, 3, 2, 1}, max), 1, false);
  check(make_plain_pooling({1, 480, 4, 14, 3, 1, 1}, max), 1, false);
  check(make_plain_pooling({1, 5, 17, 48, 5, 3, 1}, max), 1, false);
  check(make_plain_pooling({1, 72, 7, 20, 5, 1, 2}, max), 1, false);
  // Edges of so many kinds that there aren't masks for all of them.
  check(make_plain_pooling({1, 96, 7, 56, 7, 1, 3}, max), 0, false);
  // No lanes of results over those of the operand, or columns outside reach beyond the last lane.
  check(make_plain_pooling({1, 64, 7, 28, 3, 2, 1}, max), 0, false);
  check(make_plain_pooling({1, 64, 7, 13, 5, 1, 2}, max), 0, false);
  // Parts of one chunk and of two, in pairs of results.
  check(joined_pooling({1, 256, 6, 28, 3, 1, 1}, max, {64, 128, 32, 32}), 1, true);
  check(joined_pooling({1, 192, 6, 16, 3, 2, 1}, max, {32, 64, 96}), 1, true);
  check(joined_pooling({1, 160, 6, 16, 3, 2, 1}, max, {32, 64, 64}), 1, true);
  check(joined_pooling({1, 101, 6, 12, 3, 1, 1}, max, {32, 64, 5}), 1, true);
  check(joined_pooling({1, 96, 6, 16, 3, 1, 1}, max, {32, 32, 32}), 1, true);
}

/// Averages with padding, with one factor or one for every place, of one picture or of parts.
TEST(Rows, PaddedSums) {
  const auto check = [](ImageCase test, int64_t l1bs, bool by_place) {
    isa::Chip chip = tiny_chip();
    chip.mab_per_l1b = 16;
    chip.l1b_per_l2b = l1bs;
    auto& reduce = std::get<ReduceLayer>(test.graph.layers[0].body);
    const Shape results = reduce.output_extents;
    SCOPED_TRACE(fmt::format("{}, {} L1Bs, by place {}", shape_to_string(test.graph.tensors[0].shape), l1bs,
                             by_place));
    reduce.epilogue = ScalarExpr();
    if (by_place) {
      reduce.epilogue_inputs.push_back(
          {static_cast<TensorId>(test.graph.tensors.size()), AffineMap(2, 4).set(0, 2, 1).set(1, 3, 1), 0});
      add_tensor(test, {results[2], results[3]});
      test.graph.tensors.back().constant = test.values.back();
      reduce.epilogue.apply(ScalarOp::kMul, reduce.epilogue.input(0), reduce.epilogue.input(1));
    } else {
      reduce.epilogue.apply(ScalarOp::kMul, reduce.epilogue.input(0), reduce.epilogue.constant(0.25));
    }
    const auto of_rows = [&] {
      return find_kernel("reduce-rows").run(test.graph.layers[0], test.graph, chip, {}).size();
    };
    EXPECT_EQ(of_rows(), 0U);
    add_fill_rows(test.graph);
    test.values.push_back(*test.graph.tensors.back().constant);
    EXPECT_GT(of_rows(), 0U);
    check_near(test, chip);
  };
  const auto sum = ReduceLayer::Op::kSum;
  for (const int64_t l1bs : {2, 8}) {
    for (const bool by_place : {false, true}) {
      check(make_plain_pooling({1, 32, 12, 16, 3, 1, 1}, sum), l1bs, by_place);
      check(make_plain_pooling({2, 40, 7, 24, 3, 2, 1}, sum), l1bs, by_place);
      check(make_plain_pooling({1, 5, 9, 13, 5, 1, 2}, sum), l1bs, by_place);
      check(joined_pooling({1, 96, 6, 16, 3, 1, 1}, sum, {32, 32, 32}), l1bs, by_place);
    }
  }
  // What needs no such rows gets none.
  ImageCase plain = make_plain_pooling({1, 32, 12, 12, 2, 2, 0}, sum);
  add_fill_rows(plain.graph);
  EXPECT_EQ(plain.graph.tensors.size(), 2U);
}

/// Large images are reduced by halves, which make what the whole does; small ones at once.
TEST(Rows, ImagesByHalves) {
  isa::Chip chip = tiny_chip();
  chip.mab_per_l1b = 16;
  chip.l1b_per_l2b = 8;
  const auto split = [&](ImageCase test) {
    split_reductions(test.graph, chip);
    return test;
  };
  for (const Shape& shape : {Shape{1, 40, 56, 56}, Shape{1, 64, 30, 22}, Shape{2, 33, 35, 41}}) {
    for (const ReduceLayer::Op op : {ReduceLayer::Op::kMax, ReduceLayer::Op::kSum}) {
      for (const bool keeps_axes : {true, false}) {
        SCOPED_TRACE(fmt::format("{} {} {}", shape_to_string(shape), reduce_op_name(op), keeps_axes));
        ImageCase test = split(make_whole_images(shape, op, keeps_axes));
        if (!keeps_axes && shape[0] > 1) continue;  // images are no rows then
        ASSERT_EQ(test.graph.layers.size(), 2U);
        std::vector<Tensor> values = test.values;
        values.resize(test.graph.tensors.size());
        for (const Layer& layer : test.graph.layers) {
          const Candidate candidate = find_kernel("reduce-rows").run(layer, test.graph, chip, {}).at(0);
          values.at(static_cast<size_t>(layer.outputs[0])) =
              run_candidate(candidate, layer, test.graph, values, chip).result;
        }
        const std::span<const float> in = values[0].data<float>();
        const std::span<const float> results = values[1].data<float>();
        const auto places = static_cast<size_t>(shape[2] * shape[3]);
        for (size_t image = 0; image < results.size(); ++image) {
          double want = identity_of(op);
          for (const float x : in.subspan(image * places, places))
            want = op == ReduceLayer::Op::kMax ? std::max<double>(want, x) : want + std::max(x, 0.0f);
          ASSERT_NEAR(results[image], want / 8, std::abs(want) * 1e-5) << image;
        }
      }
    }
  }
  EXPECT_EQ(split(make_whole_images({1, 256, 7, 7}, ReduceLayer::Op::kSum, true)).graph.layers.size(), 1U);
}

TEST(Rows, Pooling) {
  isa::Chip chip = tiny_chip();
  chip.mab_per_l1b = 16;
  const auto of_rows = [&](const ImageCase& test) {
    return find_kernel("reduce-rows").run(test.graph.layers[0], test.graph, chip, {});
  };
  for (const PoolSizes& sizes : {PoolSizes{1, 32, 12, 12, 3, 2, 1}, PoolSizes{1, 64, 11, 9, 2, 2, 0},
                                 PoolSizes{3, 40, 7, 6, 3, 1, 1}, PoolSizes{2, 5, 17, 23, 5, 3, 2}}) {
    for (const ReduceLayer::Op op : {ReduceLayer::Op::kMax, ReduceLayer::Op::kMin}) {
      const ImageCase test = make_plain_pooling(sizes, op);
      SCOPED_TRACE(shape_to_string(test.graph.tensors[0].shape));
      EXPECT_FALSE(of_rows(test).empty());
      check_candidates(test, chip, 3);
    }
  }
  // All rows and columns, with and without their axes.
  for (const Shape& shape : {Shape{1, 72, 7, 7}, Shape{1, 64, 5, 13}, Shape{2, 33, 6, 8}}) {
    for (const ReduceLayer::Op op : {ReduceLayer::Op::kMax, ReduceLayer::Op::kSum}) {
      for (const bool keeps_axes : {true, false}) {
        SCOPED_TRACE(fmt::format("{} {} {}", shape_to_string(shape), reduce_op_name(op), keeps_axes));
        const ImageCase test = make_whole_images(shape, op, keeps_axes);
        EXPECT_EQ(of_rows(test).empty(), !keeps_axes && shape[0] > 1);
        check_near(test, chip);
      }
    }
  }
  // Three L1Bs of four share three chunks: where transfers cost little, that is best.
  isa::Chip four = chip;
  four.l1b_per_l2b = 4;
  four.transfer.startup_cycles = 1;
  const auto check_shared = [&](const ImageCase& shared, const char* what) {
    const auto candidates = find_kernel("reduce-rows").run(shared.graph.layers[0], shared.graph, four, {});
    EXPECT_TRUE(std::ranges::any_of(candidates, [&](const Candidate& candidate) {
      return candidate.description.find(what) != std::string::npos;
    })) << candidates[0].description;
    check_candidates(shared, four, 3);
  };
  check_shared(make_plain_pooling({1, 96, 4, 4, 3, 1, 1}, ReduceLayer::Op::kMax), "L1B channels");
  // Three share the chunks of the first part, two those of the second one; with one pass, and with several.
  for (const int64_t rows : {5, 40})
    check_shared(joined_pooling({1, 160, rows, 28, 3, 2, 0}, ReduceLayer::Op::kMax, {96, 64}),
                 "L1B channels of a part");
  // Nine chunks that stand alone, where results stand in pairs, can't be shared; nor pairs from an odd one
  // on.
  for (const std::vector<int64_t>& parts : {std::vector<int64_t>{96, 288}, {96, 320, 96}})
    check_candidates(
        joined_pooling({1, parts.size() == 2 ? 384 : 512, 5, 28, 3, 2, 0}, ReduceLayer::Op::kMax, parts),
        four, 3);
  // Of a concatenation, part by part.
  const ImageCase joined = joined_pooling({1, 101, 12, 9, 3, 2, 1}, ReduceLayer::Op::kMax, {32, 64, 5});
  const auto has_parts = [](const Candidate& candidate) { return candidate.placements.size() == 4; };
  EXPECT_TRUE(std::ranges::any_of(of_rows(joined), has_parts));
  check_candidates(joined, chip, 3);
  // Sums have no copies of rows that change nothing.
  EXPECT_TRUE(of_rows(make_plain_pooling({1, 32, 8, 8, 3, 1, 1}, ReduceLayer::Op::kSum)).empty());
  const ImageCase sums = make_plain_pooling({1, 32, 8, 8, 2, 2, 0}, ReduceLayer::Op::kSum);
  ASSERT_FALSE(of_rows(sums).empty());
  check_near(sums, chip);
}

TEST(Spread, EveryOneLoadsAndStores) {
  for (const isa::Chip& chip : {tiny_chip(), isa::find_chip("mncore2")}) {
    EXPECT_EQ(all_spreads(chip).size(), 12U);
    for (const Spread& spread : all_spreads(chip)) {
      SCOPED_TRACE(fmt::format("{}: {}", chip.name, spread.name));
      const layout::Transport& transport = spread.transport;
      const int64_t length = 3 * transport.granule();
      const int64_t group_lw = transport.part_lw(length) * transport.parts_per_group();
      TileProgram program;
      program.name = "copy";
      program.streams = {{"x", transport, length, 0}, {"y", transport, length, group_lw}};
      program.buffers = {{"buffer", length, isa::space_bit(isa::Space::kLm0)}};
      program.body = {{LoadTile{0, {}, 0, {}, length}}, {StoreTile{0, {}, 1, {}, length}}};
      simulator::Machine machine(chip);
      std::mt19937_64 random(31);
      std::vector<std::vector<uint64_t>> images(static_cast<size_t>(transport.groups_used()));
      for (size_t group = 0; group < images.size(); ++group) {
        images[group].resize(static_cast<size_t>(group_lw));
        std::ranges::generate(images[group], std::ref(random));
        machine.write_dram(static_cast<int>(group), 0, images[group]);
      }
      machine.run(scheduler::build_program(lower_tile_program(program, chip), chip));
      for (size_t group = 0; group < images.size(); ++group) {
        std::vector<uint64_t> stored(images[group].size());
        machine.read_dram(static_cast<int>(group), group_lw, stored);
        EXPECT_EQ(stored, images[group]) << "group " << group;
      }
    }
  }
}

/// Candidates that spread a layer over the chip; those on images of rows have larger images.
std::vector<Candidate> spread_candidates_of(const ImageCase& test, const isa::Chip& chip) {
  std::vector<Candidate> candidates = layer_candidates(test.graph.layers[0], test.graph, chip, {});
  std::erase_if(candidates, [](const Candidate& candidate) { return candidate.placements.back().is_rows; });
  EXPECT_FALSE(candidates.empty());
  return candidates;
}

TEST(Spread, ImagesOfFewFloatsAreSmall) {
  const isa::Chip chip = isa::find_chip("mncore2");
  const auto image_lw = [](const StreamPlacement& placement) {
    return stream_group_lw(placement) * placement.transport.groups_used();
  };
  for (const ImageCase& test : {make_scaling({1, 10, 1, 1}), make_pooling({1, 10, 1, 1})}) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const Candidate& candidate : spread_candidates_of(test, chip)) {
      verify_candidate(candidate, test.graph.layers[0], test.graph, chip);
      int64_t total = 0;
      for (const StreamPlacement& placement : candidate.placements) {
        // 64 LW are the least that a transfer moves; one in each group is the most.
        EXPECT_LE(image_lw(placement), 64 * chip.groups) << candidate.description;
        total += image_lw(placement);
      }
      least = std::min(least, total);
    }
    EXPECT_LE(least, 64 * 3 * chip.groups);
  }
}

TEST(Spread, PredictionsAreClose) {
  // The planner decides by them, also where start-ups are most of the time.
  const isa::Chip chip = isa::find_chip("mncore2");
  const auto check = [&](const ImageCase& test) {
    for (const Candidate& candidate : spread_candidates_of(test, chip)) {
      const auto simulated = static_cast<double>(
          run_candidate(candidate, test.graph.layers[0], test.graph, test.values, chip).cycles);
      EXPECT_NEAR(static_cast<double>(candidate.predicted_cycles), simulated, 0.2 * simulated)
          << candidate.description;
    }
  };
  for (const Shape& shape : {Shape{1, 10, 1, 1}, Shape{1, 8, 14, 14}, Shape{1, 6, 28, 28}}) {
    SCOPED_TRACE(shape_to_string(shape));
    check(make_scaling(shape));
    check(make_pooling(shape));
    ImageCase exp = make_scaling(shape);
    std::get<MapLayer>(exp.graph.layers[0].body).expr = unary(ScalarOp::kExp);
    check(exp);
  }
}

}  // namespace
}  // namespace kodama::compiler
