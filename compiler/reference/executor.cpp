#include "compiler/reference/executor.h"

#include <fmt/ranges.h>
#include <onnx/defs/data_type_utils.h>

#include <set>

#include "compiler/proto/tensor_proto.h"
#include "compiler/reference/kernels/kernel.h"
#include "compiler/reference/operator_sets.h"
#include "compiler/reference/resolve.h"

namespace kodama::compiler {

using isa::UnsupportedError;
using isa::UserError;

namespace {

void add_initializers(const onnx::GraphProto& graph, reference::Scope& scope) {
  check_no_sparse_initializers(graph);
  for (const onnx::TensorProto& initializer : graph.initializer()) {
    if (scope.has_own(initializer.name())) continue;  // an input overrides the initializer of its name
    scope.set(initializer.name(),
              tensor_from_proto(initializer, fmt::format("initializer '{}'", initializer.name())));
  }
}

bool node_has_reference(const onnx::NodeProto& node, const OperatorSets& operators, std::string& reason,
                        int depth) {
  if (depth > kMaxFunctionDepth) {
    reason = fmt::format("functions call each other more than {} deep", kMaxFunctionDepth);
    return false;
  }
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    for (const onnx::NodeProto& inner : attribute.g().node()) {
      if (!node_has_reference(inner, operators, reason, depth + 1)) return false;
    }
  }
  const auto body_has_reference = [&](const onnx::FunctionProto& function) {
    const OperatorSets inner_operators = operators.with_imports_of(function);
    for (const onnx::NodeProto& inner : function.node()) {
      if (!node_has_reference(inner, inner_operators, reason, depth + 1)) {
        reason = fmt::format("in the function of {}: {}", node.op_type(), reason);
        return false;
      }
    }
    return true;
  };
  if (const onnx::FunctionProto* function = operators.function(node)) return body_has_reference(*function);
  const onnx::OpSchema* const schema = find_schema(node, operators);
  reason = unknown_operator(node, operators, schema);
  if (!reason.empty()) return false;
  if (has_kernel(canonical_domain(node.domain()), node.op_type())) return true;
  if (schema->HasFunction()) return body_has_reference(schema_function(*schema));
  reason = fmt::format("operator {} has no CPU reference", node.op_type());
  return false;
}

/// Names that a graph reads from outside.
void collect_outer_names(const onnx::GraphProto& graph, std::set<std::string>& names) {
  std::set<std::string> read;
  for (const onnx::NodeProto& node : graph.node()) read.merge(names_read(node));
  for (const onnx::ValueInfoProto& output : graph.output()) read.insert(output.name());
  for (const onnx::NodeProto& node : graph.node()) {
    for (const std::string& output : node.output()) read.erase(output);
  }
  for (const onnx::ValueInfoProto& input : graph.input()) read.erase(input.name());
  for (const onnx::TensorProto& initializer : graph.initializer()) read.erase(initializer.name());
  names.merge(read);
}

}  // namespace

bool is_random(const onnx::NodeProto& node) {
  static const std::set<std::string> kRandom = {"Bernoulli",        "Multinomial",   "RandomNormal",
                                                "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
  if (!node.domain().empty() && node.domain() != "ai.onnx") return false;
  // Dropout draws in training only, which an operand says.
  return kRandom.contains(node.op_type()) || (node.op_type() == "Dropout" && node.input_size() > 2);
}

std::vector<std::pair<std::string, std::string>> reference_operators() {
  return reference::KernelRegistry::instance().names();
}

bool has_reference(const onnx::NodeProto& node, const OperatorSets& operators, std::string* reason) {
  std::string text;
  const bool has = node_has_reference(node, operators, text, 0);
  if (reason != nullptr) *reason = text;
  return has;
}

std::set<std::string> names_read(const onnx::NodeProto& node) {
  std::set<std::string> names(node.input().begin(), node.input().end());
  names.erase("");
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) collect_outer_names(attribute.g(), names);
  }
  return names;
}

Value as_declared(const onnx::ValueInfoProto& declared, const Value& value) {
  return declared.type().has_optional_type() && !value.is_optional() ? Value::optional(value) : value;
}

