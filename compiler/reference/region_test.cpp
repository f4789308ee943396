#include <gmock/gmock.h>

#include "compiler/reference/reference_test_util.h"

/// Expected numbers are those of PyTorch 1.13 (grid_sample) and torchvision (roi_align, roi_pool).
namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(GridSample, AllModes) {
  const Tensor x = pattern({1, 1, 3, 4}, 7, 2, 1);
  const Tensor grid = floats({1, 2, 3, 2}, {-1, -1, -0.3, 0.4, 0.8, -0.9, 1.3, 0.2, -2.4, 1.9, 0.5, 3.6});
  struct Case {
    const char* mode;
    const char* padding;
    int align_corners;
    std::vector<float> expected;
  };
  const std::vector<Case> cases = {
      {"bilinear", "zeros", 0, {-1.75, 2.300001, -2.925, 0, 0, 0}},
      {"bilinear", "zeros", 1, {-7, 4.78, -1.069998, 1.1, 0, 0}},
      {"bilinear", "border", 0, {-7, 2.300001, -5, 0.9999993, -8, 0}},
      {"bilinear", "border", 1, {-7, 4.78, -1.069998, 2, -8, 3}},
      {"bilinear", "reflection", 0, {-7, 2.300001, -5, 0.8699994, -0.4050005, 0.8000002}},
      {"bilinear", "reflection", 1, {-7, 4.78, -1.069998, 0.5600005, -1.59, 0.8500004}},
      {"nearest", "zeros", 0, {-7, -1, -5, 0, 0, 0}},
      {"nearest", "zeros", 1, {-7, 9, -5, 4, 0, 0}},
      {"nearest", "border", 0, {-7, -1, -5, 4, -8, 6}},
      {"nearest", "border", 1, {-7, 9, -5, 4, -8, 6}},
      {"nearest", "reflection", 0, {-7, -1, -5, 4, -3, 7}},
      {"nearest", "reflection", 1, {-7, 9, -5, 4, -3, -3}},
      {"bicubic", "zeros", 0, {-2.5, 2.814519, -4.592424, -0.1165635, 0, 0}},
      {"bicubic", "zeros", 1, {-7, 6.029716, -1.642085, 2.176386, 0, 0}},
      {"bicubic", "border", 0, {-8.5, 3.059706, -6.855165, 2.202253, -7.999999, 0.6562498}},
      {"bicubic", "border", 1, {-7, 6.063306, -1.065887, 3.663471, -8.067496, 4.01953}},
      {"bicubic", "reflection", 0, {-10, 3.059706, -7.564448, 1.831807, -2.182415, 0.6788756}},
      {"bicubic", "reflection", 1, {-7, 5.39952, -2.50041, 0.3098898, -2.931393, 0.1494062}},
  };
  for (const Case& test : cases) {
    const std::string node =
        fmt::format("y = GridSample<mode=\"{}\", padding_mode=\"{}\", align_corners={}>(x, g)", test.mode,
                    test.padding, test.align_corners);
    SCOPED_TRACE(node);
    expect_near(run_one(node, {x, grid}, 16), test.expected);
  }
}

TEST(GridSample, PositionsThatAreNoNumbers) {
  const Tensor x = pattern({1, 1, 3, 4}, 7, 2, 1);
  const Tensor grid = floats({1, 1, 2, 2}, {NAN, 0, INFINITY, 1e30});
  for (const char* mode : {"bilinear", "nearest", "bicubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      EXPECT_NO_THROW(run_one(
          fmt::format("y = GridSample<mode=\"{}\", padding_mode=\"{}\">(x, g)", mode, padding), {x, grid}));
    }
  }
}

const Tensor kPictures = pattern({2, 1, 5, 6}, 7, 2, 1);

