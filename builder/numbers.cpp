#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>
#include <span>

#include "builder/recorder.h"
#include "compiler/reference/kernels/threefry.h"

namespace kodama::builder {

namespace {

std::string text_of(const Number& number) {
  if (number.is_bool()) return number.as<bool>() ? "true" : "false";
  return number.is_integer() ? std::to_string(number.as<int64_t>()) : fmt::format("{}", number.as<double>());
}

template <typename T>
T integer_of(const Number& number, DataType type, const std::string& what) {
  // Doubles up to 2^53 are exact; what is larger as a double has lost its last digits.
  constexpr double kMostExact = 9007199254740992.0;
  const bool is_whole =
      number.is_integer() || number.is_bool() ||
      (std::abs(number.as<double>()) <= kMostExact && std::trunc(number.as<double>()) == number.as<double>());
  const int64_t value = is_whole ? number.as<int64_t>() : 0;
  if (!is_whole || !std::in_range<T>(value)) {
    throw isa::UserError(fmt::format("{} is {}; integers from {} to {} ({}) are allowed", what,
                                     text_of(number), std::numeric_limits<T>::min(),
                                     std::numeric_limits<T>::max(), compiler::data_type_name(type)));
  }
  return static_cast<T>(value);
}

/// The number of each element.
using NumberAt = std::function<Number(size_t)>;

template <typename T>
void fill_integers(Tensor& tensor, const NumberAt& number, const std::string& what) {
  const std::span<T> data = tensor.data<T>();
  for (size_t k = 0; k < data.size(); ++k) data[k] = integer_of<T>(number(k), tensor.type(), what);
}

template <typename T, typename Convert>
void fill_reals(Tensor& tensor, const NumberAt& number, const Convert& convert) {
  const std::span<T> data = tensor.data<T>();
  for (size_t k = 0; k < data.size(); ++k) data[k] = convert(number(k).as<double>());
}

void fill_bools(Tensor& tensor, const NumberAt& number, const std::string& what) {
  const std::span<uint8_t> data = tensor.data<uint8_t>();
  for (size_t k = 0; k < data.size(); ++k) {
    if (!number(k).is_bool())
      throw isa::UserError(fmt::format("{} is {}; true and false are allowed", what, text_of(number(k))));
    data[k] = number(k).as<bool>() ? 1 : 0;
  }
}

void fill(Tensor& tensor, const NumberAt& numbers, const std::string& what) {
  switch (tensor.type()) {
    case kFloat32:
      return fill_reals<float>(tensor, numbers, [](double value) { return static_cast<float>(value); });
    case kFloat64:
      return fill_reals<double>(tensor, numbers, [](double value) { return value; });
    case kFloat16:
      return fill_reals<uint16_t>(tensor, numbers, [](double value) {
        return compiler::float_to_half(compiler::round_to_odd(value));
      });
    case kBFloat16:
      return fill_reals<uint16_t>(tensor, numbers, [](double value) {
        return compiler::float_to_bfloat16(compiler::round_to_odd(value));
      });
    case kInt8:
      return fill_integers<int8_t>(tensor, numbers, what);
    case kInt16:
      return fill_integers<int16_t>(tensor, numbers, what);
    case kInt32:
      return fill_integers<int32_t>(tensor, numbers, what);
    case kInt64:
      return fill_integers<int64_t>(tensor, numbers, what);
    case kUInt8:
      return fill_integers<uint8_t>(tensor, numbers, what);
    case kUInt16:
      return fill_integers<uint16_t>(tensor, numbers, what);
    case kUInt32:
      return fill_integers<uint32_t>(tensor, numbers, what);
    case kUInt64:
      return fill_integers<uint64_t>(tensor, numbers, what);
    case kBool:
      return fill_bools(tensor, numbers, what);
    default:
      throw isa::UserError(fmt::format("{} is a number; elements must be {}: give a Tensor", what,
                                       compiler::data_type_name(tensor.type())));
  }
}

/// The words of parameters' elements: the key is made of the seed and the name.
class Draws {
 public:
  Draws(uint64_t seed, const std::string& name) {
    constexpr uint64_t kFnvBasis = 0xCBF29CE484222325, kFnvPrime = 0x100000001B3;
    uint64_t hash = kFnvBasis;
    for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * kFnvPrime;
    hash ^= seed * kFnvPrime;
    key_ = {static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32)};
  }

  /// In [0, 1), and in (0, 1].
  double uniform(size_t element) const { return words(element)[0] * kUnit; }
  double normal(size_t element) const {
    const auto [first, second] = words(element);
    constexpr double kTwoPi = 6.283185307179586;
    return std::sqrt(-2 * std::log((first + 1.0) * kUnit)) * std::cos(kTwoPi * second * kUnit);
  }

 private:
  static constexpr double kUnit = 0x1p-32;

  compiler::reference::ThreefryWords words(size_t element) const {
    return compiler::reference::threefry(
        key_, {static_cast<uint32_t>(element), static_cast<uint32_t>(element >> 32)});
  }

  compiler::reference::ThreefryWords key_;
};

}  // namespace

Tensor constant_of(const Operand& numbers, DataType type, const std::string& what) {
  const bool is_list = numbers.numbers() != nullptr;
  const Operand::Numbers list = is_list ? *numbers.numbers() : Operand::Numbers{*numbers.number()};
  Tensor tensor(type, is_list ? Shape{static_cast<int64_t>(list.size())} : Shape{});
  fill(
      tensor, [&](size_t k) { return list[k]; }, what);
  return tensor;
}

Initial Initial::constant(double value) {
  return {Kind::kConstant, value, 0};
}

Initial Initial::normal(double deviation, double mean) {
  return {Kind::kNormal, deviation, mean};
}

Initial Initial::uniform(double low, double high) {
  return {Kind::kUniform, low, high};
}

Initial Initial::scaled() {
  return {Kind::kScaled, 0, 0};
}

Tensor Initial::draw(DataType type, const Shape& shape, uint64_t seed, const std::string& name) const {
  Tensor tensor(type, shape);
  const Draws draws(seed, name);
  double low = a_, high = b_;
  if (kind_ == Kind::kScaled) {
    double fan = 1;
    for (size_t axis = 1; axis < shape.size(); ++axis) fan *= static_cast<double>(shape[axis]);
    // A uniform distribution from -a to a has the variance a^2 / 3.
    high = std::sqrt(3 / std::max(1.0, fan));
    low = -high;
  }
  const auto number = [&](size_t k) -> Number {
    if (kind_ == Kind::kConstant) return a_;
    if (kind_ == Kind::kNormal) return b_ + a_ * draws.normal(k);
    return low + (high - low) * draws.uniform(k);
  };
  fill(tensor, number, fmt::format("the first value of '{}'", name));
  return tensor;
}

}  // namespace kodama::builder
