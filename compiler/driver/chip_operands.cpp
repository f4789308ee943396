#include "compiler/driver/chip_operands.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/driver/random_rows.h"

namespace kodama::compiler {
namespace {

/// Of every value that a node makes, its type. Values of large models don't fit beside each other.
std::map<std::string, onnx::TypeProto> types_of_values(const GraphProblem& problem) {
  std::map<std::string, onnx::TypeProto> types;
  RunOptions options;
  options.made = [&](const std::string& name, const Value& value) {
    types[name] = declare_value(name, value).type();
  };
  run_graph_on_values(problem.model, problem.inputs, options);
  return types;
}

/// Its type alone: what shape it has is the compiler's to find out.
onnx::ValueInfoProto declare_output(const std::string& name, const onnx::TypeProto& type) {
  onnx::ValueInfoProto output;
  output.set_name(name);
  *output.mutable_type() = type;
  if (type.has_tensor_type()) output.mutable_type()->mutable_tensor_type()->clear_shape();
  return output;
}

/// Also in a sequence, or an optional.
bool has_floats(const onnx::TypeProto& type) {
  if (type.has_sequence_type()) return has_floats(type.sequence_type().elem_type());
  if (type.has_optional_type()) return has_floats(type.optional_type().elem_type());
  return is_float_type(static_cast<DataType>(type.tensor_type().elem_type()));
}

}  // namespace

GraphProblem with_outputs_to_compare(GraphProblem problem) {
  auto& graph = *problem.model.mutable_graph();
  if (std::ranges::none_of(graph.node(), takes_steps)) return problem;
  const std::map<std::string, onnx::TypeProto> types = types_of_values(problem);
  std::set<std::string> exact, outputs;
  for (const auto& output : graph.output()) outputs.insert(output.name());
  for (const auto& input : graph.input()) exact.insert(input.name());
  for (const auto& constant : graph.initializer()) exact.insert(constant.name());
  for (const auto& node : graph.node()) {
    const bool steps = takes_steps(node);
    bool are_exact = true;  // all operands
    for (const std::string& name : names_read(node)) {
      if (name.empty() || exact.contains(name)) continue;
      are_exact &= steps;
      if (!steps) continue;
      exact.insert(name);
      if (outputs.insert(name).second) *graph.add_output() = declare_output(name, types.at(name));
    }
    for (const std::string& name : node.output()) {
      if (name.empty()) continue;
      // What operators make of integers are integers that are as exact.
      const bool may_round =
          random_row(node.op_type()).errors != RowErrors::kNone && has_floats(types.at(name));
      if ((are_exact && !may_round) || outputs.contains(name)) exact.insert(name);
    }
  }
  return problem;
}

const Value& operand_of_chip(const std::string& name, const Value& computed, const ValueMap& of_chip) {
  const auto found = of_chip.find(name);
  if (found == of_chip.end()) return computed;
  const Value& own = found->second;
  // With a tensor of another shape nodes can't compute.
  const bool fits =
      !computed.is_tensor() || (own.is_tensor() && own.element_type() == computed.element_type() &&
                                own.tensor().shape() == computed.tensor().shape());
  return fits ? own : computed;
}

ValueMap outputs_of_chip_operands(const GraphProblem& problem, const ValueMap& of_chip) {
  std::set<std::string> names;
  for (const auto& output : problem.model.graph().output()) names.insert(output.name());
  ValueMap outputs;
  RunOptions options;
  options.made = [&](const std::string& name, Value& value) {
    if (names.contains(name)) outputs[name] = value;
    if (of_chip.contains(name)) value = Value(operand_of_chip(name, value, of_chip));
  };
  // Behind the values that nodes made, those that none makes: inputs, and constants.
  outputs.merge(run_graph_on_values(problem.model, problem.inputs, options));
  return outputs;
}

bool OperandsComparison::is_within(double tolerance) const {
  const auto ok = [&](const ValueComparison& each) { return within(each.worst, tolerance); };
  return changed.empty() && std::ranges::all_of(operands, ok) && std::ranges::all_of(outputs, ok);
}

std::optional<OperandsComparison> compare_with_chip_operands(
    const GraphProblem& problem, const ValueMap& outputs,
    const std::function<ValueMap(const GraphProblem&)>& run) {
  const GraphProblem shown = with_outputs_to_compare(problem);
  if (shown.model.graph().output_size() == problem.model.graph().output_size()) return std::nullopt;
  const ValueMap of_chip = run(shown);
  OperandsComparison result;
  for (ValueComparison& each : compare_values(of_chip, outputs_of_chip_operands(shown, of_chip), {}, 0)) {
    const auto found = outputs.find(each.name);
    if (found != outputs.end() && found->second != of_chip.at(each.name)) result.changed.push_back(each.name);
    (found == outputs.end() ? result.operands : result.outputs).push_back(std::move(each));
  }
  return result;
}

}  // namespace kodama::compiler
