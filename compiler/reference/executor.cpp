#include "compiler/reference/executor.h"

#include <fmt/ranges.h>
#include <onnx/defs/data_type_utils.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>
#include <unordered_map>

#include "compiler/reference/kernel.h"

namespace kodama::compiler {

using isa::UnsupportedError;
using isa::UserError;
using reference::KernelRegistry;
using reference::NodeContext;
using reference::place_of;

namespace {

/// Functions may call functions; deeper than this it's a recursion, which ONNX forbids.
constexpr int kMaxFunctionDepth = 64;

std::string canonical_domain(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

std::string domain_text(const std::string& domain) {
  return domain.empty() ? "ai.onnx" : domain;
}

/// Values by name. Names that aren't here are looked up in the surrounding graph's scope.
class Scope {
 public:
  explicit Scope(const Scope* parent = nullptr) : parent_(parent) {}

  const Value* find(const std::string& name) const {
    const auto found = values_.find(name);
    if (found != values_.end()) return &found->second;
    return parent_ != nullptr ? parent_->find(name) : nullptr;
  }
  bool has_own(const std::string& name) const { return values_.contains(name); }
  void set(const std::string& name, Value value) { values_.insert_or_assign(name, std::move(value)); }
  void forget(const std::string& name) { values_.erase(name); }
  std::unordered_map<std::string, Value>& values() { return values_; }

 private:
  const Scope* parent_;
  std::unordered_map<std::string, Value> values_;
};

class Interpreter {
 public:
  explicit Interpreter(const OperatorSets& operators, int depth = 0) : operators_(operators), depth_(depth) {}

  /// Graphs in the node's attributes go to `run_subgraph`.
  std::vector<Value> run_node(const onnx::NodeProto& node, const std::vector<const Value*>& inputs,
                              const SubgraphRunner& run_subgraph) const;
  void run_node_in(const onnx::NodeProto& node, Scope& scope) const;
  std::vector<Value> run_subgraph(const onnx::GraphProto& graph, const std::vector<Value>& inputs,
                                  const Scope* outer) const;

 private:
  std::vector<Value> run_kernel(const onnx::NodeProto& node, const onnx::OpSchema& schema,
                                const reference::ValueKernel& kernel, const std::vector<const Value*>& inputs,
                                const SubgraphRunner& run_subgraph) const;
  std::vector<Value> run_function(const onnx::FunctionProto& function, const onnx::OpSchema* schema,
                                  const onnx::NodeProto& call, const std::vector<const Value*>& inputs,
                                  const OperatorSets& operators) const;

  const OperatorSets& operators_;
  int depth_;
};

const onnx::OpSchema* find_schema(const onnx::NodeProto& node, const OperatorSets& operators) {
  return onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(operators.version(node.domain())),
                                        canonical_domain(node.domain()));
}

/// Why a node names no operator of its operator set; empty if it does.
std::string unknown_operator(const onnx::NodeProto& node, const OperatorSets& operators,
                             const onnx::OpSchema* schema) {
  const std::string domain = canonical_domain(node.domain());
  const int64_t version = operators.version(domain);
  if (version == 0)
    return fmt::format("the model imports no operator set of domain '{}'", domain_text(domain));
  if (schema == nullptr) {
    return fmt::format("operator {} is unknown in domain '{}', version {}", node.op_type(),
                       domain_text(domain), version);
  }
  if (schema->deprecated()) {
    return fmt::format("operator {} no longer exists in domain '{}', version {}", node.op_type(),
                       domain_text(domain), version);
  }
  return "";
}

/// The function body of a schema for this node, with its imports filled in; nullopt if there is none.
std::optional<onnx::FunctionProto> schema_function(const onnx::OpSchema& schema, const onnx::NodeProto& node,
                                                   const std::vector<onnx::TypeProto>& input_types) {
  onnx::FunctionProto function;
  if (schema.HasFunction()) {
    function = *schema.GetFunction();
  } else if (schema.HasContextDependentFunction()) {
    const onnx::FunctionBodyBuildContextImpl context(node, input_types);
    if (!schema.BuildContextDependentFunction(context, function)) return std::nullopt;
  } else {
    return std::nullopt;
  }
  if (function.opset_import_size() == 0) {  // a body is written in the operator set that introduced it
    auto* const import = function.add_opset_import();
    import->set_domain(schema.domain());
    import->set_version(schema.since_version());
  }
  return function;
}

/// Replaces references to the function's attributes by their values in `call`, or by the schema's default, or
/// removes them.
void bind_attributes(const onnx::NodeProto& call, const onnx::OpSchema* schema, onnx::NodeProto& node) {
  google::protobuf::RepeatedPtrField<onnx::AttributeProto> bound;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    const onnx::AttributeProto* value = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      value = nullptr;
      for (const onnx::AttributeProto& given : call.attribute()) {
        if (given.name() == attribute.ref_attr_name()) value = &given;
      }
      if (value == nullptr && schema != nullptr) {
        const auto declared = schema->attributes().find(attribute.ref_attr_name());
        if (declared != schema->attributes().end() && declared->second.default_value.has_name()) {
          value = &declared->second.default_value;
        }
      }
      if (value == nullptr) continue;
    }
    onnx::AttributeProto* const added = bound.Add();
    *added = *value;
    added->set_name(attribute.name());
    if (added->has_g()) {
      for (onnx::NodeProto& inner : *added->mutable_g()->mutable_node()) bind_attributes(call, schema, inner);
    }
  }
  node.mutable_attribute()->Swap(&bound);
}

