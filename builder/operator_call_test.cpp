#include "builder/operator_call_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/graph/onnx_model.h"
#include "compiler/proto/tensor_proto.h"

namespace kodama::builder::testing {

namespace {

std::vector<Value> rebuild_nodes(const onnx::GraphProto& proto, Graph& graph, NamedValues values) {
  for (const auto& node : proto.node()) {
    OperatorCall call(node, graph, values);
    const std::vector<Value> results = call_operator(call);
    if (results.size() < static_cast<size_t>(node.output_size()))
      throw isa::InternalError(
          fmt::format("{} made {} values", compiler::describe_node(node), results.size()));
    for (int k = 0; k < node.output_size(); ++k) {
      if (!node.output(k).empty()) values[node.output(k)] = results[static_cast<size_t>(k)];
    }
  }
  std::vector<Value> outputs;
  for (const auto& output : proto.output()) outputs.push_back(values.at(output.name()));
  return outputs;
}

/// Those at the end that are left out say nothing.
int operand_count(const onnx::NodeProto& node) {
  int count = node.input_size();
  while (count > 0 && node.input(count - 1).empty()) --count;
  return count;
}

/// Two graphs, side by side.
class Comparison {
 public:
  std::string compare(const onnx::GraphProto& expected, const onnx::GraphProto& actual) {
    collect_constants(expected, expected_constants_);
    collect_constants(actual, actual_constants_);
    if (expected.input_size() != actual.input_size())
      return fmt::format("{} inputs instead of {}", actual.input_size(), expected.input_size());
    for (int k = 0; k < expected.input_size(); ++k) {
      if (const auto text = compare_values(expected.input(k), actual.input(k)); !text.empty()) return text;
    }
    const std::vector<const onnx::NodeProto*> nodes = nodes_of(expected), others = nodes_of(actual);
    for (size_t k = 0; k < std::min(nodes.size(), others.size()); ++k) {
      if (const auto text = compare_nodes(*nodes[k], *others[k]); !text.empty())
        return fmt::format("node {}, {} and {}: {}", k, compiler::describe_node(*nodes[k]),
                           compiler::describe_node(*others[k]), text);
    }
    if (nodes.size() != others.size())
      return fmt::format("{} nodes instead of {}", others.size(), nodes.size());
    if (expected.output_size() != actual.output_size())
      return fmt::format("{} outputs instead of {}", actual.output_size(), expected.output_size());
    for (int k = 0; k < expected.output_size(); ++k) {
      if (const auto text = compare_values(expected.output(k), actual.output(k)); !text.empty()) return text;
    }
    return "";
  }

 private:
  using Constants = std::map<std::string, Tensor>;

  static const onnx::TensorProto* constant_of(const onnx::NodeProto& node) {
    const auto* value = node.op_type() == "Constant" ? compiler::find_attribute(node, "value") : nullptr;
    return value == nullptr ? nullptr : &value->t();
  }
  static void collect_constants(const onnx::GraphProto& graph, Constants& constants) {
    for (const auto& tensor : graph.initializer())
      constants[tensor.name()] = compiler::tensor_from_proto(tensor, tensor.name());
    for (const auto& node : graph.node()) {
      if (const auto* tensor = constant_of(node))
        constants[node.output(0)] = compiler::tensor_from_proto(*tensor, node.output(0));
    }
  }
  static std::vector<const onnx::NodeProto*> nodes_of(const onnx::GraphProto& graph) {
    std::vector<const onnx::NodeProto*> nodes;
    for (const auto& node : graph.node()) {
      if (constant_of(node) == nullptr) nodes.push_back(&node);
    }
    return nodes;
  }

