#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "compiler/graph/expand_functions.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/lowering_test_util.h"

namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT

TEST(LowerElementwise, UnaryOperators) {
  for (const char* op : {"Neg",
                         "Abs",
                         "Relu",
                         "Sigmoid",
                         "Tanh",
                         "Exp",
                         "Erf",
                         "Floor",
                         "Ceil",
                         "Sign",
                         "Elu",
                         "Selu",
                         "Softplus",
                         "Softsign",
                         "HardSigmoid",
                         "LeakyRelu",
                         "Reciprocal",
                         "LeakyRelu <alpha = 0.3>",
                         "Elu <alpha = 0.7>",
                         "Celu",
                         "Celu <alpha = 0.7>",
                         "Shrink <lambd = 0.4, bias = 0.1>",
                         "ThresholdedRelu <alpha = 0.2>",
                         "HardSigmoid <alpha = 1.5, beta = 0.3>"}) {
    EXPECT_EQ(check_text(fmt::format("g (float[2,3,5] x) => (float[2,3,5] y) {{ y = {} (x) }}", op)), "Map");
  }
  for (const char* op : {"Log", "Sqrt"}) {
    EXPECT_EQ(check_text(fmt::format("g (float[7] x) => (float[7] y) {{ a = Abs(x) y = {} (a) }}", op)),
              "Map");
  }
  EXPECT_EQ(check_text("g (float x) => (float y) { y = Relu (x) }"), "Map");
  // Whose body in ONNX makes a list of it.
  EXPECT_EQ(check_text("g (float x) => (float y) { y = Celu (x) }"), "Map");
}

TEST(LowerElementwise, BinaryOperatorsBroadcast) {
  for (const char* op : {"Add", "Sub", "Mul", "Div", "PRelu"}) {
    EXPECT_EQ(check_text(fmt::format(
                  "g (float[2,3,4] a, float[3,1] b) => (float[2,3,4] y) {{ y = {} (a, b) }}", op)),
              "Map");
  }
  EXPECT_EQ(check_text("g (float[3,1] a, float[2,1,4] b, float c) => (float[2,3,4] y) { y = Sum (a, b, c) }"),
            "Map");
  EXPECT_EQ(check_text("g (float[3] a, float[2,3] b) => (float[2,3] y) { y = Mean (a, b) }"), "Map");
  EXPECT_EQ(check_text("g (float[3] a, float[2,3] b) => (float[2,3] y) { y = Max (a, b) }"), "Map");
  EXPECT_EQ(check_text("g (float[3] a, float[2,3] b) => (float[2,3] y) { y = Min (a, b) }"), "Map");
}

TEST(LowerElementwise, ManyOperandsAreSeveralMaps) {
  const std::string text =
      "g (float[4] a, float[4] b, float[4] c, float[4] d, float[4] e, float[4] f, float[4] h, float[4] i) => "
      "(float[4] y) { y = Mean (a, b, c, d, e, f, h, i) }";
  EXPECT_EQ(check_text(text), "Map Map");
  EXPECT_EQ(check_text("g (float[4] a) => (float[4] y) { y = Sum (a) }"), "");
}

TEST(LowerElementwise, ConstantScalarsAreInTheFormula) {
  auto model = parse_model("g (float[4] x) => (float[4] y) { y = Mul (x, c) }");
  add_initializer(model, "c", Tensor::from_values<float>(DataType::kFloat32, {1}, {0.25F}));
  EXPECT_EQ(check_model(model), "Map");
  const auto graph = lower(model);
  EXPECT_EQ(std::get<MapLayer>(graph.layers[0].body).expr.to_string(), "mul(x0, 0.25)");
}

