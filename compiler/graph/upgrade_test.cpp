#include "compiler/graph/upgrade.h"

#include <gmock/gmock.h>

#include "compiler/graph/import.h"
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
    add_initializer(resize, "s",
                    Tensor::from_values<float>(onnx::TensorProto_DataType_FLOAT, {4}, {1, 1, 2, 3}));
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

TEST(Upgrade, WhatCantBeConvertedIsNamed) {
  onnx::ModelProto model = parse_model("g (float[2] x, float[2] z) => (bool[2] y) { y = Greater(x, z) }", 6);
  model.mutable_graph()->mutable_node(0)->set_name("compare");
  EXPECT_THAT(testing::error_of<isa::UnsupportedError>([&] { import_model(model, {}, "m.onnx"); }),
              AllOf(HasSubstr("node 'compare' (Greater)"), HasSubstr("opset 6 to 7")));
}

}  // namespace
}  // namespace kodama::compiler
