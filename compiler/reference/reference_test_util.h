#pragma once

#include <gtest/gtest.h>
#include <onnx/defs/parser.h>

#include <string>
#include <vector>

#include "compiler/reference/executor.h"

/// Nodes and tensors for the tests of the CPU reference.
namespace kodama::compiler::testing {

/// A node in ONNX's text form, called n1.
inline onnx::NodeProto parse_node(const std::string& text) {
  onnx::NodeProto node;
  onnx::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(node);
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  node.set_name("n1");
  return node;
}

inline Tensor floats(const Shape& shape, const std::vector<float>& values) {
  return Tensor::from_values<float>(DataType::kFloat32, shape, values);
}
inline Tensor ints(const Shape& shape, const std::vector<int64_t>& values) {
  return Tensor::from_values<int64_t>(DataType::kInt64, shape, values);
}
inline Tensor int32s(const Shape& shape, const std::vector<int32_t>& values) {
  return Tensor::from_values<int32_t>(DataType::kInt32, shape, values);
}
inline Tensor strings(const Shape& shape, const std::vector<std::string>& values) {
  Tensor tensor(DataType::kString, shape);
  tensor.strings() = values;
  return tensor;
}

/// Element k is ((a k + b) mod 19 - 9) / divisor: what expected numbers were computed from, too.
inline Tensor pattern(const Shape& shape, int a, int b, float divisor = 16) {
  Tensor tensor(DataType::kFloat32, shape);
  int k = 0;
  for (float& value : tensor.data<float>()) value = static_cast<float>((a * k++ + b) % 19 - 9) / divisor;
  return tensor;
}

/// All outputs; nullptr is an input that is left out.
inline std::vector<Tensor> run_all(const std::string& node, const std::vector<const Tensor*>& inputs,
                                   const OperatorSets& operators = 17) {
  return run_node(parse_node(node), inputs, operators);
}

/// The first output.
inline Tensor run_one(const std::string& node, const std::vector<Tensor>& inputs, int64_t opset = 17) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& input : inputs) pointers.push_back(&input);
  return run_all(node, pointers, opset).at(0);
}

/// Within some units in the last place of numbers around 1.
inline void expect_near(const Tensor& actual, const std::vector<float>& expected, double tolerance = 2e-5) {
  ASSERT_EQ(static_cast<size_t>(actual.size()), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(element_as_double(actual, static_cast<int64_t>(i)), expected[i], tolerance)
        << "element " << i;
  }
}

}  // namespace kodama::compiler::testing
