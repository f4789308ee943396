#include "compiler/package/node_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kodama::compiler {
namespace {

using isa::Json;
using isa::JsonValue;
using isa::UserError;
using reference::Attribute;
using reference::Declared;
using reference::Graph;
using reference::Node;
using reference::Signature;

/// Files of tensors, by name.
struct Files {
  std::map<std::string, std::string> contents;
  WriteTensor write = [this](const std::string& bytes) {
    const std::string name = fmt::format("constants/{:04}.bin", contents.size());
    contents[name] = bytes;
    return name;
  };
  TensorFile read = [this](const JsonValue& name) { return contents.at(name.text()); };
};

Tensor strings(const std::vector<std::string>& values) {
  Tensor tensor(DataType::kString, {static_cast<int64_t>(values.size())});
  tensor.strings() = values;
  return tensor;
}

Node named(const std::string& name, const std::string& op_type) {
  Node node;
  node.name = name;
  node.op_type = op_type;
  return node;
}

/// Something of everything that a node can have.
Node everything() {
  auto body = std::make_shared<Graph>();
  body->name = "body";
  body->inputs = {{"i", ValueType{DataType::kInt64, false, false, Shape{}}}, {"any", {}}};
  body->outputs = {{"o", ValueType{DataType::kFloat32, true, true, {}}},
                   {"p", ValueType{DataType::kFloat16, false, false, Shape{2, -1}}}};
  body->initializers = {{"w", Tensor::from_values<float>(DataType::kFloat32, {2}, {1, -0.0f})}};
  Node inner = named("inner", "Identity");
  inner.inputs = {"w"};
  inner.outputs = {"p"};
  body->nodes = {inner};
  Node node;
  node.name = "n \"1\"\xff%";
  node.domain = "ai.onnx.ml";
  node.op_type = "Thing";
  node.inputs = {"a", "", "b"};
  node.outputs = {"", "y"};
  node.since_version = 13;
  node.opset = 17;
  node.attributes = {
      {"nothing", std::monostate()},
      {"int", std::numeric_limits<int64_t>::min()},
      {"large", std::numeric_limits<int64_t>::max()},
      {"float", 0.1f},
      {"inf", -std::numeric_limits<float>::infinity()},
      {"text", std::string("\x80\0%41 \xc3\xa9", 8)},
      {"tensor", std::make_shared<const Tensor>(strings({"", "a\0b", "\xff"}))},
      {"graph", std::shared_ptr<const Graph>(body)},
      {"type", ValueType{DataType::kBool, true, false, {}}},
      {"ints", std::vector<int64_t>{1, -1}},
      {"none", std::vector<int64_t>{}},
      {"floats", std::vector<float>{1.5f, std::numeric_limits<float>::quiet_NaN()}},
      {"texts", std::vector<std::string>{"a", "%", ""}},
  };
  node.signature =
      std::make_shared<const Signature>(Signature{{{"X", {"tensor(float)", "tensor(double)"}, "T", true}}});
  node.function = body;
  node.refusal = Node::Refusal{true, "because"};
  return node;
}

TEST(NodeJson, ComesBackAsItWas) {
  Files files, again;
  const Json json = node_to_json(everything(), files.write);
  const Json parsed = isa::parse_json(json.dump(1), "manifest");
  const Node node = read_node(JsonValue(parsed, "manifest"), files.read);
  EXPECT_EQ(node_to_json(node, again.write), json);
  EXPECT_EQ(again.contents, files.contents);
  const Node wanted = everything();
  EXPECT_EQ(node.name, wanted.name);
  EXPECT_EQ(node.inputs, wanted.inputs);
  EXPECT_EQ(std::get<std::string>(node.attributes.at("text")),
            std::get<std::string>(wanted.attributes.at("text")));
  EXPECT_EQ(std::get<int64_t>(node.attributes.at("int")), std::numeric_limits<int64_t>::min());
  EXPECT_TRUE(std::isnan(std::get<std::vector<float>>(node.attributes.at("floats")).at(1)));
  EXPECT_EQ(*node.signature, *wanted.signature);
  const auto& body = *std::get<std::shared_ptr<const Graph>>(node.attributes.at("graph"));
  EXPECT_EQ(body.outputs[1].type->shape, (Shape{2, -1}));
  EXPECT_FALSE(body.inputs[1].type.has_value());
  EXPECT_TRUE(body.initializers[0].second ==
              Value(Tensor::from_values<float>(DataType::kFloat32, {2}, {1, -0.0f})));
}

TEST(NodeJson, EveryPlaceIsChecked) {
  Files files;
  const Json json = node_to_json(everything(), files.write);
  for (const char* key : {"name", "domain", "operator", "inputs", "outputs", "since_version", "opset",
                          "attributes", "signature", "function", "refusal"}) {
    Json damaged = json;
    damaged[key] = 0.5;
    EXPECT_THROW(read_node(JsonValue(damaged, "m"), files.read), UserError) << key;
  }
  for (const auto& [name, attribute] : json["attributes"].items()) {
    if (name == "nothing") continue;
    Json damaged = json;
    damaged["attributes"][name].begin().value() = Json::object({{"x", 1}});
    EXPECT_THROW(read_node(JsonValue(damaged, "m"), files.read), UserError) << name;
  }
  for (const char* text : {"%", "%4", "%xx", "a%"}) {
    Json damaged = json;
    damaged["name"] = text;
    EXPECT_THROW(read_node(JsonValue(damaged, "m"), files.read), UserError) << text;
  }
}

TEST(NodeJson, GraphsThatAManifestCannotHoldAreRefused) {
  Node node = named("leaf", "Identity");
  for (int depth = 0; depth < 4; ++depth) {
    auto graph = std::make_shared<Graph>();
    graph->nodes = {node};
    node = named("outer", "If");
    node.attributes["then_branch"] = std::shared_ptr<const Graph>(graph);
    Files files;
    const Json json = {{"stages", {{{"node", node_to_json(node, files.write)}}}}};
    EXPECT_NO_THROW(isa::parse_json(json.dump(), "manifest")) << depth;
  }
  auto graph = std::make_shared<Graph>();
  graph->nodes = {node};
  node.attributes["then_branch"] = std::shared_ptr<const Graph>(graph);
  Files files;
  EXPECT_THROW(node_to_json(node, files.write), isa::UnsupportedError);
}

TEST(TensorBytes, ComeBackAndAreChecked) {
  const std::vector<Tensor> tensors = {
      strings({"a", "", std::string("\0", 1)}),
      Tensor(DataType::kString, {0}),
      Tensor(DataType::kFloat32, {2, 0}),
      Tensor::from_values<uint16_t>(DataType::kBfloat16, {2}, {0x3f80, 0x7fc1}),
      Tensor(DataType::kComplex128, {3}),
      Tensor::from_values<uint8_t>(DataType::kBool, {2}, {0, 1}),
  };
  for (const Tensor& tensor : tensors) {
    const std::string bytes = tensor_bytes(tensor);
    EXPECT_TRUE(tensor_of_bytes(tensor.type(), tensor.shape(), bytes, "f") == tensor);
    EXPECT_THROW(tensor_of_bytes(tensor.type(), tensor.shape(), bytes + "x", "f"), UserError);
    if (bytes.empty()) continue;
    EXPECT_THROW(tensor_of_bytes(tensor.type(), tensor.shape(), bytes.substr(1), "f"), UserError);
  }
  EXPECT_THROW(tensor_of_bytes(DataType::kUndefined, {1}, "xxxx", "f"), UserError);
  EXPECT_THROW(tensor_of_bytes(DataType::kInt64, {int64_t{1} << 40}, "xxxx", "f"), UserError);
  EXPECT_THROW(tensor_of_bytes(DataType::kString, {1}, std::string(8, '\xff'), "f"), UserError);
  EXPECT_EQ(tensor_of_bytes(DataType::kBool, {2}, "\x02\x05", "f").data<uint8_t>()[1], 1);
}

}  // namespace
}  // namespace kodama::compiler
