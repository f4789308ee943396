#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compiler/lowering/lowering.h"
#include "compiler/lowering/lowering_test_util.h"

/// What detectors read of pictures, places that indices name, pools of other types, and lengths that are
/// data.
namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT

std::string without_host(const onnx::ModelProto& model, double tolerance = 2e-6) {
  const std::string found = check_model(model, tolerance);
  EXPECT_EQ(found.find("Host"), std::string::npos) << found;
  return found;
}

TEST(LowerRegions, GridSampleInAllModes) {
  for (const char* mode : {"bilinear", "nearest", "bicubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (const int align_corners : {0, 1}) {
        SCOPED_TRACE(fmt::format("{} {} {}", mode, padding, align_corners));
        // Positions outside as well: the grid is stretched.
        without_host(parse_model(fmt::format("g (float[2,3,5,4] x, float[2,6,7,2] grid) => (float[2,3,6,7] "
                                             "y) {{ k = Constant <value_float = 2.5> () "
                                             "wide = Mul (grid, k) y = GridSample <mode = \"{}\", "
                                             "padding_mode = \"{}\", align_corners = {}> (x, wide) }}",
                                             mode, padding, align_corners),
                                 16),
                     1e-5);
      }
    }
  }
}

TEST(LowerRegions, RoiAlignTakesTheMeanOrTheLargestOfSamples) {
  for (const char* mode : {"avg", "max"}) {
    for (const int ratio : {1, 2, 3}) {
      auto model =
          parse_model(fmt::format("g (float[2,3,8,9] x) => (float[4,3,3,2] y) {{ y = RoiAlign <mode = "
                                  "\"{}\", output_height = 3, output_width = "
                                  "2, sampling_ratio = {}, spatial_scale = 0.5> (x, rois, pictures) }}",
                                  mode, ratio));
      add_initializer(model, "rois",
                      Tensor::from_values<float>(DataType::kFloat32, {4, 4},
                                                 {0, 0, 9, 9, 2, 3, 17, 11, 5, 1, 6, 2, 0, 0, 18, 16}));
      add_ints(model, "pictures", {0, 1, 1, 0});
      without_host(model, 1e-5);
    }
  }
}

TEST(LowerRegions, MaxRoiPool) {
  for (const int pictures : {1, 3}) {
    auto model =
        parse_model(fmt::format("g (float[{},3,8,9] x) => (float[4,3,3,2] y) {{ y = MaxRoiPool <pooled_shape "
                                "= [3,2], spatial_scale = 0.5> (x, rois) }}",
                                pictures));
    const float last = static_cast<float>(pictures - 1);
    add_initializer(
        model, "rois",
        Tensor::from_values<float>(DataType::kFloat32, {4, 5},
                                   {0, 0, 0, 9, 9, last, 2, 3, 17, 11, last, 5, 1, 6, 2, 0, 1, 1, 31, 33}));
    without_host(model, 0);
  }
}

TEST(LowerPool, PlacesThatIndicesName) {
  auto model = parse_model(
      "g (float[1,2,2,2] x) => (float[1,2,4,4] y) { y = MaxUnpool <kernel_shape = [2,2], strides "
      "= [2,2]> (x, places) }");
  add_initializer(
      model, "places",
      Tensor::from_values<int64_t>(DataType::kInt64, {1, 2, 2, 2}, {5, 7, 13, 15, 16, 16, 31, 2}));
  without_host(model, 0);
  auto larger = parse_model(
      "g (float[1,1,2,2] x) => (float[1,1,5,6] y) { y = MaxUnpool <kernel_shape = [2,2], strides "
      "= [2,2]> (x, places, shape) }");
  add_initializer(larger, "places",
                  Tensor::from_values<int64_t>(DataType::kInt64, {1, 1, 2, 2}, {5, 7, 13, 15}));
  add_ints(larger, "shape", {1, 1, 5, 6});
  without_host(larger, 0);
}

TEST(LowerPool, DoublesAndIntegersWithIndices) {
  for (const char* op : {"MaxPool <kernel_shape = [3,2], strides = [2,1], pads = [1,0,1,1]>",
                         "AveragePool <kernel_shape = [3,2], pads = [1,0,1,1]>",
                         "AveragePool <kernel_shape = [3,2], pads = [1,0,1,1], count_include_pad = 1>",
                         "GlobalMaxPool", "GlobalAveragePool"})
    without_host(parse_model(fmt::format("g (double[2,3,7,6] x) => (double[] y) {{ y = {} (x) }}", op)),
                 1e-14);
  without_host(
      parse_model("g (float[1,2,6,6] x) => (int8[1,2,3,3] y, int64[1,2,3,3] i) { k = Constant <value_float = "
                  "100.0> () m = Mul (x, k) a = Cast <to = 3> (m) y, i = MaxPool <kernel_shape = [2,2], "
                  "strides = [2,2]> (a) }"),
      0);
}

TEST(LowerNormalization, ByANorm) {
  for (const int p : {1, 2})
    without_host(
        parse_model(fmt::format("g (float[3,7,2] x) => (float[3,7,2] y) {{ y = LpNormalization <p = {}, axis "
                                "= 1> (x) }}",
                                p)));
}

TEST(LowerRecurrent, LengthsThatAreData) {
  for (const char* direction : {"forward", "reverse", "bidirectional"}) {
    const int directions = std::string(direction) == "bidirectional" ? 2 : 1;
    auto model =
        parse_model(fmt::format("g (float[4,3,2] x, int32[3] lengths) => (float[4,{0},3,2] y, float[{0},3,2] "
                                "h) {{ y, h = GRU <hidden_size = "
                                "2, direction = \"{1}\"> (x, w, r, , lengths) }}",
                                directions, direction));
    add_random(model, "w", {directions, 6, 2});
    add_random(model, "r", {directions, 6, 2});
    model = import_model(model, {}, "t");
    const LayerGraph graph = lower_to_layers(model);
    for (const Layer& layer : graph.layers) EXPECT_NE(layer.kind(), LayerKind::kHost);
    TensorMap inputs = {{"x", random_tensor(DataType::kFloat32, {4, 3, 2}, 1)},
                        {"lengths", Tensor::from_values<int32_t>(DataType::kInt32, {3}, {4, 2, 1})}};
    TensorMap found = interpret_layer_graph(graph, inputs);
    std::erase_if(found, [](const auto& value) { return value.first != "y" && value.first != "h"; });
    expect_close(found, run_graph(model, inputs), 1e-5);
    inputs["lengths"] = Tensor::from_values<int32_t>(DataType::kInt32, {3}, {4, 2, 5});
    EXPECT_THROW(interpret_layer_graph(graph, inputs), isa::UserError);
  }
}

}  // namespace
}  // namespace kodama::compiler
