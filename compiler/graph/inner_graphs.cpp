#include "compiler/graph/inner_graphs.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/graph/fold_constants.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/proto/tensor_proto.h"
#include "compiler/reference/executor.h"

namespace kodama::compiler {

namespace {

void rename_value(std::string& name, const Renames& names) {
  const auto found = names.find(name);
  if (found != names.end()) name = found->second;
}

void rename_graph(onnx::GraphProto& graph, const Renames& names) {
  for (auto* values : {graph.mutable_input(), graph.mutable_output(), graph.mutable_value_info()}) {
    for (auto& value : *values) rename_value(*value.mutable_name(), names);
  }
  for (auto& tensor : *graph.mutable_initializer()) rename_value(*tensor.mutable_name(), names);
  for (auto& node : *graph.mutable_node()) rename_values(node, names);
}

void collect_own(const onnx::GraphProto& graph, std::set<std::string>& names) {
  for (const auto& input : graph.input()) names.insert(input.name());
  for (const auto& tensor : graph.initializer()) names.insert(tensor.name());
  for (const auto& node : graph.node()) {
    for (const std::string& output : node.output()) {
      if (!output.empty()) names.insert(output);
    }
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) collect_own(attribute.g(), names);
    }
  }
}

const onnx::GraphProto& graph_of(const onnx::NodeProto& node, const char* attribute) {
  const auto* found = find_attribute(node, attribute);
  isa::check_internal(found != nullptr && found->has_g(), "inner graphs", "{} has no graph '{}'",
                      describe_node(node), attribute);
  return found->g();
}

onnx::TypeProto type_of(const Surroundings& around, const std::string& name) {
  const auto* type = name.empty() ? nullptr : around.type(name);
  return type == nullptr ? onnx::TypeProto() : *type;
}

onnx::TypeProto scalar_type(DataType type) {
  return make_tensor_type(type, {});
}

/// What both are: dimensions in which they differ are open.
onnx::TypeProto join(const onnx::TypeProto& a, const onnx::TypeProto& b, const std::string& what) {
  if (!a.has_tensor_type() || !b.has_tensor_type()) return {};
  const auto& left = a.tensor_type();
  const auto& right = b.tensor_type();
  if (left.elem_type() != right.elem_type())
    throw isa::UserError(fmt::format("{} is {} and {}; both must have the same type of elements", what,
                                     type_to_string(a), type_to_string(b)));
  onnx::TypeProto joined;
  joined.mutable_tensor_type()->set_elem_type(left.elem_type());
  if (!left.has_shape() || !right.has_shape() || left.shape().dim_size() != right.shape().dim_size())
    return joined;
  auto& shape = *joined.mutable_tensor_type()->mutable_shape();
  for (int i = 0; i < left.shape().dim_size(); ++i) {
    auto& dim = *shape.add_dim();
    if (left.shape().dim(i).has_dim_value() &&
        left.shape().dim(i).dim_value() == right.shape().dim(i).dim_value())
      dim.set_dim_value(left.shape().dim(i).dim_value());
  }
  return joined;
}

/// With an axis more; `extent` nullopt: open.
onnx::TypeProto stacked(const onnx::TypeProto& type, int64_t axis, std::optional<int64_t> extent) {
  onnx::TypeProto result = type;
  if (!type.tensor_type().has_shape()) return result;
  auto& shape = *result.mutable_tensor_type()->mutable_shape();
  const int rank = shape.dim_size() + 1;
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return {};
  auto& dim = *shape.add_dim();
  if (extent) dim.set_dim_value(*extent);
  std::rotate(shape.mutable_dim()->pointer_begin() + axis, shape.mutable_dim()->pointer_end() - 1,
              shape.mutable_dim()->pointer_end());
  return result;
}

std::vector<int64_t> ints_of(const onnx::NodeProto& node, const char* name, size_t count) {
  std::vector<int64_t> values(count);
  if (const auto* found = find_attribute(node, name))
    values.assign(found->ints().begin(), found->ints().end());
  if (values.size() != count)
    throw isa::UserError(fmt::format("{}: {} has {} values; it must have {}", describe_node(node), name,
                                     values.size(), count));
  return values;
}

