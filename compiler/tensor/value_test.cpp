#include "compiler/tensor/value.h"

#include <gtest/gtest.h>

namespace kodama::compiler {
namespace {

Tensor numbers(const std::vector<float>& values) {
  return Tensor::from_values<float>(DataType::kFloat32, {static_cast<int64_t>(values.size())}, values);
}

TEST(Value, TakesWhatNobodySharesWithoutACopy) {
  Value value = numbers({1, 2});
  const void* const place = value.tensor().bytes().data();
  const Tensor taken = std::move(value).take_tensor();
  EXPECT_EQ(static_cast<const void*>(taken.bytes().data()), place);

  const Tensor mine = numbers({3});
  EXPECT_TRUE(Value::borrowed(mine).take_tensor() == mine);
  EXPECT_EQ(mine.size(), 1);

  Value shared = numbers({4});
  const Value other = shared;
  EXPECT_TRUE(std::move(shared).take_tensor() == other.tensor());
}

TEST(Value, SaysWhatItIs) {
  EXPECT_EQ(Value(numbers({1})).describe(), "float32 [1]");
  const Value sequence = Value::sequence(DataType::kInt64, {});
  EXPECT_EQ(sequence.describe(), "a sequence of 0 int64 tensors");
  EXPECT_EQ(Value::optional(sequence).describe(), "an optional of a sequence of 0 int64 tensors");
  EXPECT_EQ(Value::empty_optional(DataType::kInt64, true).describe(), "an empty optional");
  EXPECT_THROW(sequence.tensor(), isa::InternalError);
  EXPECT_THROW(sequence.element(), isa::InternalError);
}

}  // namespace
}  // namespace kodama::compiler
