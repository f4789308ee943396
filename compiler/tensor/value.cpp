#include "compiler/tensor/value.h"

#include <fmt/format.h>
#include <onnx/onnx-data_pb.h>

#include <algorithm>
#include <limits>

namespace kodama::compiler {

namespace {

using isa::UserError;

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
  if (stored.type() != onnx::TensorProto::UINT16 || element_type != onnx::TensorProto::BFLOAT16)
    return stored;
  Tensor tensor(onnx::TensorProto::BFLOAT16, stored.shape());
  std::ranges::copy(stored.bytes(), tensor.bytes().begin());
  return tensor;
}

/// The element type of a tensor type or a sequence of these; `is_sequence` says which.
DataType element_of(const onnx::TypeProto& type, bool& is_sequence, const std::string& where) {
  is_sequence = type.has_sequence_type();
  const onnx::TypeProto& inner = is_sequence ? type.sequence_type().elem_type() : type;
  if (!inner.has_tensor_type()) {
    throw isa::UnsupportedError(where +
                                ": only tensors, sequences of tensors and optional ones of these are "
                                "supported");
  }
  return static_cast<DataType>(inner.tensor_type().elem_type());
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

Value::Value(Tensor tensor) : element_type_(tensor.type()) {
  tensors_.push_back(std::make_shared<Tensor>(std::move(tensor)));
}

Value Value::borrowed(const Tensor& tensor) {
  return {Shared(Shared(), &tensor), tensor.type()};
}

Value Value::sequence(DataType element_type, std::vector<Value> elements) {
  Value result;
  result.is_sequence_ = true;
  result.element_type_ = element_type;
  result.tensors_.clear();
  for (Value& element : elements) {
    isa::check_internal(element.is_tensor() && element.element_type() == element_type, "Value::sequence",
                        "another value in a sequence of {}", data_type_name(element_type));
    result.tensors_.push_back(std::move(element.tensors_[0]));
  }
  return result;
}

Value Value::optional(Value value) {
  isa::check_internal(!value.is_optional(), "Value::optional", "an optional of an optional");
  value.is_optional_ = true;
  return value;
}

Value Value::empty_optional(const onnx::TypeProto& type) {
  Value result;
  result.tensors_.clear();
  result.element_type_ = element_of(type, result.is_sequence_, "an empty optional");
  result.is_optional_ = true;
  result.has_element_ = false;
  return result;
}

Value Value::element() const {
  isa::check_internal(is_optional_ && has_element_, "Value::element", "the value holds no other");
  Value result = *this;
  result.is_optional_ = false;
  return result;
}

const Tensor& Value::tensor() const {
  if (!is_tensor()) throw isa::InternalError("internal error in Value::tensor: of " + describe());
  return *tensors_[0];
}

Tensor Value::take_tensor() && {
  (void)tensor();
  // A borrowed one counts 0. Tensors of our own were not made const.
  if (tensors_[0].use_count() == 1) return std::move(const_cast<Tensor&>(*tensors_[0]));
  return *tensors_[0];
}

int64_t Value::byte_size() const {
  int64_t bytes = 0;
  for (const Shared& tensor : tensors_) bytes += static_cast<int64_t>(tensor->byte_size());
  return bytes;
}

std::string Value::describe() const {
  if (is_optional_) return has_element_ ? "an optional of " + element().describe() : "an empty optional";
  if (is_sequence_)
    return fmt::format("a sequence of {} {} tensors", tensors_.size(), data_type_name(element_type_));
  return fmt::format("{} {}", data_type_name(element_type_), shape_to_string(tensors_[0]->shape()));
}

onnx::TypeProto Value::type() const {
  onnx::TypeProto type;
  onnx::TypeProto* inner = is_optional_ ? type.mutable_optional_type()->mutable_elem_type() : &type;
  if (is_sequence_) inner = inner->mutable_sequence_type()->mutable_elem_type();
  auto& tensor_type = *inner->mutable_tensor_type();
  tensor_type.set_elem_type(element_type_);
  if (is_tensor()) {
    auto& shape = *tensor_type.mutable_shape();
    for (const int64_t extent : tensors_[0]->shape()) shape.add_dim()->set_dim_value(extent);
  }
  return type;
}

bool Value::is_same_as(const Value& other) const {
  return is_sequence_ == other.is_sequence_ && is_optional_ == other.is_optional_ &&
         tensors_ == other.tensors_;
}

bool Value::operator==(const Value& other) const {
  return is_sequence_ == other.is_sequence_ && is_optional_ == other.is_optional_ &&
         has_element_ == other.has_element_ && element_type_ == other.element_type_ &&
         std::ranges::equal(tensors_, other.tensors_,
                            [](const Shared& a, const Shared& b) { return a == b || *a == *b; });
}

ValueMap to_values(TensorMap tensors) {
  ValueMap values;
  for (auto& [name, tensor] : tensors) values.emplace(name, std::move(tensor));
  return values;
}

ValueMap borrow_values(const TensorMap& tensors) {
  ValueMap values;
  for (const auto& [name, tensor] : tensors) values.emplace(name, Value::borrowed(tensor));
  return values;
}

TensorMap to_tensors(ValueMap values, const std::string& role) {
  TensorMap tensors;
  for (auto& [name, value] : values) {
    if (!value.is_tensor()) {
      throw isa::UnsupportedError(
          fmt::format("{} '{}' is {}; only tensors are supported here", role, name, value.describe()));
    }
    tensors.emplace(name, std::move(value).take_tensor());
  }
  return tensors;
}

Value value_from_bytes(const std::string& bytes, const onnx::TypeProto& type, const std::string& where) {
  const bool is_optional = type.has_optional_type();
  const onnx::TypeProto& inner = is_optional ? type.optional_type().elem_type() : type;
  bool is_sequence = false;
  const DataType element = element_of(inner, is_sequence, where);
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
  return Value::empty_optional(inner);
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
