#pragma once

#include <onnx/onnx_pb.h>

#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/inner_graphs.h"

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

/// What is known of the results of a node.
struct InferredResults {
  std::vector<onnx::TypeProto> types;         ///< one per output; not set where nothing is known
  std::vector<std::optional<Tensor>> values;  ///< of small results that are constant
};
/// The same for a single node, for who makes a graph node by node: `versions` is a model that imports the
/// operator sets, `around` knows what the node and its graphs read. Errors are those of infer_types().
InferredResults infer_node(const onnx::ModelProto& versions, const onnx::NodeProto& node,
                           const Surroundings& around);

}  // namespace kodama::compiler
