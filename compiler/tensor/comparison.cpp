#include "compiler/tensor/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <random>

#include "isa/arithmetic.h"

namespace kodama::compiler {

Comparison compare_tensors(const Tensor& actual, const Tensor& expected) {
  Comparison result;
  if (actual.type() != expected.type() || actual.shape() != expected.shape()) {
    result.problem = fmt::format("found {} {}, expected {} {}", data_type_name(actual.type()),
                                 shape_to_string(actual.shape()), data_type_name(expected.type()),
                                 shape_to_string(expected.shape()));
    return result;
  }
  switch (expected.type()) {
    case onnx::TensorProto_DataType_STRING:
      for (size_t k = 0; k < expected.strings().size(); ++k)
        result.unequal += actual.strings()[k] != expected.strings()[k];
      return result;
    case onnx::TensorProto_DataType_FLOAT:
    case onnx::TensorProto_DataType_DOUBLE:
    case onnx::TensorProto_DataType_FLOAT16:
    case onnx::TensorProto_DataType_BFLOAT16:
      break;
    default: {
      const size_t size = element_size(expected.type());
      const auto a = actual.bytes();
      const auto e = expected.bytes();
      for (size_t at = 0; at + size <= e.size(); at += size) {
        result.unequal += !std::equal(e.begin() + static_cast<std::ptrdiff_t>(at),
                                      e.begin() + static_cast<std::ptrdiff_t>(at + size),
                                      a.begin() + static_cast<std::ptrdiff_t>(at));
      }
      return result;
    }
  }
  double largest = 0;
  for (int64_t k = 0; k < expected.size(); ++k) {
    const double e = element_as_double(expected, k);
    const double a = element_as_double(actual, k);
    if (a == e || (std::isnan(a) && std::isnan(e))) {
      if (std::isfinite(e)) largest = std::max(largest, std::abs(e));
      continue;
    }
    if (!std::isfinite(a) || !std::isfinite(e)) {
      ++result.unequal;
      if (result.worst_index < 0) result.worst_index = k;
      continue;
    }
    largest = std::max(largest, std::abs(e));
    const double error = std::abs(a - e);
    if (error > result.max_absolute) {
      result.max_absolute = error;
      result.worst_index = k;
    }
  }
  result.max_relative = largest > 0 ? result.max_absolute / largest : result.max_absolute;
  return result;
}

bool within(const Comparison& comparison, double tolerance) {
  return comparison.problem.empty() && comparison.unequal == 0 && comparison.max_relative <= tolerance;
}

Tensor random_input(const std::string& name, DataType type, const Shape& shape, uint64_t seed) {
  std::mt19937_64 engine(seed ^ isa::hash(name));
  // The standard's distributions are implementation defined; Box-Muller on raw bits is not.
  const auto uniform = [&engine] { return (static_cast<double>(engine() >> 11) + 0.5) * 0x1.0p-53; };
  const auto normal = [&] { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * M_PI * uniform()); };
  Tensor tensor;
  try {
    tensor = Tensor(type, shape);
  } catch (const std::bad_alloc&) {
    throw isa::UnsupportedError(
        fmt::format("input '{}' ({} {}): this needs more memory than the process may have; set smaller "
                    "dimensions (--dim), or raise the limit",
                    name, data_type_name(type), shape_to_string(shape)));
  }
  const auto fill = [&](auto example, auto make) {
    for (auto& element : tensor.data<decltype(example)>()) element = static_cast<decltype(example)>(make());
  };
  const auto small = [&] { return engine() % 10; };
  switch (type) {
    case onnx::TensorProto_DataType_FLOAT:
      fill(float{}, normal);
      break;
    case onnx::TensorProto_DataType_DOUBLE:
      fill(double{}, normal);
      break;
    case onnx::TensorProto_DataType_FLOAT16:
      fill(uint16_t{}, [&] { return float_to_half(static_cast<float>(normal())); });
      break;
    case onnx::TensorProto_DataType_BFLOAT16:
      fill(uint16_t{}, [&] { return float_to_bfloat16(static_cast<float>(normal())); });
      break;
    case onnx::TensorProto_DataType_BOOL:
      fill(uint8_t{}, [&] { return engine() & 1; });
      break;
    case onnx::TensorProto_DataType_INT8:
    case onnx::TensorProto_DataType_UINT8:
      fill(uint8_t{}, small);
      break;
    case onnx::TensorProto_DataType_INT16:
    case onnx::TensorProto_DataType_UINT16:
      fill(uint16_t{}, small);
      break;
    case onnx::TensorProto_DataType_INT32:
    case onnx::TensorProto_DataType_UINT32:
      fill(uint32_t{}, small);
      break;
    case onnx::TensorProto_DataType_INT64:
    case onnx::TensorProto_DataType_UINT64:
      fill(uint64_t{}, small);
      break;
    default:
      throw isa::UserError(
          fmt::format("input '{}' has type {}, for which there are no random values; give it with --input",
                      name, data_type_name(type)));
  }
  return tensor;
}

}  // namespace kodama::compiler
