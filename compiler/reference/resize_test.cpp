#include <gmock/gmock.h>

#include "compiler/reference/reference_test_util.h"

/// Expected numbers are those of PyTorch 1.13's interpolate, or of ONNX's own Python for what PyTorch hasn't.
namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const Tensor kPicture = pattern({1, 1, 3, 4}, 7, 2, 1);

Tensor resize_to(const std::string& attributes, const Tensor& x, const Shape& sizes) {
  const Tensor list = ints({std::ssize(sizes)}, sizes);
  return run_all("y = Resize<" + attributes + ">(x, r, s, n)", {&x, nullptr, nullptr, &list}).at(0);
}
Tensor resize_by(const std::string& attributes, const Tensor& x, const std::vector<float>& scales) {
  const Tensor list = floats({std::ssize(scales)}, scales);
  return run_all("y = Resize<" + attributes + ">(x, r, s)", {&x, nullptr, &list}).at(0);
}

TEST(Resize, LinearAndCubicAsPytorch) {
  const std::vector<float> same(kPicture.data<float>().begin(), kPicture.data<float>().end());
  const auto check = [&](const char* attributes, const Shape& size, const std::vector<float>& expected) {
    SCOPED_TRACE(attributes);
    expect_near(resize_to(attributes, kPicture, {1, 1, size[0], size[1]}), expected);
  };
  const char* const linear = "mode=\"linear\", coordinate_transformation_mode=\"pytorch_half_pixel\"";
  check(linear, {5, 7},
        {-7,        -4.5,     -0.4999998, 3.500001,  6.142856, -0.7142878, -5,        -3.4,     -0.8999995,
         3.1,       3.3,      2.685714,   0.171428,  -1.4,     1.999999,   4.5,       8.5,      2.999999,
         -2.499999, 1.500001, 4,          -4.000001, -1.5,     2.5,        2.7,       2.085714, -0.4285724,
         -2.000001, -8,       -5.499999,  -1.5,      2.500001, 5.142856,   -1.714288, -6});
  check(linear, {2, 3}, {-3.583333, 3.375, -1.541667, -4.333333, 2.625, -2.291667});
  check(linear, {3, 4}, same);
  const char* const linear_corners = "mode=\"linear\", coordinate_transformation_mode=\"align_corners\"";
  check(linear_corners, {5, 7},
        {-7, -3.5, 0, 3.5, 7,   1, -5,   -2.5, 1,    4.5, 3.25, 2,    0.75, -0.5, 2, 5.5, 9, 3,
         -3, 0.5,  4, -3,  0.5, 4, 2.75, 1.5,  0.25, -1,  -8,   -4.5, -1,   2.5,  6, 0,   -6});
  check(linear_corners, {2, 3}, {-7, 3.5, -5, -8, 2.5, -6});
  const char* const cubic = "mode=\"cubic\", coordinate_transformation_mode=\"half_pixel\"";
  check(cubic, {5, 7},
        {-8.558518, -6.021457, -1.672108, 5.500252,  7.576646,   -0.6109073, -7.235569, -3.482516, -0.2957904,
         3.891862,  4.303874,  2.205102,  0.2158174, -1.111445,  1.305485,   5.123179,  9.15379,   2.999999,
         -3.15379,  0.8768236, 4.694515,  -4.166519, -0.9797927, 3.207861,   3.619876,  1.521105,  -0.4681827,
         -1.795448, -9.65452,  -7.117457, -2.768108, 4.404252,   6.480647,   -1.706907, -8.331569});
  check(cubic, {2, 3}, {-3.639944, 4.719361, -1.565624, -4.448537, 3.910767, -2.374218});
  check(cubic, {3, 4}, same);
  const char* const cubic_corners = "mode=\"cubic\", coordinate_transformation_mode=\"align_corners\"";
  check(cubic_corners, {5, 7},
        {-7,       -4.15625, 0,        5.28125,   7,        1.65625, -5,       -1.5625, 2.338867,
         5.4375,   4.020508, 1.15625,  0.3955078, 0.4375,   2,       6.625,    9,       3,
         -3,       -0.625,   4,        -2.15625,  1.745117, 4.84375, 3.426758, 0.5625,  -0.1982422,
         -0.15625, -8,       -5.15625, -1,        4.28125,  6,       0.65625,  -6});
  check(cubic_corners, {2, 3}, {-7, 5.28125, -5, -8, 4.28125, -6});
}

