#pragma once

#include <cstdint>
#include <vector>

#include "compiler/tensor/tensor.h"

namespace kodama::compiler {

/// Index of the largest element of each row (all elements of a row: the last axis).
std::vector<int64_t> largest_per_row(const Tensor& tensor);

}  // namespace kodama::compiler
