#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <string>

namespace kodama::compiler {

/// Expands the functions that the model itself defines (ModelProto.functions), also nested ones, and removes
/// their definitions. `where` begins the messages. UserError for functions that call themselves and for calls
/// that don't fit, UnsupportedError where a function's operator set can't be brought to the model's.
/// New nodes have names below their caller's ("call/node"); types are to be inferred again.
void expand_local_functions(onnx::ModelProto& model, const std::string& where);

/// Expands the operators whose ONNX schema carries a function body, fixed or made for the node's types, until
/// none is left but those for which `keep` says so and those whose body needs control flow (Range,
/// SequenceMap: they stay as they are). The types of all values must be inferred; those of new values are,
/// too.
void expand_schema_functions(onnx::ModelProto& model,
                             const std::function<bool(const onnx::NodeProto&)>& keep);

}  // namespace kodama::compiler
