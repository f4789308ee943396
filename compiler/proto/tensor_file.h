#pragma once

#include <string>

#include "compiler/tensor/tensor.h"

namespace kodama::compiler {

/// Reads a tensor from FILE by its extension: `.pb` (TensorProto), `.npy`, or `.npz` (then `member`
/// names the array; with one array it may be empty). UserError with the file's name otherwise.
Tensor read_tensor_file(const std::string& path, const std::string& member = "");
/// Writes `.pb` or `.npy`, to a temporary name that is then renamed.
void write_tensor_file(const std::string& path, const Tensor& tensor, const std::string& name);

}  // namespace kodama::compiler