/// Checks the node's form and its inputs' types against the schema.
void check_node(const onnx::NodeProto& node, const onnx::OpSchema& schema,
                const std::vector<const Value*>& inputs) {
  const std::string where = place_of(node);
  try {
    schema.Verify(node);
  } catch (const std::exception& error) {
    throw UserError(fmt::format("{}: {}", where, error.what()));
  }
  const auto& formals = schema.inputs();
  std::map<std::string, std::pair<const std::string*, size_t>> bound;  // type variables, and by which input
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) continue;
    if (formals.empty())
      throw UserError(fmt::format("{}: has {} inputs; allowed are none", where, inputs.size()));
    const auto& formal = formals[std::min(i, formals.size() - 1)];
    const std::string* const type_string = onnx::Utils::DataTypeUtils::ToType(inputs[i]->type());
    if (formal.GetTypes().count(type_string) == 0) {
      std::set<std::string> allowed;
      for (const auto* each : formal.GetTypes()) allowed.insert(*each);
      std::string list;
      for (const std::string& each : allowed) list += (list.empty() ? "" : ", ") + each;
      throw UserError(fmt::format("{}: input {} '{}' is {}; allowed are {}", where, i, formal.GetName(),
                                  *type_string, list));
    }
    if (formal.GetOption() == onnx::OpSchema::Variadic && !formal.GetIsHomogeneous()) continue;
    const auto [variable, is_new] = bound.emplace(formal.GetTypeStr(), std::pair(type_string, i));
    if (!is_new && variable->second.first != type_string) {
      const auto name = [](const Value& value, const std::string& type) {
        return value.is_tensor() ? data_type_name(value.element_type()) : type;
      };
      const auto& [other_type, other] = variable->second;
      throw UserError(fmt::format("{}: input {} '{}' is {}, but an input that must have the same type is {}",
                                  where, i, formal.GetName(), name(*inputs[i], *type_string),
                                  name(*inputs[other], *other_type)));
    }
  }
}

