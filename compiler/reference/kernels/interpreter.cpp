#include "compiler/reference/kernels/interpreter.h"

#include <algorithm>
#include <map>
#include <new>
#include <set>
#include <stdexcept>

#include "compiler/reference/kernels/kernel.h"

namespace kodama::compiler::reference {

using isa::UnsupportedError;
using isa::UserError;

namespace {

std::vector<Value> run_graph_in(const Graph& graph, const std::vector<Value>& inputs, const Scope* outer) {
  Scope scope(outer);
  for (size_t i = 0; i < inputs.size(); ++i)
    scope.set(graph.inputs[i].name, as_declared(graph.inputs[i], inputs[i]));
  for (const auto& [name, value] : graph.initializers) {
    if (!scope.has_own(name)) scope.set(name, value);  // an input overrides the initializer of its name
  }
  for (const Node& node : graph.nodes) run_node_in(node, scope);
  std::vector<Value> outputs;
  for (const Declared& output : graph.outputs) {
    const Value* const value = scope.find(output.name);
    if (value == nullptr)
      throw UserError(fmt::format("graph '{}': output '{}' is never computed", graph.name, output.name));
    outputs.push_back(*value);
  }
  return outputs;
}

SubgraphRunner subgraphs_of(const Node& node, const Scope* outer) {
  return [&node, outer](const std::string& attribute, const std::vector<Value>& inputs) {
    const auto found = node.attributes.find(attribute);
    isa::check_internal(found != node.attributes.end(), "reference", "{} has no graph '{}'", place_of(node),
                        attribute);
    return run_graph_in(*std::get<std::shared_ptr<const Graph>>(found->second), inputs, outer);
  };
}

/// Checks the inputs' types.
void check_types(const Node& node, const std::vector<const Value*>& inputs) {
  if (node.signature == nullptr) return;
  const std::vector<Signature::Formal>& formals = node.signature->inputs;
  std::map<std::string, std::pair<std::string, size_t>> bound;  // type variables, and by which input
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) continue;
    const std::string where = place_of(node);
    if (formals.empty())
      throw UserError(fmt::format("{}: has {} inputs; allowed are none", where, inputs.size()));
    const Signature::Formal& formal = formals[std::min(i, formals.size() - 1)];
    const std::string type = type_name(inputs[i]->type());
    if (std::ranges::count(formal.types, type) == 0) {
      throw UserError(fmt::format("{}: input {} '{}' is {}; allowed are {}", where, i, formal.name, type,
                                  fmt::join(formal.types, ", ")));
    }
    if (formal.is_mixed) continue;
    const auto [variable, is_new] = bound.emplace(formal.variable, std::pair(type, i));
    if (is_new || variable->second.first == type) continue;
    const auto name = [](const Value& value, const std::string& of_type) {
      return value.is_tensor() ? data_type_name(value.element_type()) : of_type;
    };
    const auto& [other_type, other] = variable->second;
    throw UserError(fmt::format("{}: input {} '{}' is {}, but an input that must have the same type is {}",
                                where, i, formal.name, name(*inputs[i], type),
                                name(*inputs[other], other_type)));
  }
}

std::vector<Value> run_kernel(const Node& node, const ValueKernel& kernel,
                              const std::vector<const Value*>& inputs, const SubgraphRunner& run_subgraph) {
  const NodeContext context(node, inputs, run_subgraph);
  std::vector<Value> outputs = kernel(context);
  for (size_t i = outputs.size(); i < context.output_count(); ++i) {
    if (context.has_output(i))
      throw UnsupportedError(fmt::format("{}: output {} has no CPU reference", context.where(), i));
  }
  outputs.resize(context.output_count());
  return outputs;
}

/// An omitted optional input of a function is an omitted input of the nodes that read it.
void omit_inputs(Node& node, const std::set<std::string>& omitted) {
  for (std::string& input : node.inputs) {
    if (omitted.contains(input)) input.clear();
  }
}