/// Infers the types inside an inner model; messages begin with the node.
onnx::ModelProto settled(onnx::ModelProto model, const onnx::NodeProto& node) {
  try {
    settle_types(model);
    fold_constants(model);
  } catch (const isa::UserError& error) {
    throw isa::UserError(fmt::format("{}: inside it, {}", describe_node(node), error.what()));
  } catch (const isa::UnsupportedError& error) {
    throw isa::UnsupportedError(fmt::format("{}: inside it, {}", describe_node(node), error.what()));
  }
  return model;
}

onnx::TypeProto type_in(const onnx::ModelProto& model, const std::string& name) {
  const TypeMap types = collect_types(model.graph());
  const auto found = types.find(name);
  return found == types.end() ? onnx::TypeProto() : found->second;
}

std::optional<Tensor> value_in(const onnx::ModelProto& model, std::string name) {
  for (const auto& node : model.graph().node()) {
    if (node.op_type() == "Identity" && node.output(0) == name) name = node.input(0);
  }
  for (const auto& tensor : model.graph().initializer()) {
    if (tensor.name() == name) return tensor_from_proto(tensor, name);
  }
  return std::nullopt;
}

bool is_truth(const std::optional<Tensor>& value) {
  return value && value->type() == DataType::kBool && value->size() == 1 && value->data<bool>()[0];
}

/// The body of a Loop or Scan, with what differs between the two.
class Body {
 public:
  Body(const onnx::ModelProto& model, const onnx::NodeProto& node, const Surroundings& around)
      : model_(model), node_(node), around_(around), graph_(graph_of(node, "body")) {
    if (node.op_type() == "Loop") {
      first_ = 2;
      first_output_ = 1;
      states_ = static_cast<size_t>(std::max(0, node.input_size() - 2));
    } else {
      const auto* scans = find_attribute(node, "num_scan_inputs");
      scans_ = static_cast<size_t>(scans == nullptr ? 0 : scans->i());
      if (scans_ < 1 || static_cast<int>(scans_) > node.input_size())
        throw isa::UserError(fmt::format("{}: num_scan_inputs is {}; allowed is 1 to {}", describe_node(node),
                                         scans_, node.input_size()));
      states_ = static_cast<size_t>(node.input_size()) - scans_;
    }
    const size_t inputs = first_ + states_ + scans_;
    if (static_cast<size_t>(graph_.input_size()) != inputs)
      throw isa::UserError(fmt::format("{}: its body has {} inputs; allowed are {}", describe_node(node),
                                       graph_.input_size(), inputs));
    if (static_cast<size_t>(graph_.output_size()) < first_output_ + states_)
      throw isa::UserError(fmt::format("{}: its body has {} outputs; allowed are at least {}",
                                       describe_node(node), graph_.output_size(), first_output_ + states_));
    outputs_ = static_cast<size_t>(graph_.output_size()) - first_output_ - states_;
    settle();
  }

  std::vector<onnx::TypeProto> inputs() const {
    std::vector<onnx::TypeProto> types;
    for (const InnerInput& input : inner_inputs()) types.push_back(input.type);
    return types;
  }

  std::optional<int64_t> length() const { return is_loop() ? trips() : scan_length(); }

  std::vector<onnx::TypeProto> results() const {
    std::vector<onnx::TypeProto> types = types_;
    const std::vector<int64_t> axes =
        is_loop() ? std::vector<int64_t>(outputs_) : ints_of(node_, "scan_output_axes", outputs_);
    const auto extent = length();
    for (size_t k = 0; k < outputs_; ++k)
      types.push_back(stacked(type_in(inferred_, output(first_output_ + states_ + k)), axes[k], extent));
    return types;
  }

 private:
  bool is_loop() const { return first_ > 0; }
  const std::string& output(size_t k) const { return graph_.output(static_cast<int>(k)).name(); }
  onnx::TypeProto declared(size_t k) const { return graph_.input(static_cast<int>(k)).type(); }

  /// Whether the condition holds before the first iteration.
  bool begins() const {
    if (node_.input_size() < 2 || node_.input(1).empty()) return true;
    const Tensor* value = around_.value(node_.input(1));
    return value != nullptr && is_truth(*value);
  }

