#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/tensor/tensor.h"

namespace kodama::compiler {

/// What a value is declared to be.
struct ValueType {
  DataType element = DataType::kUndefined;
  bool is_sequence = false;  ///< or, of an optional, what it may hold
  bool is_optional = false;
  std::optional<Shape> shape = {};  ///< of tensors; -1: an extent that isn't known
};
/// As ONNX's schemas write it, without shapes: "tensor(float)", "optional(seq(tensor(int64)))".
std::string type_name(const ValueType& type);

/// What a name in an ONNX graph stands for: a tensor, a sequence of tensors of one element type, or an
/// optional one of these, which may be empty. Tensors are shared and never changed, so copies cost nothing.
class Value {
 public:
  /// A float scalar, zero.
  Value() : Value(Tensor()) {}
  Value(Tensor tensor);  // NOLINT: a tensor is a value
  /// A tensor that somebody else owns and that outlives this and all its copies.
  static Value borrowed(const Tensor& tensor);
  /// InternalError unless `elements` are tensors of this type.
  static Value sequence(DataType element_type, std::vector<Value> elements);
  /// The optional that holds `value`, which is no optional.
  static Value optional(Value value);
  /// The empty optional that might hold a tensor, or a sequence, of this type.
  static Value empty_optional(DataType element_type, bool of_sequence);

  bool is_tensor() const { return !is_sequence_ && !is_optional_; }
  bool is_sequence() const { return is_sequence_ && !is_optional_; }
  bool is_optional() const { return is_optional_; }
  /// Of an optional: whether it holds a value.
  bool has_element() const { return has_element_; }
  /// What an optional holds; InternalError if it is none or empty.
  Value element() const;

  DataType element_type() const { return element_type_; }
  /// InternalError unless it is a tensor.
  const Tensor& tensor() const;
  /// The tensor, moved out if nobody shares it.
  Tensor take_tensor() &&;
  /// Of a sequence.
  size_t size() const { return tensors_.size(); }
  const Tensor& at(size_t index) const { return *tensors_.at(index); }
  Value value_at(size_t index) const { return Value(tensors_.at(index), element_type_); }

  /// Bytes of all its tensors.
  int64_t byte_size() const;
  /// "float32 [2, 3]", "a sequence of 3 float32 tensors", "an empty optional".
  std::string describe() const;
  /// Its type: of tensors with their shapes, of sequences without.
  ValueType type() const;

  /// Whether both share their tensors: copies of one value, not only equal ones.
  bool is_same_as(const Value& other) const;
  /// Bit-exact equality.
  bool operator==(const Value& other) const;

 private:
  using Shared = std::shared_ptr<const Tensor>;
  Value(Shared tensor, DataType element_type) : element_type_(element_type), tensors_{std::move(tensor)} {}

  bool is_sequence_ = false;  ///< or, of an optional, what it holds
  bool is_optional_ = false;
  bool has_element_ = true;
  DataType element_type_ = DataType::kFloat32;
  std::vector<Shared> tensors_;
};

using TensorMap = std::map<std::string, Tensor>;
using ValueMap = std::map<std::string, Value>;

/// The same tensors as values, as they are (moved) or borrowed from a map that outlives the result.
ValueMap to_values(TensorMap tensors);
ValueMap borrow_values(const TensorMap& tensors);
/// UnsupportedError where a value is no tensor; `role` ("output") begins the message.
TensorMap to_tensors(ValueMap values, const std::string& role);

}  // namespace kodama::compiler
