#include "compiler/tensor/value.h"

#include <gtest/gtest.h>

namespace kodama::compiler {
namespace {

Tensor numbers(const std::vector<float>& values) {
  return Tensor::from_values<float>(onnx::TensorProto::FLOAT, {static_cast<int64_t>(values.size())}, values);
}

TEST(Value, BytesComeBackAsTheSameValue) {
  const Value tensor = numbers({1, 2});
  const Value sequence = Value::sequence(onnx::TensorProto::FLOAT, {numbers({1}), numbers({2, 3})});
  const Value empty = Value::sequence(onnx::TensorProto::INT64, {});
  for (const Value& value : {tensor, sequence, empty, Value::optional(tensor), Value::optional(sequence),
                             Value::empty_optional(sequence.type())}) {
    SCOPED_TRACE(value.describe());
    EXPECT_TRUE(value_from_bytes(value_to_bytes(value, "v"), value.type(), "file") == value);
  }
  EXPECT_THROW(value_from_bytes("nonsense", sequence.type(), "file"), isa::UserError);
  EXPECT_THROW(value_from_bytes(value_to_bytes(sequence, "v"), empty.type(), "file"), isa::UserError);
  onnx::TypeProto map;
  map.mutable_map_type();
  EXPECT_THROW(value_from_bytes("", map, "file"), isa::UnsupportedError);
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
  const Value sequence = Value::sequence(onnx::TensorProto::INT64, {});
  EXPECT_EQ(sequence.describe(), "a sequence of 0 int64 tensors");
  EXPECT_EQ(Value::optional(sequence).describe(), "an optional of a sequence of 0 int64 tensors");
  EXPECT_EQ(Value::empty_optional(sequence.type()).describe(), "an empty optional");
  EXPECT_THROW(sequence.tensor(), isa::InternalError);
  EXPECT_THROW(sequence.element(), isa::InternalError);
}

}  // namespace
}  // namespace kodama::compiler