TEST(RoiAlign, AverageInBothCoordinates) {
  const Tensor rois = floats({3, 4}, {0.5, 1.2, 4.7, 3.9, -1, 0, 3, 6, 2, 2, 2.2, 2.1});
  const Tensor pictures = ints({3}, {0, 1, 1});
  const auto check = [&](const char* coordinates, int ratio, const std::vector<float>& expected) {
    const std::string node = fmt::format(
        "y = RoiAlign<coordinate_transformation_mode=\"{}\", sampling_ratio={}, spatial_scale=0.8, "
        "output_height=2, "
        "output_width=3>(x, r, b)",
        coordinates, ratio);
    SCOPED_TRACE(node);
    expect_near(run_one(node, {kPictures, rois, pictures}), expected);
  };
  check("output_half_pixel", 0,
        {3.440001, -3.539999, 0.1200001, -0.1743991, -0.3219996, 2.16, -1.2, 3.893333, -0.5466666, -2.266667,
         -2.535556, 1.511111, -0.7999998, -2.899999, -0.5666661, -0.3516665, -0.8999993, 1.433333});
  check("output_half_pixel", 2,
        {3.440001, -3.539999, 0.1200001, -0.1743991, -0.3219996, 2.16, -1.199999, 3.893333, -0.5466667, -1.5,
         -3.183333, 1.433333, -0.8000004, -2.9, -0.566667, -0.3516669, -0.9000001, 1.433332});
  check("half_pixel", 0,
        {0.2200003, -1.4723, -2.3305, 3.0105, -0.03650001, 1.220001, -1.533333, -0.9666657, 2.552222,
         0.03333298, -0.3033344, -0.2255553, 3.96, 3.319999, 2.68, 4.12, 3.479999, 2.84});
  check("half_pixel", 2,
        {0.2200003, -1.4723, -2.3305, 3.0105, -0.03650001, 1.220001, -1.6, -1.099999, 2.534999, -0.1250011,
         -0.4300014, -0.02499902, 3.959999, 3.319999, 2.68, 4.119999, 3.479999, 2.839999});
}

TEST(RoiAlign, MaximumOfTheSamples) {
  // One sample per pixel, on its centre.
  const Tensor rois = floats({1, 4}, {0, 0, 6, 4});
  const Tensor y =
      run_one("y = RoiAlign<mode=\"max\", output_height=2, output_width=3, sampling_ratio=2>(x, r, b)",
              {kPictures, rois, ints({1}, {0})});
  const Tensor rows =
      run_one("y = Slice(x, s, e, a)", {kPictures, ints({2}, {0, 0}), ints({2}, {1, 4}), ints({2}, {0, 2})});
  EXPECT_EQ(y, run_one("y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x)", {rows}));
}

TEST(RoiAlign, WrongOperands) {
  const auto run = [](const Tensor& rois, const Tensor& pictures) {
    return [=] { run_one("y = RoiAlign(x, r, b)", {kPictures, rois, pictures}); };
  };
  const auto says = [](const char* text) { return ThrowsMessage<isa::UserError>(HasSubstr(text)); };
  EXPECT_THAT(run(floats({1, 4}, {0, 0, 1, 1}), ints({1}, {2})), says("picture 2"));
  EXPECT_THAT(run(floats({1, 4}, {0, 0, 1, 1}), ints({2}, {0, 0})), says("2 elements for 1 regions"));
  EXPECT_THAT(run(floats({1, 4}, {0, NAN, 1, 1}), ints({1}, {0})), says("nan"));
  EXPECT_THAT(run(floats({1, 4}, {0, 0, 1e9, 1}), ints({1}, {0})), says("pixels long"));
}

TEST(MaxRoiPool, AsTorchvision) {
  const Tensor rois = floats({3, 5}, {0, 0.5, 1.2, 4.7, 3.9, 1, -1, 0, 3, 6, 1, 2, 2, 2.2, 2.1});
  expect_near(run_one("y = MaxRoiPool<pooled_shape=[2,3], spatial_scale=0.8>(x, r)", {kPictures, rois}),
              {8, 8, 6, 8, 8, 7, 2, 9, 9, 6, 6, 5, -3, -3, -3, -3, -3, -3});
  EXPECT_THAT(
      [] {
        run_one("y = MaxRoiPool<pooled_shape=[2,3]>(x, r)", {kPictures, floats({1, 5}, {0.5, 0, 0, 1, 1})});
      },
      ThrowsMessage<isa::UserError>(HasSubstr("picture 0.5")));
}

TEST(NonMaxSuppression, TiesDegenerateBoxesAndDefaults) {
  const Tensor boxes = floats({1, 4, 4}, {0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2});
  const Tensor scores = floats({1, 1, 4}, {0.5, 0.5, 0.9, NAN});
  const Tensor most = ints({}, {9});
  const Tensor half = floats({}, {0.5});
  // Of equals the first; boxes without area hide nothing; what has no score is left out.
  EXPECT_EQ(run_one("y = NonMaxSuppression(b, s, m, i)", {boxes, scores, most, half}),
            ints({2, 3}, {0, 0, 2, 0, 0, 0}));
  EXPECT_EQ(run_one("y = NonMaxSuppression(b, s)", {boxes, scores}), ints({0, 3}, {}));
  EXPECT_EQ(run_one("y = NonMaxSuppression(b, s, m, i, t)", {boxes, scores, most, half, half}),
            ints({1, 3}, {0, 0, 2}));
  EXPECT_THAT(
      [&] {
        run_one("y = NonMaxSuppression(b, s, m, i)", {boxes, scores, most, floats({}, {1.5})});
      },
      ThrowsMessage<isa::UserError>(HasSubstr("iou_threshold is 1.5")));
}

}  // namespace
}  // namespace kodama::compiler
