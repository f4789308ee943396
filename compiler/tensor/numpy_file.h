#pragma once

#include <string>

#include "compiler/tensor/tensor.h"

namespace kodama::compiler {

/// Whether `.npy` files have the type: write_numpy_file() refuses others.
bool is_numpy_type(DataType type);

/// Reads `.npy`, or of a `.npz` the array `member` (which may be empty if it has one array). UserError with
/// the file's name for anything else.
Tensor read_numpy_file(const std::string& path, const std::string& member = "");
/// Writes `.npy`, to a temporary name that is then renamed.
void write_numpy_file(const std::string& path, const Tensor& tensor);

}  // namespace kodama::compiler
