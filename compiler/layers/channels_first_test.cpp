/// Pictures with channels last between such with channels first.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "compiler/layers/fusion.h"
#include "compiler/layers/interpreter.h"

namespace kodama::compiler {
namespace {

constexpr int64_t kChannels = 4, kRows = 6, kColumns = 5;
const Shape kFirst = {1, kChannels, kRows, kColumns}, kLast = {1, kRows, kColumns, kChannels};

/// x, pooled, transposed, normalized by the mean of its channels, transposed back, and pooled again.
struct Pictures {
  LayerGraph graph;
  TensorId pooled = -1, last = -1, scaled = -1, mean = -1, normalized = -1, back = -1, result = -1;

  TensorId tensor(const std::string& name, Shape shape, TensorId alias_of = -1) {
    LayerTensor made;
    made.name = name;
    made.shape = std::move(shape);
    made.alias_of = alias_of;
    graph.tensors.push_back(std::move(made));
    return static_cast<TensorId>(graph.tensors.size()) - 1;
  }
  TensorId add(const std::string& name, const Shape& shape, decltype(Layer::body) body) {
    Layer layer;
    layer.name = name;
    layer.onnx_ops = layer.onnx_nodes = {name};
    layer.outputs = {tensor(name, shape)};
    layer.body = std::move(body);
    graph.layers.push_back(std::move(layer));
    return graph.layers.back().outputs[0];
  }
  TensorId pool(const std::string& name, TensorId from) {
    ReduceLayer body;
    body.op = ReduceLayer::Op::kMax;
    body.output_extents = kFirst;
    body.reduction_extents = {3, 3};
    AffineMap map(4, 6);
    for (size_t axis = 0; axis < 4; ++axis) map.set(axis, axis, 1);
    map.set(2, 4, 1).set(3, 5, 1).set_offset(2, -1).set_offset(3, -1);
    body.inputs = {{from, map, identity_of(body.op)}};
    body.expr = body.epilogue = ScalarExpr::identity();
    return add(name, kFirst, body);
  }
  /// Axis k of the result is axis order[k].
  TensorId transpose(const std::string& name, TensorId from, const Shape& shape,
                     const std::array<size_t, 4>& order) {
    RearrangeLayer body;
    body.extents = shape;
    AffineMap map(4, 4);
    for (size_t axis = 0; axis < 4; ++axis) map.set(order.at(axis), axis, 1);
    body.pieces = {{{from, map, 0}, {0, 0, 0, 0}, shape}};
    return add(name, shape, body);
  }
  TensorId map(const std::string& name, const std::vector<TensorAccess>& inputs, ScalarOp op) {
    MapLayer body;
    body.extents = kLast;
    body.inputs = inputs;
    body.expr.apply(op, body.expr.input(0), inputs.size() > 1 ? body.expr.input(1) : body.expr.constant(0.5));
    return add(name, kLast, body);
  }
  TensorId mean_of(TensorId from) {
    ReduceLayer body;
    body.output_extents = {1, kRows, kColumns, 1};
    body.reduction_extents = {kChannels};
    AffineMap map(4, 5);
    map.set(0, 0, 1).set(1, 1, 1).set(2, 2, 1).set(3, 4, 1);
    body.inputs = {{from, map, 0}};
    body.expr = ScalarExpr::identity();
    body.epilogue.apply(ScalarOp::kMul, body.epilogue.input(0), body.epilogue.constant(1.0 / kChannels));
    return add("mean", body.output_extents, body);
  }

  Pictures() {
    graph.inputs = {tensor("x", kFirst)};
    pooled = pool("pooled", 0);
    last = transpose("last", pooled, kLast, {0, 2, 3, 1});
    scaled = map("scaled", {{last, AffineMap::identity(4), 0}}, ScalarOp::kMul);
    mean = mean_of(scaled);
    AffineMap of_mean(4, 4);
    of_mean.set(0, 0, 1).set(1, 1, 1).set(2, 2, 1);
    normalized = map("normalized", {{scaled, AffineMap::identity(4), 0}, {mean, of_mean, 0}}, ScalarOp::kSub);
    back = transpose("back", normalized, kFirst, {0, 3, 1, 2});
    result = pool("result", back);
    graph.outputs = {result};
  }

  /// Runs the pass; the values of all outputs must stay. Transposes that are left.
  int64_t run() {
    Tensor x(DataType::kFloat32, kFirst);
    for (int64_t k = 0; k < x.size(); ++k)
      x.data<float>()[static_cast<size_t>(k)] = static_cast<float>(k * 7 % 31);
    const TensorMap before = interpret_layer_graph(graph, {{"x", x}});
    verify_layer_graph(graph, "before");
    channels_first(graph);
    verify_layer_graph(graph, "channels-first");
    for (const auto& [name, value] : interpret_layer_graph(graph, {{"x", x}}))
      EXPECT_EQ(value, before.at(name)) << name;
    return std::ranges::count(graph.layers, LayerKind::kRearrange, &Layer::kind);
  }
  const LayerTensor* find(const std::string& name) const {
    const auto found = std::ranges::find(graph.tensors, name, &LayerTensor::name);
    return found == graph.tensors.end() ? nullptr : &*found;
  }
};

TEST(ChannelsFirst, TransposesGo) {
  Pictures test;
  EXPECT_EQ(test.run(), 0);
  EXPECT_EQ(test.graph.layers.size(), 5U);
  // The model's name for elements in this order, and a new one where it has none.
  ASSERT_NE(test.find("back"), nullptr);
  EXPECT_EQ(test.find("back")->shape, kFirst);
  ASSERT_NE(test.find("scaled/channels-first"), nullptr);
  EXPECT_EQ(test.find("scaled/channels-first")->shape, kFirst);
  EXPECT_EQ(test.find("mean/channels-first")->shape, (Shape{1, 1, kRows, kColumns}));
}

TEST(ChannelsFirst, OutputsAndOtherShapesStay) {
  Pictures output;
  output.graph.outputs.push_back(output.last);
  output.graph.outputs.push_back(output.normalized);
  EXPECT_EQ(output.run(), 2);
  EXPECT_EQ(output.find("last")->shape, kLast);

  // Who reads the elements in another shape reads them as they were; what is behind them moves all the same.
  Pictures flat;
  const TensorId alias = flat.tensor("flat", {kRows * kColumns, kChannels}, flat.last);
  MapLayer body;
  body.extents = {kRows * kColumns, kChannels};
  body.inputs = {{alias, AffineMap::identity(2), 0}};
  body.expr = ScalarExpr::identity();
  flat.graph.outputs.push_back(flat.add("list", body.extents, body));
  flat.run();
  EXPECT_EQ(flat.find("last")->shape, kLast);
}

TEST(ChannelsFirst, WithoutWindowsNothingMoves) {
  Pictures test;
  // The pools become maps of the same elements.
  for (Layer& layer : test.graph.layers) {
    const auto* reduce = std::get_if<ReduceLayer>(&layer.body);
    if (reduce == nullptr || reduce->reduction_extents.size() != 2) continue;
    MapLayer map;
    map.extents = kFirst;
    map.inputs = {{reduce->inputs[0].tensor, AffineMap::identity(4), 0}};
    map.expr = ScalarExpr::identity();
    layer.body = map;
  }
  EXPECT_EQ(test.run(), 2);
}

}  // namespace
}  // namespace kodama::compiler
