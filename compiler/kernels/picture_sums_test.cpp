/// Sums over whole pictures: statistics of a batch and their gradients, on images of rows.
#include "compiler/kernels/picture_sums.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/kernel_test_util.h"
#include "compiler/kernels/split_reductions.h"
#include "compiler/layers/interpreter.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/lowering_test_util.h"

namespace kodama::compiler {
namespace {

struct Checked {
  std::string kinds;
  size_t candidates = 0;  ///< of "sum-pictures"
};

/// Splits a model's reductions, holds the graph to the reference and what the kernel makes of each of its
/// layers to what the layer is.
Checked check_sums(const std::string& text, const isa::Chip& chip = testing::small_chip()) {
  SCOPED_TRACE(text);
  const onnx::ModelProto model = import_model(testing::parse_model(text), {}, "test");
  const TensorMap inputs = testing::random_inputs(model, 1);
  LayerGraph graph = lower_to_layers(model);
  split_reductions(graph, chip);
  verify_layer_graph(graph, "split-reductions");
  testing::expect_close(interpret_layer_graph(graph, inputs), run_graph(model, inputs), 1e-5);

  Checked result{testing::kinds(graph), 0};
  LayerValues values(graph);
  for (const TensorId input : graph.inputs)
    values.set(input, inputs.at(graph.tensors[static_cast<size_t>(input)].name));
  for (const Layer& layer : graph.layers) {
    const Tensor expected = interpret_layer(layer, graph, values).at(0);
    values.set(layer.outputs[0], expected);
    if (layer.kind() != LayerKind::kReduce) continue;
    std::vector<Tensor> operands(graph.tensors.size());
    for (const TensorId input : layer_inputs(layer)) operands[static_cast<size_t>(input)] = values.get(input);
    double largest = 0;
    for (const float value : expected.data<float>())
      largest = std::max(largest, static_cast<double>(std::abs(value)));
    for (const Candidate& candidate : sum_pictures_kernel().run(layer, graph, chip, {})) {
      SCOPED_TRACE(candidate.description);
      ++result.candidates;
      const auto found = testing::run_candidate(candidate, layer, graph, operands, chip);
      for (int64_t k = 0; k < expected.size(); ++k) {
        const auto at = static_cast<size_t>(k);
        EXPECT_NEAR(found.result.data<float>()[at], expected.data<float>()[at], 1e-5 * largest) << k;
        if (::testing::Test::HasFailure()) return result;
      }
    }
  }
  return result;
}

std::string sum_of(const std::string& nodes, int64_t n, int64_t c, int64_t h, int64_t w) {
  return fmt::format(
      "g (float[{0},{1},{2},{3}] x, float[{0},{1},{2},{3}] d, float[{1},1,1] m) => (float[{1}] y) {{ {4} }}",
      n, c, h, w, nodes);
}
constexpr const char* kMean = "y = ReduceMean<axes=[0,2,3], keepdims=0>(x)";
constexpr const char* kSquares = "s = Sub(x, m) q = Mul(s, s) y = ReduceMean<axes=[0,2,3], keepdims=0>(q)";

TEST(PictureSums, PicturesOfEveryShape) {
  // Lanes of one column and more, full steps and others, one chunk, two, and three; images and rows for
  // slots.
  for (const auto& [n, c, h, w] : std::vector<std::array<int64_t, 4>>{{16, 40, 4, 4},
                                                                      {8, 64, 5, 7},
                                                                      {4, 32, 9, 16},
                                                                      {2, 70, 8, 30},
                                                                      {3, 96, 6, 12},
                                                                      {1, 32, 33, 13},
                                                                      {5, 8, 16, 41},
                                                                      {17, 128, 2, 3}}) {
    const Checked checked = check_sums(sum_of(kMean, n, c, h, w));
    EXPECT_EQ(checked.kinds, "Reduce Reduce");
    EXPECT_GE(checked.candidates, 1U) << n << " " << c << " " << h << " " << w;
  }
}
TEST(PictureSums, OfSeveralPicturesAndValues) {
  // Places outside make nothing of zeros.
  const std::string along =
      sum_of("s = Sub(x, m) q = Mul(d, s) t = ReduceSum<keepdims=0>(q, axes) y = Neg(t)", 3, 48, 7, 11);
  const std::string text =
      along.substr(0, along.find('{')) + "<int64[3] axes = {0, 2, 3}> " + along.substr(along.find('{'));
  const Checked checked = check_sums(text);
  EXPECT_EQ(checked.kinds, "Reduce Reduce");
  EXPECT_GE(checked.candidates, 1U);
}
TEST(PictureSums, TermsThatAreNotZeroOutside) {
  // No slot has a place outside.
  const Checked full = check_sums(sum_of(kSquares, 8, 32, 8, 12));
  EXPECT_EQ(full.kinds, "Reduce Reduce");
  EXPECT_GE(full.candidates, 1U);
  // Columns outside; rows; images.
  for (const auto& [n, h, w] :
       std::vector<std::array<int64_t, 3>>{{8, 8, 14}, {8, 7, 12}, {3, 16, 12}, {1, 33, 16}}) {
    const Checked checked = check_sums(sum_of(kSquares, n, 32, h, w));
    EXPECT_EQ(checked.kinds, "Map Reduce Reduce");
    EXPECT_GE(checked.candidates, 1U);
  }
}
TEST(PictureSums, PartsOfAChip) {
  // Eight L2Bs, with rows, with channels, with both.
  const Checked checked = check_sums(sum_of(kMean, 8, 256, 6, 6), isa::find_chip("mncore2"));
  EXPECT_EQ(checked.kinds, "Reduce Reduce");
  EXPECT_GE(checked.candidates, 3U);
}
TEST(PictureSums, RandomPictures) {
  std::mt19937 random(11);
  const auto any = [&](int64_t first, int64_t last) {
    return std::uniform_int_distribution<int64_t>(first, last)(random);
  };
  size_t candidates = 0;
  for (int k = 0; k < 8; ++k) {
    const int64_t n = any(1, 9), c = any(8, 100), h = any(3, 20), w = any(1, 30);
    candidates += check_sums(sum_of(k % 2 == 0 ? kSquares : kMean, n, c, h, w)).candidates;
  }
  EXPECT_GE(candidates, 8U);
}
TEST(PictureSums, WhatItDoesNotDo) {
  const auto parts = [](const std::string& text) {
    const onnx::ModelProto model = import_model(testing::parse_model(text), {}, "test");
    LayerGraph graph = lower_to_layers(model);
    split_reductions(graph, testing::small_chip());
    const auto reads_zeros = [](const Layer& layer) {
      const auto* reduce = std::get_if<ReduceLayer>(&layer.body);
      return reduce != nullptr && !reduce->epilogue_inputs.empty();
    };
    return std::ranges::count_if(graph.layers, reads_zeros);
  };
  EXPECT_EQ(parts(sum_of(kMean, 8, 32, 8, 8)), 1);
  // Few elements, few channels, images by themselves, a maximum, other axes, parts of pictures.
  EXPECT_EQ(parts(sum_of(kMean, 2, 32, 4, 4)), 0);
  EXPECT_EQ(parts(sum_of(kMean, 64, 4, 16, 16)), 0);
  EXPECT_EQ(parts("g (float[8,32,8,8] x) => (float[8,32,1,1] y) { y = GlobalAveragePool(x) }"), 0);
  EXPECT_EQ(parts("g (float[8,32,8,8] x) => (float[32] y) { y = ReduceMax<axes=[0,2,3], keepdims=0>(x) }"),
            0);
  EXPECT_EQ(parts("g (float[8,32,8,16] x) => (float[32,8] y) { y = ReduceMean<axes=[0,3], keepdims=0>(x) }"),
            0);
  EXPECT_EQ(parts("g (float[8,32,64] x) => (float[32] y) { y = ReduceMean<axes=[0,2], keepdims=0>(x) }"), 0);
}
TEST(PictureSums, DamagedOperationsAreFound) {
  const isa::Chip chip = testing::small_chip();
  const onnx::ModelProto model = import_model(testing::parse_model(sum_of(kMean, 8, 64, 8, 10)), {}, "test");
  LayerGraph graph = lower_to_layers(model);
  split_reductions(graph, chip);
  const auto candidates = sum_pictures_kernel().run(graph.layers[0], graph, chip, {});
  ASSERT_FALSE(candidates.empty());
  const TileProgram whole = candidates[0].emit({0, 1 << 16, 1 << 17});
  EXPECT_NO_THROW(verify_tile_program(whole, chip));
  const auto expect_found = [&](void (*damage)(AddColumns&)) {
    TileProgram program = whole;
    const auto is_it = [](const TileNode& node) { return std::holds_alternative<AddColumns>(node.kind); };
    const auto found = std::ranges::find_if(program.body, is_it);
    ASSERT_NE(found, program.body.end());
    damage(std::get<AddColumns>(found->kind));
    EXPECT_THROW(verify_tile_program(program, chip), isa::InternalError);
  };
  expect_found([](AddColumns& op) { op.inputs.clear(); });
  expect_found([](AddColumns& op) { op.inputs[0].buffer = 99; });
  expect_found([](AddColumns& op) { op.sums = -1; });
  expect_found([](AddColumns& op) { op.pitch = 2; });
  expect_found([](AddColumns& op) { op.pitch = 1 << 20; });
  expect_found([](AddColumns& op) { op.order.chunks = 1 << 20; });
  expect_found([](AddColumns& op) { op.order.groups = 0; });
}

}  // namespace
}  // namespace kodama::compiler
