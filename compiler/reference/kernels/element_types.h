#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "compiler/tensor/tensor.h"

/// C++ types for the element types of ONNX, and dispatch from one to the other.
namespace kodama::compiler::reference {

/// 16-bit floating-point elements as they lie in a Tensor. Arithmetic happens in float.
struct Float16 {
  uint16_t bits;
  Float16() = default;
  explicit Float16(float value) : bits(float_to_half(value)) {}
  operator float() const { return half_to_float(bits); }  // NOLINT: as implicit as from a built-in type
};
struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  explicit BFloat16(float value) : bits(float_to_bfloat16(value)) {}
  operator float() const { return bfloat16_to_float(bits); }  // NOLINT
};

template <typename T>
inline constexpr bool kIsSmallFloat = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
template <typename T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T> || kIsSmallFloat<T>;

/// The type in which an operator computes on elements of T: T itself, but float for 16-bit floats.
template <typename T>
using Compute = std::conditional_t<kIsSmallFloat<T>, float, T>;

/// The type in which sums and dot products accumulate. Integers wrap modulo 2^64, which is right modulo any
/// smaller power of two.
template <typename T>
using Accumulator = std::conditional_t<kIsFloat<T>, double, uint64_t>;

/// Rounds to T: to floating point the nearest, ties to even; of integers the low bits stay. Floating point to
/// integers truncates, and what ONNX leaves undefined saturates (NaN gives 0).
template <typename T, typename From>
T to_element(From value) {
  if constexpr (kIsSmallFloat<T> && std::is_same_v<From, double>) {
    return T(round_to_odd(value));
  } else if constexpr (kIsSmallFloat<T>) {
    return T(static_cast<float>(value));
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool> && std::is_floating_point_v<From>) {
    if (std::isnan(value)) return 0;
    if (value <= static_cast<From>(std::numeric_limits<T>::lowest())) return std::numeric_limits<T>::lowest();
    if (value >= static_cast<From>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    return static_cast<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
Compute<T> lowest_value() {
  if constexpr (kIsFloat<T>) {
    return -std::numeric_limits<Compute<T>>::infinity();
  } else {
    return std::numeric_limits<T>::lowest();
  }
}
template <typename T>
Compute<T> highest_value() {
  if constexpr (kIsFloat<T>) {
    return std::numeric_limits<Compute<T>>::infinity();
  } else {
    return std::numeric_limits<T>::max();
  }
}

template <typename T>
bool is_nan(T value) {
  if constexpr (kIsFloat<T>) {
    return std::isnan(static_cast<Compute<T>>(value));
  } else {
    return false;
  }
}

/// The larger (smaller) of two values; NaN if one is NaN, as numpy does.
template <typename T>
T maximum(T a, T b) {
  return is_nan(a) || a > b ? a : b;
}
template <typename T>
T minimum(T a, T b) {
  return is_nan(a) || a < b ? a : b;
}

/// + - * in the compute type; integers wrap without undefined behaviour.
template <typename T>
T wrapping_add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}
template <typename T>
T wrapping_subtract(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  } else {
    return a - b;
  }
}
template <typename T>
T wrapping_multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}
/// Truncating division. What C++ leaves undefined is as in numpy: x / 0 is 0, and the one quotient that
/// doesn't fit wraps.
template <typename T>
T wrapping_divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return wrapping_subtract<T>(0, a);
    }
    return static_cast<T>(a / b);
  } else {
    return a / b;
  }
}

/// Carries a type into a generic lambda: f(TypeTag<float>{}).
template <typename T>
struct TypeTag {
  using Type = T;
};

template <typename T>
constexpr DataType data_type_of() {
  if constexpr (std::is_same_v<T, float>) return DataType::kFloat32;
  if constexpr (std::is_same_v<T, double>) return DataType::kFloat64;
  if constexpr (std::is_same_v<T, Float16>) return DataType::kFloat16;
  if constexpr (std::is_same_v<T, BFloat16>) return DataType::kBfloat16;
  if constexpr (std::is_same_v<T, bool>) return DataType::kBool;
  if constexpr (std::is_same_v<T, int8_t>) return DataType::kInt8;
  if constexpr (std::is_same_v<T, int16_t>) return DataType::kInt16;
  if constexpr (std::is_same_v<T, int32_t>) return DataType::kInt32;
  if constexpr (std::is_same_v<T, int64_t>) return DataType::kInt64;
  if constexpr (std::is_same_v<T, uint8_t>) return DataType::kUint8;
  if constexpr (std::is_same_v<T, uint16_t>) return DataType::kUint16;
  if constexpr (std::is_same_v<T, uint32_t>) return DataType::kUint32;
  if constexpr (std::is_same_v<T, uint64_t>) return DataType::kUint64;
  return DataType::kUndefined;
}

/// Calls `f` with the TypeTag of `type` and returns true; false if `type` isn't among the Types.
template <typename... Types, typename F>
bool visit_type_among(DataType type, F&& f) {
  return ((type == data_type_of<Types>() && (f(TypeTag<Types>{}), true)) || ...);
}

template <typename F>
bool visit_float_type(DataType type, F&& f) {
  return visit_type_among<float, double, Float16, BFloat16>(type, f);
}
template <typename F>
bool visit_integer_type(DataType type, F&& f) {
  return visit_type_among<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(type, f);
}
template <typename F>
bool visit_number_type(DataType type, F&& f) {
  return visit_float_type(type, f) || visit_integer_type(type, f);
}
/// Numbers and bool. Bool is one byte in a Tensor, as `bool` is here.
template <typename F>
bool visit_number_or_bool_type(DataType type, F&& f) {
  return visit_number_type(type, f) || visit_type_among<bool>(type, f);
}
static_assert(sizeof(bool) == 1);

}  // namespace kodama::compiler::reference