TEST(LowerElementwise, Clip) {
  const auto scalar = [](float value) { return Tensor::from_values<float>(DataType::kFloat32, {}, {value}); };
  auto model = parse_model("g (float[9] x) => (float[9] y) { y = Clip (x, low, high) }");
  add_initializer(model, "low", scalar(-0.25F));
  add_initializer(model, "high", scalar(0.5F));
  EXPECT_EQ(check_model(model), "Map");
  model = parse_model("g (float[9] x) => (float[9] y) { y = Clip (x, low) }");
  add_initializer(model, "low", scalar(0));
  EXPECT_EQ(check_model(model), "Map");
  EXPECT_EQ(std::get<MapLayer>(lower(model).layers[0].body).expr.to_string(), "relu(x0)");
  model = parse_model("g (float[9] x) => (float[9] y) { y = Clip (x, , high) }");
  add_initializer(model, "high", scalar(0.5F));
  EXPECT_EQ(check_model(model), "Map");
  EXPECT_EQ(check_text("g (float[9] x, float low, float high) => (float[9] y) { y = Clip (x, low, high) }"),
            "Map");
  EXPECT_EQ(check_text("g (float[9] x) => (float[9] y) { y = Clip (x) }"), "");
}

TEST(LowerElementwise, PowersWithConstantExponent) {
  for (const float exponent : {1.0F, 2.0F, 3.0F, 7.0F, 10.0F, -1.0F, -3.0F, 0.5F, -0.5F}) {
    auto model = parse_model("g (float[9] x) => (float[9] y) { a = Abs(x) b = Add(a, a) y = Pow(b, e) }");
    add_initializer(model, "e", Tensor::from_values<float>(DataType::kFloat32, {}, {exponent}));
    EXPECT_EQ(check_model(model, 1e-5), "Map") << exponent;
  }
  auto model = parse_model("g (float[9] x) => (float[9] y) { y = Pow(x, e) }");
  add_initializer(model, "e", Tensor::from_values<int64_t>(DataType::kInt64, {1}, {2}));
  EXPECT_EQ(check_model(model), "Map");
}

TEST(LowerElementwise, ShortFloatsAreComputedWiderAndCastsRound) {
  EXPECT_EQ(
      check_text("g (float16[9] x, float16[9] z) => (float16[9] y) { a = Mul(x, z) y = Tanh(a) }", 2e-3),
      "Map Map");
  // The rounding in the middle must happen.
  EXPECT_EQ(check_text("g (float[9] x) => (float[9] y) { a = Cast <to = 10> (x) y = Cast <to = 1> (a) }", 0),
            "Map");
  EXPECT_EQ(check_text("g (double[9] x) => (float16[9] y) { y = Cast <to = 10> (x) }", 0), "Map");
  EXPECT_EQ(check_text("g (float[9] x) => (int64[9] y) { a = Exp(x) y = Cast <to = 7> (a) }"), "Map Map");
}

TEST(LowerReduce, AllReductionsAndAxes) {
  for (const char* op :
       {"ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare"}) {
    EXPECT_EQ(
        check_text(fmt::format("g (float[2,3,4] x) => (float[2,1,4] y) {{ y = {} <axes = [1]> (x) }}", op)),
        "Reduce");
    EXPECT_EQ(check_text(fmt::format(
                  "g (float[2,3,4] x) => (float[3] y) {{ y = {} <axes = [-1, 0], keepdims = 0> (x) }}", op)),
              "Reduce");
    EXPECT_EQ(check_text(fmt::format("g (float[2,3,4] x) => (float y) {{ y = {} <keepdims = 0> (x) }}", op)),
              "Reduce");
  }
  EXPECT_EQ(check_text("g (float[2,3,4] x) => (float[2,1,4] y) { y = ReduceLogSumExp <axes = [1]> (x) }"),
            "Reduce Reduce");
  EXPECT_EQ(check_text("g (float[2,3] x) => (float[2] y) { a = Exp(x) "
                       "y = ReduceLogSum <axes = [1], keepdims = 0> (a) }"),
            "Reduce");
}

