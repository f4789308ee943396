#include "compiler/dynamic/decide_branches.h"

#include "compiler/graph/inner_graphs.h"
#include "compiler/graph/onnx_model.h"

namespace kodama::compiler {

namespace {

void put_branch(const onnx::NodeProto& node, bool condition, onnx::GraphProto& result) {
  onnx::GraphProto branch = find_attribute(node, condition ? "then_branch" : "else_branch")->g();
  if (branch.output_size() != node.output_size()) {
    throw isa::UserError(fmt::format("{}: the branch '{}' has {} outputs; allowed are {}",
                                     describe_node(node), branch.name(), branch.output_size(),
                                     node.output_size()));
  }
  Renames names;
  const auto own = [&](const std::string& name) {
    if (!name.empty()) names.emplace(name, node.name() + "/" + name);
  };
  for (const auto& tensor : branch.initializer()) own(tensor.name());
  for (const auto& inner : branch.node()) {
    for (const std::string& output : inner.output()) own(output);
  }
  for (auto& tensor : *branch.mutable_initializer()) {
    tensor.set_name(names.at(tensor.name()));
    *result.add_initializer() = std::move(tensor);
  }
  for (auto& inner : *branch.mutable_node()) {
    rename_values(inner, names);
    *result.add_node() = std::move(inner);
  }
  for (int k = 0; k < node.output_size(); ++k) {
    if (node.output(k).empty()) continue;
    onnx::NodeProto& identity = *result.add_node();
    identity.set_op_type("Identity");
    identity.set_name(node.name() + "/" + node.output(k));
    const std::string& from = branch.output(k).name();
    identity.add_input(names.contains(from) ? names.at(from) : from);
    identity.add_output(node.output(k));
  }
}

}  // namespace

onnx::GraphProto with_branches(const GraphInfo& graph, const std::vector<bool>& done,
                               const std::map<int, bool>& decided) {
  onnx::GraphProto result;
  result.set_name(graph.proto().name());
  *result.mutable_output() = graph.proto().output();
  for (int k = 0; k < static_cast<int>(done.size()); ++k) {
    const onnx::NodeProto& node = *graph.nodes()[static_cast<size_t>(k)].proto;
    if (done[static_cast<size_t>(k)]) continue;
    const auto branch = decided.find(k);
    if (branch == decided.end()) {
      *result.add_node() = node;
    } else {
      put_branch(node, branch->second, result);
    }
  }
  return result;
}

}  // namespace kodama::compiler
