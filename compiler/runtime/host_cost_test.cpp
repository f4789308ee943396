#include "compiler/runtime/host_cost.h"

#include <gtest/gtest.h>

namespace kodama::compiler {
namespace {

int64_t operations(const std::string& op, const std::vector<Shape>& inputs,
                   const std::vector<Shape>& outputs) {
  std::vector<Tensor> read;
  for (const Shape& shape : inputs) read.emplace_back(DataType::kFloat32, shape);
  std::vector<const Tensor*> pointers;
  for (const Tensor& tensor : read) pointers.push_back(&tensor);
  std::vector<Tensor> written;
  for (const Shape& shape : outputs) written.emplace_back(DataType::kFloat32, shape);
  return host_operations(op, pointers, written);
}

TEST(HostOperations, AreMultiplyAddsOrElements) {
  EXPECT_EQ(operations("MatMul", {{2, 3, 5}, {5, 7}}, {{2, 3, 7}}), 2 * 3 * 7 * 5);
  EXPECT_EQ(operations("MatMul", {{5}, {5}}, {{}}), 5);
  EXPECT_EQ(operations("Gemm", {{3, 5}, {5, 7}, {7}}, {{3, 7}}), 3 * 7 * 5);
  EXPECT_EQ(operations("Conv", {{1, 4, 8, 8}, {6, 2, 3, 3}}, {{1, 6, 8, 8}}), 6 * 64 * 2 * 9);
  EXPECT_EQ(operations("ConvTranspose", {{1, 4, 8, 8}, {4, 6, 3, 3}}, {{1, 6, 10, 10}}), 4 * 64 * 6 * 9);
  EXPECT_EQ(operations("LSTM", {{9, 2, 3}, {1, 16, 3}, {1, 16, 4}}, {{9, 1, 2, 4}}), 9 * 2 * (48 + 64));
  EXPECT_EQ(operations("Add", {{2, 3}, {3}}, {{2, 3}}), 6 + 3 + 6);
  EXPECT_EQ(operations("Shape", {{2, 3}}, {{2}}), 8);
  EXPECT_EQ(operations("Constant", {}, {{4}}), 4);
  EXPECT_EQ(operations("Gemm", {{0, 5}, {5, 7}}, {{0, 7}}), 0);
  EXPECT_EQ(operations("Conv", {{1, 4, 8, 8}}, {{1, 6, 8, 8}}), 4 * 64 + 6 * 64);
}

TEST(HostOperations, OmittedInputsAreNone) {
  const Tensor x(DataType::kFloat32, {4});
  EXPECT_EQ(host_operations("Clip", {&x, nullptr, nullptr}, {}), 4);
  EXPECT_EQ(host_operations("Clip", {nullptr}, {}), 0);
}

}  // namespace
}  // namespace kodama::compiler