TEST(LowerReduce, IntegersOfEveryWidth) {
  const std::vector<int64_t> numbers = {
      1, -1, int64_t{1} << 40, -(int64_t{1} << 62), 255, 7, -9, 128, 65536, 4000000000, 0, -1};
  for (const char* type : {"int8", "uint8", "int32", "uint32", "int64", "uint64"}) {
    for (const char* op : {"ReduceMax <axes = [1]>", "ReduceMin <axes = [1]>", "ReduceSum",
                           "ReduceProd <axes = [1]>", "ReduceMean <axes = [1]>", "ReduceL1 <axes = [1]>",
                           "ReduceL2 <axes = [1]>", "ReduceSumSquare <axes = [1]>"}) {
      const bool is_sum = std::string(op) == "ReduceSum";
      const bool is_extreme = std::string(op).find("ReduceM") == 0 && std::string(op).find("Mean") > 20;
      if (!is_extreme && std::string(type).ends_with("int8")) continue;
      // Squares of these fill 64 bits: what a root is cut off to would depend on the last place.
      if (std::string(type).starts_with("u") && std::string(op).starts_with("ReduceL2")) continue;
      const std::string text = fmt::format(
          "g (int64[2,6] x) => (int64[2,1] y) {{ a = Cast <to = {}> (x) axes = Constant <value = "
          "int64[1] {{1}}> () r = {} (a{}) y = Cast <to = 7> (r) }}",
          static_cast<int>(std::string(type) == "int8"     ? DataType::kInt8
                           : std::string(type) == "uint8"  ? DataType::kUint8
                           : std::string(type) == "int32"  ? DataType::kInt32
                           : std::string(type) == "uint32" ? DataType::kUint32
                           : std::string(type) == "int64"  ? DataType::kInt64
                                                           : DataType::kUint64),
          op, is_sum ? ", axes" : "");
      SCOPED_TRACE(text);
      const auto model = import_model(parse_model(text), {}, "t");
      const TensorMap inputs = {{"x", Tensor::from_values(DataType::kInt64, {2, 6}, numbers)}};
      const LayerGraph graph = lower_to_layers(model);
      for (const Layer& layer : graph.layers) EXPECT_NE(layer.kind(), LayerKind::kHost);
      EXPECT_EQ(interpret_layer_graph(graph, inputs), run_graph(model, inputs));
    }
  }
}

TEST(LowerReduce, SumTakesItsAxesAsAnOperand) {
  auto model = parse_model("g (float[2,3,4] x) => (float[2,4] y) { y = ReduceSum <keepdims = 0> (x, axes) }");
  add_ints(model, "axes", {-2});
  EXPECT_EQ(check_model(model), "Reduce");
  EXPECT_EQ(check_text("g (float[2,3] x) => (float[1,1] y) { y = ReduceSum (x) }"), "Reduce");
  EXPECT_EQ(check_text("g (float[2,3] x) => (float[2,3] y) { y = ReduceSum <noop_with_empty_axes = 1> (x) }"),
            "Reduce");
}

TEST(LowerReduce, GlobalPools) {
  EXPECT_EQ(check_text("g (float[2,3,4,5] x) => (float[2,3,1,1] y) { y = GlobalAveragePool (x) }"), "Reduce");
  EXPECT_EQ(check_text("g (float[2,3,4] x) => (float[2,3,1] y) { y = GlobalMaxPool (x) }"), "Reduce");
}

TEST(LowerReduce, SoftmaxIsExpandedFromItsFunction) {
  auto model =
      import_model(parse_model("g (float[4,7] x) => (float[4,7] y) { y = Softmax <axis = 1> (x) }"), {}, "t");
  const auto& direct = directly_lowered_operators();
  expand_schema_functions(model, [&](const onnx::NodeProto& node) {
    return std::find(direct.begin(), direct.end(), node.op_type()) != direct.end();
  });
  EXPECT_EQ(check_model(model), "Reduce Map Reduce Map");
}

