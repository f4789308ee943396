#pragma once

#include <optional>
#include <string>

#include "compiler/tensor/tensor.h"
#include "compiler/tile/tile_program.h"

namespace kodama::compiler {

/// How far a tensor is from what it should be.
struct Comparison {
  double max_absolute = 0;   ///< largest |actual - expected|
  double max_relative = 0;   ///< largest absolute error over the largest |expected|
  int64_t worst_index = -1;  ///< where the largest absolute error is (flat index)
  /// Elements that can't be compared by a difference and are not the same: NaN or infinity against a
  /// number, different integers.
  int64_t unequal = 0;
  std::string problem;  ///< different type or shape: then nothing else is set
};

/// Infinities of one sign and NaNs are equal to each other; integers, booleans and strings count in
/// `unequal`.
Comparison compare_tensors(const Tensor& actual, const Tensor& expected);

/// A tensor of floats as the chip reads it: it has no NaN, whose bits are those of an infinity of the same
/// sign, and no subnormal numbers, which are zeros of the same sign. Others as they are.
Tensor as_chip_reads(const Tensor& tensor);

/// Whether every difference between what the chip made and what ONNX expects comes from numbers that the chip
/// lacks. An element of `actual` must be close to `expected`, or to `as_read`, what the reference makes of
/// the inputs as_chip_reads. Where either of these is NaN, which the chip can't make, any number passes;
/// where it is subnormal, a zero does.
bool explained_by_number_format(const Tensor& actual, const Tensor& expected, const Tensor& as_read,
                                double absolute_tolerance, double relative_tolerance);

/// Largest relative error that passes for a model computed in `precision`.
double default_tolerance(MatrixPrecision precision);

/// Whether the comparison passes.
bool within(const Comparison& comparison, double tolerance);

}  // namespace kodama::compiler
