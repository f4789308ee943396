#include "compiler/tensor/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <random>

#include "isa/arithmetic.h"

namespace kodama::compiler {

namespace {

std::string element_text(const Tensor& tensor, int64_t index) {
  switch (tensor.type()) {
    case DataType::kString:
      return fmt::format("'{}'", tensor.strings()[static_cast<size_t>(index)]);
    case DataType::kInt64:
      return std::to_string(tensor.data<int64_t>()[static_cast<size_t>(index)]);
    case DataType::kUint64:
      return std::to_string(tensor.data<uint64_t>()[static_cast<size_t>(index)]);
    case DataType::kFloat64:
      return fmt::format("{}", tensor.data<double>()[static_cast<size_t>(index)]);
    case DataType::kComplex64: {
      const float* parts = reinterpret_cast<const float*>(tensor.bytes().data()) + 2 * index;
      return fmt::format("{}{:+}i", parts[0], parts[1]);
    }
    case DataType::kComplex128: {
      const double* parts = reinterpret_cast<const double*>(tensor.bytes().data()) + 2 * index;
      return fmt::format("{}{:+}i", parts[0], parts[1]);
    }
    default:
      return fmt::format("{}", static_cast<float>(element_as_double(tensor, index)));
  }
}

Shape place_of(int64_t index, const Shape& shape) {
  Shape place(shape.size());
  for (size_t axis = shape.size(); axis-- > 0; index /= shape[axis]) place[axis] = index % shape[axis];
  return place;
}

/// `differs(k)` says whether element k does. Returns the first.
template <typename Differs>
int64_t count_unequal(int64_t size, Comparison& result, const Differs& differs) {
  int64_t first = -1;
  for (int64_t k = 0; k < size; ++k) {
    if (!differs(k)) continue;
    if (first < 0) first = k;
    ++result.unequal;
  }
  return first;
}

/// Returns the element of the largest error, else the first one that isn't comparable; -1: none.
int64_t compare_floats(const Tensor& actual, const Tensor& expected, Comparison& result) {
  double largest = 0;
  int64_t worst = -1;
  int64_t first_unequal = -1;
  for (int64_t k = 0; k < expected.size(); ++k) {
    const double e = element_as_double(expected, k);
    const double a = element_as_double(actual, k);
    if (a == e || (std::isnan(a) && std::isnan(e))) {
      if (std::isfinite(e)) largest = std::max(largest, std::abs(e));
      continue;
    }
    if (!std::isfinite(a) || !std::isfinite(e)) {
      ++result.unequal;
      if (first_unequal < 0) first_unequal = k;
      continue;
    }
    largest = std::max(largest, std::abs(e));
    const double error = std::abs(a - e);
    if (error > result.max_absolute) {
      result.max_absolute = error;
      worst = k;
    }
  }
  result.max_relative = largest > 0 ? result.max_absolute / largest : result.max_absolute;
  return first_unequal >= 0 ? first_unequal : worst;
}

}  // namespace

Comparison compare_tensors(const Tensor& actual, const Tensor& expected) {
  Comparison result;
  if (actual.type() != expected.type() || actual.shape() != expected.shape()) {
    result.problem = fmt::format("found {} {}, expected {} {}", data_type_name(actual.type()),
                                 shape_to_string(actual.shape()), data_type_name(expected.type()),
                                 shape_to_string(expected.shape()));
    return result;
  }
  int64_t worst = -1;
  switch (expected.type()) {
    case DataType::kString:
      worst = count_unequal(expected.size(), result, [&](int64_t k) {
        return actual.strings()[static_cast<size_t>(k)] != expected.strings()[static_cast<size_t>(k)];
      });
      break;
    case DataType::kFloat32:
    case DataType::kFloat64:
    case DataType::kFloat16:
    case DataType::kBfloat16:
      worst = compare_floats(actual, expected, result);
      break;
    default: {
      const size_t size = element_size(expected.type());
      const std::byte* a = actual.bytes().data();
      const std::byte* e = expected.bytes().data();
      worst = count_unequal(expected.size(), result, [&](int64_t k) {
        const size_t at = static_cast<size_t>(k) * size;
        return !std::equal(e + at, e + at + size, a + at);
      });
    }
  }
  if (worst >= 0) {
    result.worst_place = place_of(worst, expected.shape());
    result.found = element_text(actual, worst);
    result.expected = element_text(expected, worst);
  }
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
    case DataType::kFloat32:
      fill(float{}, normal);
      break;
    case DataType::kFloat64:
      fill(double{}, normal);
      break;
    case DataType::kFloat16:
      fill(uint16_t{}, [&] { return float_to_half(static_cast<float>(normal())); });
      break;
    case DataType::kBfloat16:
      fill(uint16_t{}, [&] { return float_to_bfloat16(static_cast<float>(normal())); });
      break;
    case DataType::kBool:
      fill(uint8_t{}, [&] { return engine() & 1; });
      break;
    case DataType::kInt8:
    case DataType::kUint8:
      fill(uint8_t{}, small);
      break;
    case DataType::kInt16:
    case DataType::kUint16:
      fill(uint16_t{}, small);
      break;
    case DataType::kInt32:
    case DataType::kUint32:
      fill(uint32_t{}, small);
      break;
    case DataType::kInt64:
    case DataType::kUint64:
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
