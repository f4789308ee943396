#include "compiler/reference/kernels/dnnl_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "compiler/reference/executor.h"

namespace kodama::compiler {
namespace {

Tensor random_tensor(const Shape& shape, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> values(-1.0f, 1.0f);
  Tensor tensor(DataType::kFloat32, shape);
  for (float& value : tensor.data<float>()) value = values(generator);
  return tensor;
}

Tensor to_double(const Tensor& tensor) {
  Tensor result(DataType::kFloat64, tensor.shape());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    result.data<double>()[static_cast<size_t>(i)] = element_as_double(tensor, i);
  }
  return result;
}

onnx::NodeProto make_node(const std::string& op_type, int inputs) {
  onnx::NodeProto node;
  node.set_op_type(op_type);
  node.set_name(std::string("n"));
  for (int i = 0; i < inputs; ++i) node.add_input(fmt::format("x{}", i));
  node.add_output(std::string("y"));
  return node;
}

void set(onnx::NodeProto& node, const std::string& name, const std::vector<int64_t>& values) {
  auto* const attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INTS);
  for (const int64_t value : values) attribute->add_ints(value);
}

void set(onnx::NodeProto& node, const std::string& name, int64_t value) {
  auto* const attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

/// The same node on float (large enough for oneDNN) and on double, for which there is only the plain code.
void compare_paths(const onnx::NodeProto& node, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> doubles;
  for (const Tensor& input : inputs) doubles.push_back(to_double(input));
  std::vector<const Tensor*> float_inputs;
  std::vector<const Tensor*> double_inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    float_inputs.push_back(&inputs[i]);
    double_inputs.push_back(&doubles[i]);
  }
  const Tensor fast = run_node(node, float_inputs, 17).at(0);
  const Tensor plain = run_node(node, double_inputs, 17).at(0);
  ASSERT_EQ(fast.shape(), plain.shape());
  double worst = 0;
  double largest = 1;
  for (int64_t i = 0; i < fast.size(); ++i) {
    const double exact = element_as_double(plain, i);
    worst = std::max(worst, std::fabs(element_as_double(fast, i) - exact));
    largest = std::max(largest, std::fabs(exact));
  }
  EXPECT_LT(worst, 1e-5 * largest) << node.op_type();
  EXPECT_GT(fast.size(), 0);
}

TEST(Dnnl, MatMul) {
  compare_paths(make_node("MatMul", 2), {random_tensor({130, 90}, 1), random_tensor({90, 110}, 2)});
  compare_paths(make_node("MatMul", 2), {random_tensor({3, 1, 60, 50}, 1), random_tensor({4, 50, 70}, 2)});
  compare_paths(make_node("MatMul", 2), {random_tensor({4000}, 1), random_tensor({4000, 300}, 2)});
}

TEST(Dnnl, Gemm) {
  for (const int64_t transpose_a : {0, 1}) {
    for (const int64_t transpose_b : {0, 1}) {
      onnx::NodeProto node = make_node("Gemm", 3);
      set(node, "transA", transpose_a);
      set(node, "transB", transpose_b);
      compare_paths(node, {random_tensor(transpose_a != 0 ? Shape{90, 130} : Shape{130, 90}, 1),
                           random_tensor(transpose_b != 0 ? Shape{110, 90} : Shape{90, 110}, 2),
                           random_tensor({110}, 3)});
    }
  }
}

TEST(Dnnl, Convolutions) {
  onnx::NodeProto plain = make_node("Conv", 3);
  set(plain, "pads", {1, 0, 2, 3});
  set(plain, "strides", {2, 1});
  compare_paths(plain,
                {random_tensor({2, 8, 31, 33}, 1), random_tensor({16, 8, 3, 5}, 2), random_tensor({16}, 3)});
  onnx::NodeProto dilated = make_node("Conv", 2);
  set(dilated, "dilations", {2, 3});
  set(dilated, "group", 4);
  compare_paths(dilated, {random_tensor({2, 16, 40, 40}, 1), random_tensor({32, 4, 3, 3}, 2)});
  onnx::NodeProto depthwise = make_node("Conv", 2);
  set(depthwise, "group", 64);
  compare_paths(depthwise, {random_tensor({1, 64, 50, 50}, 1), random_tensor({64, 1, 3, 3}, 2)});
  compare_paths(make_node("Conv", 2), {random_tensor({2, 16, 900}, 1), random_tensor({16, 16, 7}, 2)});
  compare_paths(make_node("Conv", 2),
                {random_tensor({1, 4, 14, 15, 16}, 1), random_tensor({8, 4, 3, 3, 3}, 2)});
}

TEST(Dnnl, Pooling) {
  for (const char* op_type : {"MaxPool", "AveragePool"}) {
    for (const int64_t ceil_mode : {0, 1}) {
      for (const int64_t include : {0, 1}) {
        onnx::NodeProto node = make_node(op_type, 1);
        set(node, "kernel_shape", {3, 4});
        set(node, "strides", {2, 3});
        set(node, "pads", {1, 2, 0, 1});
        set(node, "ceil_mode", ceil_mode);
        if (std::string(op_type) == "AveragePool") set(node, "count_include_pad", include);
        compare_paths(node, {random_tensor({2, 32, 80, 81}, 1)});
      }
    }
  }
}

}  // namespace
}  // namespace kodama::compiler