  std::vector<InnerInput> inner_inputs() const {
    std::vector<InnerInput> inputs;
    if (is_loop()) {
      inputs.push_back({scalar_type(DataType::kInt64)});
      inputs.push_back({scalar_type(DataType::kBool)});
      // Then it is true in the first iteration, and in the others if an iteration can't make it false.
      if (begins()) inputs.back().value = Tensor::from_values<uint8_t>(DataType::kBool, {}, {1});
    }
    for (const auto& type : types_) inputs.push_back({type});
    for (size_t k = 0; k < scans_; ++k) inputs.push_back({slice_type(k)});
    return inputs;
  }

  int64_t scan_axis(size_t k, int rank) const {
    const int64_t axis = ints_of(node_, "scan_input_axes", scans_)[k];
    return axis < 0 ? axis + rank : axis;
  }

  onnx::TypeProto slice_type(size_t k) const {
    onnx::TypeProto type = type_of(around_, node_.input(static_cast<int>(states_ + k)));
    if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return declared(states_ + k);
    auto& dims = *type.mutable_tensor_type()->mutable_shape()->mutable_dim();
    const int64_t axis = scan_axis(k, dims.size());
    if (axis < 0 || axis >= dims.size())
      throw isa::UserError(fmt::format("{}: axis {} of its input '{}' ({})", describe_node(node_), axis,
                                       node_.input(static_cast<int>(states_ + k)), type_to_string(type)));
    dims.DeleteSubrange(static_cast<int>(axis), 1);
    return type;
  }

  std::optional<int64_t> scan_length() const {
    for (size_t k = 0; k < scans_; ++k) {
      const auto* type = around_.type(node_.input(static_cast<int>(states_ + k)));
      if (type == nullptr || !type->tensor_type().has_shape()) continue;
      const auto& shape = type->tensor_type().shape();
      const auto& dim = shape.dim(static_cast<int>(scan_axis(k, shape.dim_size())));
      if (dim.has_dim_value()) return dim.dim_value();
    }
    return std::nullopt;
  }

  std::optional<int64_t> trips() const {
    const Tensor* most =
        node_.input_size() > 0 && !node_.input(0).empty() ? around_.value(node_.input(0)) : nullptr;
    if (most == nullptr || most->size() != 1 || !begins() || !is_truth(value_in(inferred_, output(0))))
      return std::nullopt;
    return std::max<int64_t>(0, most->data<int64_t>()[0]);
  }

  /// Until the state that comes out has the type of that which goes in.
  void settle() {
    for (size_t k = 0; k < states_; ++k) {
      types_.push_back(type_of(around_, node_.input(static_cast<int>(k + first_))));
      if (!types_.back().has_tensor_type()) types_.back() = declared(first_ + k);
    }
    constexpr int kMostRounds = 66;  // every round opens a dimension of a tensor
    for (int round = 0; round < kMostRounds; ++round) {
      inferred_ = settled(inner_model(model_, graph_, inner_inputs(), around_), node_);
      bool is_settled = true;
      for (size_t k = 0; k < states_; ++k) {
        const onnx::TypeProto next = join(types_[k], type_in(inferred_, output(first_output_ + k)),
                                          fmt::format("{}: its state '{}'", describe_node(node_),
                                                      graph_.input(static_cast<int>(first_ + k)).name()));
        is_settled &= next.SerializeAsString() == types_[k].SerializeAsString();
        types_[k] = next;
      }
      if (is_settled) return;
    }
  }

  const onnx::ModelProto& model_;
  const onnx::NodeProto& node_;
  const Surroundings& around_;
  const onnx::GraphProto& graph_;
  size_t first_ = 0;         ///< input of the body that is the first state
  size_t first_output_ = 0;  ///< and output
  size_t states_ = 0;
  size_t scans_ = 0;    ///< inputs of slices
  size_t outputs_ = 0;  ///< that are stacked
  std::vector<onnx::TypeProto> types_;
  onnx::ModelProto inferred_;
};

