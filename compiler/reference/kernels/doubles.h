#pragma once

#include <vector>

#include "compiler/reference/kernels/kernel.h"

/// Operators on floating point that compute in double: all elements in, all results out, rounded once.
namespace kodama::compiler::reference {

/// UserError if the elements aren't floating point.
std::vector<double> as_doubles(const NodeContext& context, const Tensor& tensor);
/// A value per element of the shape. UserError if the type isn't floating point.
Tensor from_doubles(const NodeContext& context, DataType type, const Shape& shape,
                    const std::vector<double>& values);

}  // namespace kodama::compiler::reference
