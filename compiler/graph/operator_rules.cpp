#include "compiler/graph/operator_rules.h"

#include <fmt/ranges.h>
#include <onnx/defs/data_type_utils.h>

#include <algorithm>
#include <set>

#include "compiler/graph/onnx_model.h"
#include "compiler/graph/operator_checks.h"

namespace kodama::compiler {

namespace {

rules::RuleTable make_rules() {
  rules::RuleTable table;
  for (const auto add :
       {rules::add_element_rules, rules::add_index_rules, rules::add_matrix_rules, rules::add_recurrent_rules,
        rules::add_reduction_rules, rules::add_region_rules, rules::add_shape_rules, rules::add_signal_rules,
        rules::add_source_rules, rules::add_text_rules, rules::add_training_rules, rules::add_window_rules}) {
    add(table);
  }
  return table;
}

/// nullptr if the table doesn't have the operator.
const rules::OperatorRule* find_rule(const onnx::NodeProto& node) {
  static const rules::RuleTable table = make_rules();
  const bool is_standard = node.domain().empty() || node.domain() == "ai.onnx";
  const auto found = table.find(is_standard ? node.op_type() : node.domain() + "." + node.op_type());
  return found == table.end() ? nullptr : &found->second;
}

/// Attributes and operands against the schema, whatever the operator.
void check_against_schema(const NodeOperands& o) {
  const auto& schema = o.schema();
  try {
    schema.Verify(o.node());
  } catch (const std::exception& error) {
    o.require(false, "{}", clean_onnx_message(error.what()));
  }
  const auto& formals = schema.inputs();
  std::map<std::string, int> of_variable;  // the first operand of each of the schema's type variables
  for (int i = 0; i < o.input_count(); ++i) {
    const auto type = o.type(i);
    if (!type || formals.empty()) continue;
    const auto& formal = formals[std::min<size_t>(static_cast<size_t>(i), formals.size() - 1)];
    onnx::TypeProto proto;
    proto.mutable_tensor_type()->set_elem_type(*type);
    const auto* text = onnx::Utils::DataTypeUtils::ToType(proto);
    if (!formal.GetTypes().contains(text)) {
      std::set<std::string> allowed;
      for (const auto* each : formal.GetTypes()) allowed.insert(*each);
      o.require(false, "{} is {}; allowed are {}", o.describe(i), data_type_name(*type),
                fmt::join(allowed, ", "));
    }
    if (formal.GetOption() == onnx::OpSchema::Variadic && !formal.GetIsHomogeneous()) continue;
    const auto [first, is_new] = of_variable.emplace(formal.GetTypeStr(), i);
    o.require(is_new || o.type(first->second) == type, "{} and {} must have the same element type",
              o.describe(first->second), o.describe(i));
  }
}

}  // namespace

bool has_operator_rules(const onnx::NodeProto& node) {
  return find_rule(node) != nullptr;
}

void check_operands(const NodeOperands& operands) {
  check_against_schema(operands);
  if (const auto* rule = find_rule(operands.node())) {
    for (const auto& check : rule->checks) check(operands);
  }
}

std::map<int, Shape> own_inference(const NodeOperands& operands) {
  const auto* rule = find_rule(operands.node());
  return rule == nullptr || !rule->infer_own ? std::map<int, Shape>() : rule->infer_own(operands);
}

bool library_reads_elements(const onnx::NodeProto& node) {
  const auto* rule = find_rule(node);
  return rule == nullptr || rule->library_reads_elements;
}

bool results_are_like_operands(const onnx::NodeProto& node) {
  const auto* rule = find_rule(node);
  return rule != nullptr && rule->results_are_like_operands;
}

int shape_deciding_input(const NodeOperands& operands) {
  const auto* rule = find_rule(operands.node());
  if (rule == nullptr) return -1;
  for (int input : rule->shape_inputs) {
    if (operands.has(input) && operands.constant(input) == nullptr) return input;
  }
  return -1;
}

std::vector<int> shape_inputs(const onnx::NodeProto& node) {
  const auto* rule = find_rule(node);
  return rule == nullptr ? std::vector<int>() : rule->shape_inputs;
}

bool shape_depends_on_data(const onnx::NodeProto& node) {
  static const std::set<std::string> kOperators = {"Compress", "NonMaxSuppression", "NonZero",
                                                   "StringNormalizer", "Unique"};
  return (node.domain().empty() || node.domain() == "ai.onnx") && kOperators.contains(node.op_type());
}

}  // namespace kodama::compiler
