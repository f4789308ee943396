#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/lowering/lowering_test_util.h"

namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT

struct Resized {
  std::string kinds;
  std::vector<float> values;
};
/// Resize of [1, 1, ...] with constant scales or sizes (the other is empty).
Resized resize(const std::string& attributes, const Shape& shape, const std::vector<float>& x,
               const std::vector<float>& scales, const std::vector<int64_t>& sizes = {}) {
  auto model = parse_model(fmt::format("g (float{} x) => (float[] y) {{ y = Resize <{}> (x, , {}) }}",
                                       shape_to_string(shape), attributes, sizes.empty() ? "s" : ", s"));
  if (sizes.empty()) {
    add_initializer(
        model, "s",
        Tensor::from_values<float>(DataType::kFloat32, {static_cast<int64_t>(scales.size())}, scales));
  } else {
    add_ints(model, "s", sizes);
  }
  const LayerGraph graph = lower(model);
  const TensorMap outputs =
      interpret_layer_graph(graph, {{"x", Tensor::from_values<float>(DataType::kFloat32, shape, x)}});
  const auto data = outputs.at("y").data<float>();
  return {kinds(graph), {data.begin(), data.end()}};
}

void expect_near(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t k = 0; k < actual.size(); ++k) EXPECT_NEAR(actual[k], expected[k], 1e-5) << k;
}

TEST(LowerResize, NearestMovesOnly) {
  const Resized twice = resize(
      "mode = \"nearest\", coordinate_transformation_mode = \"asymmetric\", "
      "nearest_mode = \"floor\"",
      {1, 1, 2, 2}, {1, 2, 3, 4}, {1, 1, 2, 3});
  EXPECT_EQ(twice.kinds, "Rearrange");
  EXPECT_EQ(twice.values,
            (std::vector<float>{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4}));
  // 2 to 3, and 4 to 3: single positions.
  const Resized odd = resize("mode = \"nearest\"", {1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}, {}, {1, 1, 3, 3});
  EXPECT_EQ(odd.kinds, "Rearrange");
  EXPECT_EQ(odd.values, (std::vector<float>{1, 2, 4, 1, 2, 4, 5, 6, 8}));
}

/// Weights of one position are one in all, whatever their rounding.
TEST(LowerResize, OneElementIsMovedOnly) {
  for (const char* a : {"-0.5", "-0.75", "-0.3", "-0.1"}) {
    const Resized many =
        resize(fmt::format("mode = \"cubic\", cubic_coeff_a = {}", a), {1, 1, 1, 1}, {3}, {}, {1, 1, 7, 5});
    EXPECT_EQ(many.kinds, "Rearrange") << a;
    EXPECT_EQ(many.values, std::vector<float>(35, 3)) << a;
  }
}

TEST(LowerResize, LinearTwiceIsAConvolutionOfEveryChannel) {
  const Resized twice = resize("mode = \"linear\"", {1, 1, 2, 2}, {1, 2, 3, 4}, {1, 1, 2, 2});
  EXPECT_EQ(twice.kinds, "Contract Rearrange");
  expect_near(twice.values, {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4});
}

TEST(LowerResize, OtherFactorsAreProductsWithMatrices) {
  const Resized corners = resize("mode = \"linear\", coordinate_transformation_mode = \"align_corners\"",
                                 {1, 1, 2, 2}, {1, 2, 3, 4}, {}, {1, 1, 3, 4});
  EXPECT_EQ(corners.kinds, "Contract Contract");
  expect_near(corners.values,
              {1, 1.333333F, 1.666667F, 2, 2, 2.333333F, 2.666667F, 3, 3, 3.333333F, 3.666667F, 4});
  const Resized cubic = resize("mode = \"cubic\"", {1, 1, 1, 4}, {1, 2, 3, 4}, {1, 1, 1, 2});
  EXPECT_EQ(cubic.kinds, "Contract");
  expect_near(cubic.values,
              {0.8945312F, 1.191406F, 1.667969F, 2.296875F, 2.703125F, 3.332031F, 3.808594F, 4.105469F});
}

TEST(LowerResize, BeyondTheRegionIsTheExtrapolationValue) {
  auto model = parse_model(
      "g (float[1,1,1,4] x) => (float[1,1,1,3] y) { y = Resize <mode = \"linear\", extrapolation_value = "
      "10.0, "
      "coordinate_transformation_mode = \"tf_crop_and_resize\"> (x, roi, , s) }");
  add_initializer(model, "roi",
                  Tensor::from_values<float>(DataType::kFloat32, {8}, {0, 0, 0, 0.5F, 1, 1, 1, 1.5F}));
  add_ints(model, "s", {1, 1, 1, 3});
  const TensorMap outputs = interpret_layer_graph(
      lower(model), {{"x", Tensor::from_values<float>(DataType::kFloat32, {1, 1, 1, 4}, {1, 2, 3, 4})}});
  const auto data = outputs.at("y").data<float>();
  expect_near({data.begin(), data.end()}, {2.5F, 4, 10});
}

TEST(LowerResize, AnyTypeCanBeMoved) {
  auto model =
      parse_model("g (int64[1,1,3] x) => (int64[1,1,6] y) { y = Resize <mode = \"nearest\"> (x, , s) }");
  add_initializer(model, "s", Tensor::from_values<float>(DataType::kFloat32, {3}, {1, 1, 2}));
  const LayerGraph graph = lower(model);
  EXPECT_EQ(kinds(graph), "Rearrange");
}

}  // namespace
}  // namespace kodama::compiler
