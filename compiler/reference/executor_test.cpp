#include "compiler/reference/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/defs/parser.h>

#include <cmath>
#include <limits>

#include "compiler/reference/reference_test_util.h"

namespace kodama::compiler {
namespace {

using isa::UnsupportedError;
using isa::UserError;
using ::testing::AllOf;
using testing::floats;
using ::testing::HasSubstr;
using testing::ints;
using testing::parse_node;
using testing::run_one;
using ::testing::ThrowsMessage;

/// A model in ONNX's own text form.
onnx::ModelProto parse(const std::string& text) {
  onnx::ModelProto model;
  onnx::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(model);
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return model;
}

TEST(RunGraph, ReturnsOutputsAndOnRequestEverything) {
  const auto model = parse(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 2] x, float[N, 2] w) => (float[N, 2] y) { t = Add(x, w)  u = Relu(t)  y = Neg(u) })");
  const TensorMap inputs = {{"x", floats({1, 2}, {1, -5})}, {"w", floats({1, 2}, {1, 1})}};
  const TensorMap outputs = run_graph(model, inputs);
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs.at("y"), floats({1, 2}, {-2, -0.0f}));
  const TensorMap all = run_graph(model, inputs, {.keep_intermediates = true});
  EXPECT_EQ(all.size(), 5u);
  EXPECT_EQ(all.at("t"), floats({1, 2}, {2, -4}));
}

TEST(RunGraph, ModelLocalFunctionsWithAttributes) {
  const auto model = parse(R"(<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
    g (float[2] x) => (float[2] y) { y = local.leaky <slope = 0.5> (x) }
    <domain: "local", opset_import: ["" : 17]>
    leaky <slope> (a) => (b) { b = LeakyRelu <alpha : float = @slope> (a) })");
  EXPECT_EQ(run_graph(model, {{"x", floats({2}, {2, -2})}}).at("y"), floats({2}, {2, -1}));
}

TEST(RunGraph, WrongInputs) {
  const auto model = parse(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 2] x, float[N] w) => (float[N, 2] y) { y = Identity(x) })");
  const auto run = [&](TensorMap inputs) { return [&model, inputs] { run_graph(model, inputs); }; };
  const Tensor good = floats({3, 2}, std::vector<float>(6));
  const Tensor w = floats({3}, std::vector<float>(3));
  EXPECT_THAT(run({{"x", good}}), ThrowsMessage<UserError>(HasSubstr("input 'w' has no value")));
  EXPECT_THAT(run({{"x", good}, {"w", w}, {"z", w}}), ThrowsMessage<UserError>(HasSubstr("no input 'z'")));
  EXPECT_THAT(run({{"x", w}, {"w", w}}), ThrowsMessage<UserError>(HasSubstr("the model wants")));
  EXPECT_THAT(run({{"x", good}, {"w", ints({3}, {1, 2, 3})}}), ThrowsMessage<UserError>(HasSubstr("int64")));
  EXPECT_THAT(run({{"x", good}, {"w", floats({2}, {1, 2})}}), ThrowsMessage<UserError>(HasSubstr("N=3")));
  EXPECT_NO_THROW(run({{"x", good}, {"w", w}})());
}

TEST(RunGraph, BrokenGraphs) {
  EXPECT_THAT(
      [] {
        run_graph(parse(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[1] x) => (float[1] y) { y = Add(x, nowhere) })"),
                  {{"x", floats({1}, {1})}});
      },
      ThrowsMessage<UserError>(HasSubstr("'nowhere'")));
  EXPECT_THAT(
      [] {
        run_graph(parse(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[1] x) => (float[1] y) { t = Neg(x) })"),
                  {{"x", floats({1}, {1})}});
      },
      ThrowsMessage<UserError>(HasSubstr("output 'y' is never computed")));
  EXPECT_THAT(
      [] {
        run_graph(parse(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[1] x) => (float[1] y) { y = Neg(x)  y = Neg(x) })"),
                  {{"x", floats({1}, {1})}});
      },
      ThrowsMessage<UserError>(HasSubstr("already")));
}

TEST(RunNode, UnknownOperatorsAndDomains) {
  const std::vector<Tensor> x = {floats({1}, {1})};
  EXPECT_THAT([&] { run_one("y = Frobnicate(x)", x); },
              ThrowsMessage<UnsupportedError>(
                  AllOf(HasSubstr("'n1'"), HasSubstr("Frobnicate"), HasSubstr("ai.onnx"))));
  EXPECT_THAT([&] { run_one("y = com.acme.Relu(x)", x); },
              ThrowsMessage<UnsupportedError>(HasSubstr("com.acme")));
  std::string reason;
  EXPECT_FALSE(has_reference(parse_node("y = Frobnicate(x)"), 17, &reason));
  EXPECT_THAT(reason, HasSubstr("Frobnicate"));
  EXPECT_TRUE(has_reference(parse_node("y = Relu(x)"), 17, &reason));
  EXPECT_TRUE(has_reference(parse_node("y = HardSwish(x)"), 17, &reason)) << reason;  // by its function body
}

