#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/lowering/lowering.h"
#include "compiler/lowering/lowering_test_util.h"

namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT

/// One operator on given numbers, by the layer interpreter and by the reference.
void check_values(const std::string& op, const std::vector<float>& values, double tolerance) {
  SCOPED_TRACE(op);
  const auto size = static_cast<int64_t>(values.size());
  const onnx::ModelProto model = import_model(
      parse_model(fmt::format("g (float[{0}] x) => (float[{0}] y) {{ y = {1} (x) }}", size, op)), {}, "test");
  const TensorMap inputs = {{"x", Tensor::from_values<float>(DataType::kFloat32, {size}, values)}};
  const LayerGraph graph = lower_to_layers(model);
  EXPECT_EQ(kinds(graph), "Map");
  expect_close(interpret_layer_graph(graph, inputs), run_graph(model, inputs), tolerance);
}

std::vector<float> line(double low, double high, int count = 401) {
  std::vector<float> values;
  for (int k = 0; k < count; ++k) values.push_back(static_cast<float>(low + (high - low) * k / (count - 1)));
  return values;
}

TEST(LowerTrigonometry, FormulasAreTheFunctions) {
  for (const char* op : {"Sin", "Cos"}) {
    check_values(op, line(-20, 20), 2e-7);
    check_values(op, line(-1.6e7, 1.6e7), 2e-7);
  }
  check_values("Tan", line(-1.5, 1.5), 2e-7);
  check_values("Tan", line(1e4, 1e4 + 1, 5), 1e-6);
  for (const char* op : {"Asin", "Acos", "Atan", "Asinh"}) check_values(op, line(-1, 1), 2e-7);
  for (const char* op : {"Atan", "Asinh"}) check_values(op, line(-1e9, 1e9), 2e-7);
  for (const char* op : {"Sinh", "Cosh"}) check_values(op, line(-5, 5), 2e-7);
  check_values("Acosh", line(1, 1.1), 2e-7);
  check_values("Acosh", line(1, 1e12), 2e-7);
  check_values("Atanh", line(-0.999, 0.999), 2e-7);
}

/// Where a function is all but zero, it is still right in all of its digits.
TEST(LowerTrigonometry, NearZerosOfFarAngles) {
  const auto model = import_model(
      parse_model("g (float[3] x) => (float[3] s, float[3] c) { s = Sin (x) c = Cos (x) }"), {}, "test");
  const std::vector<float> angles = {252.89821F, 2023.1857F, 3.14159274F};
  const TensorMap outputs = interpret_layer_graph(
      lower_to_layers(model), {{"x", Tensor::from_values<float>(DataType::kFloat32, {3}, angles)}});
  for (size_t k = 0; k < angles.size(); ++k) {
    const double sine = std::sin(static_cast<double>(angles[k]));
    const double cosine = std::cos(static_cast<double>(angles[k]));
    EXPECT_NEAR(outputs.at("s").data<float>()[k], sine, 1e-6 * std::abs(sine)) << angles[k];
    EXPECT_NEAR(outputs.at("c").data<float>()[k], cosine, 1e-6 * std::abs(cosine)) << angles[k];
  }
}

TEST(LowerTrigonometry, RoundsHalfToEven) {
  check_values("Round", {-2.5F, -1.5F, -0.5F, 0.5F, 1.5F, 2.5F, 0.4999F, 0.5001F, -3.7F, 8388609.0F}, 0);
}

TEST(LowerTrigonometry, RemaindersHaveTheDividendsSign) {
  auto model = parse_model("g (float[6] x, float[6] d) => (float[6] y) { y = Mod <fmod = 1> (x, d) }");
  model = import_model(model, {}, "test");
  const TensorMap inputs = {
      {"x", Tensor::from_values<float>(DataType::kFloat32, {6}, {5.5F, -5.5F, 5.5F, -1e6F, 0.1F, 7.0F})},
      {"d", Tensor::from_values<float>(DataType::kFloat32, {6}, {2.0F, 2.0F, -2.0F, 0.7F, 3.0F, 7.0F})}};
  expect_close(interpret_layer_graph(lower_to_layers(model), inputs), run_graph(model, inputs), 1e-6);
}

}  // namespace
}  // namespace kodama::compiler
