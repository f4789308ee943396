#include "compiler/driver/shrink_graph.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/graph/onnx_model.h"
#include "compiler/proto/tensor_proto.h"

namespace kodama::compiler {
namespace {

void add_value(google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& list, const std::string& name,
               const Value& value) {
  auto* declared = list.Add();
  declared->set_name(name);
  *declared->mutable_type() = type_to_proto(value.type());
}

/// The problem whose outputs are `outputs`, without the nodes in `dropped`; nothing when no node is left.
/// `values`: of all that the model computes.
std::optional<GraphProblem> part_of(const GraphProblem& problem, const std::set<std::string>& outputs,
                                    const std::set<int>& dropped, const ValueMap& values) {
  const onnx::GraphProto& graph = problem.model.graph();
  std::set<std::string> needed = outputs;
  std::set<std::string> made;
  std::vector<const onnx::NodeProto*> nodes;
  for (int k = graph.node_size() - 1; k >= 0; --k) {
    const onnx::NodeProto& node = graph.node(k);
    const bool is_read = std::any_of(node.output().begin(), node.output().end(),
                                     [&](const std::string& name) { return needed.contains(name); });
    if (!is_read || dropped.contains(k)) continue;
    nodes.insert(nodes.begin(), &node);
    made.insert(node.output().begin(), node.output().end());
    needed.merge(names_read(node));
  }
  if (nodes.empty()) return std::nullopt;
  for (const std::string& output : outputs) {
    if (!made.contains(output)) return std::nullopt;
  }
  GraphProblem part;
  part.model = problem.model;
  onnx::GraphProto& result = *part.model.mutable_graph();
  result.clear_node();
  result.clear_input();
  result.clear_output();
  result.clear_initializer();
  result.clear_value_info();
  for (const onnx::NodeProto* node : nodes) *result.add_node() = *node;
  for (const auto& initializer : graph.initializer()) {
    if (needed.contains(initializer.name())) *result.add_initializer() = initializer;
    made.insert(initializer.name());
  }
  for (const std::string& name : needed) {
    if (name.empty() || made.contains(name)) continue;
    const auto given = std::find_if(graph.input().begin(), graph.input().end(),
                                    [&](const auto& input) { return input.name() == name; });
    if (given != graph.input().end()) {  // with the dimensions that it leaves open
      *result.add_input() = *given;
    } else {
      add_value(*result.mutable_input(), name, values.at(name));
    }
    part.inputs[name] = values.at(name);
  }
  for (const auto& output : graph.output()) {  // in their order
    if (outputs.contains(output.name())) *result.add_output() = output;
  }
  for (const std::string& name : outputs) {
    if (std::none_of(result.output().begin(), result.output().end(),
                     [&](const auto& output) { return output.name() == name; }))
      add_value(*result.mutable_output(), name, values.at(name));
  }
  return part;
}

std::set<std::string> outputs_of(const GraphProblem& problem) {
  std::set<std::string> names;
  for (const auto& output : problem.model.graph().output()) names.insert(output.name());
  return names;
}

}  // namespace

GraphProblem shrink_graph(GraphProblem problem, const std::function<bool(const GraphProblem&)>& fails,
                          int most_tries) {
  const ValueMap values = run_graph_on_values(problem.model, problem.inputs, {.keep_intermediates = true});
  int tries = 0;
  const auto try_part = [&](const std::set<std::string>& outputs, const std::set<int>& dropped) {
    if (tries >= most_tries) return false;
    const std::optional<GraphProblem> part = part_of(problem, outputs, dropped, values);
    if (!part) return false;
    ++tries;
    if (!fails(*part)) return false;
    problem = *part;
    return true;
  };
  bool is_smaller = true;
  while (is_smaller && tries < most_tries) {
    is_smaller = false;
    // One value alone, the earliest first.
    for (int k = 0; k + 1 < problem.model.graph().node_size(); ++k) {
      const std::string name = problem.model.graph().node(k).output(0);
      if (values.contains(name) && try_part({name}, {})) {
        is_smaller = true;
        break;
      }
    }
    std::set<std::string> outputs = outputs_of(problem);
    for (const std::string& name : std::set<std::string>(outputs)) {
      std::set<std::string> fewer = outputs;
      fewer.erase(name);
      if (fewer.empty() || !try_part(fewer, {})) continue;
      outputs = fewer;
      is_smaller = true;
    }
    // The first half of the nodes, a quarter, …, then each.
    for (int count = problem.model.graph().node_size() / 2; count > 1; count /= 2) {
      std::set<int> first;
      for (int k = 0; k < count; ++k) first.insert(k);
      is_smaller |= try_part(outputs_of(problem), first);
    }
    for (int k = problem.model.graph().node_size() - 1; k >= 0; --k) {
      if (k < problem.model.graph().node_size()) is_smaller |= try_part(outputs_of(problem), {k});
    }
  }
  return problem;
}

}  // namespace kodama::compiler
