#include <gtest/gtest.h>

#include "compiler/proto/tensor_proto.h"

namespace kodama::compiler {
namespace {

Tensor numbers(const std::vector<float>& values) {
  return Tensor::from_values<float>(DataType::kFloat32, {static_cast<int64_t>(values.size())}, values);
}

TEST(ValueProto, BytesComeBackAsTheSameValue) {
  const Value tensor = numbers({1, 2});
  const Value sequence = Value::sequence(DataType::kFloat32, {numbers({1}), numbers({2, 3})});
  const Value empty = Value::sequence(DataType::kInt64, {});
  for (const Value& value : {tensor, sequence, empty, Value::optional(tensor), Value::optional(sequence),
                             Value::empty_optional(DataType::kFloat32, true)}) {
    SCOPED_TRACE(value.describe());
    EXPECT_TRUE(value_from_bytes(value_to_bytes(value, "v"), type_to_proto(value.type()), "file") == value);
  }
  EXPECT_THROW(value_from_bytes("nonsense", type_to_proto(sequence.type()), "file"), isa::UserError);
  EXPECT_THROW(value_from_bytes(value_to_bytes(sequence, "v"), type_to_proto(empty.type()), "file"),
               isa::UserError);
  onnx::TypeProto map;
  map.mutable_map_type();
  EXPECT_THROW(value_from_bytes("", map, "file"), isa::UnsupportedError);
}

TEST(ValueProto, TypesComeBack) {
  for (const ValueType& type :
       {ValueType{DataType::kInt8, false, false, Shape{2, -1}}, ValueType{DataType::kBool, true, false, {}},
        ValueType{DataType::kString, true, true, {}}, ValueType{DataType::kFloat16, false, true, Shape{}}}) {
    const ValueType back = value_type(type_to_proto(type), "here");
    EXPECT_EQ(type_name(back), type_name(type));
    EXPECT_EQ(back.shape, type.shape);
  }
  EXPECT_EQ(type_name({DataType::kFloat64, true, true, {}}), "optional(seq(tensor(double)))");
}

}  // namespace
}  // namespace kodama::compiler
