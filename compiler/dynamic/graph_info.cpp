#include "compiler/dynamic/graph_info.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "compiler/graph/onnx_model.h"
#include "compiler/proto/tensor_proto.h"
#include "compiler/reference/executor.h"

namespace kodama::compiler {

NodeClass class_of(const onnx::ModelProto& model, const onnx::NodeProto& node) {
  const auto* schema = find_schema(model, node);
  if (schema == nullptr) return NodeClass::kPlain;  // refused when it runs
  const auto only_others = [](const onnx::OpSchema::FormalParameter& formal) {
    const auto& types = formal.GetTypes();
    return !types.empty() &&
           std::ranges::none_of(types, [](const auto* type) { return type->starts_with("tensor("); });
  };
  for (int k = 0; k < node.output_size(); ++k) {
    if (!non_tensor_output(*schema, k).empty()) return NodeClass::kSequence;
  }
  // Not all allow tensors: the first operand says what the operator is about.
  if (!schema->inputs().empty() && only_others(schema->inputs()[0])) return NodeClass::kSequence;
  return has_subgraph(node) ? NodeClass::kControl : NodeClass::kPlain;
}

GraphInfo::GraphInfo(const onnx::ModelProto& model, const onnx::GraphProto& graph, std::string path,
                     const GraphInfo* outer)
    : graph_(graph), path_(std::move(path)), outer_(outer) {
  for (const auto& tensor : graph.initializer()) initializers_[tensor.name()] = &tensor;
  std::unordered_set<std::string> wanted;
  for (const auto& output : graph.output()) wanted.insert(output.name());
  for (int k = graph.node_size() - 1; k >= 0; --k) {
    const onnx::NodeProto& proto = graph.node(k);
    if (std::ranges::none_of(proto.output(), [&](const auto& name) { return wanted.contains(name); }))
      continue;
    Node node;
    node.proto = &proto;
    node.node_class = class_of(model, proto);
    const std::set<std::string> reads = names_read(proto);
    node.reads.assign(reads.begin(), reads.end());
    wanted.insert(reads.begin(), reads.end());
    for (const auto& attribute : proto.attribute()) {
      if (!attribute.has_g()) continue;
      const std::string role = attribute.name() == "then_branch"   ? "then of"
                               : attribute.name() == "else_branch" ? "else of"
                                                                   : "body of";
      node.graphs.push_back(std::make_unique<GraphInfo>(model, attribute.g(),
                                                        fmt::format("{} '{}'", role, proto.name()), this));
      inner_[&attribute.g()] = node.graphs.back().get();
      node.graphs.back()->find_states(model, proto);
    }
    nodes_.push_back(std::move(node));
  }
  std::ranges::reverse(nodes_);
  names_.assign(wanted.begin(), wanted.end());
  std::ranges::sort(names_);
}

void GraphInfo::find_states(const onnx::ModelProto& model, const onnx::NodeProto& node) {
  is_repeated_ = node.op_type() != "If";
  const auto* schema = find_schema(model, node);
  int first_input = 0;
  int first_output = 0;
  int count = 0;
  if (node.op_type() == "Loop") {  // iteration number and condition come first, the condition goes first
    first_input = 2;
    first_output = 1;
    count = node.input_size() - 2;
  } else if (node.op_type() == "Scan" && schema != nullptr && schema->since_version() >= 9) {
    const auto* scans = find_attribute(node, "num_scan_inputs");
    count = node.input_size() - (scans == nullptr ? node.input_size() : static_cast<int>(scans->i()));
  }
  for (int k = 0; k < count; ++k) {
    if (first_input + k >= graph_.input_size() || first_output + k >= graph_.output_size()) return;
    const std::string& input = graph_.input(first_input + k).name();
    const std::string& output = graph_.output(first_output + k).name();
    const auto uses =
        std::ranges::count_if(graph_.output(), [&](const auto& each) { return each.name() == output; });
    states_.push_back({input, output, uses > 1 || is_output(input)});
  }
}

bool GraphInfo::is_output(const std::string& name) const {
  return std::ranges::any_of(graph_.output(), [&](const auto& output) { return output.name() == name; });
}

const onnx::TensorProto* GraphInfo::constant(const std::string& name) const {
  const auto found = initializers_.find(name);
  if (found != initializers_.end()) return found->second;
  return outer_ == nullptr ? nullptr : outer_->constant(name);
}

const Value* GraphInfo::constant_value(const std::string& name) const {
  const auto found = initializers_.find(name);
  if (found == initializers_.end()) return outer_ == nullptr ? nullptr : outer_->constant_value(name);
  const auto [value, is_new] = decoded_.try_emplace(name);
  if (is_new) value->second = tensor_from_proto(*found->second, "initializer '" + name + "'");
  return &value->second;
}

const GraphInfo& GraphInfo::inner(const onnx::GraphProto& graph) const {
  const auto found = inner_.find(&graph);
  isa::check_internal(found != inner_.end(), "GraphInfo", "{} has no graph '{}'", path_, graph.name());
  return *found->second;
}

const Frame::Known* Frame::find(const std::string& name) const {
  const auto found = values_.find(name);
  if (found != values_.end()) return &found->second;
  return outer_ == nullptr ? nullptr : outer_->find(name);
}

const Value* Frame::value(const std::string& name) const {
  if (const Known* known = find(name)) return &known->value;
  return graph_.constant_value(name);
}

void Frame::name_axes(const std::string& name, std::map<int, std::string> axes) {
  axes_.insert_or_assign(name, std::move(axes));
}

const std::map<int, std::string>* Frame::named_axes(const std::string& name) const {
  const auto found = axes_.find(name);
  if (found != axes_.end()) return &found->second;
  return outer_ == nullptr ? nullptr : outer_->named_axes(name);
}

void Frame::set(const std::string& name, Value value, bool from_shapes) {
  values_.insert_or_assign(name, Known{std::move(value), from_shapes});
}

}  // namespace kodama::compiler
