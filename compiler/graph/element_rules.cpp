#include "compiler/graph/operator_checks.h"

namespace kodama::compiler::rules {

namespace {

/// Scale and zero point: one, or one for each element of an axis.
struct QuantizationRule {
  int x, scale, zero_point;

  void operator()(const NodeOperands& o) const {
    rank_between(scale, 0, 1)(o);
    if (o.has(zero_point)) same_rank(zero_point, scale)(o);
    const auto rank = o.rank(scale);
    if (!rank || *rank == 0 || o.extent(scale, 0) == 1) return;
    axis("axis", x)(o);
  }
};

}  // namespace

void add_element_rules(RuleTable& rules) {
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "Pow", "Mod", "Equal",
                         "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor", "Where"}) {
    rules[op] = {{check_broadcast}};
  }
  rules["BitShift"] = {{check_broadcast, one_of("direction", {"LEFT", "RIGHT"})}};
  rules["Cast"] = {{[](const NodeOperands& o) {
    if (o.since_version() >= 6) element_type("to")(o);  // before, it was a word
  }}};
  rules["Clip"] = {{one_element(1), one_element(2)}};
  rules["PRelu"] = {{[](const NodeOperands& o) {
    if (o.since_version() >= 7) broadcasts_to_input(1, 0)(o);  // before, one axis was that of channels
  }}};
  rules["Dropout"] = {{one_element(1), one_element(2)}};
  for (const char* op : {"QuantizeLinear", "DequantizeLinear"}) {
    rules[op] = {{QuantizationRule{.x = 0, .scale = 1, .zero_point = 2}}};
  }
}

}  // namespace kodama::compiler::rules