TEST(RunNode, MalformedNodesGiveUserErrors) {
  const Tensor matrix = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor image = floats({1, 1, 2, 2}, {1, 2, 3, 4});
  struct Case {
    const char* node;
    std::vector<Tensor> inputs;
  };
  const std::vector<Case> cases = {
      {"y = Add(a)", {matrix}},
      {"y = Add(a, b)", {matrix, floats({2}, {1, 2})}},
      {"y = Add(a, b)", {matrix, ints({3}, {1, 2, 3})}},
      {"y = Sqrt(a)", {ints({1}, {1})}},
      {"y = Relu <alpha = 1.0> (a)", {matrix}},
      {"y = Softmax <axis = 2> (a)", {matrix}},
      {"y = Softmax <axis = 1.5> (a)", {matrix}},
      {"y = MatMul(a, b)", {matrix, matrix}},
      {"y = Gemm(a, b)", {matrix, image}},
      {"y = Conv(a, b)", {image, floats({1, 2, 1, 1}, {1, 2})}},
      {"y = Conv(a, b)", {image, floats({1, 1, 3, 3}, std::vector<float>(9))}},
      {"y = Conv <group = 0> (a, b)", {image, image}},
      {"y = Conv <strides = [0, 1]> (a, b)", {image, image}},
      {"y = Conv <strides = [1]> (a, b)", {image, image}},
      {"y = Conv <pads = [-1, 0, 0, 0]> (a, b)", {image, image}},
      {"y = Conv <pads = [4611686018427387904, 0, 0, 4611686018427387904]> (a, b)", {image, image}},
      {"y = Conv <auto_pad = \"SOMETIMES\"> (a, b)", {image, image}},
      {"y = Conv(a, b)", {matrix, matrix}},
      {"y = MaxPool(a)", {image}},
      {"y = MaxPool <kernel_shape = [0, 1]> (a)", {image}},
      {"y = MaxPool <kernel_shape = [5, 1]> (a)", {image}},
      {"y = MaxPool <kernel_shape = [1000000, 1000000]> (a)", {image}},
      {"y = BatchNormalization(a, b, c, d, e)", {image, matrix, matrix, matrix, matrix}},
      {"y = Reshape(a, b)", {matrix, ints({2}, {4, 2})}},
      {"y = Reshape(a, b)", {matrix, ints({2}, {-1, -1})}},
      {"y = Reshape(a, b)", {matrix, ints({2}, {-1, 4})}},
      {"y = Reshape(a, b)", {matrix, ints({3}, {int64_t{1} << 32, int64_t{1} << 32, 6})}},
      {"y = Reshape(a, b)", {matrix, ints({1}, {-7})}},
      {"y = Transpose <perm = [0, 0]> (a)", {matrix}},
      {"y = Transpose <perm = [0]> (a)", {matrix}},
      {"y = Concat(a, b)", {matrix, matrix}},
      {"y = Concat <axis = 0> (a, b)", {matrix, image}},
      {"y = Squeeze(a, b)", {matrix, ints({1}, {0})}},
      {"y = Unsqueeze(a, b)", {matrix, ints({2}, {0, 0})}},
      {"y = Slice(a, b, c)", {matrix, ints({1}, {0}), ints({2}, {1, 1})}},
      {"y = Slice(a, b, c, d, e)", {matrix, ints({1}, {0}), ints({1}, {1}), ints({1}, {0}), ints({1}, {0})}},
      {"y = Pad(a, b)", {matrix, ints({2}, {0, 0})}},
      {"y = Pad(a, b)", {matrix, ints({4}, {int64_t{1} << 40, 0, 0, 0})}},
      {"y = Pad(a, b)", {matrix, ints({4}, {-3, 0, 0, 0})}},
      {"y = Expand(a, b)", {matrix, ints({1}, {4})}},
      {"y = Expand(a, b)", {floats({1}, {1}), ints({2}, {int64_t{1} << 31, int64_t{1} << 31})}},
      {"y = Tile(a, b)", {matrix, ints({2}, {int64_t{1} << 32, int64_t{1} << 31})}},
      {"y = ConstantOfShape(a)", {ints({1}, {-1})}},
      {"y = ConstantOfShape(a)", {ints({2}, {int64_t{1} << 40, int64_t{1} << 40})}},
      {"y = Gather(a, b)", {matrix, ints({1}, {2})}},
      {"y = Cast <to = 77> (a)", {matrix}},
      {"y = ReduceSum(a, b)", {matrix, ints({1}, {2})}},
      {"y = ReduceMean <axes = [0, -2]> (a)", {matrix}},
      {"y = Split <axis = 1> (a, b)", {matrix, ints({2}, {1, 1})}},
      {"y = Clip(a, b)", {matrix, floats({2}, {0, 0})}},
      {"y = Range(a, b, c)", {ints({}, {0}), ints({}, {5}), ints({}, {0})}},
      {"y = Flatten <axis = 3> (a)", {matrix}},
  };
  for (const Case& each : cases) {
    EXPECT_THAT([&] { run_one(each.node, each.inputs); }, ThrowsMessage<UserError>(HasSubstr("node 'n1' (")))
        << each.node;
  }
}

