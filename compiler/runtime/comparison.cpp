#include "compiler/runtime/comparison.h"

#include <cmath>
#include <limits>
#include <type_traits>

namespace kodama::compiler {

Tensor as_chip_reads(const Tensor& tensor) {
  Tensor result = tensor;
  // Elements of a type, and the floats or doubles that the chip computes them in.
  const auto read = [&]<typename Element>(Element, auto&& to_number, auto&& from_number) {
    for (Element& element : result.data<Element>()) {
      const auto value = to_number(element);
      using Number = std::remove_cv_t<decltype(value)>;
      if (std::isnan(value)) {
        element = from_number(std::copysign(std::numeric_limits<Number>::infinity(), value));
      } else if (value != 0 && std::abs(value) < std::numeric_limits<Number>::min()) {
        element = from_number(std::copysign(Number{0}, value));
      }
    }
  };
  const auto same = [](auto x) { return x; };
  switch (tensor.type()) {
    case DataType::kFloat32:
      read(float{}, same, same);
      break;
    case DataType::kFloat64:
      read(double{}, same, same);
      break;
    case DataType::kFloat16:
      read(uint16_t{}, half_to_float, float_to_half);
      break;
    case DataType::kBfloat16:
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
  if (actual.type() == DataType::kString) return actual == as_read;
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

}  // namespace kodama::compiler
