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
using onnx::TensorProto;

static_assert(std::endian::native == std::endian::little, "TensorProto and .npy data is copied as it is");

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
    case TensorProto::BOOL:
    case TensorProto::INT8:
    case TensorProto::UINT8:
      return 1;
    case TensorProto::INT16:
    case TensorProto::UINT16:
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16:
      return 2;
    case TensorProto::INT32:
    case TensorProto::UINT32:
    case TensorProto::FLOAT:
      return 4;
    case TensorProto::INT64:
    case TensorProto::UINT64:
    case TensorProto::DOUBLE:
    case TensorProto::COMPLEX64:
      return 8;
    case TensorProto::COMPLEX128:
      return 16;
    default:
      return 0;
  }
}

std::string data_type_name(DataType type) {
  switch (type) {
    case TensorProto::FLOAT:
      return "float32";
    case TensorProto::DOUBLE:
      return "float64";
    case TensorProto::FLOAT16:
      return "float16";
    case TensorProto::BFLOAT16:
      return "bfloat16";
    case TensorProto::BOOL:
      return "bool";
    case TensorProto::INT8:
      return "int8";
    case TensorProto::INT16:
      return "int16";
    case TensorProto::INT32:
      return "int32";
    case TensorProto::INT64:
      return "int64";
    case TensorProto::UINT8:
      return "uint8";
    case TensorProto::UINT16:
      return "uint16";
    case TensorProto::UINT32:
      return "uint32";
    case TensorProto::UINT64:
      return "uint64";
    case TensorProto::COMPLEX64:
      return "complex64";
    case TensorProto::COMPLEX128:
      return "complex128";
    case TensorProto::STRING:
      return "string";
    default:
      return fmt::format("unknown type {}", static_cast<int>(type));
  }
}

Tensor::Tensor(DataType type, Shape shape) : type_(type), shape_(std::move(shape)), bytes_() {
  const size_t bytes_per_element = type == TensorProto::STRING ? sizeof(std::string) : element_size(type);
  if (bytes_per_element == 0) {
    throw UserError(fmt::format("a tensor can't have elements of {}", data_type_name(type)));
  }
  const auto count = static_cast<uint64_t>(element_count(shape_));
  if (count > physical_memory() / bytes_per_element) {
    throw UserError(fmt::format("a {} tensor of shape {} is larger than this machine's memory ({} bytes)",
                                data_type_name(type), shape_to_string(shape_), physical_memory()));
  }
  if (type == TensorProto::STRING) {
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
    case TensorProto::FLOAT:
      return tensor.data<float>()[i];
    case TensorProto::DOUBLE:
      return tensor.data<double>()[i];
    case TensorProto::FLOAT16:
      return half_to_float(tensor.data<uint16_t>()[i]);
    case TensorProto::BFLOAT16:
      return bfloat16_to_float(tensor.data<uint16_t>()[i]);
    case TensorProto::BOOL:
    case TensorProto::UINT8:
      return tensor.data<uint8_t>()[i];
    case TensorProto::INT8:
      return tensor.data<int8_t>()[i];
    case TensorProto::INT16:
      return tensor.data<int16_t>()[i];
    case TensorProto::INT32:
      return tensor.data<int32_t>()[i];
    case TensorProto::INT64:
      return static_cast<double>(tensor.data<int64_t>()[i]);
    case TensorProto::UINT16:
      return tensor.data<uint16_t>()[i];
    case TensorProto::UINT32:
      return tensor.data<uint32_t>()[i];
    case TensorProto::UINT64:
      return static_cast<double>(tensor.data<uint64_t>()[i]);
    default:
      throw isa::InternalError(
          fmt::format("internal error in element_as_double: no number in {}", data_type_name(tensor.type())));
  }
}

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
  if (type != TensorProto::STRING && element_size(type) == 0) {
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
  if (proto.has_raw_data() && (type == TensorProto::STRING || has_typed_data(proto))) {
    throw UserError(fmt::format(
        "{}: raw_data is present, but {}", where,
        type == TensorProto::STRING ? "the elements are strings" : "so is another field with elements"));
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
    if (type == TensorProto::BOOL) make_bools_zero_or_one(tensor);
    return tensor;
  }
  switch (type) {
    case TensorProto::FLOAT:
      copy_field<float>(proto.float_data(), "float_data", tensor, where);
      break;
    case TensorProto::COMPLEX64:
      copy_complex_field<float>(proto.float_data(), "float_data", tensor, where);
      break;
    case TensorProto::DOUBLE:
      copy_field<double>(proto.double_data(), "double_data", tensor, where);
      break;
    case TensorProto::COMPLEX128:
      copy_complex_field<double>(proto.double_data(), "double_data", tensor, where);
      break;
    case TensorProto::INT64:
      copy_field<int64_t>(proto.int64_data(), "int64_data", tensor, where);
      break;
    case TensorProto::UINT32:
      copy_field<uint32_t>(proto.uint64_data(), "uint64_data", tensor, where);
      break;
    case TensorProto::UINT64:
      copy_field<uint64_t>(proto.uint64_data(), "uint64_data", tensor, where);
      break;
    case TensorProto::INT32:
      copy_field<int32_t>(proto.int32_data(), "int32_data", tensor, where);
      break;
    case TensorProto::INT16:
      copy_field<int16_t>(proto.int32_data(), "int32_data", tensor, where);
      break;
    case TensorProto::INT8:
      copy_field<int8_t>(proto.int32_data(), "int32_data", tensor, where);
      break;
    case TensorProto::UINT8:
    case TensorProto::BOOL:
      copy_field<uint8_t>(proto.int32_data(), "int32_data", tensor, where);
      if (type == TensorProto::BOOL) make_bools_zero_or_one(tensor);
      break;
    case TensorProto::UINT16:
    case TensorProto::FLOAT16:  // bit patterns
    case TensorProto::BFLOAT16:
      copy_field<uint16_t>(proto.int32_data(), "int32_data", tensor, where);
      break;
    case TensorProto::STRING:
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
  if (tensor.type() == TensorProto::STRING) {
    for (const std::string& text : tensor.strings()) proto.add_string_data(text);
  } else {
    const auto bytes = tensor.bytes();
    proto.set_raw_data(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  return proto;
}

}  // namespace kodama::compiler