std::vector<Value> run_function(const Node& call, const std::vector<const Value*>& inputs) {
  const Graph& function = *call.function;
  const std::string where = place_of(call);
  if (inputs.size() > function.inputs.size() || call.outputs.size() > function.outputs.size()) {
    throw UserError(fmt::format("{}: has {} inputs and {} outputs, but the function has {} and {}", where,
                                inputs.size(), call.outputs.size(), function.inputs.size(),
                                function.outputs.size()));
  }
  Scope scope;
  std::set<std::string> omitted;
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    if (i < inputs.size() && inputs[i] != nullptr)
      scope.set(function.inputs[i].name, *inputs[i]);
    else
      omitted.insert(function.inputs[i].name);
  }
  for (const Node& node : function.nodes) {
    if (std::ranges::none_of(node.inputs, [&](const std::string& name) { return omitted.contains(name); })) {
      run_node_in(node, scope);
      continue;
    }
    Node with_less = node;
    omit_inputs(with_less, omitted);
    run_node_in(with_less, scope);
  }
  std::vector<Value> outputs;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const Value* const value = scope.find(function.outputs[i].name);
    if (value == nullptr && !call.outputs[i].empty())
      throw UserError(
          fmt::format("{}: the function never computes its output '{}'", where, function.outputs[i].name));
    outputs.push_back(value != nullptr ? *value : Value());
  }
  return outputs;
}

}  // namespace

std::vector<Value> run_node(const Node& node, const std::vector<const Value*>& inputs,
                            const SubgraphRunner& run_subgraph) {
  isa::check_internal(inputs.size() == node.inputs.size(), "reference",
                      "{} has {} inputs, but {} values were given", place_of(node), node.inputs.size(),
                      inputs.size());
  const std::string where = place_of(node);
  try {
    if (node.refusal) {
      if (node.refusal->is_unsupported) throw UnsupportedError(node.refusal->message);
      throw UserError(node.refusal->message);
    }
    check_types(node, inputs);
    if (node.function != nullptr) return run_function(node, inputs);
    const ValueKernel* const kernel = KernelRegistry::instance().find(node.domain, node.op_type);
    if (kernel == nullptr)
      throw UnsupportedError(fmt::format("{}: operator {} of domain '{}', version {}, has no CPU reference",
                                         where, node.op_type, node.domain.empty() ? "ai.onnx" : node.domain,
                                         node.since_version));
    return run_kernel(node, *kernel, inputs, run_subgraph);
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

std::vector<Value> run_node(const Node& node, const std::vector<const Value*>& inputs) {
  return run_node(node, inputs, subgraphs_of(node, nullptr));
}

std::vector<Tensor> run_node(const Node& node, const std::vector<const Tensor*>& inputs) {
  std::vector<Value> values;
  values.reserve(inputs.size());
  std::vector<const Value*> pointers;
  for (const Tensor* input : inputs) {
    if (input != nullptr) values.push_back(Value::borrowed(*input));
    pointers.push_back(input != nullptr ? &values.back() : nullptr);
  }
  std::vector<Tensor> tensors;
  for (Value& output : run_node(node, pointers)) {
    if (!output.is_tensor()) {
      throw UnsupportedError(fmt::format("{}: its output is {}; only tensors are supported here",
                                         place_of(node), output.describe()));
    }
    tensors.push_back(std::move(output).take_tensor());
  }
  return tensors;
}

void run_node_in(const Node& node, Scope& scope) {
  std::vector<const Value*> inputs;
  for (const std::string& name : node.inputs) {
    const Value* const value = name.empty() ? nullptr : scope.find(name);
    if (value == nullptr && !name.empty()) {
      throw UserError(
          fmt::format("{}: input '{}' is neither an input of the graph, nor an initializer, nor the "
                      "output of an earlier node",
                      place_of(node), name));
    }
    inputs.push_back(value);
  }
  std::vector<Value> outputs = run_node(node, inputs, subgraphs_of(node, &scope));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const std::string& name = node.outputs[i];
    if (name.empty()) continue;
    if (scope.has_own(name))
      throw UserError(fmt::format("{}: output '{}' has been computed already", place_of(node), name));
    scope.set(name, std::move(outputs[i]));
  }
}

}  // namespace kodama::compiler::reference
