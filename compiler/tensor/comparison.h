#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/tensor/tensor.h"

/// Whether tensors that two computations made are the same, and inputs to find that out with.
namespace kodama::compiler {

/// How far a tensor is from what it should be.
struct Comparison {
  double max_absolute = 0;  ///< largest |actual - expected|
  double max_relative = 0;  ///< largest absolute error over the largest |expected|
  /// Where the largest absolute error is, else the first element of `unequal` (indices by axis); what is
  /// there and should be, as text. Empty if nothing differs.
  std::optional<Shape> worst_place = {};
  std::string found, expected;
  /// Elements that can't be compared by a difference and are not the same: NaN or infinity against a
  /// number, different integers.
  int64_t unequal = 0;
  std::string problem;  ///< different type or shape: then nothing else is set
};

/// Infinities of one sign and NaNs are equal to each other; integers, booleans and strings count in
/// `unequal`.
Comparison compare_tensors(const Tensor& actual, const Tensor& expected);

/// Whether the comparison passes.
bool within(const Comparison& comparison, double tolerance);

/// Values for inputs that are not given: normally distributed floats, small integers; a function of the seed,
/// the input's name, type and shape alone.
Tensor random_input(const std::string& name, DataType type, const Shape& shape, uint64_t seed);

}  // namespace kodama::compiler