TEST(Resize, OfOneAndThreeAxes) {
  // 4 * 1.6 are 6.4 elements, of which 6 are made with the factor 1.6.
  expect_near(resize_by("mode=\"linear\"", kPicture.reshaped({1, 3, 4}), {1, 1, 1.6}),
              {-7, -3.9375, 0.4375, 4.8125, 3.25, -4.25, 2, 5.0625, 8.25, 0.75, -0.8125, 3.5625, -8, -4.9375,
               -0.5625, 3.8125, 2.25, -5.25});
  expect_near(resize_to("mode=\"linear\"", pattern({1, 1, 2, 2, 3}, 7, 2, 1), {1, 1, 3, 3, 2}),
              {-5.25, 5.25, -4.25, 6.25, -3.25, 7.25, -3.25, 0.125, -2.25, 1.125, -1.25, 2.125, -1.25, -5,
               -0.25, -4, 0.75, -3});
}

TEST(Resize, NearestModesAndCoordinates) {
  const Tensor x = floats({4}, {0, 1, 2, 3});
  const auto check = [&](const char* coordinates, const char* nearest, int64_t size,
                         const std::vector<float>& expected) {
    SCOPED_TRACE(fmt::format("{} {} {}", coordinates, nearest, size));
    EXPECT_EQ(resize_to(fmt::format("coordinate_transformation_mode=\"{}\", nearest_mode=\"{}\"", coordinates,
                                    nearest),
                        x, {size}),
              floats({size}, expected));
  };
  // Coordinates 0.5 and 2.5 lie half way.
  check("half_pixel", "round_prefer_floor", 2, {0, 2});
  check("half_pixel", "round_prefer_ceil", 2, {1, 3});
  check("half_pixel", "floor", 2, {0, 2});
  check("half_pixel", "ceil", 2, {1, 3});
  check("asymmetric", "floor", 8, {0, 0, 1, 1, 2, 2, 3, 3});
  check("asymmetric", "ceil", 8, {0, 1, 1, 2, 2, 3, 3, 3});
  check("asymmetric", "round_prefer_floor", 8, {0, 0, 1, 1, 2, 2, 3, 3});
  check("asymmetric", "round_prefer_ceil", 8, {0, 1, 1, 2, 2, 3, 3, 3});
  check("align_corners", "round_prefer_floor", 7, {0, 0, 1, 1, 2, 2, 3});
  check("align_corners", "floor", 1, {0});
  check("pytorch_half_pixel", "ceil", 1, {0});
  check("half_pixel", "floor", 1, {1});
  // Quotients that are integers stay such: 7 of 3 elements come from 0, 3/7, 6/7, 9/7, ...
  EXPECT_EQ(resize_to("coordinate_transformation_mode=\"asymmetric\", nearest_mode=\"floor\"",
                      floats({3}, {0, 1, 2}), {21}),
            floats({21}, {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2}));
  const Tensor list = ints({1}, {2});
  const Tensor nothing = floats({0}, {});
  EXPECT_EQ(run_all("y = Resize<coordinate_transformation_mode=\"tf_half_pixel_for_nn\", "
                    "nearest_mode=\"floor\">(x, r, s, n)",
                    {&x, &nothing, &nothing, &list}, 11)[0],
            floats({2}, {1, 3}));
}

TEST(Resize, AnyTypeIsTakenNearestAndIntegersAreInterpolated) {
  EXPECT_EQ(resize_by("coordinate_transformation_mode=\"asymmetric\", nearest_mode=\"floor\"",
                      strings({2}, {"a", "b"}), {2}),
            strings({4}, {"a", "a", "b", "b"}));
  const Tensor bytes = Tensor::from_values<uint8_t>(DataType::kUint8, {2}, {10, 255});
  EXPECT_EQ(resize_by("mode=\"linear\"", bytes, {2}),
            Tensor::from_values<uint8_t>(DataType::kUint8, {4}, {10, 71, 193, 255}));
  EXPECT_EQ(resize_by("mode=\"cubic\"", bytes, {2}),  // beyond the type at both ends
            Tensor::from_values<uint8_t>(DataType::kUint8, {4}, {0, 65, 199, 255}));
}

