#include "compiler/graph/gradient/pool_first.h"

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/graph/graph_view.h"
#include "compiler/graph/inner_graphs.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/reference/executor.h"
#include "compiler/tensor/fresh_names.h"

namespace kodama::compiler::gradient {

void pool_first(onnx::ModelProto& model, const std::set<std::string>& kept) {
  onnx::GraphProto& graph = *model.mutable_graph();
  const auto is_node = [](const onnx::NodeProto& node, const char* op) {
    return node.op_type() == op && node.domain().empty();
  };
  std::map<std::string, int> readers;
  for (const auto& node : graph.node()) {
    for (const std::string& name : names_read(node)) ++readers[name];
  }
  for (const auto& output : graph.output()) ++readers[output.name()];
  std::map<std::string, onnx::NodeProto*> relus;
  FreshNames names = names_of(graph);
  for (auto& node : *graph.mutable_node()) {
    if (is_node(node, "Relu")) relus[node.output(0)] = &node;
    if (!is_node(node, "MaxPool") || GraphView::has_output(node, 1)) continue;
    const auto found = relus.find(node.input(0));
    if (found == relus.end() || readers[found->first] != 1 || kept.contains(found->first)) continue;
    onnx::NodeProto& relu = *found->second;
    const std::string pooled = names.make_unique(node.name().empty() ? node.output(0) : node.name());
    const std::string result = node.output(0);
    const auto add_type = [&](const auto& values) {
      const auto known = std::ranges::find(values, result, &onnx::ValueInfoProto::name);
      if (known == values.end()) return false;
      onnx::ValueInfoProto made = *known;
      made.set_name(pooled);
      *graph.add_value_info() = std::move(made);
      return true;
    };
    if (!add_type(graph.value_info())) add_type(graph.output());
    node.set_input(0, relu.input(0));
    node.set_output(0, pooled);
    relu.set_input(0, pooled);
    relu.set_output(0, result);
    // Each in the other's place.
    relu.Swap(&node);
    relus.erase(found);
    relus[result] = &node;
  }
}

}  // namespace kodama::compiler::gradient
