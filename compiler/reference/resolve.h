#pragma once

#include <onnx/onnx_pb.h>

#include <string>

#include "compiler/reference/executor.h"
#include "compiler/reference/kernels/node.h"

/// ONNX's nodes to those that the reference executes (kernels/node.h).
namespace kodama::compiler {

/// The node alone: its own attributes, no versions, and of graphs in it nothing but what they declare.
reference::Node plain_node(const onnx::NodeProto& node);

/// With what the operator's schema says, and the bodies of functions. What can't be executed gets a refusal,
/// not an error. `with_graphs`: graphs in it have their nodes and initializers, too; else only what they
/// declare, for somebody who runs them otherwise.
reference::Node resolve_node(const onnx::NodeProto& node, const OperatorSets& operators,
                             bool with_graphs = true);

/// "node 'conv1' (Conv)".
std::string place_of(const onnx::NodeProto& node);

}  // namespace kodama::compiler