std::vector<Value> Interpreter::run_node(const onnx::NodeProto& node, const std::vector<const Value*>& inputs,
                                         const SubgraphRunner& run_subgraph) const {
  isa::check_internal(inputs.size() == static_cast<size_t>(node.input_size()), "reference",
                      "{} has {} inputs, but {} values were given", place_of(node), node.input_size(),
                      inputs.size());
  const std::string where = place_of(node);
  try {
    if (const onnx::FunctionProto* function = operators_.function(node)) {
      return run_function(*function, nullptr, node, inputs, operators_.with_imports_of(*function));
    }
    const onnx::OpSchema* const schema = find_schema(node, operators_);
    const std::string problem = unknown_operator(node, operators_, schema);
    if (!problem.empty()) throw UnsupportedError(fmt::format("{}: {}", where, problem));
    check_node(node, *schema, inputs);
    if (const auto* kernel =
            KernelRegistry::instance().find(canonical_domain(node.domain()), node.op_type())) {
      return run_kernel(node, *schema, *kernel, inputs, run_subgraph);
    }
    std::vector<onnx::TypeProto> input_types;
    for (const Value* input : inputs) {
      input_types.push_back(input != nullptr ? input->type() : onnx::TypeProto());
    }
    if (const auto function = schema_function(*schema, node, input_types)) {
      return run_function(*function, schema, node, inputs, operators_.with_imports_of(*function));
    }
    throw UnsupportedError(fmt::format("{}: operator {} of domain '{}', version {}, has no CPU reference",
                                       where, node.op_type(), domain_text(canonical_domain(node.domain())),
                                       schema->since_version()));
  } catch (const UserError& error) {
    const std::string message = error.what();
    if (message.rfind("node '", 0) == 0) throw;
    throw UserError(fmt::format("{}: {}", where, message));
  } catch (const isa::Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw UserError(fmt::format("{}: there isn't enough memory for its result", where));
  } catch (const std::length_error&) {
    throw UserError(fmt::format("{}: its result is too large", where));
  }
}

std::vector<Value> Interpreter::run_kernel(const onnx::NodeProto& node, const onnx::OpSchema& schema,
                                           const reference::ValueKernel& kernel,
                                           const std::vector<const Value*>& inputs,
                                           const SubgraphRunner& run_subgraph) const {
  const NodeContext context(node, schema, operators_.version(node.domain()), inputs, run_subgraph);
  std::vector<Value> outputs = kernel(context);
  for (size_t i = outputs.size(); i < context.output_count(); ++i) {
    if (context.has_output(i)) {
      throw UnsupportedError(fmt::format("{}: output {} has no CPU reference", context.where(), i));
    }
  }
  outputs.resize(context.output_count());
  return outputs;
}

std::vector<Value> Interpreter::run_function(const onnx::FunctionProto& function,
                                             const onnx::OpSchema* schema, const onnx::NodeProto& call,
                                             const std::vector<const Value*>& inputs,
                                             const OperatorSets& operators) const {
  const std::string where = place_of(call);
  if (depth_ >= kMaxFunctionDepth) {
    throw UserError(fmt::format("{}: functions call each other more than {} deep; recursion isn't allowed",
                                where, kMaxFunctionDepth));
  }
  if (static_cast<int>(inputs.size()) > function.input_size() ||
      call.output_size() > function.output_size()) {
    throw UserError(fmt::format("{}: has {} inputs and {} outputs, but the function has {} and {}", where,
                                inputs.size(), call.output_size(), function.input_size(),
                                function.output_size()));
  }
  Scope scope;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] != nullptr) scope.set(function.input(static_cast<int>(i)), *inputs[i]);
  }
  // An omitted optional input of the function is an omitted input of the nodes that use it.
  std::set<std::string> omitted;
  for (int i = 0; i < function.input_size(); ++i) {
    if (scope.find(function.input(i)) == nullptr) omitted.insert(function.input(i));
  }
  const Interpreter inner(operators, depth_ + 1);
  for (onnx::NodeProto node : function.node()) {
    bind_attributes(call, schema, node);
    for (std::string& input : *node.mutable_input()) {
      if (omitted.count(input) > 0) input.clear();
    }
    inner.run_node_in(node, scope);
  }
  std::vector<Value> outputs;
  for (int i = 0; i < call.output_size(); ++i) {
    const Value* const value = scope.find(function.output(i));
    if (value == nullptr && !call.output(i).empty()) {
      throw UserError(
          fmt::format("{}: the function never computes its output '{}'", where, function.output(i)));
    }
    outputs.push_back(value != nullptr ? *value : Value());
  }
  return outputs;
}

