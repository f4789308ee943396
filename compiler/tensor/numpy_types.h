#pragma once

#include "compiler/tensor/tensor.h"

namespace kodama::compiler {

/// Whether `.npy` files have the type: write_tensor_file() refuses others.
bool is_numpy_type(DataType type);

}  // namespace kodama::compiler
