#pragma once

#include <vector>

#include "compiler/tensor/tensor.h"

/// What layers on the host cost, as far as the chip file's rates of the host (isa::HostComputer) say.
namespace kodama::compiler {

/// Operations of a node: multiply-adds of products, convolutions and recurrent layers, else every element
/// that it reads or writes. Omitted inputs are null.
int64_t host_operations(const std::string& op_type, const std::vector<const Tensor*>& inputs,
                        const std::vector<Tensor>& outputs);

}  // namespace kodama::compiler
