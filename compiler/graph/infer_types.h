#pragma once

#include <onnx/onnx_pb.h>

#include <string>

/// Types of a graph's values.
namespace kodama::compiler {

/// Infers types and shapes of all values into value_info, node by node: our rules (operator_rules.h) check a
/// node before libonnx infers it, and small values that are constant are computed by the CPU reference, so
/// that shapes which follow from them are known. What can't be inferred stays open.
///
/// UserError (node, tensor or attribute, what was found, what is allowed) for a contradiction,
/// UnsupportedError for what Kodama can't take: a value that is no tensor, a tensor with more than
/// kMaxTensorElements. The model is then as before.
void infer_types(onnx::ModelProto& model);

/// Why the type of a value is still open, as a sentence that names the node. The message of an
/// UnsupportedError.
std::string explain_open_type(onnx::ModelProto model, const std::string& value);

}  // namespace kodama::compiler
