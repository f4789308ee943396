#pragma once

#include <onnx/onnx_pb.h>

#include <string>

#include "compiler/tensor/value.h"

/// ONNX's messages for tensors, values and their types, to ours and back.
namespace kodama::compiler {

/// Decodes every storage form of a TensorProto (raw_data, *_data fields; external data is refused with
/// UserError). `where` begins the message of any error.
Tensor tensor_from_proto(const onnx::TensorProto& proto, const std::string& where);
onnx::TensorProto tensor_to_proto(const Tensor& tensor, const std::string& name);
/// The bytes of a `.pb` file; UserError, beginning with `where`, for others.
Tensor tensor_from_bytes(const std::string& bytes, const std::string& where);

/// UnsupportedError for maps and sparse tensors, and sequences of anything but tensors.
ValueType value_type(const onnx::TypeProto& type, const std::string& where);
onnx::TypeProto type_to_proto(const ValueType& type);

/// Reads a value of this type from the bytes of a file: a TensorProto, SequenceProto or OptionalProto.
/// UserError for bytes that aren't one, UnsupportedError for other types; `where` begins the message.
Value value_from_bytes(const std::string& bytes, const onnx::TypeProto& type, const std::string& where);
/// The bytes of such a file.
std::string value_to_bytes(const Value& value, const std::string& name);

}  // namespace kodama::compiler