Value check_graph_input(const onnx::ValueInfoProto& declared, const Value& given,
                        std::map<std::string, int64_t>& symbols) {
  Value value = as_declared(declared, given);
  if (!declared.has_type()) return value;
  if (!value.is_tensor() || !declared.type().has_tensor_type()) {
    const std::string* const wanted = onnx::Utils::DataTypeUtils::ToType(declared.type());
    if (type_name(value.type()) != *wanted) {
      throw UserError(
          fmt::format("input '{}' is {}; the model wants {}", declared.name(), value.describe(), *wanted));
    }
    return value;
  }
  const Tensor& tensor = value.tensor();
  const auto& type = declared.type().tensor_type();
  if (type.elem_type() != tensor.type()) {
    throw UserError(fmt::format("input '{}' is {}; the model wants {}", declared.name(),
                                data_type_name(tensor.type()),
                                data_type_name(static_cast<DataType>(type.elem_type()))));
  }
  if (!type.has_shape()) return value;
  bool matches = type.shape().dim_size() == tensor.rank();
  std::string wanted;
  for (int axis = 0; axis < type.shape().dim_size(); ++axis) {
    const auto& dim = type.shape().dim(axis);
    wanted += axis == 0 ? "" : ", ";
    if (!matches) {
      wanted += dim.has_dim_value() ? std::to_string(dim.dim_value()) : dim.dim_param();
      continue;
    }
    const int64_t extent = tensor.shape()[static_cast<size_t>(axis)];
    if (dim.has_dim_value()) {
      wanted += std::to_string(dim.dim_value());
      matches = matches && dim.dim_value() == extent;
    } else if (!dim.dim_param().empty()) {
      const int64_t known = symbols.emplace(dim.dim_param(), extent).first->second;
      wanted += fmt::format("{}={}", dim.dim_param(), known);
      matches = matches && known == extent;
    } else {
      wanted += "?";
    }
  }
  if (!matches) {
    throw UserError(fmt::format("input '{}' has shape {}; the model wants [{}]", declared.name(),
                                shape_to_string(tensor.shape()), wanted));
  }
  return value;
}

std::vector<Tensor> run_node(const onnx::NodeProto& node, const std::vector<const Tensor*>& inputs,
                             const OperatorSets& operators) {
  return reference::run_node(resolve_node(node, operators), inputs);
}

std::vector<Value> run_node_on_values(const onnx::NodeProto& node, const std::vector<const Value*>& inputs,
                                      const OperatorSets& operators,
                                      const reference::SubgraphRunner& run_subgraph) {
  return reference::run_node(resolve_node(node, operators, false), inputs, run_subgraph);
}

TensorMap run_graph(const onnx::ModelProto& model, const TensorMap& inputs, const RunOptions& options) {
  return to_tensors(run_graph_on_values(model, borrow_values(inputs), options), "value");
}

ValueMap run_graph_on_values(const onnx::ModelProto& model, const ValueMap& inputs,
                             const RunOptions& options) {
  const onnx::GraphProto& graph = model.graph();
  const OperatorSets operators(model);
  reference::Scope scope;
  std::map<std::string, int64_t> symbols;
  std::set<std::string> declared;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    declared.insert(input.name());
    const auto given = inputs.find(input.name());
    if (given == inputs.end()) continue;
    scope.set(input.name(), check_graph_input(input, given->second, symbols));
  }
  for (const auto& [name, value] : inputs) {
    if (declared.count(name) == 0) {
      throw UserError(fmt::format("the model has no input '{}'; it has {}", name, fmt::join(declared, ", ")));
    }
  }
  add_initializers(graph, scope);
  for (const std::string& name : declared) {
    if (scope.find(name) == nullptr) throw UserError(fmt::format("input '{}' has no value", name));
  }

  // A value is freed after its last use.
  std::map<std::string, int> last_use;
  for (int i = 0; i < graph.node_size(); ++i) {
    for (const std::string& name : names_read(graph.node(i))) last_use[name] = i;
    for (const std::string& name : graph.node(i).output()) last_use.emplace(name, i);
  }
  for (const onnx::ValueInfoProto& output : graph.output()) last_use.erase(output.name());
  std::vector<std::vector<std::string>> dead_after(static_cast<size_t>(graph.node_size()));
  if (!options.keep_intermediates) {
    for (const auto& [name, index] : last_use) dead_after[static_cast<size_t>(index)].push_back(name);
  }

  for (int i = 0; i < graph.node_size(); ++i) {
    reference::run_node_in(resolve_node(graph.node(i), operators), scope);
    for (const std::string& name : graph.node(i).output()) {
      const Value* const value = options.made && !name.empty() ? scope.find(name) : nullptr;
      if (value == nullptr) continue;
      Value changed = *value;
      options.made(name, changed);
      scope.set(name, std::move(changed));
    }
    for (const std::string& name : dead_after[static_cast<size_t>(i)]) scope.forget(name);
  }

  ValueMap results;
  for (const onnx::ValueInfoProto& output : graph.output()) {
    const Value* const value = scope.find(output.name());
    if (value == nullptr) throw UserError(fmt::format("output '{}' is never computed", output.name()));
    results.emplace(output.name(), *value);
  }
  if (options.keep_intermediates) {
    for (auto& [name, value] : scope.values()) results.emplace(name, value);
  }
  return results;
}

}  // namespace kodama::compiler
