#include "compiler/proto/tensor_proto.h"

#include <fmt/format.h>
#include <onnx/onnx-data_pb.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

namespace kodama::compiler {

using isa::UserError;
using onnx::TensorProto;

namespace {

/// Copies one of the typed fields of a TensorProto; `Stored` is the element type in memory.
template <typename Stored, typename Field>
void copy_field(const Field& field, const char* field_name, Tensor& tensor, const std::string& where) {
  const auto elements = tensor.data<Stored>();
  if (static_cast<size_t>(field.size()) != elements.size()) {
    throw UserError(fmt::format("{}: {} holds {} values, but shape {} has {} elements", where, field_name,
                                field.size(), shape_to_string(tensor.shape()), elements.size()));
  }
  for (int i = 0; i < field.size(); ++i) {
    const auto value = field.Get(i);
    const auto stored = static_cast<Stored>(value);
    if constexpr (std::is_integral_v<Stored>) {
      if (static_cast<decltype(value)>(stored) != value) {
        throw UserError(fmt::format("{}: value {} of {} is {}, which {} can't hold", where, i, field_name,
                                    value, data_type_name(tensor.type())));
      }
    }
    elements[static_cast<size_t>(i)] = stored;
  }
}

/// Complex numbers lie in the typed fields as pairs (real, imaginary).
template <typename Part, typename Field>
void copy_complex_field(const Field& field, const char* field_name, Tensor& tensor,
                        const std::string& where) {
  if (static_cast<size_t>(field.size()) * sizeof(Part) != tensor.byte_size()) {
    throw UserError(fmt::format("{}: {} holds {} values, but shape {} needs {}", where, field_name,
                                field.size(), shape_to_string(tensor.shape()), 2 * tensor.size()));
  }
  if (!field.empty()) std::memcpy(tensor.bytes().data(), field.data(), tensor.byte_size());
}

bool has_typed_data(const TensorProto& proto) {
  return proto.float_data_size() + proto.int32_data_size() + proto.int64_data_size() +
             proto.double_data_size() + proto.uint64_data_size() + proto.string_data_size() >
         0;
}

void make_bools_zero_or_one(Tensor& tensor) {
  for (uint8_t& value : tensor.data<uint8_t>()) value = value != 0 ? 1 : 0;
}

}  // namespace

Tensor tensor_from_proto(const TensorProto& proto, const std::string& where) {
  if (proto.data_location() == TensorProto::EXTERNAL) {
    throw UserError(
        fmt::format("{}: the tensor's data is in an external file, which isn't read; save the "
                    "model with its data inside",
                    where));
  }
  if (proto.has_segment()) {
    throw UserError(fmt::format("{}: the tensor is stored in segments; store it whole", where));
  }
  const auto type = static_cast<DataType>(proto.data_type());
  if (type != DataType::kString && element_size(type) == 0) {
    throw UserError(
        fmt::format("{}: data_type is {}, which is no element type of ONNX", where, proto.data_type()));
  }
  const Shape shape(proto.dims().begin(), proto.dims().end());
  int64_t count = 0;
  try {
    count = element_count(shape);
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", where, error.what()));
  }
  if (proto.has_raw_data() && (type == DataType::kString || has_typed_data(proto))) {
    throw UserError(fmt::format(
        "{}: raw_data is present, but {}", where,
        type == DataType::kString ? "the elements are strings" : "so is another field with elements"));
  }
  // The data's size is compared with the shape before memory is taken, so that a broken shape is harmless.
  const auto stored_values = static_cast<int64_t>(
      proto.has_raw_data()
          ? proto.raw_data().size()
          : std::max({proto.float_data_size(), proto.int32_data_size(), proto.int64_data_size(),
                      proto.double_data_size(), proto.uint64_data_size(), proto.string_data_size()}));
  if (count > stored_values) {
    throw UserError(fmt::format("{}: shape {} of {} has {} elements, but the data is {} {} long", where,
                                shape_to_string(shape), data_type_name(type), count, stored_values,
                                proto.has_raw_data() ? "bytes" : "values"));
  }
  Tensor tensor(type, shape);
  if (proto.has_raw_data()) {
    if (proto.raw_data().size() != tensor.byte_size()) {
      throw UserError(fmt::format("{}: raw_data holds {} bytes, but {} of shape {} needs {}", where,
                                  proto.raw_data().size(), data_type_name(type), shape_to_string(shape),
                                  tensor.byte_size()));
    }
    if (tensor.byte_size() > 0)
      std::memcpy(tensor.bytes().data(), proto.raw_data().data(), tensor.byte_size());
    if (type == DataType::kBool) make_bools_zero_or_one(tensor);
    return tensor;
  }
  switch (type) {
    case DataType::kFloat32:
      copy_field<float>(proto.float_data(), "float_data", tensor, where);
      break;
    case DataType::kComplex64:
      copy_complex_field<float>(proto.float_data(), "float_data", tensor, where);
      break;
    case DataType::kFloat64:
      copy_field<double>(proto.double_data(), "double_data", tensor, where);
      break;
    case DataType::kComplex128:
      copy_complex_field<double>(proto.double_data(), "double_data", tensor, where);
      break;
    case DataType::kInt64:
      copy_field<int64_t>(proto.int64_data(), "int64_data", tensor, where);
      break;
    case DataType::kUint32:
      copy_field<uint32_t>(proto.uint64_data(), "uint64_data", tensor, where);
      break;
    case DataType::kUint64:
      copy_field<uint64_t>(proto.uint64_data(), "uint64_data", tensor, where);
      break;
    case DataType::kInt32:
      copy_field<int32_t>(proto.int32_data(), "int32_data", tensor, where);
      break;
    case DataType::kInt16:
      copy_field<int16_t>(proto.int32_data(), "int32_data", tensor, where);
      break;
    case DataType::kInt8:
      copy_field<int8_t>(proto.int32_data(), "int32_data", tensor, where);
      break;
    case DataType::kUint8:
    case DataType::kBool:
      copy_field<uint8_t>(proto.int32_data(), "int32_data", tensor, where);
      if (type == DataType::kBool) make_bools_zero_or_one(tensor);
      break;
    case DataType::kUint16:
    case DataType::kFloat16:  // bit patterns
    case DataType::kBfloat16:
      copy_field<uint16_t>(proto.int32_data(), "int32_data", tensor, where);
      break;
    case DataType::kString:
      if (proto.string_data_size() != count) {
        throw UserError(fmt::format("{}: string_data holds {} strings, but shape {} has {} elements", where,
                                    proto.string_data_size(), shape_to_string(shape), count));
      }
      tensor.strings().assign(proto.string_data().begin(), proto.string_data().end());
      break;
    default:
      break;
  }
  return tensor;
}

TensorProto tensor_to_proto(const Tensor& tensor, const std::string& name) {
  TensorProto proto;
  proto.set_name(name);
  proto.set_data_type(tensor.type());
  for (const int64_t extent : tensor.shape()) proto.add_dims(extent);
  if (tensor.type() == DataType::kString) {
    for (const std::string& text : tensor.strings()) proto.add_string_data(text);
  } else {
    const auto bytes = tensor.bytes();
    proto.set_raw_data(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  return proto;
}

namespace {

template <typename Message>
Message parse(const std::string& bytes, const char* kind, const std::string& where) {
  Message message;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw UserError(fmt::format("{}: not a {}, or truncated", where, kind));
  }
  return message;
}

/// ONNX's generator stores bfloat16 data as uint16, since numpy has no such type; the declaration says what
/// it is.
Tensor as_declared(Tensor stored, int32_t element_type) {
  if (stored.type() != DataType::kUint16 || element_type != DataType::kBfloat16) return stored;
  Tensor tensor(DataType::kBfloat16, stored.shape());
  std::ranges::copy(stored.bytes(), tensor.bytes().begin());
  return tensor;
}

Value sequence_from_proto(const onnx::SequenceProto& proto, DataType type, const std::string& where) {
  if (proto.elem_type() != onnx::SequenceProto::TENSOR && proto.tensor_values_size() == 0 &&
      proto.elem_type() != onnx::SequenceProto::UNDEFINED) {
    throw isa::UnsupportedError(where + ": a sequence of something else than tensors; these are supported");
  }
  std::vector<Value> elements;
  for (const onnx::TensorProto& tensor : proto.tensor_values()) {
    Tensor element = as_declared(tensor_from_proto(tensor, where), type);
    if (element.type() != type) {
      throw UserError(fmt::format("{}: element {} is {}; the sequence has {}", where, elements.size(),
                                  data_type_name(element.type()), data_type_name(type)));
    }
    elements.emplace_back(std::move(element));
  }
  return Value::sequence(type, std::move(elements));
}

}  // namespace

Tensor tensor_from_bytes(const std::string& bytes, const std::string& where) {
  return tensor_from_proto(parse<TensorProto>(bytes, "TensorProto", where), where);
}

ValueType value_type(const onnx::TypeProto& type, const std::string& where) {
  ValueType result;
  result.is_optional = type.has_optional_type();
  const onnx::TypeProto* inner = result.is_optional ? &type.optional_type().elem_type() : &type;
  result.is_sequence = inner->has_sequence_type();
  if (result.is_sequence) inner = &inner->sequence_type().elem_type();
  if (!inner->has_tensor_type()) {
    throw isa::UnsupportedError(where +
                                ": only tensors, sequences of tensors and optional ones of these are "
                                "supported");
  }
  const onnx::TypeProto::Tensor& tensor = inner->tensor_type();
  result.element = static_cast<DataType>(tensor.elem_type());
  if (!result.is_sequence && tensor.has_shape()) {
    result.shape.emplace();
    for (const auto& dim : tensor.shape().dim())
      result.shape->push_back(dim.has_dim_value() ? dim.dim_value() : -1);
  }
  return result;
}

onnx::TypeProto type_to_proto(const ValueType& type) {
  onnx::TypeProto proto;
  onnx::TypeProto* inner = type.is_optional ? proto.mutable_optional_type()->mutable_elem_type() : &proto;
  if (type.is_sequence) inner = inner->mutable_sequence_type()->mutable_elem_type();
  auto& tensor = *inner->mutable_tensor_type();
  tensor.set_elem_type(type.element);
  if (type.shape) {
    auto& shape = *tensor.mutable_shape();
    for (const int64_t extent : *type.shape) {
      auto* const dim = shape.add_dim();
      if (extent >= 0) dim->set_dim_value(extent);
    }
  }
  return proto;
}

Value value_from_bytes(const std::string& bytes, const onnx::TypeProto& type, const std::string& where) {
  const auto [element, is_sequence, is_optional, shape] = value_type(type, where);
  if (!is_optional) {
    if (is_sequence)
      return sequence_from_proto(parse<onnx::SequenceProto>(bytes, "SequenceProto", where), element, where);
    return as_declared(tensor_from_proto(parse<onnx::TensorProto>(bytes, "TensorProto", where), where),
                       element);
  }
  const auto proto = parse<onnx::OptionalProto>(bytes, "OptionalProto", where);
  if (proto.has_tensor_value() && !is_sequence)
    return Value::optional(as_declared(tensor_from_proto(proto.tensor_value(), where), element));
  if (proto.has_sequence_value() && is_sequence)
    return Value::optional(sequence_from_proto(proto.sequence_value(), element, where));
  if (proto.elem_type() != onnx::OptionalProto::UNDEFINED &&
      (proto.has_tensor_value() || proto.has_sequence_value())) {
    throw UserError(fmt::format("{}: the optional holds {}; the model wants {}", where,
                                proto.has_tensor_value() ? "a tensor" : "a sequence",
                                is_sequence ? "a sequence" : "a tensor"));
  }
  return Value::empty_optional(element, is_sequence);
}

std::string value_to_bytes(const Value& value, const std::string& name) {
  if (value.is_tensor()) return tensor_to_proto(value.tensor(), name).SerializeAsString();
  const auto fill = [&](const Value& sequence, onnx::SequenceProto& proto) {
    proto.set_elem_type(onnx::SequenceProto::TENSOR);
    for (size_t k = 0; k < sequence.size(); ++k)
      *proto.add_tensor_values() = tensor_to_proto(sequence.at(k), "");
  };
  if (value.is_sequence()) {
    onnx::SequenceProto proto;
    proto.set_name(name);
    fill(value, proto);
    return proto.SerializeAsString();
  }
  onnx::OptionalProto proto;
  proto.set_name(name);
  if (value.has_element()) {
    const Value held = value.element();
    if (held.is_tensor()) {
      proto.set_elem_type(onnx::OptionalProto::TENSOR);
      *proto.mutable_tensor_value() = tensor_to_proto(held.tensor(), "");
    } else {
      proto.set_elem_type(onnx::OptionalProto::SEQUENCE);
      fill(held, *proto.mutable_sequence_value());
    }
  }
  return proto.SerializeAsString();
}

}  // namespace kodama::compiler