TEST(LowerContract, Convolutions) {
  struct Case {
    const char* attributes;
    Shape x, w;
  };
  const Case cases[] = {
      {"", {2, 3, 9}, {4, 3, 3}},
      {"<strides = [2], pads = [1, 2], dilations = [2]>", {1, 2, 11}, {3, 2, 3}},
      {"<pads = [1, 1, 1, 1]>", {2, 3, 6, 7}, {4, 3, 3, 3}},
      {"<strides = [2, 3], pads = [0, 1, 2, 3], dilations = [1, 2]>", {1, 2, 8, 9}, {3, 2, 3, 2}},
      {"<auto_pad = \"SAME_UPPER\", strides = [2, 2]>", {1, 2, 8, 7}, {3, 2, 3, 4}},
      {"<auto_pad = \"SAME_LOWER\">", {1, 2, 5, 6}, {3, 2, 2, 4}},
      {"<auto_pad = \"VALID\", strides = [1, 2]>", {1, 2, 5, 6}, {3, 2, 2, 3}},
      {"<group = 2, pads = [1, 0, 1, 0]>", {2, 4, 5, 5}, {6, 2, 3, 3}},
      {"<group = 4>", {1, 4, 5, 5}, {4, 1, 3, 3}},
      {"<pads = [1, 0, 1, 0, 1, 1], strides = [1, 2, 1]>", {1, 2, 4, 5, 6}, {3, 2, 2, 3, 2}},
  };
  for (const auto& c : cases) {
    for (bool with_bias : {false, true}) {
      SCOPED_TRACE(fmt::format("{} X {} W {}", c.attributes, shape_to_string(c.x), shape_to_string(c.w)));
      auto model = parse_model(fmt::format("g (float{} x) => (float[] y) {{ y = Conv {} (x, w{}) }}",
                                           shape_to_string(c.x), c.attributes, with_bias ? ", b" : ""));
      add_random(model, "w", c.w);
      if (with_bias) add_random(model, "b", {c.w[0]});
      EXPECT_EQ(check_model(model), "Contract");
    }
  }
}

TEST(LowerContract, MatrixProducts) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"[3,4]", "[4,5]", "[3,5]"},       {"[4]", "[4,5]", "[5]"},
      {"[3,4]", "[4]", "[3]"},           {"[4]", "[4]", ""},
      {"[2,3,4]", "[2,4,5]", "[2,3,5]"}, {"[2,3,4]", "[4,5]", "[2,3,5]"},
      {"[3,4]", "[2,4,5]", "[2,3,5]"},   {"[2,1,3,4]", "[6,4,5]", "[2,6,3,5]"},
      {"[2,3,4]", "[4]", "[2,3]"},       {"[4]", "[2,4,5]", "[2,5]"},
      {"[1,3,4]", "[1,4,5]", "[1,3,5]"}, {"[1,1,3,4]", "[2,1,4,5]", "[2,1,3,5]"},
  };
  for (const auto& [a, b, y] : cases) {
    EXPECT_EQ(
        check_text(fmt::format("g (float{} a, float{} b) => (float{} y) {{ y = MatMul (a, b) }}", a, b, y)),
        "Contract");
  }
}

TEST(LowerContract, Gemm) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"[3,4]", "[4,5]", ""},
      {"[4,3]", "[4,5]", "<transA = 1, alpha = 0.5>"},
      {"[3,4]", "[5,4]", "<transB = 1, beta = 2.0>"},
      {"[4,3]", "[5,4]", "<transA = 1, transB = 1, alpha = -1.5, beta = 0.0>"},
  };
  for (const auto& [a, b, attributes] : cases) {
    for (const char* c : {"[5]", "[3,1]", "[1,5]", "[3,5]", "[1]", ""}) {
      EXPECT_EQ(check_text(fmt::format("g (float{} a, float{} b, float{} c) => (float[3,5] y) "
                                       "{{ y = Gemm {} (a, b, c) }}",
                                       a, b, c, attributes)),
                "Contract");
    }
    EXPECT_EQ(check_text(fmt::format("g (float{} a, float{} b) => (float[3,5] y) {{ y = Gemm {} (a, b) }}", a,
                                     b, attributes)),
              "Contract");
  }
}