std::vector<onnx::TypeProto> if_types(const onnx::ModelProto& model, const onnx::NodeProto& node,
                                      const Surroundings& around) {
  std::vector<onnx::TypeProto> types;
  for (const char* name : {"then_branch", "else_branch"}) {
    const onnx::GraphProto& branch = graph_of(node, name);
    if (branch.output_size() != node.output_size())
      throw isa::UserError(fmt::format("{}: {} has {} outputs; allowed are {}", describe_node(node), name,
                                       branch.output_size(), node.output_size()));
    const onnx::ModelProto inferred = settled(inner_model(model, branch, {}, around), node);
    for (int k = 0; k < branch.output_size(); ++k) {
      const onnx::TypeProto type = type_in(inferred, branch.output(k).name());
      if (static_cast<int>(types.size()) <= k) {
        types.push_back(type);
      } else {
        auto& joined = types[static_cast<size_t>(k)];
        joined = join(joined, type, fmt::format("{}: its output '{}'", describe_node(node), node.output(k)));
      }
    }
  }
  return types;
}

}  // namespace

void rename_values(onnx::NodeProto& node, const Renames& names) {
  for (std::string& input : *node.mutable_input()) rename_value(input, names);
  for (std::string& output : *node.mutable_output()) rename_value(output, names);
  for (auto& attribute : *node.mutable_attribute()) {
    if (attribute.has_g()) rename_graph(*attribute.mutable_g(), names);
  }
}

Renames rename_own_values(onnx::GraphProto& graph, const std::set<std::string>& kept, FreshNames& names) {
  std::set<std::string> own;
  collect_own(graph, own);
  Renames renames;
  for (const std::string& name : own) {
    if (!kept.contains(name)) renames.emplace(name, names.make_unique(name));
  }
  rename_graph(graph, renames);
  return renames;
}

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

std::set<std::string> names_from_outside(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const auto& node : graph.node()) names.merge(names_read(node));
  for (const auto& output : graph.output()) names.insert(output.name());
  for (const auto& input : graph.input()) names.erase(input.name());
  for (const auto& tensor : graph.initializer()) names.erase(tensor.name());
  for (const auto& node : graph.node()) {
    for (const std::string& output : node.output()) names.erase(output);
  }
  return names;
}

bool has_control_flow(const onnx::ModelProto& model) {
  return std::ranges::any_of(model.graph().node(), has_subgraph);
}

onnx::ModelProto inner_model(const onnx::ModelProto& model, const onnx::GraphProto& graph,
                             const std::vector<InnerInput>& inputs, const Surroundings& around) {
  onnx::ModelProto result;
  result.set_ir_version(model.ir_version());
  *result.mutable_opset_import() = model.opset_import();
  onnx::GraphProto& inner = *result.mutable_graph();
  inner = graph;
  inner.clear_value_info();
  inner.clear_input();
  inner.clear_output();
  std::set<std::string> outputs;
  for (const auto& output : graph.output()) {
    if (outputs.insert(output.name()).second) inner.add_output()->set_name(output.name());
  }
  const auto add = [&](const std::string& name, const onnx::TypeProto& type, const Tensor* value) {
    if (value != nullptr) {
      *inner.add_initializer() = tensor_to_proto(*value, name);
      return;
    }
    auto& input = *inner.add_input();
    input.set_name(name);
    *input.mutable_type() = type;
  };
  for (size_t k = 0; k < inputs.size(); ++k)
    add(graph.input(static_cast<int>(k)).name(), inputs[k].type,
        inputs[k].value ? &*inputs[k].value : nullptr);
  for (const std::string& name : names_from_outside(graph))
    add(name, type_of(around, name), around.value(name));
  return result;
}

BodyTypes body_types(const onnx::ModelProto& model, const onnx::NodeProto& node, const Surroundings& around) {
  const Body body(model, node, around);
  return {body.inputs(), body.results(), body.length()};
}

std::vector<onnx::TypeProto> control_flow_types(const onnx::ModelProto& model, const onnx::NodeProto& node,
                                                const Surroundings& around) {
  if (!node.domain().empty()) return {};
  if (node.op_type() == "If") return if_types(model, node, around);
  if (node.op_type() == "Loop" || node.op_type() == "Scan") return body_types(model, node, around).results;
  return {};
}

}  // namespace kodama::compiler
