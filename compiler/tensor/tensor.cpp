#include "compiler/tensor/tensor.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace kodama::compiler {

using isa::UserError;

static_assert(std::endian::native == std::endian::little, "data of files is copied as it is");

namespace {

uint64_t physical_memory() {
  static const uint64_t bytes =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  bool empty = false;
  bool overflow = false;
  for (const int64_t extent : shape) {
    if (extent < 0) {
      throw UserError(fmt::format("shape {} has a negative extent", shape_to_string(shape)));
    }
    if (extent == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(count, extent, &count)) {
      overflow = true;
      count = 1;
    }
  }
  if (empty) return 0;
  if (overflow) {
    throw UserError(fmt::format("shape {} has more elements than 64 bits can count", shape_to_string(shape)));
  }
  return count;
}

std::string shape_to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

size_t element_size(DataType type) {
  switch (type) {
    case DataType::kBool:
    case DataType::kInt8:
    case DataType::kUint8:
      return 1;
    case DataType::kInt16:
    case DataType::kUint16:
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kFloat64:
    case DataType::kComplex64:
      return 8;
    case DataType::kComplex128:
      return 16;
    default:
      return 0;
  }
}

std::string data_type_name(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat64:
      return "float64";
    case DataType::kFloat16:
      return "float16";
    case DataType::kBfloat16:
      return "bfloat16";
    case DataType::kBool:
      return "bool";
    case DataType::kInt8:
      return "int8";
    case DataType::kInt16:
      return "int16";
    case DataType::kInt32:
      return "int32";
    case DataType::kInt64:
      return "int64";
    case DataType::kUint8:
      return "uint8";
    case DataType::kUint16:
      return "uint16";
    case DataType::kUint32:
      return "uint32";
    case DataType::kUint64:
      return "uint64";
    case DataType::kComplex64:
      return "complex64";
    case DataType::kComplex128:
      return "complex128";
    case DataType::kString:
      return "string";
    default:
      return fmt::format("unknown type {}", static_cast<int>(type));
  }
}

std::string onnx_type_name(DataType type) {
  if (type == DataType::kFloat32) return "float";
  if (type == DataType::kFloat64) return "double";
  return data_type_name(type);
}

Tensor::Tensor(DataType type, Shape shape) : type_(type), shape_(std::move(shape)), bytes_() {
  const size_t bytes_per_element = type == DataType::kString ? sizeof(std::string) : element_size(type);
  if (bytes_per_element == 0) {
    throw UserError(fmt::format("a tensor can't have elements of {}", data_type_name(type)));
  }
  const auto count = static_cast<uint64_t>(element_count(shape_));
  if (count > physical_memory() / bytes_per_element) {
    throw UserError(fmt::format("a {} tensor of shape {} is larger than this machine's memory ({} bytes)",
                                data_type_name(type), shape_to_string(shape_), physical_memory()));
  }
  if (type == DataType::kString) {
    strings_.resize(count);
  } else {
    bytes_.resize(count * bytes_per_element);
  }
}

Tensor Tensor::reshaped(Shape shape) const {
  isa::check_internal(element_count(shape) == size(), "Tensor::reshaped", "{} to {}", shape_to_string(shape_),
                      shape_to_string(shape));
  Tensor result = *this;
  result.shape_ = std::move(shape);
  return result;
}

Tensor Tensor::reinterpreted(DataType type, Shape shape) const {
  if (type == type_) return reshaped(std::move(shape));
  isa::check_internal(
      static_cast<size_t>(element_count(shape)) * kodama::compiler::element_size(type) == byte_size(),
      "Tensor::reinterpreted", "{} {} as {} {}", data_type_name(type_), shape_to_string(shape_),
      data_type_name(type), shape_to_string(shape));
  Tensor result = *this;
  result.type_ = type;
  result.shape_ = std::move(shape);
  return result;
}

void Tensor::check_element_size(size_t size) const {
  if (size == element_size(type_)) return;  // before there is a message
  isa::check_internal(false, "Tensor::data", "a view of {}-byte elements on {}", size, data_type_name(type_));
}

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact in float
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  return std::bit_cast<float>(sign | ((exponent + 127 - 15) << 23) | (fraction << 13));
}

uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN: quiet, with what fits of the payload
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {                        // below 2^-14: subnormal, a multiple of 2^-24
    // Adding 0.5 puts the unit of least precision at 2^-24, so that the adder rounds for us.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f)));
  }
  const uint32_t rebased = magnitude - ((127u - 15u) << 23);
  const uint32_t rounded = rebased + 0xfffu + ((rebased >> 13) & 1u);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

float bfloat16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value) return nearest;
  if ((std::bit_cast<uint32_t>(nearest) & 1u) != 0) return nearest;
  const float infinity = std::numeric_limits<float>::infinity();
  return std::nextafter(nearest, value > static_cast<double>(nearest) ? infinity : -infinity);
}

double element_as_double(const Tensor& tensor, int64_t index) {
  // Asked first: the message would take longer than the element.
  if (index < 0 || index >= tensor.size())
    isa::check_internal(false, "element_as_double", "index {} of shape {}", index,
                        shape_to_string(tensor.shape()));
  const auto i = static_cast<size_t>(index);
  switch (tensor.type()) {
    case DataType::kFloat32:
      return tensor.data<float>()[i];
    case DataType::kFloat64:
      return tensor.data<double>()[i];
    case DataType::kFloat16:
      return half_to_float(tensor.data<uint16_t>()[i]);
    case DataType::kBfloat16:
      return bfloat16_to_float(tensor.data<uint16_t>()[i]);
    case DataType::kBool:
    case DataType::kUint8:
      return tensor.data<uint8_t>()[i];
    case DataType::kInt8:
      return tensor.data<int8_t>()[i];
    case DataType::kInt16:
      return tensor.data<int16_t>()[i];
    case DataType::kInt32:
      return tensor.data<int32_t>()[i];
    case DataType::kInt64:
      return static_cast<double>(tensor.data<int64_t>()[i]);
    case DataType::kUint16:
      return tensor.data<uint16_t>()[i];
    case DataType::kUint32:
      return tensor.data<uint32_t>()[i];
    case DataType::kUint64:
      return static_cast<double>(tensor.data<uint64_t>()[i]);
    default:
      throw isa::InternalError(
          fmt::format("internal error in element_as_double: no number in {}", data_type_name(tensor.type())));
  }
}

}  // namespace kodama::compiler
