#pragma once

#include <onnx/onnx_pb.h>

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

/// The element types are ONNX's own (onnx::TensorProto::DataType), so that no table translates them.
using DataType = onnx::TensorProto_DataType;

/// Bytes per element in memory; 0 for STRING and types we can't hold (they are refused on import).
size_t element_size(DataType type);
/// "float32", "int64", …: numpy's names, used in every message.
std::string data_type_name(DataType type);

/// A dense row-major tensor. Elements of FLOAT16 and BFLOAT16 are held as their 16-bit patterns,
/// BOOL as bytes 0 and 1, complex types as pairs. STRING tensors hold their elements in strings().
class Tensor {
 public:
  /// A float scalar, zero.
  Tensor() = default;
  /// Zero-filled (empty strings for STRING). UserError for a type we can't hold, and for a tensor larger than
  /// the machine's memory, which is what a broken shape looks like.
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

  DataType type_ = onnx::TensorProto_DataType_FLOAT;
  Shape shape_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(sizeof(float));
  std::vector<std::string> strings_;
};

/// Decodes every storage form of a TensorProto (raw_data, *_data fields; external data is refused with
/// UserError). `where` begins the message of any error.
Tensor tensor_from_proto(const onnx::TensorProto& proto, const std::string& where);
onnx::TensorProto tensor_to_proto(const Tensor& tensor, const std::string& name);

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

/// Reads a tensor from FILE by its extension: `.pb` (TensorProto), `.npy`, or `.npz` (then `member`
/// names the array; with one array it may be empty). UserError with the file's name otherwise.
Tensor read_tensor_file(const std::string& path, const std::string& member = "");
/// The bytes of a `.pb` file; UserError, beginning with `where`, for others.
Tensor tensor_from_bytes(const std::string& bytes, const std::string& where);
/// Writes `.pb` or `.npy`, to a temporary name that is then renamed.
void write_tensor_file(const std::string& path, const Tensor& tensor, const std::string& name);

}  // namespace kodama::compiler