  /// The two are the same value; else why not.
  std::string match(const std::string& expected, const std::string& actual) {
    if (expected.empty() || actual.empty())
      return expected == actual ? "" : fmt::format("reads or makes '{}' instead of '{}'", actual, expected);
    const auto constant = expected_constants_.find(expected);
    const auto other = actual_constants_.find(actual);
    if (constant != expected_constants_.end() && other != actual_constants_.end())
      return constant->second == other->second
                 ? ""
                 : fmt::format("the constant '{}' isn't '{}'", actual, expected);
    const auto [found, is_new] = names_.emplace(expected, actual);
    if (!is_new && found->second != actual)
      return fmt::format("'{}' is '{}' here and '{}' there", expected, actual, found->second);
    if (is_new && !taken_.insert(actual).second) return fmt::format("'{}' stands for several values", actual);
    return "";
  }

  /// In what is known of both.
  static bool contradict(const onnx::TypeProto& expected, const onnx::TypeProto& actual) {
    if (expected.value_case() == onnx::TypeProto::VALUE_NOT_SET ||
        actual.value_case() == onnx::TypeProto::VALUE_NOT_SET)
      return false;
    if (!expected.has_tensor_type() || !actual.has_tensor_type())
      return expected.value_case() != actual.value_case();
    const auto& left = expected.tensor_type();
    const auto& right = actual.tensor_type();
    if (left.elem_type() != right.elem_type()) return true;
    if (!left.has_shape() || !right.has_shape()) return false;
    if (left.shape().dim_size() != right.shape().dim_size()) return true;
    for (int axis = 0; axis < left.shape().dim_size(); ++axis) {
      const auto& dim = left.shape().dim(axis);
      const auto& other = right.shape().dim(axis);
      if (dim.has_dim_value() && other.has_dim_value() && dim.dim_value() != other.dim_value()) return true;
    }
    return false;
  }

  std::string compare_values(const onnx::ValueInfoProto& expected, const onnx::ValueInfoProto& actual) {
    if (contradict(expected.type(), actual.type())) {
      return fmt::format("'{}' is {} instead of {}", actual.name(), compiler::type_to_string(actual.type()),
                         compiler::type_to_string(expected.type()));
    }
    return match(expected.name(), actual.name());
  }

  std::string compare_nodes(const onnx::NodeProto& expected, const onnx::NodeProto& actual) {
    if (expected.op_type() != actual.op_type() || expected.domain() != actual.domain())
      return "other operators";
    const int count = operand_count(expected);
    if (count != operand_count(actual)) return "not as many operands";
    for (int k = 0; k < count; ++k) {
      if (const auto text = match(expected.input(k), actual.input(k)); !text.empty()) return text;
    }
    if (const auto text = compare_attributes(expected, actual); !text.empty()) return text;
    if (expected.output_size() != actual.output_size()) return "not as many outputs";
    for (int k = 0; k < expected.output_size(); ++k) {
      if (const auto text = match(expected.output(k), actual.output(k)); !text.empty()) return text;
    }
    return "";
  }

  std::string compare_attributes(const onnx::NodeProto& expected, const onnx::NodeProto& actual) {
    if (expected.attribute_size() != actual.attribute_size()) return "not as many attributes";
    for (const auto& attribute : expected.attribute()) {
      const auto* other = compiler::find_attribute(actual, attribute.name());
      if (other == nullptr) return fmt::format("no attribute {}", attribute.name());
      if (attribute.has_g()) {
        Comparison inside(*this);
        if (const auto text = inside.compare(attribute.g(), other->g()); !text.empty())
          return attribute.name() + ": " + text;
        continue;
      }
      if (attribute.has_t() && other->has_t()) {
        if (compiler::tensor_from_proto(attribute.t(), "") != compiler::tensor_from_proto(other->t(), ""))
          return fmt::format("attribute {} is another tensor", attribute.name());
        continue;
      }
      onnx::AttributeProto left = attribute, right = *other;
      left.clear_doc_string();
      right.clear_doc_string();
      if (left.SerializeAsString() != right.SerializeAsString())
        return fmt::format("attribute {} is {} instead of {}", attribute.name(), right.ShortDebugString(),
                           left.ShortDebugString());
    }
    return "";
  }

