/// Reductions that sum up what an earlier one does.
#include <gtest/gtest.h>

#include "compiler/layers/fusion.h"
#include "compiler/layers/interpreter.h"

namespace kodama::compiler {
namespace {

/// x [4, 6, 5] and a mean over the first and last axis; layers are added to it.
struct Graph {
  LayerGraph graph;
  TensorId tensor(const std::string& name, Shape shape, TensorId alias_of = -1) {
    LayerTensor made;
    made.name = name;
    made.shape = std::move(shape);
    made.alias_of = alias_of;
    graph.tensors.push_back(std::move(made));
    return static_cast<TensorId>(graph.tensors.size()) - 1;
  }
  TensorId reduce(const std::string& name, ReduceLayer body) {
    Layer layer;
    layer.name = name;
    layer.onnx_ops = layer.onnx_nodes = {name};
    layer.outputs = {tensor(name, body.output_extents)};
    layer.body = std::move(body);
    graph.layers.push_back(std::move(layer));
    return graph.layers.back().outputs[0];
  }
  Graph() { graph.inputs = {tensor("x", {4, 6, 5})}; }

  static ScalarExpr scaled(double by) {
    ScalarExpr expr;
    expr.apply(ScalarOp::kMul, expr.input(0), expr.constant(by));
    return expr;
  }
  /// Over the first and the last axis, with axes of one place for these with `keep`.
  static ReduceLayer mean(bool keep, ScalarExpr epilogue) {
    ReduceLayer body;
    body.output_extents = keep ? Shape{1, 6, 1} : Shape{6};
    body.reduction_extents = {4, 5};
    const size_t outer = body.output_extents.size();
    AffineMap map(3, outer + 2);
    map.set(0, outer, 1).set(1, keep ? 1 : 0, 1).set(2, outer + 1, 1);
    body.inputs = {{0, map, 0}};
    body.expr = ScalarExpr::identity();
    body.epilogue = std::move(epilogue);
    return body;
  }
  /// Runs the pass; the values of all outputs must stay.
  void merge() {
    Tensor x(DataType::kFloat32, {4, 6, 5});
    for (int64_t k = 0; k < x.size(); ++k)
      x.data<float>()[static_cast<size_t>(k)] = static_cast<float>(k * 7 % 31);
    const TensorMap before = interpret_layer_graph(graph, {{"x", x}});
    merge_reductions(graph);
    drop_unused_tensors(graph);
    verify_layer_graph(graph, "merge-reductions");
    for (const auto& [name, value] : interpret_layer_graph(graph, {{"x", x}})) {
      for (int64_t k = 0; k < value.size(); ++k)
        EXPECT_FLOAT_EQ(value.data<float>()[static_cast<size_t>(k)],
                        before.at(name).data<float>()[static_cast<size_t>(k)]);
    }
  }
};

TEST(MergeReductions, TheSameInAnotherShapeIsAnotherName) {
  Graph g;
  g.reduce("mean", Graph::mean(false, Graph::scaled(0.05)));
  const TensorId again = g.reduce("again", Graph::mean(true, Graph::scaled(0.05)));
  Layer reader;
  reader.name = "y";
  reader.onnx_ops = reader.onnx_nodes = {"y"};
  reader.outputs = {g.tensor("y", {4, 6, 5})};
  MapLayer map;
  map.extents = {4, 6, 5};
  AffineMap own(3, 3);
  own.set(1, 1, 1);
  map.inputs = {{0, AffineMap::identity(3), 0}, {again, own, 0}};
  map.expr.apply(ScalarOp::kSub, map.expr.input(0), map.expr.input(1));
  reader.body = map;
  g.graph.layers.push_back(reader);
  g.graph.outputs = {reader.outputs[0]};
  g.merge();
  EXPECT_EQ(g.graph.layers.size(), 2U);
}
TEST(MergeReductions, AnEpilogueThatDoesMoreIsAMap) {
  Graph g;
  const TensorId mean = g.reduce("mean", Graph::mean(false, Graph::scaled(0.05)));
  ScalarExpr more = Graph::scaled(0.05);
  more.apply(ScalarOp::kSqrt, more.apply(ScalarOp::kAdd, more.result(), more.constant(1e-5)));
  const TensorId deviation = g.reduce("deviation", Graph::mean(true, more));
  g.graph.outputs = {mean, deviation};
  g.merge();
  ASSERT_EQ(g.graph.layers.size(), 2U);
  EXPECT_EQ(g.graph.layers[1].kind(), LayerKind::kMap);
}
TEST(MergeReductions, AnOutputIsACopy) {
  Graph g;
  const TensorId mean = g.reduce("mean", Graph::mean(false, Graph::scaled(0.05)));
  const TensorId again = g.reduce("again", Graph::mean(true, Graph::scaled(0.05)));
  g.graph.outputs = {mean, again};
  g.merge();
  ASSERT_EQ(g.graph.layers.size(), 2U);
  EXPECT_EQ(g.graph.layers[1].kind(), LayerKind::kMap);
}
TEST(MergeReductions, WhatStays) {
  // Another scale, another operation, another axis.
  Graph g;
  std::vector<TensorId> outputs = {g.reduce("mean", Graph::mean(false, Graph::scaled(0.05)))};
  outputs.push_back(g.reduce("other", Graph::mean(true, Graph::scaled(0.25))));
  ReduceLayer largest = Graph::mean(false, ScalarExpr::identity());
  largest.op = ReduceLayer::Op::kMax;
  outputs.push_back(g.reduce("largest", largest));
  ReduceLayer rows = Graph::mean(false, Graph::scaled(0.05));
  rows.output_extents = {4};
  rows.reduction_extents = {6, 5};
  AffineMap map(3, 3);
  map.set(0, 0, 1).set(1, 1, 1).set(2, 2, 1);
  rows.inputs[0].map = map;
  outputs.push_back(g.reduce("rows", rows));
  g.graph.outputs = outputs;
  g.merge();
  EXPECT_EQ(testing::Test::HasFailure(), false);
  for (const Layer& layer : g.graph.layers) EXPECT_EQ(layer.kind(), LayerKind::kReduce);
}

}  // namespace
}  // namespace kodama::compiler
