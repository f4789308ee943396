#pragma once

#include <functional>
#include <string>

#include "compiler/reference/kernels/node.h"
#include "isa/json_value.h"

/// Nodes of host stages in a package's manifest, with their graphs, functions and signatures. Tensors are in
/// files of their own.
namespace kodama::compiler {

/// A tensor as JSON says it: its type, its shape, and the file with its elements (tensor_bytes).
/// `write(contents)` gives the name of the file.
using WriteTensor = std::function<std::string(const std::string& contents)>;
isa::Json tensor_to_json(const Tensor& tensor, const WriteTensor& write);
/// UserError where the file isn't what type and shape say. `contents(name)`: of that file.
using TensorFile = std::function<std::string(const isa::JsonValue& name)>;
Tensor read_tensor(const isa::JsonValue& json, const TensorFile& contents);

/// Elements as they are in memory, row-major; of strings, each behind its length in bytes (8 bytes).
std::string tensor_bytes(const Tensor& tensor);
/// UserError, which begins with `where`, if these aren't the elements of such a tensor.
Tensor tensor_of_bytes(DataType type, Shape shape, const std::string& bytes, const std::string& where);

/// UnsupportedError where graphs are nested deeper than a manifest can be.
isa::Json node_to_json(const reference::Node& node, const WriteTensor& write);
reference::Node read_node(const isa::JsonValue& json, const TensorFile& contents);

}  // namespace kodama::compiler
