#pragma once

#include "compiler/streams/element_forms.h"
#include "compiler/tensor/comparison.h"
#include "compiler/tensor/tensor.h"

namespace kodama::compiler {

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

}  // namespace kodama::compiler
