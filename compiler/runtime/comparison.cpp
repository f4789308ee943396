#include "compiler/runtime/comparison.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

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

Tensor as_chip_reads(const Tensor& tensor) {
  Tensor result = tensor;
  const auto read = [&]<typename Element>(Element, auto&& to_float, auto&& from_float) {
    for (Element& element : result.data<Element>()) {
      const float value = to_float(element);
      if (std::isnan(value)) {
        element = from_float(std::copysign(std::numeric_limits<float>::infinity(), value));
      } else if (value != 0 && std::abs(value) < std::numeric_limits<float>::min()) {
        element = from_float(std::copysign(0.0F, value));
      }
    }
  };
  switch (tensor.type()) {
    case onnx::TensorProto_DataType_FLOAT:
      read(
          float{}, [](float x) { return x; }, [](float x) { return x; });
      break;
    case onnx::TensorProto_DataType_DOUBLE:
      read(
          double{},
          [](double x) {
            return x != 0 && std::abs(x) < static_cast<double>(std::numeric_limits<float>::min())
                       ? std::copysign(std::numeric_limits<float>::denorm_min(), static_cast<float>(x))
                       : static_cast<float>(x);
          },
          [](float x) { return static_cast<double>(x); });
      break;
    case onnx::TensorProto_DataType_FLOAT16:
      read(uint16_t{}, half_to_float, float_to_half);
      break;
    case onnx::TensorProto_DataType_BFLOAT16:
      read(uint16_t{}, bfloat16_to_float, float_to_bfloat16);
      break;
    default:
      break;
  }
  return result;
}

bool explained_by_number_format(const Tensor& actual, const Tensor& expected, const Tensor& as_read,
                                double absolute_tolerance, double relative_tolerance) {
  for (const Tensor* other : {&expected, &as_read}) {
    if (actual.type() != other->type() || actual.shape() != other->shape()) return false;
  }
  if (actual.type() == onnx::TensorProto_DataType_STRING) return actual == as_read;
  const auto passes = [&](double a, double e) {
    if (std::isnan(e)) return true;
    if (e != 0 && std::abs(e) < static_cast<double>(std::numeric_limits<float>::min()) && a == 0) return true;
    if (!std::isfinite(a) || !std::isfinite(e)) return a == e;
    return std::abs(a - e) <= absolute_tolerance + relative_tolerance * std::abs(e);
  };
  for (int64_t k = 0; k < actual.size(); ++k) {
    const double a = element_as_double(actual, k);
    if (!passes(a, element_as_double(expected, k)) && !passes(a, element_as_double(as_read, k))) return false;
  }
  return true;
}

double default_tolerance(MatrixPrecision precision) {
  switch (precision) {
    case MatrixPrecision::kFloat:
      return 1e-5;
    case MatrixPrecision::kGFloat:
      return 1e-3;
    case MatrixPrecision::kHalf:
      // 9 mantissa bits in a block of 16: some 2^-8 per product, a few layers deep.
      return 5e-2;
  }
  return 0;
}

bool within(const Comparison& comparison, double tolerance) {
  return comparison.problem.empty() && comparison.unequal == 0 && comparison.max_relative <= tolerance;
}

}  // namespace kodama::compiler
