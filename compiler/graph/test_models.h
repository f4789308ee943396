#pragma once

#include <gtest/gtest.h>
#include <onnx/defs/parser.h>

#include <random>
#include <string>

#include "compiler/graph/onnx_model.h"
#include "compiler/proto/tensor_proto.h"
#include "compiler/reference/executor.h"

/// Models and comparisons for the tests of the graph level.
namespace kodama::compiler::testing {

/// A model in ONNX's textual form: "agraph (float[2,3] x) => (float[2,3] y) { y = Relu(x) }", then functions.
inline onnx::ModelProto parse_model(const std::string& graph, int opset = 17, const std::string& imports = "",
                                    int ir_version = 8) {
  const std::string text =
      fmt::format("<ir_version: {}, opset_import: [\"\" : {}{}]> {}", ir_version, opset, imports, graph);
  onnx::ModelProto model;
  onnx::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(model);
  if (!status.IsOK()) throw std::runtime_error(status.ErrorMessage());
  return model;
}

inline Tensor random_tensor(DataType type, const Shape& shape, unsigned seed, double low = -1,
                            double high = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> distribution(low, high);
  Tensor tensor(type, shape);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const double value = distribution(generator);
    switch (type) {
      case DataType::kFloat32:
        tensor.data<float>()[i] = static_cast<float>(value);
        break;
      case DataType::kFloat64:
        tensor.data<double>()[i] = value;
        break;
      case DataType::kFloat16:
        tensor.data<uint16_t>()[i] = float_to_half(static_cast<float>(value));
        break;
      case DataType::kInt64:
        tensor.data<int64_t>()[i] = static_cast<int64_t>(value * 8 + 8);
        break;
      case DataType::kBool:
        tensor.data<uint8_t>()[i] = value > 0;
        break;
      default:
        throw std::runtime_error("random_tensor: " + data_type_name(type));
    }
  }
  return tensor;
}

inline void add_initializer(onnx::ModelProto& model, const std::string& name, const Tensor& tensor) {
  *model.mutable_graph()->add_initializer() = tensor_to_proto(tensor, name);
}

inline void add_random(onnx::ModelProto& model, const std::string& name, const Shape& shape, double low = -1,
                       double high = 1, DataType type = DataType::kFloat32) {
  add_initializer(
      model, name,
      random_tensor(type, shape, static_cast<unsigned>(std::hash<std::string>()(name)), low, high));
}

inline void add_ints(onnx::ModelProto& model, const std::string& name, const std::vector<int64_t>& values) {
  add_initializer(
      model, name,
      Tensor::from_values<int64_t>(DataType::kInt64, {static_cast<int64_t>(values.size())}, values));
}

inline TensorMap random_inputs(const onnx::ModelProto& model, unsigned seed = 1) {
  TensorMap inputs;
  std::set<std::string> initializers;
  for (const auto& tensor : model.graph().initializer()) initializers.insert(tensor.name());
  for (const auto& input : model.graph().input()) {
    if (initializers.contains(input.name())) continue;
    const auto shape = static_shape(input.type());
    if (!shape) throw std::runtime_error("random_inputs: symbolic input " + input.name());
    inputs[input.name()] =
        random_tensor(static_cast<DataType>(input.type().tensor_type().elem_type()), *shape, seed++);
  }
  return inputs;
}

inline void expect_close(const TensorMap& actual, const TensorMap& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    const Tensor& other = actual.at(name);
    ASSERT_EQ(other.type(), tensor.type()) << name;
    ASSERT_EQ(other.shape(), tensor.shape()) << name;
    double largest = 1;
    for (int64_t i = 0; i < tensor.size(); ++i) {
      const double value = std::abs(element_as_double(tensor, i));
      if (std::isfinite(value)) largest = std::max(largest, value);
    }
    for (int64_t i = 0; i < tensor.size(); ++i) {
      const double a = element_as_double(other, i);
      const double e = element_as_double(tensor, i);
      if (a == e || (std::isnan(a) && std::isnan(e))) continue;
      ASSERT_NEAR(a, e, tolerance * largest) << name << "[" << i << "]";
    }
  }
}

/// Both models give the same outputs on the same random inputs.
inline void expect_same_results(const onnx::ModelProto& before, const onnx::ModelProto& after,
                                double tolerance = 1e-5) {
  const TensorMap inputs = random_inputs(after);
  expect_close(run_graph(after, inputs), run_graph(before, inputs), tolerance);
}

inline int count_nodes(const onnx::ModelProto& model, const std::string& op_type) {
  return static_cast<int>(std::count_if(model.graph().node().begin(), model.graph().node().end(),
                                        [&](const auto& node) { return node.op_type() == op_type; }));
}

/// The message of the E that `function` throws.
template <typename E, typename F>
std::string error_of(F&& function) {
  try {
    function();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace kodama::compiler::testing
