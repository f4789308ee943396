#include "compiler/graph/upgrade.h"

#include <gmock/gmock.h>

#include "compiler/graph/import.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/test_models.h"

namespace kodama::compiler {
namespace {

using testing::add_initializer;
using testing::add_random;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::parse_model;

/// Imports the old model and compares it with the old model itself on the reference.
onnx::ModelProto expect_upgrade(const std::string& graph, int opset,
                                const std::vector<std::pair<std::string, Shape>>& weights = {}) {
  onnx::ModelProto model = parse_model(graph, opset);
  for (const auto& [name, shape] : weights) add_random(model, name, shape, 0.1, 1);
  onnx::ModelProto imported = import_model(model, {}, "m.onnx");
  EXPECT_EQ(opset_version(imported), kOpsetVersion);
  testing::expect_same_results(model, imported, 1e-6);
  return imported;
}

TEST(Upgrade, ArithmeticAndActivations) {
  for (int opset = 7; opset < 17; ++opset) {
    SCOPED_TRACE(opset);
    expect_upgrade(
        "g (float[2,3] x) => (float[2,3] y) { a = Add(x, w) b = Relu(a) c = Mul(b, w) d = Sub(c, x) "
        "e = Tanh(d) y = LeakyRelu(e) }",
        opset, {{"w", {3}}});
  }
}

TEST(Upgrade, ConvolutionNetwork) {
  for (int opset = 7; opset < 17; ++opset) {
    SCOPED_TRACE(opset);
    expect_upgrade(
        "g (float[1,2,8,8] x) => (float[1,5] y) { a = Conv<pads=[1,1,1,1]>(x, w, b) "
        "n = BatchNormalization(a, s, b, m, v) r = Relu(n) p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(r) "
        "q = GlobalAveragePool(p) f = Flatten(q) g0 = Gemm<transB=1>(f, gw, gb) d = Dropout(g0) "
        "y = Softmax<axis=1>(d) }",
        opset,
        {{"w", {4, 2, 3, 3}}, {"b", {4}}, {"s", {4}}, {"m", {4}}, {"v", {4}}, {"gw", {5, 4}}, {"gb", {5}}});
  }
}

TEST(Upgrade, FlatteningSoftmax) {
  for (const char* op : {"Softmax", "LogSoftmax", "Hardmax"}) {
    for (const char* attributes : {"", "<axis=0>", "<axis=1>", "<axis=2>", "<axis=-1>"}) {
      if (std::string(attributes) == "<axis=-1>" && std::string(op) == "Hardmax") continue;
      SCOPED_TRACE(std::string(op) + attributes);
      expect_upgrade("g (float[2,3,4] x) => (float[2,3,4] y) { y = " + std::string(op) + attributes + "(x) }",
                     11);
    }
  }
}

TEST(Upgrade, AttributesThatBecameInputs) {
  expect_upgrade("g (float[2,3,4] x) => (float[2,4] y) { y = ReduceSum<axes=[1], keepdims=0>(x) }", 11);
  expect_upgrade(
      "g (float[2,1,4] x) => (float[2,4,1] y) { s = Squeeze<axes=[1]>(x) y = Unsqueeze<axes=[2]>(s) }", 9);
  expect_upgrade("g (float[4,6] x) => (float[2,3] y) { y = Slice<starts=[1,0], ends=[3,3]>(x) }", 9);
  expect_upgrade("g (float[4,6] x) => (float[4,2] a, float[4,4] b) { a, b = Split<axis=1, split=[2,4]>(x) }",
                 11);
  expect_upgrade("g (float[4,6] x) => (float[4,2] v, int64[4,2] i) { v, i = TopK<k=2, axis=1>(x) }", 9);
}

TEST(Upgrade, Clip) {
  for (const char* attributes : {"", "<min=-0.25>", "<max=0.5>", "<min=-0.25, max=0.5>"}) {
    SCOPED_TRACE(attributes);
    for (const char* type : {"float", "double", "float16"}) {
      SCOPED_TRACE(type);
      expect_upgrade(fmt::format("g ({0}[2,9] x) => ({0}[2,9] y) {{ y = Clip{1}(x) }}", type, attributes), 8);
    }
  }
}

TEST(Upgrade, Pad) {
  for (const char* attributes : {"<pads=[1,0,2,1]>", "<pads=[1,0,2,1], value=0.5>",
                                 "<pads=[1,0,2,1], mode=\"edge\">", "<pads=[1,0,1,1], mode=\"reflect\">"}) {
    SCOPED_TRACE(attributes);
    for (const char* type : {"float", "double"}) {
      expect_upgrade(fmt::format("g ({0}[3,4] x) => ({0}[n,m] y) {{ y = Pad{1}(x) }}", type, attributes), 8);
    }
  }
}

TEST(Upgrade, UpsampleAndResizeKeepTheirCoordinates) {
  for (const std::string& mode : {std::string("nearest"), std::string("linear")}) {
    SCOPED_TRACE(mode);
    onnx::ModelProto upsample = parse_model(
        "g (float[1,1,3,4] x) => (float[1,1,6,8] y) { y = Upsample<scales=[1.0,1.0,2.0,2.0], mode=\"" + mode +
            "\">(x) }",
        7);
    onnx::ModelProto resize = parse_model(
        "g (float[1,1,3,4] x) => (float[1,1,a,b] y) { y = Resize<mode=\"" + mode + "\">(x, s) }", 10);
    add_initializer(resize, "s", Tensor::from_values<float>(DataType::kFloat32, {4}, {1, 1, 2, 3}));
    for (const auto* model : {&upsample, &resize}) {
      const auto imported = import_model(*model, {}, "m.onnx");
      const auto& node = imported.graph().node(imported.graph().node_size() - 1);
      ASSERT_EQ(node.op_type(), "Resize");
      EXPECT_EQ(find_attribute(node, "coordinate_transformation_mode")->s(), "asymmetric");
      EXPECT_EQ(find_attribute(node, "nearest_mode") != nullptr, mode == "nearest");
      testing::expect_same_results(*model, imported, 1e-6);
    }
  }
}

TEST(Upgrade, RegionsAndSequences) {
  for (int opset : {10, 13, 15}) {  // half_pixel, the default since opset 16, was unknown
    SCOPED_TRACE(opset);
    expect_upgrade(
        "g (float[1,2,6,6] x) => (float[2,2,3,3] y) { b = Constant<value=int64[2]{0, 0}>() "
        "r = Constant<value=float[2,4]{0.0, 1.0, 4.0, 5.0, 0.5, 0.0, 2.0, 5.5}>() "
        "y = RoiAlign<output_height=3, output_width=3, sampling_ratio=2>(x, r, b) }",
        opset);
  }
  for (int opset : {7, 9, 13}) {
    SCOPED_TRACE(opset);
    expect_upgrade(
        "g (float[5,2,3] x) => (float[5,1,2,4] y, float[1,2,4] h) { y, h = LSTM<hidden_size=4>(x, w, r, b) }",
        opset, {{"w", {1, 16, 3}}, {"r", {1, 16, 4}}, {"b", {1, 32}}});
    expect_upgrade("g (float[5,2,3] x) => (float[5,1,2,4] y) { y, h = GRU<hidden_size=4>(x, w, r, b) }",
                   opset, {{"w", {1, 12, 3}}, {"r", {1, 12, 4}}, {"b", {1, 24}}});
  }
}

TEST(Upgrade, NumericNamesDontClash) {
  expect_upgrade("g (float[2,3] x) => (float[2] y) { a = Relu(x) y = ReduceSum<axes=[1], keepdims=0>(a) }",
                 11);
  onnx::ModelProto model = parse_model(
      "g (float[2,3] x) => (float[2,1] y) { a = Relu(x) b = ReduceSum<axes=[1], keepdims=0>(a) "
      "y = Unsqueeze<axes=[1]>(b) }",
      11);
  // As PyTorch names values.
  auto& graph = *model.mutable_graph();
  int next = 1;
  std::map<std::string, std::string> renamed;
  for (auto& node : *graph.mutable_node()) {
    for (auto& input : *node.mutable_input()) {
      if (renamed.contains(input)) input = renamed[input];
    }
    for (auto& output : *node.mutable_output()) {
      if (output == "y") continue;
      renamed[output] = std::to_string(next += 3);
      output = renamed[output];
    }
  }
  testing::expect_same_results(model, import_model(model, {}, "m.onnx"), 1e-6);
}

/// A model of an opset before 7 gives what the same in words of opset 17 gives.
void expect_equal(const std::string& old_graph, int opset, const std::string& new_graph,
                  const std::vector<std::pair<std::string, Shape>>& weights = {}) {
  SCOPED_TRACE(old_graph);
  onnx::ModelProto old_model = parse_model(old_graph, opset);
  onnx::ModelProto new_model = parse_model(new_graph, 17);
  for (auto* model : {&old_model, &new_model}) {
    for (const auto& [name, shape] : weights) add_random(*model, name, shape, 0.1, 1);
  }
  old_model.set_ir_version(3);
  for (const auto& [name, shape] : weights) {  // as they had to be
    auto& input = *old_model.mutable_graph()->add_input();
    input.set_name(name);
    *input.mutable_type() = make_tensor_type(DataType::kFloat32, shape);
  }
  testing::expect_same_results(new_model, import_model(old_model, {}, "m.onnx"), 1e-6);
}

TEST(Upgrade, OperandsThatWereSpreadFromAnAxisOn) {
  // As many channels as rows: a wrong axis isn't noticed by its extent.
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow"}) {
    expect_equal(fmt::format("g (float[2,3,3,3] x, float[3] b) => (float[2,3,3,3] y) {{ a = Abs(x) "
                             "y = {}<axis=1, broadcast=1>(a, b) }}",
                             op),
                 6,
                 fmt::format("g (float[2,3,3,3] x, float[3] b) => (float[2,3,3,3] y) {{ a = Abs(x) "
                             "n = Constant<value=int64[2]{{1, 2}}>() u = Unsqueeze(b, n) y = {}(a, u) }}",
                             op));
  }
  for (const char* op : {"Equal", "And", "Or", "Xor", "Greater", "Less"}) {
    const bool is_order = op[0] == 'G' || op[0] == 'L';
    const char* type = is_order ? "float" : "bool";
    expect_equal(fmt::format("g ({1}[2,3,3] x, {1}[2,3] b) => (bool[2,3,3] y) {{ "
                             "y = {0}<axis=0, broadcast=1>(x, b) }}",
                             op, type),
                 6,
                 fmt::format("g ({1}[2,3,3] x, {1}[2,3] b) => (bool[2,3,3] y) {{ "
                             "n = Constant<value=int64[1]{{2}}>() u = Unsqueeze(b, n) y = {0}(x, u) }}",
                             op, type));
  }
  expect_equal("g (float[2,3,4] x, float[4] b) => (float[2,3,4] y) { y = Add<broadcast=1>(x, b) }", 6,
               "g (float[2,3,4] x, float[4] b) => (float[2,3,4] y) { y = Add(x, b) }");
  expect_equal("g (float[2,3,4] x, float[3,1] b) => (float[2,3,4] y) { y = Mul<axis=-2, broadcast=1>(x, b) }",
               6, "g (float[2,3,4] x, float[3,1] b) => (float[2,3,4] y) { y = Mul(x, b) }");
  expect_equal(
      "g (float[2,3,3] x) => (float[2,3,3] y) { y = PRelu(x, s) }", 6,
      "g (float[2,3,3] x) => (float[2,3,3] y) { n = Constant<value=int64[1]{1}>() u = Unsqueeze(s, n) "
      "y = PRelu(x, u) }",
      {{"s", {3}}});
}

TEST(Upgrade, OldestForms) {
  expect_equal("g (float[2,3] x) => (float[4,4] y) { y = Pad<paddings=[1,0,1,1], value=2.0>(x) }", 1,
               "g (float[2,3] x) => (float[4,4] y) { p = Constant<value=int64[4]{1,0,1,1}>() "
               "v = Constant<value=float {2}>() y = Pad(x, p, v) }");
  expect_equal(
      "g (float[2,6] x) => (float[2,2] y, float[2,4] z) { s = Constant<value=float[2]{2,4}>() "
      "y, z = Split<axis=1>(x, s) }",
      1,
      "g (float[2,6] x) => (float[2,2] y, float[2,4] z) { s = Constant<value=int64[2]{2,4}>() "
      "y, z = Split<axis=1>(x, s) }");
  expect_equal(
      "g (float[2,3] x) => (float[2,9] y) { t = Constant<value=float[1]{3}>() "
      "a = Constant<value=float[1]{1}>() y = Tile(x, t, a) }",
      1, "g (float[2,3] x) => (float[2,9] y) { r = Constant<value=int64[2]{1,3}>() y = Tile(x, r) }");
  expect_equal("g (float[2,3] x) => (int64[2,3] y) { t = Mul(x, x) y = Cast<to=\"INT64\">(t) }", 5,
               "g (float[2,3] x) => (int64[2,3] y) { t = Mul(x, x) y = Cast<to=7>(t) }");
  expect_equal(
      "g (float[2,3] x) => (float[3,2] y) { y = Reshape<shape=[3,-1]>(x) }", 4,
      "g (float[2,3] x) => (float[3,2] y) { s = Constant<value=int64[2]{3,2}>() y = Reshape(x, s) }");
  expect_equal(
      "g (float[1,2,4,4] x) => (float[1,2,2,2] y) { "
      "y = LpPool<kernel_shape=[2,2], strides=[2,2], p=2.0>(x) }",
      1, "g (float[1,2,4,4] x) => (float[1,2,2,2] y) { y = LpPool<kernel_shape=[2,2], strides=[2,2]>(x) }");
  expect_equal("g (float[1,2,4,4] x) => (float[1,2,1,1] y) { y = GlobalLpPool<p=2.0>(x) }", 1,
               "g (float[1,2,4,4] x) => (float[1,2,1,1] y) { y = GlobalLpPool(x) }");
  expect_equal("g (float[2,3,4] x) => (float[2,6,4] y) { r = Relu<consumed_inputs=[0]>(x) y = Concat(r, x) }",
               3, "g (float[2,3,4] x) => (float[2,6,4] y) { r = Relu(x) y = Concat<axis=1>(r, x) }");
  expect_equal(
      "g (float[2,3,4] x) => (float[2,3,4] y) { n = BatchNormalization<is_test=1, "
      "consumed_inputs=[0,0,0,1,1], spatial=1>(x, s, b, m, v) y = Dropout<is_test=1>(n) }",
      5, "g (float[2,3,4] x) => (float[2,3,4] y) { n = BatchNormalization(x, s, b, m, v) y = Identity(n) }",
      {{"s", {3}}, {"b", {3}}, {"m", {3}}, {"v", {3}}});
  expect_equal(
      "g (float[1,1,2,2] x) => (float[1,1,4,6] y) { "
      "y = Upsample<height_scale=2.0, width_scale=3.0, mode=\"nearest\">(x) }",
      1,
      "g (float[1,1,2,2] x) => (float[1,1,4,6] y) { s = Constant<value=float[4]{1,1,2,3}>() "
      "y = Resize<mode=\"nearest\", coordinate_transformation_mode=\"asymmetric\", "
      "nearest_mode=\"floor\">(x, , s) }");
  expect_equal("g (float[2,4] x) => (float[2,3] y) { y = Gemm<transB=1, broadcast=1>(x, w, b) }", 6,
               "g (float[2,4] x) => (float[2,3] y) { y = Gemm<transB=1>(x, w, b) }",
               {{"w", {3, 4}}, {"b", {3}}});
  expect_equal("g (float[2,3] x) => (int64[2] y) { y = Constant<value=int64[2]{3, 4}>() z = Relu(x) }", 6,
               "g (float[2,3] x) => (int64[2] y) { y = Constant<value=int64[2]{3, 4}>() z = Relu(x) }");
}

TEST(Upgrade, RecurrentOfTheOldest) {
  const std::vector<std::pair<std::string, Shape>> gates[] = {
      {{"w", {1, 4, 3}}, {"r", {1, 4, 4}}, {"b", {1, 8}}},
      {{"w", {1, 12, 3}}, {"r", {1, 12, 4}}, {"b", {1, 24}}},
      {{"w", {1, 16, 3}}, {"r", {1, 16, 4}}, {"b", {1, 32}}}};
  for (const int opset : {1, 3, 6}) {
    for (size_t k = 0; k < 3; ++k) {
      const std::string op = std::vector<std::string>{"RNN", "GRU", "LSTM"}[k];
      const std::string graph = "g (float[5,2,3] x) => (float[5,1,2,4] y, float[1,2,4] h) { y, h = " + op;
      expect_equal(graph + "<hidden_size=4, output_sequence=1>(x, w, r, b) }", opset,
                   graph + "<hidden_size=4>(x, w, r, b) }", gates[k]);
    }
  }
}

TEST(Upgrade, WhatCantBeConvertedIsNamed) {
  onnx::ModelProto model =
      parse_model("g (float[2,3] x, float t, float a) => (float[2,9] y) { y = Tile(x, t, a) }", 1);
  model.mutable_graph()->mutable_node(0)->set_name("repeat");
  EXPECT_THAT(testing::error_of<isa::UnsupportedError>([&] { import_model(model, {}, "m.onnx"); }),
              AllOf(HasSubstr("node 'repeat' (Tile)"), HasSubstr("opset 5 to 6"),
                    HasSubstr("operand 't' is no constant")));
}

}  // namespace
}  // namespace kodama::compiler