void Interpreter::run_node_in(const onnx::NodeProto& node, Scope& scope) const {
  std::vector<const Value*> inputs;
  for (const std::string& name : node.input()) {
    const Value* const value = name.empty() ? nullptr : scope.find(name);
    if (value == nullptr && !name.empty()) {
      throw UserError(
          fmt::format("{}: input '{}' is neither an input of the graph, nor an initializer, nor the "
                      "output of an earlier node",
                      place_of(node), name));
    }
    inputs.push_back(value);
  }
  std::vector<Value> outputs =
      run_node(node, inputs, [&](const onnx::GraphProto& graph, const std::vector<Value>& values) {
        return run_subgraph(graph, values, &scope);
      });
  for (int i = 0; i < node.output_size(); ++i) {
    const std::string& name = node.output(i);
    if (name.empty()) continue;
    if (scope.has_own(name)) {
      throw UserError(fmt::format("{}: output '{}' has been computed already", place_of(node), name));
    }
    scope.set(name, std::move(outputs[static_cast<size_t>(i)]));
  }
}

void add_initializers(const onnx::GraphProto& graph, Scope& scope) {
  if (graph.sparse_initializer_size() > 0) {
    throw UnsupportedError(
        fmt::format("graph '{}': sparse initializers have no CPU reference; make them dense", graph.name()));
  }
  for (const onnx::TensorProto& initializer : graph.initializer()) {
    if (scope.has_own(initializer.name())) continue;  // an input overrides the initializer of its name
    scope.set(initializer.name(),
              tensor_from_proto(initializer, fmt::format("initializer '{}'", initializer.name())));
  }
}

std::vector<Value> Interpreter::run_subgraph(const onnx::GraphProto& graph, const std::vector<Value>& inputs,
                                             const Scope* outer) const {
  Scope scope(outer);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const onnx::ValueInfoProto& declared = graph.input(static_cast<int>(i));
    scope.set(declared.name(), as_declared(declared, inputs[i]));
  }
  add_initializers(graph, scope);
  for (const onnx::NodeProto& node : graph.node()) run_node_in(node, scope);
  std::vector<Value> outputs;
  for (const onnx::ValueInfoProto& output : graph.output()) {
    const Value* const value = scope.find(output.name());
    if (value == nullptr) {
      throw UserError(fmt::format("graph '{}': output '{}' is never computed", graph.name(), output.name()));
    }
    outputs.push_back(*value);
  }
  return outputs;
}

