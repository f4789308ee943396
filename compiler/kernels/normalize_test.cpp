/// Normalizations: what becomes one layer, and what the chip makes of it.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "compiler/kernels/fuse_normalizations.h"
#include "compiler/kernels/kernel_test_util.h"
#include "compiler/layers/interpreter.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/lowering_test_util.h"

namespace kodama::compiler {
namespace {

using testing::kinds;

isa::Chip chip_with_rows() {
  isa::Chip chip = isa::find_chip("tiny");
  chip.mab_per_l1b = 16;
  return chip;
}

/// Fuses, and holds the graph to the reference, every candidate of every layer to the interpreter. Returns
/// the kinds of layers.
std::string check(const std::string& text) {
  SCOPED_TRACE(text);
  const isa::Chip chip = chip_with_rows();
  onnx::ModelProto model = import_model(testing::parse_model(text), {}, "test");
  GraphPassOptions passes;
  passes.direct_operators.insert(directly_lowered_operators().begin(), directly_lowered_operators().end());
  run_graph_passes(model, passes);
  LayerGraph graph = lower_to_layers(model);
  fuse_normalizations(graph, chip);
  verify_layer_graph(graph, "fuse-normalizations");
  const TensorMap inputs = testing::random_inputs(model, 1);
  testing::expect_close(interpret_layer_graph(graph, inputs), run_graph(model, inputs), 2e-6);

  LayerValues values(graph);
  for (const TensorId id : graph.inputs)
    values.set(id, inputs.at(graph.tensors[static_cast<size_t>(id)].name));
  for (const Layer& layer : graph.layers) {
    const Tensor expected = interpret_layer(layer, graph, values).at(0);
    std::vector<Tensor> operands(graph.tensors.size());
    for (const TensorId id : layer_inputs(layer)) operands[static_cast<size_t>(id)] = values.get(id);
    bool is_on_rows = layer.kind() != LayerKind::kMap && layer.kind() != LayerKind::kNormalize;
    for (const Candidate& candidate : layer_candidates(layer, graph, chip, {})) {
      if (candidate.kernel.find("-rows") == std::string::npos) continue;
      is_on_rows = true;
      const Tensor result = testing::run_candidate(candidate, layer, graph, operands, chip).result;
      for (int64_t k = 0; k < result.size(); ++k) {
        const double value = element_as_double(expected, k);
        const double error = std::abs(element_as_double(result, k) - value);
        if (error > 2e-6 * std::max(1.0, std::abs(value)))
          return candidate.kernel + " " + candidate.description + ", element " + std::to_string(k);
      }
    }
    EXPECT_TRUE(is_on_rows) << summary(layer, graph);
    values.set(layer.outputs[0], expected);
  }
  return kinds(graph);
}

TEST(Normalize, SoftmaxHoweverItIsSpelled) {
  EXPECT_EQ(check("g (float[3,5,7] x) => (float[3,5,7] y) { y = Softmax(x) }"), "Normalize");
  EXPECT_EQ(check("g (float[2,40,64] x) => (float[2,40,64] y) { y = Softmax<axis=-1>(x) }"), "Normalize");
  EXPECT_EQ(check("g (float[2,3,9,33] x) => (float[2,3,9,33] y) { y = Softmax<axis=3>(x) }"), "Normalize");
  EXPECT_EQ(check("g (float[2,4,9,33] x) => (float[2,4,9,33] y) { y = Softmax<axis=3>(x) }"), "Normalize");
  // Over the channels of images.
  EXPECT_EQ(check("g (float[2,35,4,6] x) => (float[2,35,4,6] y) { y = Softmax<axis=1>(x) }"), "Normalize");
  EXPECT_EQ(check("g (float[6,37] x) => (float[6,37] y) { y = LogSoftmax(x) }"), "Normalize");
  EXPECT_EQ(check("g (float[6,37] x, float[6,37] m) => (float[6,37] y) { a = Add(x, m) e = Exp(a) "
                  "s = ReduceL1<axes=[1]>(e) y = Div(e, s) }"),
            "Normalize");
}

TEST(Normalize, OneRow) {
  EXPECT_EQ(check("g (float[1,10] x) => (float[1,10] y) { y = Softmax(x) }"), "Normalize");
  EXPECT_EQ(check("g (float[70] x) => (float[70] y) { y = Softmax(x) }"), "Normalize");
  EXPECT_EQ(check("g (float[1,33,1,1] x) => (float[1,33,1,1] y) { y = Softmax<axis=1>(x) }"), "Normalize");
  EXPECT_EQ(check("g (float[1,1,45] x, float[45] s, float[45] b) => (float[1,1,45] y) "
                  "{ y = LayerNormalization(x, s, b) }"),
            "Normalize");
}

TEST(Normalize, LayersWithMoments) {
  EXPECT_EQ(check("g (float[2,6,96] x, float[96] s, float[96] b) => (float[2,6,96] y) "
                  "{ y = LayerNormalization(x, s, b) }"),
            "Normalize");
  EXPECT_EQ(check("g (float[5,45] x, float[45] s) => (float[5,45] y) { y = LayerNormalization(x, s) }"),
            "Normalize");
  // RMS normalization, with a residual before it that somebody else reads, too.
  EXPECT_EQ(check("g (float[9,64] x, float[9,64] r, float[64] s) => (float[9,64] y, float[9,64] a) "
                  "{ a = Add(x, r) q = Mul(a, a) m = ReduceMean<axes=[-1]>(q) d = Sqrt(m) n = Div(a, d) "
                  "y = Mul(n, s) }"),
            "Map Normalize");
}

/// Conditions are integers, and so are their constants.
TEST(Normalize, IntegersInFormulas) {
  EXPECT_EQ(check("g (float[5,45] x) => (float[5,45] y) { m = ReduceMax<axes=[-1]>(x) e = Equal(x, m) "
                  "n = Not(e) y = Cast<to=1>(n) }"),
            "Normalize");
}

TEST(Normalize, WhatSomebodyElseReadsStays) {
  // The sums are an output.
  EXPECT_EQ(
      check(
          "g (float[4,40] x) => (float[4,40] y, float[4,1] m) { m = ReduceMean<axes=[1]>(x) y = Sub(x, m) }"),
      "Reduce Map");
  // Two axes are reduced.
  EXPECT_EQ(check("g (float[2,3,8,8] x, float[3] s, float[3] b) => (float[2,3,8,8] y) "
                  "{ y = InstanceNormalization(x, s, b) }"),
            "Reduce Reduce Map");
}

TEST(Normalize, MapsOnRows) {
  // Per channel, broadcast over tokens, of another order.
  EXPECT_EQ(check("g (float[3,10,40] x, float[40] c, float[10,1] t, float[10,3,40] o) => (float[3,10,40] y) "
                  "{ a = Mul(x, c) b = Add(a, t) p = Transpose<perm=[1,0,2]>(o) y = Max(b, p) }"),
            "Map");
  EXPECT_EQ(
      check("g (float[2,40,5,6] x, float[40,1,1] c) => (float[2,40,5,6] y) { a = Mul(x, c) y = Tanh(a) }"),
      "Map");
  // Of one place, made by layers and not.
  EXPECT_EQ(
      check(
          "g (float[1,40] x, float[1,40] r, float[40] c) => (float[1,40] y) { a = Mul(x, c) y = Add(a, r) }"),
      "Map");
}

}  // namespace
}  // namespace kodama::compiler
