#pragma once

#include <onnx/onnx_pb.h>

#include <string>

#include "compiler/graph/onnx_model.h"

/// Walks through all of a model: its graph, its functions, and the graphs in attributes of nodes (If, Loop,
/// Scan), which most passes never see. Models, graphs and nodes may be const.
namespace kodama::compiler {

/// Calls visit(node) for every node of `nodes`, then for those in its graphs.
template <typename Nodes, typename Visit>
void for_each_node_in(Nodes& nodes, const Visit& visit) {
  for (auto& node : nodes) {
    visit(node);
    if constexpr (std::is_const_v<Nodes>) {
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) for_each_node_in(attribute.g().node(), visit);
        for (const auto& graph : attribute.graphs()) for_each_node_in(graph.node(), visit);
      }
    } else {
      for (auto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) for_each_node_in(*attribute.mutable_g()->mutable_node(), visit);
        for (auto& graph : *attribute.mutable_graphs()) for_each_node_in(*graph.mutable_node(), visit);
      }
    }
  }
}

/// Calls visit(node) for every node of the model, also in functions and sub-graphs.
template <typename Visit>
void for_each_node(const onnx::ModelProto& model, const Visit& visit) {
  for_each_node_in(model.graph().node(), visit);
  for (const auto& function : model.functions()) for_each_node_in(function.node(), visit);
}
template <typename Visit>
void for_each_node(onnx::ModelProto& model, const Visit& visit) {
  for_each_node_in(*model.mutable_graph()->mutable_node(), visit);
  for (auto& function : *model.mutable_functions()) for_each_node_in(*function.mutable_node(), visit);
}

/// Calls visit(graph) for the main graph and every graph in an attribute, outer ones first.
template <typename Visit>
void for_each_graph(onnx::ModelProto& model, const Visit& visit) {
  visit(*model.mutable_graph());
  for_each_node(model, [&](onnx::NodeProto& node) {
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) visit(*attribute.mutable_g());
      for (auto& graph : *attribute.mutable_graphs()) visit(graph);
    }
  });
}

/// Calls visit(tensor, what) for every tensor that the model holds: initializers and attributes, dense and
/// parts of sparse ones. `what` names it for messages: "initializer 'w'".
template <typename Visit>
void for_each_tensor(onnx::ModelProto& model, const Visit& visit) {
  const auto visit_sparse = [&](onnx::SparseTensorProto& tensor, const std::string& what) {
    if (tensor.has_values()) visit(*tensor.mutable_values(), what);
    if (tensor.has_indices()) visit(*tensor.mutable_indices(), what + " (its indices)");
  };
  for_each_graph(model, [&](onnx::GraphProto& graph) {
    for (auto& tensor : *graph.mutable_initializer())
      visit(tensor, fmt::format("initializer '{}'", tensor.name()));
    for (auto& tensor : *graph.mutable_sparse_initializer())
      visit_sparse(tensor, fmt::format("initializer '{}'", tensor.values().name()));
  });
  for_each_node(model, [&](onnx::NodeProto& node) {
    for (auto& attribute : *node.mutable_attribute()) {
      const auto what = [&] {
        return fmt::format("{}, attribute '{}'", describe_node(node), attribute.name());
      };
      if (attribute.has_t()) visit(*attribute.mutable_t(), what());
      for (auto& tensor : *attribute.mutable_tensors()) visit(tensor, what());
      if (attribute.has_sparse_tensor()) visit_sparse(*attribute.mutable_sparse_tensor(), what());
      for (auto& tensor : *attribute.mutable_sparse_tensors()) visit_sparse(tensor, what());
    }
  });
}

}  // namespace kodama::compiler