TEST(LowerPool, MaxAndAverage) {
  const std::tuple<const char*, const char*> cases[] = {
      {"kernel_shape = [2, 2], strides = [2, 2]", "[2,3,6,7]"},
      {"kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]", "[1,2,6,7]"},
      {"kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1", "[1,2,6,8]"},
      {"kernel_shape = [3], auto_pad = \"SAME_UPPER\", strides = [2]", "[1,2,8]"},
      {"kernel_shape = [2, 2, 2], auto_pad = \"SAME_LOWER\"", "[1,1,3,4,5]"},
      {"kernel_shape = [2, 3], auto_pad = \"VALID\"", "[1,2,4,5]"},
  };
  for (const auto& [attributes, shape] : cases) {
    for (const char* op : {"MaxPool <", "AveragePool <", "AveragePool <count_include_pad = 1, "}) {
      SCOPED_TRACE(fmt::format("{}{}>", op, attributes));
      auto model =
          parse_model(fmt::format("g (float{} x) => (float[] y) {{ y = {}{}> (x) }}", shape, op, attributes));
      EXPECT_EQ(check_model(model), "Reduce");
    }
  }
  EXPECT_EQ(check_text("g (float[1,1,7,7] x) => (float[1,1,3,3] y) "
                       "{ y = MaxPool <kernel_shape = [3, 3], dilations = [2, 2]> (x) }"),
            "Reduce");
}

TEST(LowerPool, IndicesOfTheMaximum) {
  EXPECT_EQ(check_text("g (float[1,1,4] x) => (float[1,1,3] y, int64[1,1,3] i) "
                       "{ y, i = MaxPool <kernel_shape = [2]> (x) }"),
            "Reduce Reduce Map");
  // Floor makes ties, of which the first element counts.
  for (const char* attributes :
       {"", ", storage_order = 1", ", pads = [1, 2, 1, 0], strides = [2, 1]",
        ", dilations = [2, 1], storage_order = 1, ceil_mode = 1, strides = [2, 2]"}) {
    SCOPED_TRACE(attributes);
    auto model =
        parse_model(fmt::format("g (float[2,3,7,6] x) => (float[] y, int64[] i) {{ f = Floor(x) "
                                "y, i = MaxPool <kernel_shape = [3, 2]{}> (f) }}",
                                attributes));
    EXPECT_EQ(check_model(model), "Map Reduce Reduce Map");
  }
  // Numbers above 2^24 are not in single precision.
  const auto large =
      lower(parse_model("g (float[1,17,1000,1000] x) => (float[] y, int64[] i) "
                        "{ y, i = MaxPool <kernel_shape = [2, 2]> (x) }"));
  EXPECT_EQ(large.layers[0].kind(), LayerKind::kHost);
}

TEST(LowerNormalization, BatchNormalization) {
  const char* text = "g (float[2,3,4,5] x) => (float[2,3,4,5] y) { y = BatchNormalization (x, s, b, m, v) }";
  auto model = parse_model(text);
  for (const char* name : {"s", "b", "m"}) add_random(model, name, {3});
  add_random(model, "v", {3}, 0.5, 2);
  EXPECT_EQ(check_model(model), "Map");
  EXPECT_EQ(std::get<MapLayer>(lower(model).layers[0].body).expr.to_string(), "add(mul(x0, x1), x2)");
  EXPECT_EQ(
      check_text("g (float[2,3,4] x, float[3] s, float[3] b, float[3] m, float[3] u) => (float[2,3,4] y) "
                 "{ v = Exp(u) y = BatchNormalization (x, s, b, m, v) }"),
      "Map Map");
  EXPECT_EQ(check_text("g (float[2,3,4,5] x, float[3] s, float[3] b) => (float[2,3,4,5] y) "
                       "{ y = InstanceNormalization (x, s, b) }",
                       1e-5),
            "Reduce Reduce Map");
}