TEST(RunNode, IntegersWrapAndDivideLikeNumpy) {
  const auto int8 = [](const std::vector<int8_t>& values) {
    return Tensor::from_values<int8_t>(DataType::kInt8, {static_cast<int64_t>(values.size())}, values);
  };
  EXPECT_EQ(run_one("y = Add(a, b)", {int8({127, 1}), int8({1, 1})}), int8({-128, 2}));
  EXPECT_EQ(run_one("y = Mul(a, b)", {int8({-128, 7}), int8({-1, 3})}), int8({-128, 21}));
  EXPECT_EQ(run_one("y = Div(a, b)", {int8({-7, 7, 5, -128}), int8({2, -2, 0, -1})}),
            int8({-3, -3, 0, -128}));
  EXPECT_EQ(run_one("y = Abs(a)", {int8({-128, -1})}), int8({-128, 1}));
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(run_one("y = Neg(a)", {ints({1}, {kLowest})}), ints({1}, {kLowest}));
  EXPECT_EQ(run_one("y = Mod(a, b)", {ints({3}, {-7, 7, kLowest}), ints({3}, {3, -3, -1})}),
            ints({3}, {2, -2, 0}));
}

TEST(RunNode, SmallFloatsRoundOncePerOperator) {
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    const auto make = [&](const std::vector<float>& values) {
      Tensor tensor(type, {static_cast<int64_t>(values.size())});
      for (size_t i = 0; i < values.size(); ++i) {
        tensor.data<uint16_t>()[i] =
            type == DataType::kFloat16 ? float_to_half(values[i]) : float_to_bfloat16(values[i]);
      }
      return tensor;
    };
    EXPECT_EQ(run_one("y = Mul(a, b)", {make({1.5f, 3.0f}), make({2.5f, -0.5f})}), make({3.75f, -1.5f}));
    // 4096 ones: an accumulator of the type itself would stop at 2048 (256).
    const Tensor ones = make(std::vector<float>(4096, 1.0f));
    EXPECT_EQ(run_one("y = ReduceSum(a)", {ones}), make({4096.0f}));
  }
}

TEST(RunNode, CastsAtTheEdges) {
  const Tensor x = floats({6}, {NAN, INFINITY, -INFINITY, 300.7f, -1.5f, 0.0f});
  const auto cast = [&](const char* to) { return run_one(fmt::format("y = Cast <to = {}> (x)", to), {x}); };
  EXPECT_EQ(cast("2"), Tensor::from_values<uint8_t>(DataType::kUint8, {6}, {0, 255, 0, 255, 0, 0}));
  EXPECT_EQ(cast("7"), ints({6}, {0, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(),
                                  300, -1, 0}));
  EXPECT_EQ(cast("9"), Tensor::from_values<uint8_t>(DataType::kBool, {6}, {1, 1, 1, 1, 1, 0}));
  // 1 + 2^-11 + 2^-40 is just above the middle of two halves; through float it would round to even, down.
  const Tensor close = Tensor::from_values<double>(DataType::kFloat64, {1}, {1.0 + 0x1p-11 + 0x1p-40});
  EXPECT_EQ(run_one("y = Cast <to = 10> (x)", {close}).data<uint16_t>()[0], 0x3c01);
}

TEST(RunNode, OperatorsThatAreFunctionsCheckTheirTypes) {
  EXPECT_THAT([] { run_one("y = HardSwish(x)", {ints({1}, {1})}); },
              ThrowsMessage<UserError>(
                  AllOf(HasSubstr("node 'n1' (HardSwish): input 0 'X' is tensor(int64); allowed are"),
                        HasSubstr("tensor(float)"))));
}

/// Seed 2001733 of graphs of operators: a mean that isn't the elements' own left a millionth.
TEST(RunNode, NothingIsLeftOfEqualElements) {
  for (const float value : {1.0f, 0.1f, -3e20f})
    EXPECT_EQ(run_one("y = MeanVarianceNormalization<axes = [0, 1]>(x)",
                      {floats({9, 8}, std::vector<float>(72, value))}),
              floats({9, 8}, std::vector<float>(72, 0)))
        << value;
}

