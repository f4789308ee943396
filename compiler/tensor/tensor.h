#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "isa/error.h"

/// Tensors in the host's memory: dense, row major, owning. The CPU reference computes on them, the
/// driver sends them to the chip.
namespace kodama::compiler {

using Shape = std::vector<int64_t>;

/// Number of elements of a shape (1 for a scalar, 0 if any extent is 0). UserError for a negative extent and
/// if the count doesn't fit in 64 bits.
int64_t element_count(const Shape& shape);
/// "[1, 28, 28]".
std::string shape_to_string(const Shape& shape);

namespace tensor_parts {
/// Unscoped, since ONNX's messages hold these numbers as integers: they compare and convert. The names are
/// only visible as DataType::kFloat32.
enum ElementType : int32_t {
  kUndefined = 0,
  kFloat32 = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kFloat64 = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
};
}  // namespace tensor_parts
/// Types of elements, with ONNX's numbers (TensorProto.DataType), so that no table translates them.
using DataType = tensor_parts::ElementType;
/// Whether it is one of them, kUndefined included.
constexpr bool is_data_type(int64_t number) {
  return number >= DataType::kUndefined && number <= DataType::kBfloat16;
}

/// Bytes per element in memory; 0 for kString and types we can't hold (they are refused on import).
size_t element_size(DataType type);
/// "float32", "int64", …: numpy's names, used in every message.
std::string data_type_name(DataType type);
/// As ONNX's schemas write it: "float", "double", else numpy's.
std::string onnx_type_name(DataType type);

/// A dense row-major tensor. Elements of kFloat16 and kBfloat16 are held as their 16-bit patterns,
/// kBool as bytes 0 and 1, complex types as pairs. kString tensors hold their elements in strings().
class Tensor {
 public:
  /// A float scalar, zero.
  Tensor() = default;
  /// Zero-filled (empty strings for kString). UserError for a type we can't hold, and for a tensor larger
  /// than the machine's memory, which is what a broken shape looks like.
  Tensor(DataType type, Shape shape);

  DataType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }
  int64_t size() const { return element_count(shape_); }
  size_t byte_size() const { return bytes_.size(); }

  /// Typed view; throws InternalError if T's size is not the element size.
  template <typename T>
  std::span<T> data() {
    check_element_size(sizeof(T));
    return {reinterpret_cast<T*>(bytes_.data()), static_cast<size_t>(size())};
  }
  template <typename T>
  std::span<const T> data() const {
    check_element_size(sizeof(T));
    return {reinterpret_cast<const T*>(bytes_.data()), static_cast<size_t>(size())};
  }
  std::span<std::byte> bytes() { return bytes_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::string>& strings() { return strings_; }
  const std::vector<std::string>& strings() const { return strings_; }

  /// The same elements under another shape with the same count.
  Tensor reshaped(Shape shape) const;
  /// The same bytes as elements of another type.
  Tensor reinterpreted(DataType type, Shape shape) const;

  /// A one-dimensional or scalar tensor from values.
  template <typename T>
  static Tensor from_values(DataType type, Shape shape, const std::vector<T>& values) {
    Tensor tensor(type, std::move(shape));
    isa::check_internal(static_cast<size_t>(tensor.size()) == values.size(), "Tensor::from_values",
                        "{} values for shape {}", values.size(), shape_to_string(tensor.shape()));
    std::copy(values.begin(), values.end(), tensor.data<T>().begin());
    return tensor;
  }

  /// Bit-exact equality of type, shape and elements.
  bool operator==(const Tensor& other) const = default;

 private:
  void check_element_size(size_t size) const;

  DataType type_ = DataType::kFloat32;
  Shape shape_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(sizeof(float));
  std::vector<std::string> strings_;
};

/// Element `index` as double (integers converted exactly up to 2^53), for comparisons and messages.
double element_as_double(const Tensor& tensor, int64_t index);

/// IEEE binary16 and bfloat16 patterns to float and back (nearest even; overflow to infinity).
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);
/// Rounds to float so that rounding the result again, to a format with at least two bits less, is as if
/// `value` itself had been rounded: an inexact result has its last bit set.
float round_to_odd(double value);

}  // namespace kodama::compiler