TEST(LowerMovement, ReshapesAreAliases) {
  auto model = parse_model("g (float[2,3,4] x) => (float[6,4] y) { a = Reshape (x, s) y = Relu (a) }");
  add_ints(model, "s", {-1, 4});
  EXPECT_EQ(check_model(model), "Map");
  EXPECT_EQ(check_text("g (float[2,3,4] x) => (float[2,12] y) { y = Flatten (x) }"), "");
  EXPECT_EQ(check_text("g (int64[2,3] x) => (int64[2,3] y) { y = Identity (x) }"), "");
  EXPECT_EQ(check_text("g (float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Relu (x) z = Identity (y) }"),
            "Map");
  EXPECT_EQ(check_text("g (float[2,1,3] x) => (float[3,1,2] y) { y = Transpose (x) }"), "Rearrange");
  EXPECT_EQ(check_text("g (float[2,1,3] x) => (float[1,2,3] y) { y = Transpose <perm = [1, 0, 2]> (x) }"),
            "");
}

TEST(LowerMovement, Rearranges) {
  EXPECT_EQ(check_text("g (int64[2,3,4] x) => (int64[4,2,3] y) { y = Transpose <perm = [2, 0, 1]> (x) }"),
            "Rearrange");
  EXPECT_EQ(check_text("g (bool[2,3] a, bool[2,1] b, bool[2,2] c) => (bool[2,6] y) "
                       "{ y = Concat <axis = -1> (a, b, c) }"),
            "Rearrange");
  EXPECT_EQ(check_text("g (float[1,8,2,3] x) => (float[1,2,4,6] y) { y = DepthToSpace <blocksize = 2> (x) }"),
            "Rearrange");
  EXPECT_EQ(check_text("g (float[1,8,2,3] x) => (float[1,2,4,6] y) "
                       "{ y = DepthToSpace <blocksize = 2, mode = \"CRD\"> (x) }"),
            "Rearrange");
  EXPECT_EQ(check_text("g (float[2,2,4,6] x) => (float[2,8,2,3] y) { y = SpaceToDepth <blocksize = 2> (x) }"),
            "Rearrange");

  auto model = parse_model("g (float[3,1] x) => (float[2,3,4] y) { y = Expand (x, s) }");
  add_ints(model, "s", {2, 1, 4});
  EXPECT_EQ(check_model(model), "Rearrange");
  model = parse_model("g (float[2,3] x) => (float[4,9] y) { y = Tile (x, r) }");
  add_ints(model, "r", {2, 3});
  EXPECT_EQ(check_model(model), "Rearrange");
  model = parse_model("g (float[2,6] x) => (float[2,1] y, float[2,5] z) { y, z = Split <axis = 1> (x, s) }");
  add_ints(model, "s", {1, 5});
  EXPECT_EQ(check_model(model), "Rearrange Rearrange");
  model = parse_model("g (float[4,5] x) => (float[4,2,2] y) { y = Gather <axis = 1> (x, i) }");
  add_initializer(model, "i", Tensor::from_values<int64_t>(DataType::kInt64, {2, 2}, {0, -1, 3, 0}));
  EXPECT_EQ(check_model(model), "Rearrange");
}

TEST(LowerMovement, Slices) {
  const auto slice = [](const char* output, const std::vector<int64_t>& starts,
                        const std::vector<int64_t>& ends, const std::vector<int64_t>& axes,
                        const std::vector<int64_t>& steps) {
    auto model = parse_model(fmt::format(
        "g (float[5,7] x) => (float{} y) {{ y = Slice (x, starts, ends, axes, steps) }}", output));
    add_ints(model, "starts", starts);
    add_ints(model, "ends", ends);
    add_ints(model, "axes", axes);
    add_ints(model, "steps", steps);
    return check_model(model);
  };
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(slice("[3,7]", {1}, {4}, {0}, {1}), "Rearrange");
  EXPECT_EQ(slice("[2,3]", {0, -1}, {3, 0}, {0, -1}, {2, -2}), "Rearrange");
  EXPECT_EQ(slice("[5,7]", {kFar, 100}, {-kFar, -100}, {1, 0}, {-1, -1}), "Rearrange");
  EXPECT_EQ(slice("[1,7]", {2}, {kFar}, {0}, {kFar}), "Rearrange");
  EXPECT_EQ(slice("[5,7]", {0}, {kFar}, {0}, {1}), "");
  EXPECT_EQ(slice("[0,7]", {4}, {2}, {0}, {1}), "");
}

