#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/lowering/lowering.h"
#include "compiler/lowering/lowering_test_util.h"

/// Random operators and optimizers: what the layers make is what the reference makes.
namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT

void expect_layers(const std::string& text, double tolerance, const std::string& imports = "") {
  SCOPED_TRACE(text);
  const std::string found = check_model(parse_model(text, 17, imports), tolerance);
  EXPECT_EQ(found.find("Host"), std::string::npos) << found;
}

TEST(LowerRandom, UniformAndNormalNumbers) {
  for (const char* type : {"float", "float16", "bfloat16", "double"}) {
    const int number = std::string(type) == "float"      ? DataType::kFloat32
                       : std::string(type) == "float16"  ? DataType::kFloat16
                       : std::string(type) == "bfloat16" ? DataType::kBfloat16
                                                         : DataType::kFloat64;
    if (number == DataType::kBfloat16) continue;  // not in the schema
    expect_layers(
        fmt::format("g () => ({}[3,50] y) {{ y = RandomUniform <shape = [3,50], dtype = {}, low = -2.0, "
                    "high = 5.0, seed = 1.5> () }}",
                    type, number),
        1e-6);
    expect_layers(
        fmt::format("g () => ({}[3,50] y) {{ y = RandomNormal <shape = [3,50], dtype = {}, mean = 3.0, "
                    "scale = 2.0> () }}",
                    type, number),
        1e-14);
  }
  // Operators without a seed have their own numbers each.
  expect_layers(
      "g (float[4,9] x) => (float[4,9] y, float[4,9] z) { y = RandomNormalLike (x) "
      "z = RandomUniformLike (x) }",
      1e-7);
}

TEST(LowerRandom, WhatIsDrawnIsTheSame) {
  expect_layers(
      "g (float[8,50] x) => (bool[8,50] y) { p = Abs (x) y = Bernoulli <dtype = 9, seed = 2.0> (p) }", 0);
  expect_layers("g (double[200] x) => (double[200] y) { p = Abs (x) y = Bernoulli (p) }", 0);
  expect_layers("g (float[3,7] x) => (int32[3,90] y) { y = Multinomial <sample_size = 90, seed = 2.0> (x) }",
                0);
  expect_layers("g (double[2,4] x) => (int64[2,60] y) { y = Multinomial <sample_size = 60, dtype = 7> (x) }",
                0);
}

TEST(LowerRandom, DropoutInTraining) {
  for (const char* type : {"float", "double", "float16"}) {
    for (const char* training : {"1", "0"}) {
      auto model =
          parse_model(fmt::format("g ({0}[5,40] x) => ({0}[5,40] y, bool[5,40] mask) {{ "
                                  "y, mask = Dropout <seed = 4> (x, ratio, training) }}",
                                  type));
      add_initializer(model, "ratio", Tensor::from_values<float>(DataType::kFloat32, {}, {0.75F}));
      add_initializer(model, "training",
                      Tensor::from_values<uint8_t>(DataType::kBool, {}, {uint8_t(*training - '0')}));
      const std::string found = check_model(model, 1e-7);
      EXPECT_EQ(found.find("Host"), std::string::npos) << found;
    }
  }
  // What says whether it trains, and how much it drops, may be data.
  const auto model = import_model(
      parse_model(
          "g (float[5,40] x, float r, bool t) => (float[5,40] y, bool[5,40] m) { y, m = Dropout (x, r, t) }"),
      {}, "t");
  const LayerGraph graph = lower_to_layers(model);
  for (const uint8_t training : {0, 1}) {
    TensorMap inputs = {{"x", random_tensor(DataType::kFloat32, {5, 40}, 3)},
                        {"r", Tensor::from_values<float>(DataType::kFloat32, {}, {0.5F})},
                        {"t", Tensor::from_values<uint8_t>(DataType::kBool, {}, {training})}};
    const TensorMap found = interpret_layer_graph(graph, inputs), expected = run_graph(model, inputs);
    EXPECT_EQ(found.at("m"), expected.at("m"));
    expect_close({{"y", found.at("y")}}, {{"y", expected.at("y")}}, 1e-7);
  }
}

TEST(LowerTraining, Optimizers) {
  const std::string imports = ", \"ai.onnx.preview.training\" : 1";
  for (const char* type : {"float", "double"}) {
    const double tolerance = std::string(type) == "float" ? 2e-6 : 1e-13;
    for (const int updates : {0, 1, 1000}) {
      const auto expect = [&](const std::string& op, const std::string& attributes, int states) {
        std::string operands, results, values;
        for (const std::string tensor : {"a", "b"}) {
          operands += fmt::format(", {}[3,5] x{}, {}[3,5] g{}", type, tensor, type, tensor);
          for (int k = 0; k < states; ++k) operands += fmt::format(", {}[3,5] s{}{}", type, k, tensor);
        }
        std::string list = "xa, xb, ga, gb", made = "ya, yb";
        results = fmt::format("{0}[3,5] ya, {0}[3,5] yb", type);
        std::string squares;
        for (int k = 0; k < states; ++k) {
          // Sums of squares aren't negative.
          squares += fmt::format(" p{0}a = Abs (s{0}a) p{0}b = Abs (s{0}b)", k);
          list += fmt::format(", p{0}a, p{0}b", k);
          made += fmt::format(", t{0}a, t{0}b", k);
          results += fmt::format(", {1}[3,5] t{0}a, {1}[3,5] t{0}b", k, type);
        }
        auto model = parse_model(
            fmt::format("g ({} r{}) => ({}) {{{} {} = ai.onnx.preview.training.{} <{}> (r, t, {}) }}", type,
                        operands, results, squares, made, op, attributes, list),
            17, imports);
        add_initializer(model, "t", Tensor::from_values<int64_t>(DataType::kInt64, {}, {updates}));
        SCOPED_TRACE(fmt::format("{} {} {}", op, type, updates));
        const std::string found = check_model(model, tolerance);
        EXPECT_EQ(found.find("Host"), std::string::npos) << found;
      };
      expect("Adagrad", "decay_factor = 0.1, epsilon = 0.01, norm_coefficient = 0.001", 1);
      expect(
          "Adam",
          "alpha = 0.95, beta = 0.85, epsilon = 0.01, norm_coefficient = 0.001, norm_coefficient_post = 0.1",
          2);
      expect("Adam", "epsilon = 0.01", 2);
      expect("Momentum", "alpha = 0.9, beta = 0.5, mode = \"standard\", norm_coefficient = 0.001", 1);
      expect("Momentum", "alpha = 0.9, beta = 0.5, mode = \"nesterov\", norm_coefficient = 0.001", 1);
    }
  }
}

}  // namespace
}  // namespace kodama::compiler