bool node_has_reference(const onnx::NodeProto& node, const OperatorSets& operators, std::string& reason,
                        const std::vector<onnx::TypeProto>& input_types, int depth) {
  if (depth > kMaxFunctionDepth) {
    reason = fmt::format("functions call each other more than {} deep", kMaxFunctionDepth);
    return false;
  }
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    for (const onnx::NodeProto& inner : attribute.g().node()) {
      if (!node_has_reference(inner, operators, reason, {}, depth + 1)) return false;
    }
  }
  const auto body_has_reference = [&](const onnx::FunctionProto& function) {
    const OperatorSets inner_operators = operators.with_imports_of(function);
    for (const onnx::NodeProto& inner : function.node()) {
      if (!node_has_reference(inner, inner_operators, reason, {}, depth + 1)) {
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
  if (KernelRegistry::instance().find(canonical_domain(node.domain()), node.op_type()) != nullptr)
    return true;
  if (schema->HasFunction() || schema->HasContextDependentFunction()) {
    try {
      if (const auto function = schema_function(*schema, node, input_types))
        return body_has_reference(*function);
    } catch (const std::exception&) {  // a builder that can't do without the types
    }
    reason = fmt::format("operator {} needs the types of its inputs to be expanded", node.op_type());
    return false;
  }
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

OperatorSets::OperatorSets(const onnx::ModelProto& model) {
  for (const onnx::OperatorSetIdProto& import : model.opset_import()) {
    const auto [known, is_new] = versions_.emplace(canonical_domain(import.domain()), import.version());
    if (!is_new && known->second != import.version()) {
      throw UserError(fmt::format("the model imports versions {} and {} of domain '{}'; allowed is one",
                                  known->second, import.version(), domain_text(known->first)));
    }
  }
  if (model.opset_import_size() == 0) versions_[""] = 1;  // models of IR version 1 and 2
  for (const onnx::FunctionProto& function : model.functions()) {
    functions_[{canonical_domain(function.domain()), function.name()}] = &function;
  }
}

OperatorSets OperatorSets::with_imports_of(const onnx::FunctionProto& function) const {
  OperatorSets result;
  result.functions_ = functions_;
  for (const onnx::OperatorSetIdProto& import : function.opset_import()) {
    result.versions_[canonical_domain(import.domain())] = import.version();
  }
  return result;
}

int64_t OperatorSets::version(const std::string& domain) const {
  const auto found = versions_.find(canonical_domain(domain));
  return found != versions_.end() ? found->second : 0;
}

const onnx::FunctionProto* OperatorSets::function(const onnx::NodeProto& node) const {
  const auto found = functions_.find({canonical_domain(node.domain()), node.op_type()});
  return found != functions_.end() ? found->second : nullptr;
}

std::vector<std::pair<std::string, std::string>> reference_operators() {
  return KernelRegistry::instance().names();
}

bool has_reference(const onnx::NodeProto& node, const OperatorSets& operators, std::string* reason,
                   const std::vector<onnx::TypeProto>& input_types) {
  std::string text;
  const bool has = node_has_reference(node, operators, text, input_types, 0);
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
    if (onnx::Utils::DataTypeUtils::ToType(value.type()) != wanted) {
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
  std::vector<Value> values;
  values.reserve(inputs.size());
  std::vector<const Value*> pointers;
  for (const Tensor* input : inputs) {
    if (input != nullptr) values.push_back(Value::borrowed(*input));
    pointers.push_back(input != nullptr ? &values.back() : nullptr);
  }
  const Interpreter interpreter(operators);
  std::vector<Value> outputs = run_node_on_values(
      node, pointers, operators, [&](const onnx::GraphProto& graph, const std::vector<Value>& graph_inputs) {
        return interpreter.run_subgraph(graph, graph_inputs, nullptr);
      });
  std::vector<Tensor> tensors;
  for (Value& output : outputs) {
    if (!output.is_tensor()) {
      throw UnsupportedError(fmt::format("{}: its output is {}; only tensors are supported here",
                                         place_of(node), output.describe()));
    }
    tensors.push_back(std::move(output).take_tensor());
  }
  return tensors;
}

std::vector<Value> run_node_on_values(const onnx::NodeProto& node, const std::vector<const Value*>& inputs,
                                      const OperatorSets& operators, const SubgraphRunner& run_subgraph) {
  return Interpreter(operators).run_node(node, inputs, run_subgraph);
}

TensorMap run_graph(const onnx::ModelProto& model, const TensorMap& inputs, const RunOptions& options) {
  return to_tensors(run_graph_on_values(model, borrow_values(inputs), options), "value");
}

ValueMap run_graph_on_values(const onnx::ModelProto& model, const ValueMap& inputs,
                             const RunOptions& options) {
  const onnx::GraphProto& graph = model.graph();
  const OperatorSets operators(model);
  Scope scope;
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

  const Interpreter interpreter(operators);
  for (int i = 0; i < graph.node_size(); ++i) {
    interpreter.run_node_in(graph.node(i), scope);
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