/// A statistic in another type than the elements, outputs that are left out, a scale for all.
TEST(RunNode, LayerNormalization) {
  const Tensor x = floats({2, 2}, {1, 3, -2, 2});
  const auto run = [&](const std::string& text, const std::vector<Tensor>& inputs) {
    std::vector<const Tensor*> pointers;
    for (const Tensor& input : inputs) pointers.push_back(&input);
    return run_node(parse_node(text), pointers, OperatorSets(17));
  };
  const auto all = run("y, m, d = LayerNormalization<epsilon = 0.0>(x, s, b)",
                       {x, floats({2}, {1, 2}), floats({2}, {0, 10})});
  EXPECT_EQ(all.at(0), floats({2, 2}, {-1, 12, -1, 12}));
  EXPECT_EQ(all.at(1), floats({2, 1}, {2, 0}));
  EXPECT_EQ(all.at(2), floats({2, 1}, {1, 0.5f}));
  EXPECT_EQ(run("y = LayerNormalization<axis = 0, epsilon = 0.0>(x, s)", {x, floats({}, {0})}).at(0),
            floats({2, 2}, {0, 0, -0.0f, 0}));
  EXPECT_THAT(
      [&] {
        run("y = LayerNormalization(x, s)", {x, floats({3}, {1, 2, 3})});
      },
      ThrowsMessage<UserError>(HasSubstr("allowed is 2 elements")));
  EXPECT_THAT(
      [&] {
        run("y = LayerNormalization<stash_type = 7>(x, s)", {x, floats({2}, {1, 2})});
      },
      ThrowsMessage<UserError>(HasSubstr("stash_type is 7")));
}

TEST(RunNode, OldOpsets) {
  const Tensor x = floats({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  EXPECT_EQ(run_one("y = Add <axis = 1, broadcast = 1> (a, b)", {x, floats({3}, {10, 20, 30})}, 6),
            floats({2, 3, 2}, {11, 12, 23, 24, 35, 36, 17, 18, 29, 30, 41, 42}));
  EXPECT_EQ(run_one("y = Reshape <shape = [0, -1]> (a)", {x}, 1).shape(), (Shape{2, 6}));
  EXPECT_EQ(run_one("y = Slice <starts = [1], ends = [100], axes = [1]> (a)", {x}, 1).shape(),
            (Shape{2, 2, 2}));
  EXPECT_EQ(run_one("y = Clip <min = 2.0, max = 3.0> (a)", {floats({3}, {1, 2.5, 4})}, 6),
            floats({3}, {2, 2.5, 3}));
  EXPECT_EQ(run_one("y = Pad <pads = [0, 1, 1, 0], value = 9.0> (a)", {floats({1, 1}, {5})}, 2),
            floats({2, 2}, {9, 5, 9, 9}));
  EXPECT_EQ(run_one("y = ReduceSum <axes = [0, 2], keepdims = 0> (a)", {x}, 11), floats({3}, {18, 26, 34}));
  EXPECT_EQ(run_one("y = Squeeze <axes = [0]> (a)", {floats({1, 2}, {1, 2})}, 11).shape(), Shape{2});
  // Softmax before opset 13 is over all axes from the first on.
  const Tensor soft = run_one("y = Softmax <axis = 1> (a)", {floats({1, 2, 2}, {0, 0, 0, 0})}, 11);
  EXPECT_EQ(soft, floats({1, 2, 2}, {0.25, 0.25, 0.25, 0.25}));
  EXPECT_EQ(run_one("y = Cast <to = \"INT64\"> (a)", {floats({1}, {2.5})}, 1), ints({1}, {2}));
}

TEST(RunNode, EmptyTensors) {
  const Tensor empty(DataType::kFloat32, {0, 3});
  EXPECT_EQ(run_one("y = Relu(a)", {empty}).shape(), (Shape{0, 3}));
  EXPECT_EQ(run_one("y = Softmax(a)", {empty}).shape(), (Shape{0, 3}));
  EXPECT_EQ(run_one("y = MatMul(a, b)", {empty, floats({3, 2}, std::vector<float>(6))}).shape(),
            (Shape{0, 2}));
  EXPECT_EQ(
      run_one("y = MatMul(a, b)", {Tensor(DataType::kFloat32, {2, 0}), Tensor(DataType::kFloat32, {0, 2})}),
      floats({2, 2}, {0, 0, 0, 0}));
  EXPECT_EQ(run_one("y = Concat <axis = 0> (a, b)", {empty, floats({1, 3}, {1, 2, 3})}),
            floats({1, 3}, {1, 2, 3}));
  EXPECT_EQ(run_one("y = ReduceSum <keepdims = 0> (a, b)", {empty, ints({1}, {0})}), floats({3}, {0, 0, 0}));
  EXPECT_EQ(run_one("y = Transpose(a)", {empty}).shape(), (Shape{3, 0}));
}

}  // namespace
}  // namespace kodama::compiler
