#include "compiler/layers/fusion.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "compiler/lowering/lowering_test_util.h"

namespace kodama::compiler {
namespace {

using namespace testing;  // NOLINT

onnx::ModelProto conv_model(const std::string& after, const std::string& outputs = "float[1,4,6,6] y") {
  auto model = parse_model("g (float[1,3,6,6] x, float[1,4,6,6] z) => (" + outputs +
                           ") { c = Conv <pads = [1, 1, 1, 1]> (x, w, b) " + after + " }");
  add_random(model, "w", {4, 3, 3, 3});
  add_random(model, "b", {4});
  for (const char* name : {"s", "t", "m"}) add_random(model, name, {4});
  add_random(model, "v", {4}, 0.5, 2);
  return model;
}

TEST(FuseEpilogues, ConvolutionTakesBiasNormalizationAndActivation) {
  EXPECT_EQ(check_model(conv_model("y = Relu (c)")), "Contract");
  EXPECT_EQ(check_model(conv_model("n = BatchNormalization (c, s, t, m, v) y = LeakyRelu (n)")), "Contract");
  const LayerGraph graph = lower(conv_model("n = BatchNormalization (c, s, t, m, v) y = Relu (n)"));
  EXPECT_EQ(graph.layers[0].onnx_ops, (std::vector<std::string>{"Conv", "BatchNormalization", "Relu"}));
  EXPECT_EQ(std::get<ContractLayer>(graph.layers[0].body).epilogue.to_string(),
            "relu(add(mul(add(x0, x1), x2), x3))");
}

TEST(FuseEpilogues, OtherOperandsMayComeLater) {
  // The second operand of Add is computed after the convolution: the fused layer stands where Add stood.
  EXPECT_EQ(check_model(conv_model("e = Softmax (z) y = Add (c, e)")), "Host Contract");
  EXPECT_EQ(check_model(conv_model("e = Conv <pads = [1, 1, 1, 1]> (x, w) a = Add (c, e) y = Relu (a)")),
            "Contract Contract");
}

TEST(FuseEpilogues, NotAcrossOutputsOtherReadersOrShapes) {
  EXPECT_EQ(check_model(conv_model("y = Relu (c)", "float[1,4,6,6] y, float[1,4,6,6] c")), "Contract Map");
  EXPECT_EQ(check_model(conv_model("a = Exp (c) d = Softmax (c) y = Add (a, d)")), "Contract Host Map");
  EXPECT_EQ(check_text("g (float[2,3] x, float[3] w, float[4,1,2] z) => (float[4,1,2] y) "
                       "{ c = MatMul (x, w) y = Add (c, z) }"),
            "Contract Map");
}

/// Lowers, runs a pass, and compares with the reference; the kinds of layers.
std::string check_pass(const std::string& text, const std::function<void(LayerGraph&)>& pass) {
  SCOPED_TRACE(text);
  const onnx::ModelProto model = import_model(parse_model(text), {}, "test");
  const TensorMap inputs = random_inputs(model, 1);
  LayerGraph graph = lower_to_layers(model);
  pass(graph);
  verify_layer_graph(graph, "test");
  SCOPED_TRACE(describe(graph));
  expect_close(interpret_layer_graph(graph, inputs), run_graph(model, inputs), 1e-5);
  return kinds(graph);
}

TEST(FuseSums, SumsOverTheBatchOfAProduct) {
  const auto check = [](const std::string& text, int64_t least = 1) {
    return check_pass(text, [&](LayerGraph& graph) { fuse_sums(graph, least); });
  };
  const std::string product = "{ p = MatMul (a, b) ";
  // All of the batch, a part of it, kept as an axis; with an epilogue.
  EXPECT_EQ(check("g (float[4,5,6] a, float[4,6,3] b) => (float[5,3] y) " + product +
                  "n = Constant <value_ints = [0]> () y = ReduceSum <keepdims = 0> (p, n) }"),
            "Contract");
  EXPECT_EQ(check("g (float[2,4,5,6] a, float[2,4,6,3] b) => (float[2,5,3] y) " + product +
                  "n = Constant <value_ints = [1]> () y = ReduceSum <keepdims = 0> (p, n) }"),
            "Contract");
  EXPECT_EQ(check("g (float[4,5,6] a, float[4,6,3] b, float[1,5,3] v) => (float[1,5,3] y) " + product +
                  "n = Constant <value_ints = [0]> () s = ReduceSum (p, n) t = Relu (s) y = Add (t, v) }"),
            "Contract");
  // Rows of one operand aren't summed inside; means, maxima, squares, other readers, small results.
  EXPECT_EQ(check("g (float[4,5,6] a, float[4,6,3] b) => (float[4,3] y) " + product +
                  "n = Constant <value_ints = [1]> () y = ReduceSum <keepdims = 0> (p, n) }"),
            "Contract Reduce");
  EXPECT_EQ(check("g (float[4,5,6] a, float[4,6,3] b) => (float[5,3] y) " + product +
                  "y = ReduceMax <axes = [0], keepdims = 0> (p) }"),
            "Contract Reduce");
  EXPECT_EQ(check("g (float[4,5,6] a, float[4,6,3] b) => (float[5,3] y) " + product +
                  "q = Relu (p) y = ReduceSumSquare <axes = [0], keepdims = 0> (q) }"),
            "Contract Reduce");
  EXPECT_EQ(check("g (float[4,5,6] a, float[4,6,3] b) => (float[5,3] y, float[4,5,3] p) " + product +
                  "n = Constant <value_ints = [0]> () y = ReduceSum <keepdims = 0> (p, n) }"),
            "Contract Reduce");
  EXPECT_EQ(check("g (float[4,5,6] a, float[4,6,3] b) => (float[5,3] y) " + product +
                      "n = Constant <value_ints = [0]> () y = ReduceSum <keepdims = 0> (p, n) }",
                  16),
            "Contract Reduce");
}

TEST(FuseTransposedEpilogues, WhatReadsTheTransposeOfAProduct) {
  const auto check = [](const std::string& inputs, const std::string& rest) {
    return check_pass(
        "g (float[5,6] a, float[6,3] b, " + inputs + "{ l = Softmax (a) r = Softmax (b) " + rest,
        fuse_transposed_epilogues);
  };
  const std::string product = "p = MatMul (l, r) t = Transpose (p) ";
  const auto fused = check("float[3,5] v) => (float[3,5] y) ", product + "y = Add (t, v) }");
  EXPECT_EQ(fused.substr(fused.size() - 8), "Contract");
  // Another reader; the product and its transpose; other points.
  for (const auto& [inputs, rest] :
       {std::pair("float[3,5] v) => (float[3,5] y, float[5,3] p) ", "y = Add (t, v) }"),
        std::pair("float[5,3] v) => (float[3,5] y, float[5,3] z) ", "y = Relu (t) z = Add (p, v) }"),
        std::pair("float[2,3,5] v) => (float[2,3,5] y) ", "y = Add (t, v) }")}) {
    const auto kept = check(inputs, product + rest);
    EXPECT_NE(kept.find("Map", kept.find("Contract")), std::string::npos) << kept;
  }
  // Operands that no layer makes: a convolution's picture and weights, say.
  EXPECT_EQ(check_pass("g (float[5,6] a, float[6,3] b, float[3,5] v) => (float[3,5] y) "
                       "{ p = MatMul (a, b) t = Transpose (p) y = Add (t, v) }",
                       fuse_transposed_epilogues),
            "Contract Map");
}

TEST(FuseEpilogues, ReductionsToo) {
  EXPECT_EQ(check_text("g (float[2,3] x, float[2,1] z) => (float[2,1] y) "
                       "{ a = ReduceMean <axes = [1]> (x) b = Add (a, z) y = Sqrt (b) }",
                       1e-5),
            "Reduce");
}

TEST(FuseScales, ScaledOperandsOfProducts) {
  // Queries of attention; a factor in front, a divisor, and a convolution's operand without padding.
  EXPECT_EQ(check_text("g (float[2,3,4] q, float[2,5,4] k) => (float[2,3,5] y) "
                       "{ c = Constant <value = float {0.35}> () s = Mul (c, q) "
                       "t = Transpose <perm = [0, 2, 1]> (k) p = MatMul (s, t) y = Softmax (p) }",
                       1e-5)
                .substr(0, 8),
            "Contract");
  EXPECT_EQ(check_text("g (float[2,3] x, float[3,4] w) => (float[2,4] y) "
                       "{ c = Constant <value = float {8}> () s = Div (w, c) y = MatMul (x, s) }"),
            "Contract");
  const LayerGraph graph =
      lower(parse_model("g (float[2,3] x, float[3,4] w, float[4] b) => (float[2,4] y) "
                        "{ c = Constant <value = float {3}> () s = Mul (x, c) p = MatMul (s, w) "
                        "a = Add (p, b) y = Relu (a) }"));
  EXPECT_EQ(std::get<ContractLayer>(graph.layers[0].body).epilogue.to_string(), "relu(add(mul(x0, 3), x1))");
  EXPECT_EQ(graph.layers[0].onnx_ops, (std::vector<std::string>{"Mul", "MatMul", "Add", "Relu"}));
}

TEST(FuseScales, NotWhereOthersReadThemOrTheProductIsNotLinear) {
  // Another reader; both operands; a sum; by a tensor.
  EXPECT_EQ(check_text("g (float[2,3] x, float[3,4] w) => (float[2,4] y, float[2,3] s) "
                       "{ c = Constant <value = float {3}> () s = Mul (x, c) y = MatMul (s, w) }"),
            "Map Contract");
  EXPECT_EQ(check_text("g (float[3,3] x) => (float[3,3] y) "
                       "{ c = Constant <value = float {3}> () s = Mul (x, c) y = MatMul (s, s) }"),
            "Map Contract");
  EXPECT_EQ(check_text("g (float[2,3] x, float[3,4] w) => (float[2,4] y) "
                       "{ c = Constant <value = float {3}> () s = Add (x, c) y = MatMul (s, w) }"),
            "Map Contract");
  EXPECT_EQ(check_text("g (float[2,3] x, float[3] z, float[3,4] w) => (float[2,4] y) "
                       "{ s = Mul (x, z) y = MatMul (s, w) }"),
            "Map Contract");
}

TEST(FuseMaps, ChainsAndTrees) {
  EXPECT_EQ(check_text("g (float[2,3] x, float[3] z) => (float[2,3] y) "
                       "{ a = Add (x, z) b = Tanh (a) c = Mul (b, b) d = Exp (x) y = Sub (c, d) }"),
            "Map");
  EXPECT_EQ(
      check_text(
          "g (float[2,3] x) => (float[2,3] y) { a = Exp (x) b = Tanh (a) c = Softmax (a) y = Add (b, c) }"),
      "Map Host Map");
}

TEST(FuseMaps, AReaderThatWasFusedElsewhereStillReads) {
  // a is read by b, which is fused into p, and by q: a must stay.
  EXPECT_EQ(check_text("g (float[2,3] x) => (float[2,3] p, float[2,3] q) "
                       "{ a = Exp (x) b = Tanh (a) p = Neg (b) q = Abs (a) }"),
            "Map Map Map");
}

TEST(FuseMaps, BroadcastOperandsAreNotComputedAgain) {
  EXPECT_EQ(check_text("g (float[2,3] x, float[3] z) => (float[2,3] y) { e = Exp (z) y = Mul (x, e) }"),
            "Map Map");
}

TEST(FuseMaps, IntoReductionsUnlessWindowsOverlapOrPad) {
  EXPECT_EQ(
      check_text("g (float[2,3,4] x) => (float[2,1,4] y) { e = Exp (x) y = ReduceMean <axes = [1]> (e) }"),
      "Reduce");
  EXPECT_EQ(check_text("g (float[1,1,4,4] x) => (float[1,1,2,2] y) "
                       "{ e = Exp (x) y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (e) }"),
            "Reduce");
  EXPECT_EQ(check_text("g (float[1,1,4,4] x) => (float[1,1,3,3] y) "
                       "{ e = Exp (x) y = MaxPool <kernel_shape = [2, 2]> (e) }"),
            "Map Reduce");
  EXPECT_EQ(
      check_text("g (float[1,1,3,3] x) => (float[1,1,2,2] y) { e = Exp (x) "
                 "y = AveragePool <kernel_shape = [2, 2], strides = [2, 2], pads = [1, 0, 0, 1]> (e) }"),
      "Map Reduce");
}

TEST(FuseMaps, OperandsAndNodesAreBounded) {
  std::string inputs;
  std::string body = "s0 = Add (x, a0) ";
  for (int i = 0; i < 12; ++i) inputs += fmt::format(", float[4] a{}", i);
  for (int i = 1; i < 12; ++i) body += fmt::format("s{} = Add (s{}, a{}) ", i, i - 1, i);
  const std::string text = "g (float[4] x" + inputs + ") => (float[4] y) { " + body + " y = Relu (s11) }";
  check_text(text);
  const LayerGraph graph = lower(parse_model(text));
  EXPECT_EQ(count_layers(graph, LayerKind::kMap), 3);
  for (const Layer& layer : graph.layers) EXPECT_LE(layer_inputs(layer).size(), 6U);
  std::string chain = "g (float[4] x) => (float[4] y) { e0 = Exp (x) ";
  for (int i = 1; i < 60; ++i)
    chain += fmt::format("e{} = {} (e{}) ", i, i % 2 == 0 ? "Sigmoid" : "Neg", i - 1);
  EXPECT_EQ(check_text(chain + "y = Relu (e59) }"), "Map Map");
}

TEST(FoldMoves, TransposesAndSlicesIntoAccesses) {
  EXPECT_EQ(check_text("g (float[2,3] x) => (float[3,2] y) { t = Transpose (x) y = Exp (t) }"), "Map");
  EXPECT_EQ(
      check_text("g (float[4,3] x, float[4,5] z) => (float[3,5] y) { t = Transpose (x) y = MatMul (t, z) }"),
      "Contract");
  EXPECT_EQ(
      check_text("g (float[4,3] x) => (float[3,1] y) { t = Transpose (x) y = ReduceMax <axes = [1]> (t) }"),
      "Reduce");
  auto model = parse_model(
      "g (float[4,6] x, float[2,2] w) => (float[2,2] y) "
      "{ a = Slice (x, start, end) t = Transpose (a) b = Transpose (t) y = MatMul (b, w) }");
  add_ints(model, "start", {1, 3});
  add_ints(model, "end", {3, 5});
  EXPECT_EQ(check_model(model), "Contract");
}

TEST(FoldMoves, ExpandedOperandsChangeTheRolesOfDims) {
  auto model = parse_model(
      "g (float[3,2,4] a, float[1,4,5] b) => (float[3,2,5] y) "
      "{ e = Expand (b, s) y = MatMul (a, e) }");
  add_ints(model, "s", {3, 4, 5});
  EXPECT_EQ(check_model(model), "Contract");
  const LayerGraph graph = lower(model);
  EXPECT_EQ(std::get<ContractLayer>(graph.layers[0].body).dims[0].role, ContractLayer::Role::kM);
}

TEST(FoldMoves, PaddingIntoConvolutionsThatFillAlike) {
  const auto padded = [](float value, const char* conv, const char* shape) {
    auto model = parse_model(
        fmt::format("g (float[1,2,4,4] x) => (float{} y) {{ p = Pad (x, pads, value) y = Conv {} (p, w) }}",
                    shape, conv));
    add_ints(model, "pads", {0, 0, 1, 0, 0, 0, 2, 1});
    add_initializer(model, "value", Tensor::from_values<float>(DataType::kFloat32, {}, {value}));
    add_random(model, "w", {3, 2, 2, 2});
    return check_model(model);
  };
  EXPECT_EQ(padded(0, "", "[1,3,6,4]"), "Contract");
  EXPECT_EQ(padded(0.5, "", "[1,3,6,4]"), "Contract");
  EXPECT_EQ(padded(0, "<pads = [1, 1, 1, 1]>", "[1,3,8,6]"), "Contract");
  EXPECT_EQ(padded(0.5, "<pads = [1, 1, 1, 1]>", "[1,3,8,6]"), "Rearrange Contract");
  // Cropped on one side and padded on the other, then read beyond the crop.
  auto model = parse_model(
      "g (float[1,1,4,4] x) => (float[1,1,4,4] y) "
      "{ p = Pad (x, pads) y = Conv <pads = [1, 0, 1, 0]> (p, w) }");
  add_ints(model, "pads", {0, 0, -1, 0, 0, 0, 1, 0});
  add_random(model, "w", {1, 1, 3, 1});
  EXPECT_EQ(check_model(model), "Rearrange Contract");
}

TEST(FoldMoves, WhatOthersNeedStays) {
  EXPECT_EQ(check_text("g (float[2,3] x) => (float[3,2] y, float[3,2] t) { t = Transpose (x) y = Exp (t) }"),
            "Rearrange Map");
  EXPECT_EQ(check_text("g (float[2,3] x) => (float[3,2] y) { t = Transpose (x) y = Softmax (t) }"),
            "Rearrange Host");
  EXPECT_EQ(check_text("g (float[2,3] x, float[3,2] z) => (float[3,4] y) "
                       "{ t = Transpose (x) y = Concat <axis = 1> (t, z) }"),
            "Rearrange");
}

TEST(VerifyLayerGraph, FindsWhatAPassBroke) {
  const auto broken = [](const auto& change) {
    LayerGraph graph = lower(conv_model("y = Relu (c)"), false);
    verify_layer_graph(graph, "test");
    change(graph);
    return error_of<isa::InternalError>([&] { verify_layer_graph(graph, "break-it"); });
  };
  const auto contract = [](LayerGraph& graph) -> ContractLayer& {
    return std::get<ContractLayer>(graph.layers[0].body);
  };
  const auto expect = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find("layer pass break-it"), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(broken([](LayerGraph& g) { std::swap(g.layers[0], g.layers[1]); }), "before it is computed");
  expect(broken([](LayerGraph& g) { g.layers.pop_back(); }), "computed by no layer");
  expect(broken([](LayerGraph& g) { g.layers[1].name = g.layers[0].name; }), "isn't unique");
  expect(broken([](LayerGraph& g) { std::get<MapLayer>(g.layers[1].body).extents[1] = 5; }), "its output");
  expect(broken([](LayerGraph& g) { std::get<MapLayer>(g.layers[1].body).inputs.clear(); }), "has 0 inputs");
  expect(broken([&](LayerGraph& g) { contract(g).dims[0].role = ContractLayer::Role::kN; }), "has role N");
  expect(broken([&](LayerGraph& g) { contract(g).dims[0].extent = 3; }), "isn't covered");
  expect(broken([&](LayerGraph& g) { contract(g).a.map = AffineMap(4, 2); }), "iteration space");
  expect(broken([](LayerGraph& g) { g.tensors[g.layers[1].outputs[0]].alias_of = 0; }), "is an alias of");
}

}  // namespace
}  // namespace kodama::compiler
