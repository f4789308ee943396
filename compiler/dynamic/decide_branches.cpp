#include "compiler/dynamic/decide_branches.h"

#include <unordered_map>

#include "compiler/graph/onnx_model.h"

namespace kodama::compiler {

namespace {

using Names = std::unordered_map<std::string, std::string>;

void rename(std::string& name, const Names& names) {
  const auto found = names.find(name);
  if (found != names.end()) name = found->second;
}

/// Names that nodes read and make, also in their graphs.
void rename(onnx::NodeProto& node, const Names& names) {
  for (std::string& input : *node.mutable_input()) rename(input, names);
  for (std::string& output : *node.mutable_output()) rename(output, names);
  for (auto& attribute : *node.mutable_attribute()) {
    if (!attribute.has_g()) continue;
    // What a graph has of its own keeps its name, which nothing around it may have.
    for (auto& inner : *attribute.mutable_g()->mutable_node()) rename(inner, names);
    for (auto& output : *attribute.mutable_g()->mutable_output()) rename(*output.mutable_name(), names);
  }
}

void put_branch(const onnx::NodeProto& node, bool condition, onnx::GraphProto& result) {
  onnx::GraphProto branch = find_attribute(node, condition ? "then_branch" : "else_branch")->g();
  if (branch.output_size() != node.output_size()) {
    throw isa::UserError(fmt::format("{}: the branch '{}' has {} outputs; allowed are {}",
                                     describe_node(node), branch.name(), branch.output_size(),
                                     node.output_size()));
  }
  Names names;
  const auto own = [&](const std::string& name) {
    if (!name.empty()) names.emplace(name, node.name() + "/" + name);
  };
  for (const auto& tensor : branch.initializer()) own(tensor.name());
  for (const auto& inner : branch.node()) {
    for (const std::string& output : inner.output()) own(output);
  }
  for (auto& tensor : *branch.mutable_initializer()) {
    rename(*tensor.mutable_name(), names);
    *result.add_initializer() = std::move(tensor);
  }
  for (auto& inner : *branch.mutable_node()) {
    rename(inner, names);
    *result.add_node() = std::move(inner);
  }
  for (int k = 0; k < node.output_size(); ++k) {
    if (node.output(k).empty()) continue;
    onnx::NodeProto& identity = *result.add_node();
    identity.set_op_type("Identity");
    identity.set_name(node.name() + "/" + node.output(k));
    std::string from = branch.output(k).name();
    rename(from, names);
    identity.add_input(from);
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
