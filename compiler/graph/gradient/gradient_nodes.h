#pragma once

#include <onnx/onnx_pb.h>

#include <string>

#include "compiler/graph/import.h"

/// The operator Gradient of ai.onnx.preview.training, by which a model asks for derivatives of its own
/// values.
///
/// Its attributes name a part of the graph that the node is in: a value y, and the values xs and zs that
/// decide it. Its operands are what these values are to be, in the order of xs and then zs; its results are
/// the derivatives of y (of the sum of its elements, if it has several) by each of xs at that place.
namespace kodama::compiler {

/// Replaces all Gradient nodes of a model that import_model() has made by nodes that compute the same
/// (add_gradients() in gradient.h). Where a node is given other values than the named ones, or an x is itself
/// computed, the part between is computed once more, from the operands.
///
/// UserError, beginning with `where` and the node, for names that the graph doesn't have, a y that depends on
/// an input which is in neither list, or on the node itself; else as add_gradients().
void expand_gradient_nodes(onnx::ModelProto& model, const std::string& where);

/// The same for any model; UnsupportedError if it has Gradient nodes and isn't static.
void expand_gradient_nodes(ImportedModel& imported, const std::string& where);

/// Whether there are any, in the model's graph or those inside of its nodes.
bool has_gradient_nodes(const onnx::ModelProto& model);

}  // namespace kodama::compiler
