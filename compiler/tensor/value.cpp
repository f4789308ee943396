#include "compiler/tensor/value.h"

#include <fmt/format.h>

#include <algorithm>

namespace kodama::compiler {

std::string type_name(const ValueType& type) {
  std::string name = fmt::format("tensor({})", onnx_type_name(type.element));
  if (type.is_sequence) name = fmt::format("seq({})", name);
  if (type.is_optional) name = fmt::format("optional({})", name);
  return name;
}

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

Value Value::empty_optional(DataType element_type, bool of_sequence) {
  Value result;
  result.tensors_.clear();
  result.element_type_ = element_type;
  result.is_sequence_ = of_sequence;
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

ValueType Value::type() const {
  ValueType type{element_type_, is_sequence_, is_optional_, {}};
  if (is_tensor()) type.shape = tensors_[0]->shape();
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

}  // namespace kodama::compiler
