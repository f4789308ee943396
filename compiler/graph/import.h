#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

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

/// A model that need not be static.
struct ImportedModel {
  onnx::ModelProto model;
  /// Why the model isn't static: control flow, values that are no tensors, open dimensions of inputs, shapes
  /// that depend on data. Empty: `model` is what import_model() gives. Else it is checked, with the graphs in
  /// its nodes, as far as that can be done without shapes, functions of its own are expanded, and nodes have
  /// names; it is of opset 17, or the older one that it had: parts of it are brought to 17 when their shapes
  /// are known (compiler/dynamic/dynamic_executor.h).
  std::string open_reason;
};
/// Errors are those of import_model(), but for what `open_reason` may name.
ImportedModel import_any_model(const std::string& path, const ImportOptions& options = {});
ImportedModel import_any_model(onnx::ModelProto model, const ImportOptions& options,
                               const std::string& where);

/// What can be said of a model whose types aren't known, for looking at models that import_model() refuses:
/// operators of opset 17 or older, calls of the model's own functions expanded. Throws as import_model() for
/// what has nothing to do with types and shapes.
onnx::ModelProto simplify_model(onnx::ModelProto model, const std::string& where);

/// How the user may call each dimension of the inputs that the model leaves open: by its name, or "x:0".
std::vector<std::string> open_dimensions(const onnx::GraphProto& graph);

/// read_model() and the external data beside the file.
onnx::ModelProto read_model_with_data(const std::string& path);

/// Only reads and parses the file; external data stay outside. UserError if there is no ONNX model in it.
onnx::ModelProto read_model(const std::string& path);
/// The same of a file's bytes; `path` begins every message.
onnx::ModelProto parse_model(const std::string& bytes, const std::string& path);

}  // namespace kodama::compiler