  Constants expected_constants_, actual_constants_;
  std::map<std::string, std::string> names_;
  std::set<std::string> taken_;
};

}  // namespace

size_t OperatorCall::operand_count() const {
  return static_cast<size_t>(testing::operand_count(node_));
}

Operand OperatorCall::operand(size_t k) const {
  if (k >= operand_count() || node_.input(static_cast<int>(k)).empty()) return {};
  return values_.at(node_.input(static_cast<int>(k)));
}

Operands OperatorCall::operands(size_t k) const {
  std::vector<Operand> list;
  for (; k < operand_count(); ++k) list.push_back(operand(k));
  return list;
}

const onnx::AttributeProto* OperatorCall::find(const std::string& name) const {
  return compiler::find_attribute(node_, name);
}

void OperatorCall::get(const onnx::AttributeProto& attribute, std::optional<int64_t>& value) {
  value = attribute.i();
}

void OperatorCall::get(const onnx::AttributeProto& attribute, std::optional<float>& value) {
  value = attribute.f();
}

void OperatorCall::get(const onnx::AttributeProto& attribute, std::optional<std::string>& value) {
  value = attribute.s();
}

void OperatorCall::get(const onnx::AttributeProto& attribute, std::optional<std::vector<int64_t>>& value) {
  value.emplace(attribute.ints().begin(), attribute.ints().end());
}

void OperatorCall::get(const onnx::AttributeProto& attribute, std::optional<std::vector<float>>& value) {
  value.emplace(attribute.floats().begin(), attribute.floats().end());
}

void OperatorCall::get(const onnx::AttributeProto& attribute,
                       std::optional<std::vector<std::string>>& value) {
  value.emplace(attribute.strings().begin(), attribute.strings().end());
}

void OperatorCall::get(const onnx::AttributeProto& attribute, std::optional<Tensor>& value) {
  value = compiler::tensor_from_proto(attribute.t(), attribute.name());
}

void OperatorCall::get(const onnx::AttributeProto& attribute, std::optional<onnx::SparseTensorProto>& value) {
  value = attribute.sparse_tensor();
}

void OperatorCall::get(const onnx::AttributeProto& attribute, std::optional<onnx::TypeProto>& value) {
  value = attribute.tp();
}

void OperatorCall::get(const onnx::AttributeProto& attribute, std::optional<Body>& value) {
  value = Body([&graph = graph_, proto = attribute.g(), values = values_](const std::vector<Value>& inputs) {
    NamedValues inside = values;
    for (int k = 0; k < proto.input_size(); ++k)
      inside[proto.input(k).name()] = inputs.at(static_cast<size_t>(k));
    for (const auto& tensor : proto.initializer())
      inside[tensor.name()] = graph.constant(compiler::tensor_from_proto(tensor, tensor.name()));
    return rebuild_nodes(proto, graph, inside);
  });
}

void rebuild(const onnx::ModelProto& model, Graph& graph) {
  NamedValues values;
  std::set<std::string> initializers;
  for (const auto& tensor : model.graph().initializer()) {
    initializers.insert(tensor.name());
    values[tensor.name()] = graph.buffer(tensor.name(), compiler::tensor_from_proto(tensor, tensor.name()));
  }
  for (const auto& input : model.graph().input()) {
    if (!initializers.contains(input.name())) values[input.name()] = graph.input(input.name(), input.type());
  }
  const std::vector<Value> outputs = rebuild_nodes(model.graph(), graph, values);
  for (int k = 0; k < model.graph().output_size(); ++k)
    graph.output(outputs[static_cast<size_t>(k)], model.graph().output(k).name());
}

std::string difference(const onnx::ModelProto& expected, const onnx::ModelProto& actual) {
  return Comparison().compare(expected.graph(), actual.graph());
}

}  // namespace kodama::builder::testing
