#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <string>

#include "compiler/tensor/tensor.h"

/// The way of a model into the compiler.
namespace kodama::compiler {

struct ImportOptions {
  /// Extents for dimensions that the model leaves open. A key is the dimension's name in the model
  /// ("batch"), or the name of an input and an axis ("x:0") for a dimension without a name.
  /// The latter form may also change a fixed extent, such as the batch of a model exported with batch 1.
  std::map<std::string, int64_t> dims = {};
  /// Inputs that are fixed to a value before compilation, by name: axes, pads, shapes and other operands that
  /// must be known for static shapes.
  std::map<std::string, Tensor> bind = {};
};

/// Reads an ONNX model and brings it into the one form that all passes work on:
///
///  * opset 17 of ai.onnx, IR version 8; models of opset 1 to 21 and IR version 3 to 10 are converted,
///  * graph inputs are what the user gives: initializers aren't among them,
///  * no functions of the model's own (they are expanded), no control flow, tensors only, no external data,
///  * every value has an element type and a static shape, stated in its input, output, value_info or
///    initializer; nodes whose value is constant are folded as far as that needs it,
///  * every node has a unique name.
///
/// Throws UserError (file, node or tensor, what was found, what is allowed) for a wrong model or wrong
/// options, UnsupportedError for a right one that Kodama can't take. External data are read from the model's
/// folder (external_data.h).
onnx::ModelProto import_model(const std::string& path, const ImportOptions& options = {});

/// The same for a model in memory, which must have no external data; `where` begins every message.
onnx::ModelProto import_model(onnx::ModelProto model, const ImportOptions& options, const std::string& where);

/// Only reads and parses the file; external data stay outside. UserError if there is no ONNX model in it.
onnx::ModelProto read_model(const std::string& path);

}  // namespace kodama::compiler