TEST(Resize, OneElementIsRepeatedAsItIs) {
  const Tensor x = Tensor::from_values(DataType::kInt8, {1, 3, 1, 1}, std::vector<int8_t>{127, -128, 3});
  for (const char* coordinates : {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"}) {
    for (const char* a : {"-0.5", "-0.75", "-0.3"}) {
      const std::string attributes = fmt::format(
          "mode=\"cubic\", coordinate_transformation_mode=\"{}\", cubic_coeff_a={}", coordinates, a);
      SCOPED_TRACE(attributes);
      const Tensor y = resize_to(attributes, x, {1, 3, 7, 5});
      for (int64_t k = 0; k < y.size(); ++k) {
        ASSERT_EQ(y.data<int8_t>()[static_cast<size_t>(k)], x.data<int8_t>()[static_cast<size_t>(k / 35)])
            << k;
      }
    }
  }
}
TEST(Resize, ExcludeOutside) {
  const char* const attributes =
      "mode=\"cubic\", coordinate_transformation_mode=\"asymmetric\", cubic_coeff_a=-0.5, exclude_outside=";
  expect_near(
      resize_to(std::string(attributes) + "0", kPicture, {1, 1, 5, 7}),
      {-7,        -3.367347, 1.166181,    6.38484,    4.606414, -3.749271, -5.83965,  -0.664,   3.893948,
       6.075685,  1.732968,  -0.04545772, 1.160233,   1.421644, 1.056,     5.901108,  7.35298,  0.04293878,
       -1.735487, 2.437528,  3.428805,    -6.336,     -2.48,    1.485854,  4.396595,  2.618169, -3.429598,
       -4.952303, -8.72,     -5.183067,   -0.4062507, 5.801516, 4.02309,   -5.321702, -7.65537});
  expect_near(
      resize_to(std::string(attributes) + "1", kPicture, {1, 1, 5, 7}),
      {-7,        -3.548476, 1.166181,  6.38484,    4.334278,  -3.811634, -6.425743, -0.9541985, 3.336216,
       5.850822,  1.946031,  0.1924832, 0.9408767,  1.119265,  0.9133858, 5.498768,  7.239802,   0.1270632,
       -1.522049, 2.35372,   3.513994,  -6.43609,   -2.785121, 1.406475,  4.456038,  2.476091,   -3.555204,
       -5.505397, -9.153846, -5.848072, -0.7511774, 6.05259,   3.950425,  -5.740784, -8.840061});
}

TEST(Resize, TfCropAndResize) {
  const Tensor roi = floats({8}, {0, 0, 0.25, -0.25, 1, 1, 0.75, 1});
  const Tensor sizes = ints({4}, {1, 1, 3, 3});
  const std::string attributes =
      "mode=\"linear\", coordinate_transformation_mode=\"tf_crop_and_resize\", extrapolation_value=10.0";
  expect_near(run_all("y = Resize<" + attributes + ">(x, r, s, n)", {&kPicture, &roi, nullptr, &sizes})[0],
              {10, 4.1875, -0.5, 10, 7.5, 4, 10, 3.6875, -1});
  // Half of the rows, times 2, are 3; 1.25 of the columns, times 0.8, are 4.
  const Tensor scales = floats({4}, {1, 1, 2, 0.8});
  EXPECT_EQ(run_all("y = Resize<" + attributes + ">(x, r, s)", {&kPicture, &roi, &scales})[0].shape(),
            (Shape{1, 1, 3, 4}));
}

TEST(Resize, OldVersions) {
  const Tensor x = floats({1, 1, 2, 2}, {1, 2, 3, 4});
  const Tensor scales = floats({4}, {1, 1, 2, 1.5});
  const Tensor nearest = floats({1, 1, 4, 3}, {1, 1, 2, 1, 1, 2, 3, 3, 4, 3, 3, 4});
  EXPECT_EQ(run_one("y = Resize(x, s)", {x, scales}, 10), nearest);
  EXPECT_EQ(run_one("y = Upsample(x, s)", {x, scales}, 9), nearest);
  EXPECT_EQ(run_one("y = Upsample<scales=[1.0, 1.0, 2.0, 1.5]>(x)", {x}, 7), nearest);
  EXPECT_EQ(run_one("y = Upsample<height_scale=2.0, width_scale=1.5>(x)", {x}, 1), nearest);
  expect_near(run_one("y = Upsample<mode=\"linear\">(x, s)", {x, scales}, 9),
              {1, 1.666667, 2, 2, 2.666667, 3, 3, 3.666667, 4, 3, 3.666667, 4});
}

TEST(Resize, WrongOperands) {
  const Tensor x = floats({4}, {0, 1, 2, 3});
  const Tensor two = floats({2}, {1, 1});
  const Tensor sizes = ints({1}, {2});
  const auto run = [&](const std::string& node, const std::vector<const Tensor*>& inputs) {
    return [=] { run_all(node, inputs); };
  };
  const auto says = [](const char* text) { return ThrowsMessage<isa::UserError>(HasSubstr(text)); };
  EXPECT_THAT(run("y = Resize(x, r, s)", {&x, nullptr, &two}), says("2 elements"));
  EXPECT_THAT(run("y = Resize(x, r, s, n)", {&x, nullptr, &two, &sizes}), says("one of them"));
  EXPECT_THAT(run("y = Resize(x)", {&x}), says("neither"));
  EXPECT_THAT(run("y = Resize<mode=\"area\">(x, r, s, n)", {&x, nullptr, nullptr, &sizes}), says("'area'"));
  EXPECT_THAT(run("y = Resize<nearest_mode=\"up\">(x, r, s, n)", {&x, nullptr, nullptr, &sizes}),
              says("'up'"));
  EXPECT_THAT(run("y = Resize<coordinate_transformation_mode=\"tf_crop_and_resize\">(x, r, s, n)",
                  {&x, nullptr, nullptr, &sizes}),
              says("input 1 is missing"));
}

}  // namespace
}  // namespace kodama::compiler
