#include "compiler/plan/problem_bound.h"

#include <gtest/gtest.h>

#include "compiler/lowering/lowering_test_util.h"

namespace kodama::compiler {
namespace {

const isa::Chip& mncore2() {
  static const isa::Chip chip = isa::find_chip("mncore2");
  return chip;
}
/// Some of the model's inputs become constants.
LayerGraph lowered(const std::string& text, const std::vector<std::string>& constants = {}) {
  LayerGraph graph = testing::lower(testing::parse_model(text));
  for (const std::string& name : constants) {
    const auto found = std::ranges::find(graph.inputs, name, [&](TensorId id) -> const std::string& {
      return graph.tensors.at(static_cast<size_t>(id)).name;
    });
    LayerTensor& tensor = graph.tensors.at(static_cast<size_t>(*found));
    tensor.constant = Tensor(tensor.type, tensor.shape);
    graph.inputs.erase(found);
  }
  return graph;
}
ProblemWork work_of_layer(const LayerGraph& graph, size_t layer,
                          MatrixPrecision precision = MatrixPrecision::kGFloat) {
  return problem_work(graph.layers.at(layer), graph, mncore2(), precision);
}
ProblemWork work_of_graph(const LayerGraph& graph, MatrixPrecision precision = MatrixPrecision::kGFloat) {
  return problem_work(graph, mncore2(), precision);
}

TEST(ProblemBound, AConvolutionIsItsProductsAndItsWeights) {
  const LayerGraph graph = lowered(
      "agraph (float[1,8,28,28] x, float[16,8,3,3] w, float[16] b) => (float[1,16,28,28] y)"
      "{ c = Conv<pads = [1,1,1,1]>(x, w, b) y = Relu(c) }",
      {"w", "b"});
  ASSERT_EQ(testing::kinds(graph), "Contract");
  const double outputs = 16 * 28 * 28;
  const ProblemWork layer = work_of_layer(graph, 0);
  EXPECT_EQ(layer.products, outputs * 8 * 9);
  EXPECT_EQ(layer.mau_operations, outputs);  // the bias
  EXPECT_EQ(layer.alu_operations, outputs);
  EXPECT_EQ(layer.dram_bytes, 4 * (16 * 8 * 9 + 16));
  const ProblemWork network = work_of_graph(graph);
  EXPECT_EQ(network.products, layer.products);
  EXPECT_EQ(network.dram_bytes, layer.dram_bytes + 4 * (8 * 28 * 28 + outputs));
  EXPECT_EQ(work_of_graph(graph, MatrixPrecision::kFloat).dram_bytes, network.dram_bytes);
  EXPECT_EQ(work_of_graph(graph, MatrixPrecision::kHalf).dram_bytes, network.dram_bytes / 2);
}

TEST(ProblemBound, ChannelsOfZerosAreNone) {
  LayerGraph graph = lowered(
      "agraph (float[1,8,4,4] x, float[16,8,1,1] w) => (float[1,16,4,4] y) { y = Conv(x, w) }", {"w"});
  const auto set = [&](int64_t filters, int64_t inputs) {
    for (LayerTensor& tensor : graph.tensors) {
      if (!tensor.constant) continue;
      Tensor weights(tensor.type, tensor.shape);
      const auto values = weights.data<float>();
      for (size_t k = 0; k < values.size(); ++k) {
        const auto number = static_cast<int64_t>(k);
        values[k] = number / 8 < filters && number % 8 < inputs ? 1.0F : 0.0F;
      }
      tensor.constant = std::move(weights);
    }
  };
  set(16, 8);
  EXPECT_EQ(work_of_layer(graph, 0).products, 16 * 8 * 16);
  set(12, 6);
  EXPECT_EQ(work_of_layer(graph, 0).products, 12 * 6 * 16);
  EXPECT_EQ(work_of_layer(graph, 0).dram_bytes, 4 * 12 * 6);
  set(0, 0);  // nothing is known of them
  EXPECT_EQ(work_of_layer(graph, 0).products, 16 * 8 * 16);
}

TEST(ProblemBound, TheLargestOfThreeBinds) {
  // 1024 MABs; 64, 32 and 256 products per MAB and cycle, 8 (half: 16) vector operations; 4 groups of 102.4
  // GB/s at 750 MHz.
  const ProblemWork work{.products = 65536e3,
                         .mau_operations = 8192e2,
                         .alu_operations = 8192e3,
                         .dram_bytes = 409.6e9 / 750e6 * 1500};
  const auto bound = [&](MatrixPrecision precision) { return problem_bound(work, mncore2(), precision); };
  EXPECT_DOUBLE_EQ(bound(MatrixPrecision::kGFloat).product_cycles, 1000);
  EXPECT_DOUBLE_EQ(bound(MatrixPrecision::kGFloat).vector_cycles, 1000);
  EXPECT_DOUBLE_EQ(bound(MatrixPrecision::kGFloat).dram_cycles, 1500);
  EXPECT_EQ(bound(MatrixPrecision::kGFloat).resource(), "DRAM");
  EXPECT_DOUBLE_EQ(bound(MatrixPrecision::kFloat).product_cycles, 2000);
  EXPECT_EQ(bound(MatrixPrecision::kFloat).resource(), "MAU");
  EXPECT_DOUBLE_EQ(bound(MatrixPrecision::kHalf).product_cycles, 250);
  EXPECT_DOUBLE_EQ(bound(MatrixPrecision::kHalf).vector_cycles, 500);
  EXPECT_DOUBLE_EQ(share_of_peak(work, 4000, mncore2(), MatrixPrecision::kGFloat), 0.25);
  EXPECT_EQ(share_of_peak(work, 0, mncore2(), MatrixPrecision::kGFloat), 0);
  EXPECT_EQ(problem_bound({}, mncore2(), MatrixPrecision::kGFloat).cycles(), 0);
  EXPECT_EQ(problem_bound({}, mncore2(), MatrixPrecision::kGFloat).resource(), "");
  const ProblemWork vectors{.products = 1, .mau_operations = 1, .alu_operations = 8192, .dram_bytes = 1};
  EXPECT_EQ(problem_bound(vectors, mncore2(), MatrixPrecision::kGFloat).resource(), "vector");
}

TEST(ProblemBound, MapsAndReductionsCountTheirOperations) {
  LayerGraph graph = lowered(
      "agraph (float[4,64] x, float[4,64] y) => (float[4,64] z)"
      "{ p = Mul(x, y) s = Add(p, y) n = Neg(s) e = Exp(n) z = Max(e, x) }");
  ASSERT_EQ(testing::kinds(graph), "Map");
  EXPECT_EQ(work_of_layer(graph, 0).mau_operations, 256 * 2);  // multiply-add, exponential
  EXPECT_EQ(work_of_layer(graph, 0).alu_operations, 256);
  EXPECT_EQ(work_of_layer(graph, 0).dram_bytes, 0);
  EXPECT_EQ(work_of_graph(graph).dram_bytes, 4 * 3 * 256);
  graph = lowered(
      "agraph (float[4,64] x) => (float[4,64] z)"
      "{ p = Mul(x, x) s = Add(p, p) q = Sub(s, x) r = Mul(x, q) z = Sub(r, s) }");
  EXPECT_EQ(work_of_layer(graph, 0).mau_operations, 256 * 4);  // p is read by s alone, though twice: no fma
  graph = lowered("agraph (float[4,64] x) => (float[4,1] z) { z = ReduceMax<axes = [1]>(x) }");
  ASSERT_EQ(testing::kinds(graph), "Reduce");
  EXPECT_EQ(work_of_layer(graph, 0).alu_operations, 4 * 63);
  EXPECT_EQ(work_of_layer(graph, 0).mau_operations, 0);
  graph = lowered("agraph (float[4,64] x) => (float[4,1] z) { z = ReduceSumSquare<axes = [1]>(x) }");
  EXPECT_EQ(work_of_layer(graph, 0).mau_operations, 4 * 64 + 4 * 63);
}

TEST(ProblemBound, ConstantsCountOnceAndAsFarAsTheyAreRead) {
  const LayerGraph graph = lowered(
      "agraph (float[2,16] x, float[16,16] w) => (float[2,16] y)"
      "{ a = MatMul(x, w) b = Relu(a) y = MatMul(b, w) }",
      {"w"});
  EXPECT_EQ(work_of_layer(graph, 0).dram_bytes, 4 * 256);
  EXPECT_EQ(work_of_layer(graph, 1).dram_bytes, 4 * 256);
  EXPECT_EQ(work_of_graph(graph).dram_bytes, 4 * (256 + 32 + 32));
  EXPECT_EQ(work_of_graph(graph).products, 2 * 2 * 256);
  // Of x, a Slice reads a part; what it makes need not exist.
  const LayerGraph part = lowered(
      "agraph (float[8,16] x) => (float[2,16] y) <int64[1] s = {3}, int64[1] e = {5}, int64[1] a = {0}>"
      "{ p = Slice(x, s, e, a) q = Exp(p) y = Transpose<perm = [0, 1]>(q) }");
  EXPECT_EQ(work_of_graph(part).dram_bytes, 4 * (32 + 32)) << testing::describe(part);
}

TEST(ProblemBound, WhatDoesNotFitIsWrittenAndReadOnce) {
  // LM0 and LM1 of all PEs have 128 MiB.
  const auto between = [](int64_t rows) {
    return lowered(fmt::format("agraph (float[{},4] x, float[4,1024] w, float[1024,4] v) => (float[{},4] y)"
                               "{{ h = MatMul(x, w) y = MatMul(h, v) }}",
                               rows, rows),
                   {"w", "v"});
  };
  const double weights = 4 * 4 * 1024;
  for (const int64_t rows : {32768, 32769}) {
    const LayerGraph graph = between(rows);
    ASSERT_EQ(testing::kinds(graph), "Contract Contract");
    const double once = rows > 32768 ? 4.0 * 1024 * static_cast<double>(rows) : 0;
    EXPECT_EQ(work_of_layer(graph, 0).dram_bytes, weights + once);
    EXPECT_EQ(work_of_layer(graph, 1).dram_bytes, weights + once);
    EXPECT_EQ(work_of_graph(graph).dram_bytes, 2 * weights + 2 * once + 2 * 16.0 * static_cast<double>(rows));
    EXPECT_EQ(work_of_layer(graph, 0, MatrixPrecision::kHalf).dram_bytes, weights / 2);
  }
}

TEST(ProblemBound, HostLayersTakeNothingAndAreEndsOfTheNetwork) {
  const LayerGraph graph = lowered(
      "agraph (float[9] x) => (float[9] y)"
      "{ a = Exp(x) k = Cast<to = 8>(a) b = Cast<to = 1>(k) y = Exp(b) }");
  ASSERT_EQ(testing::kinds(graph), "Map Host Host Map");
  EXPECT_EQ(work_of_layer(graph, 1).dram_bytes, 0);
  EXPECT_EQ(work_of_graph(graph).dram_bytes, 4 * 4 * 9);
  EXPECT_EQ(work_of_graph(graph).mau_operations, 2 * 9);
  // The host permutes what the chip has no form for.
  const LayerGraph complex =
      lowered("agraph (complex64[4,8] x) => (complex64[8,4] y) { y = Transpose<perm = [1, 0]>(x) }");
  ASSERT_EQ(testing::kinds(complex), "Rearrange");
  EXPECT_EQ(work_of_graph(complex).dram_bytes, 0);
}

}  // namespace
}  // namespace kodama::compiler
