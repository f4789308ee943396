#include "compiler/graph/graph_view.h"

#include <onnx/defs/schema.h>

#include "compiler/graph/inner_graphs.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/proto/tensor_proto.h"

namespace kodama::compiler {

namespace {

constexpr const char* kGraphViewPart = "graph view";

}  // namespace

GraphView::GraphView(const onnx::ModelProto& model) : model_(model) {
  const auto& graph = model.graph();
  const bool is_open = has_control_flow(model);
  for (const auto& [name, type] : collect_types(graph)) {
    const auto shape = static_shape(type);
    isa::check_internal(shape.has_value() || is_open, kGraphViewPart, "value '{}' has no static shape ({})",
                        name, type_to_string(type));
    if (shape) values_[name] = {static_cast<DataType>(type.tensor_type().elem_type()), *shape};
  }
  for (const auto& input : graph.input()) inputs_.insert(input.name());
  for (const auto& output : graph.output()) outputs_.insert(output.name());
  for (const auto& tensor : graph.initializer()) {
    initializers_[tensor.name()] = &tensor;
    inputs_.erase(tensor.name());
  }
  std::unordered_set<std::string> names;
  for (const auto& node : graph.node()) names.insert(node.name());
  std::unordered_set<std::string> taken;
  for (const auto& node : graph.node()) {
    for (const auto& input : node.input()) {
      if (!input.empty()) consumers_[input].push_back(&node);
    }
    std::string first_output;
    for (const auto& output : node.output()) {
      if (output.empty()) continue;
      producers_[output] = &node;
      if (first_output.empty()) first_output = output;
    }
    std::string name = node.name();
    if (name.empty() || taken.contains(name)) {
      const std::string wish = !name.empty() ? name : first_output.empty() ? node.op_type() : first_output;
      name = wish;
      for (int i = 1; names.contains(name) || taken.contains(name); ++i) name = fmt::format("{}_{}", wish, i);
    }
    taken.insert(name);
    node_names_[&node] = name;
  }
}

const ValueInfo& GraphView::value(const std::string& name) const {
  const auto it = values_.find(name);
  isa::check_internal(it != values_.end(), kGraphViewPart, "the graph has no value '{}' of a known shape",
                      name);
  return it->second;
}

const onnx::NodeProto* GraphView::producer(const std::string& name) const {
  const auto it = producers_.find(name);
  return it == producers_.end() ? nullptr : it->second;
}

const std::vector<const onnx::NodeProto*>& GraphView::consumers(const std::string& name) const {
  static const std::vector<const onnx::NodeProto*> kNone;
  const auto it = consumers_.find(name);
  return it == consumers_.end() ? kNone : it->second;
}

std::shared_ptr<const Tensor> GraphView::shared_constant(const std::string& name) const {
  const auto it = initializers_.find(name);
  if (it == initializers_.end()) return nullptr;
  auto& slot = constants_[name];
  if (!slot)
    slot = std::make_shared<const Tensor>(tensor_from_proto(*it->second, "initializer '" + name + "'"));
  return slot;
}

bool GraphView::has_input(const onnx::NodeProto& node, int index) {
  return index < node.input_size() && !node.input(index).empty();
}

bool GraphView::has_output(const onnx::NodeProto& node, int index) {
  return index < node.output_size() && !node.output(index).empty();
}

const onnx::AttributeProto* GraphView::attribute(const onnx::NodeProto& node, std::string_view name,
                                                 onnx::AttributeProto_AttributeType type) const {
  const onnx::AttributeProto* found = find_attribute(node, name);
  if (!found) {
    const onnx::OpSchema* schema = find_schema(model_, node);
    if (!schema) return nullptr;
    const auto it = schema->attributes().find(std::string(name));
    isa::check_internal(it != schema->attributes().end(), kGraphViewPart, "{} has no attribute '{}'",
                        describe(node), name);
    if (it->second.default_value.type() == onnx::AttributeProto_AttributeType_UNDEFINED) return nullptr;
    found = &it->second.default_value;
  }
  isa::check_internal(found->type() == type, kGraphViewPart, "attribute '{}' of {} has the type {}, not {}",
                      name, describe(node), onnx::AttributeProto_AttributeType_Name(found->type()),
                      onnx::AttributeProto_AttributeType_Name(type));
  return found;
}

void GraphView::missing_attribute(const onnx::NodeProto& node, std::string_view name) const {
  throw isa::InternalError(
      fmt::format("internal error in {}: {} has no attribute '{}', nor has its schema a default",
                  kGraphViewPart, describe(node), name));
}

std::optional<int64_t> GraphView::find_int(const onnx::NodeProto& node, std::string_view name) const {
  const auto* found = attribute(node, name, onnx::AttributeProto_AttributeType_INT);
  return found ? std::optional<int64_t>(found->i()) : std::nullopt;
}

std::optional<float> GraphView::find_float(const onnx::NodeProto& node, std::string_view name) const {
  const auto* found = attribute(node, name, onnx::AttributeProto_AttributeType_FLOAT);
  return found ? std::optional<float>(found->f()) : std::nullopt;
}

std::optional<std::string> GraphView::find_string(const onnx::NodeProto& node, std::string_view name) const {
  const auto* found = attribute(node, name, onnx::AttributeProto_AttributeType_STRING);
  return found ? std::optional<std::string>(found->s()) : std::nullopt;
}

std::optional<std::vector<int64_t>> GraphView::find_ints(const onnx::NodeProto& node,
                                                         std::string_view name) const {
  const auto* found = attribute(node, name, onnx::AttributeProto_AttributeType_INTS);
  if (!found) return std::nullopt;
  return std::vector<int64_t>(found->ints().begin(), found->ints().end());
}

int64_t GraphView::get_int(const onnx::NodeProto& node, std::string_view name) const {
  const auto found = find_int(node, name);
  if (!found) missing_attribute(node, name);
  return *found;
}

float GraphView::get_float(const onnx::NodeProto& node, std::string_view name) const {
  const auto found = find_float(node, name);
  if (!found) missing_attribute(node, name);
  return *found;
}

std::string GraphView::get_string(const onnx::NodeProto& node, std::string_view name) const {
  auto found = find_string(node, name);
  if (!found) missing_attribute(node, name);
  return std::move(*found);
}

std::vector<int64_t> GraphView::get_ints(const onnx::NodeProto& node, std::string_view name) const {
  auto found = find_ints(node, name);
  if (!found) missing_attribute(node, name);
  return std::move(*found);
}

int64_t GraphView::get_int(const onnx::NodeProto& node, std::string_view name, int64_t absent) const {
  return find_int(node, name).value_or(absent);
}

float GraphView::get_float(const onnx::NodeProto& node, std::string_view name, float absent) const {
  return find_float(node, name).value_or(absent);
}

std::string GraphView::get_string(const onnx::NodeProto& node, std::string_view name,
                                  std::string absent) const {
  return find_string(node, name).value_or(std::move(absent));
}

std::vector<int64_t> GraphView::get_ints(const onnx::NodeProto& node, std::string_view name,
                                         std::vector<int64_t> absent) const {
  return find_ints(node, name).value_or(std::move(absent));
}

int64_t GraphView::normalize_axis(const onnx::NodeProto& node, int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) {
    throw isa::UserError(
        fmt::format("{}: axis {}; from {} to {} is allowed", describe(node), axis, -rank, rank - 1));
  }
  return axis < 0 ? axis + rank : axis;
}

const std::string& GraphView::node_name(const onnx::NodeProto& node) const {
  const auto it = node_names_.find(&node);
  isa::check_internal(it != node_names_.end(), kGraphViewPart, "{} isn't of this graph", describe_node(node));
  return it->second;
}

std::string GraphView::describe(const onnx::NodeProto& node) const {
  const auto it = node_names_.find(&node);
  if (it == node_names_.end()) return describe_node(node);
  onnx::NodeProto named;
  named.set_name(it->second);
  named.set_op_type(node.op_type());
  named.set_domain(node.domain());
  return describe_node(named);
}

}  // namespace kodama::compiler
