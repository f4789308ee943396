#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <utility>
#include <vector>

/// Reverse-mode differentiation of ONNX graphs into ONNX graphs.
///
/// A gradient is a part of the model like any other: nodes of opset 17 that are added behind the model's own
/// and read what those have computed. For y = Tanh(MatMul(x, w)) and the sum of all y as the loss, the nodes
///
///     dy = Expand(1)                       d loss / d y
///     dz = dy * (1 - y * y)                rule of Tanh
///     dw = MatMul(Transpose(x), dz)        rule of MatMul, for its operand 1
///
/// are added. Each operator has a row in one table (gradient_rules.h): a rule, or how it is written in
/// operators that have one. A value that several nodes read gets the sum of what they give.
namespace kodama::compiler {

struct GradientRequest {
  /// The value to differentiate: any float tensor of the graph; if it has more than one element, their sum.
  std::string loss;
  /// The values to differentiate by: inputs, initializers, or what nodes compute. Empty: all initializers of
  /// floats that the loss depends on.
  std::vector<std::string> wrt;
  /// Values that count as constants, whatever computes them: no gradient passes them.
  std::vector<std::string> stop;
};

/// By value differentiated by, in the order of the request: the name of its gradient, a float tensor of its
/// shape and type.
using GradientNames = std::vector<std::pair<std::string, std::string>>;

/// Adds the nodes that compute the gradients to a model that import_model() has made. Outputs stay as they
/// are; the gradients are not among them yet. Nodes without a rule of their own are written in others.
///
/// UserError for names that the graph doesn't have, values that aren't floating point, and values that the
/// loss doesn't depend on. UnsupportedError for an operator that isn't differentiable, with the path to it
/// from the loss. `where` begins the messages.
GradientNames add_gradients(onnx::ModelProto& model, const GradientRequest& request,
                            const std::string& where);

/// add_gradients(), with the gradients as outputs behind the model's own, and the model checked.
GradientNames make_gradient_model(onnx::ModelProto& model, const GradientRequest& request,
                                  const std::string& where);

/// The operators that have a row, by name; with the domain, if it isn't ONNX's own.
struct DifferentiableOperator {
  std::string op;
  std::string how;  ///< "rule", "by its parts", "zero"
};
std::vector<DifferentiableOperator> differentiable_operators();

}  // namespace kodama::compiler