TEST(LowerMovement, Pads) {
  const auto pad = [](const char* mode, const char* output, const std::vector<int64_t>& pads) {
    auto model = parse_model(fmt::format(
        "g (float[3,4] x) => (float{} y) {{ y = Pad <mode = \"{}\"> (x, pads, value) }}", output, mode));
    add_ints(model, "pads", pads);
    add_initializer(model, "value", Tensor::from_values<float>(DataType::kFloat32, {}, {0.5F}));
    return check_model(model);
  };
  EXPECT_EQ(pad("constant", "[6,8]", {1, 0, 2, 4}), "Rearrange");
  EXPECT_EQ(pad("constant", "[4,2]", {-1, 0, 2, -2}), "Rearrange");
  EXPECT_EQ(pad("edge", "[6,8]", {1, 3, 2, 1}), "Rearrange");
  EXPECT_EQ(pad("reflect", "[6,8]", {1, 3, 2, 1}), "Rearrange");
  EXPECT_EQ(pad("constant", "[3,4]", {0, 0, 0, 0}), "");
}

TEST(LowerHost, SaysWhy) {
  const auto reason = [](const std::string& text) {
    EXPECT_EQ(check_text(text), "Host");
    const auto graph = lower(parse_model(text));
    return std::get<HostLayer>(graph.layers.at(0).body).reason;
  };
  EXPECT_EQ(reason("g (double[3] a) => (double[3] y) { y = Erf (a) }"),
            "it has no formula in double precision");
  EXPECT_EQ(reason("g (float[3] a) => (float[3] y) { y = Softmax (a) }"),
            "the operator has no decomposition into layers of the chip");
}

TEST(LowerHost, EverythingOnRequest) {
  const auto model =
      import_model(parse_model("g (float[3] a) => (float[3] y) { b = Exp (a) y = Relu (b) }"), {}, "t");
  const auto graph = lower_to_layers(model, {.fuse = true, .force_host = true});
  EXPECT_EQ(kinds(graph), "Host Host");
  const auto inputs = random_inputs(model);
  expect_close(interpret_layer_graph(graph, inputs), run_graph(model, inputs), 0);
}

TEST(LowerHost, TensorsWithoutElements) {
  EXPECT_EQ(check_text("g (float[0,3] a, float[0,3] b) => (float[0,3] y) { y = Add (a, b) }"), "");
  EXPECT_EQ(check_text("g (float[2,0] a, float[0,3] b) => (float[2,3] y) { y = MatMul (a, b) }"), "Host");
  EXPECT_EQ(check_text("g (float[2,0] a, float[2,3] b) => (float[2,3] y) { y = Concat <axis = 1> (a, b) }"),
            "Host");
}

TEST(LowerToLayers, ShowsTheGraphAfterEveryPass) {
  const auto model = import_model(
      parse_model("g (float[3,2] a) => (float[2,3] y) { b = Exp (a) c = Transpose (b) y = Relu (c) }"), {},
      "t");
  std::vector<std::string> names;
  lower_to_layers(model, {}, [&](const std::string& name, const LayerGraph& graph) {
    names.push_back(name);
    EXPECT_FALSE(nlohmann::json::parse(to_json(graph))["layers"].empty());
  });
  EXPECT_EQ(names, layer_pass_names());
}

}  // namespace
}  // namespace kodama::compiler
