#include <set>

#include "compiler/graph/onnx_model.h"
#include "compiler/graph/operator_checks.h"

namespace kodama::compiler::rules {

namespace {

/// After R and T for each of any number of tensors itself, its gradient, and so many states.
struct OptimizerRule {
  int states;

  int tensors(const NodeOperands& o) const { return (o.input_count() - 2) / (2 + states); }

  void operator()(const NodeOperands& o) const {
    one_of("mode", {"standard", "nesterov"})(o);
    one_element(0)(o);
    one_element(1)(o);
    const int operands = o.input_count() - 2;
    o.require(
        operands > 0 && operands % (2 + states) == 0,
        "{} operands follow R and T; a multiple of {} is allowed: all tensors, all gradients, all states",
        operands, 2 + states);
    const int count = tensors(o);
    o.require(o.node().output_size() <= (1 + states) * count, "{} outputs; {} are allowed",
              o.node().output_size(), (1 + states) * count);
    for (int tensor = 2; tensor < 2 + count; ++tensor) {
      for (int other = tensor + count; other < o.input_count(); other += count) {
        check_same_shape(o, tensor, other);
        o.require(!o.type(tensor) || !o.type(other) || o.type(tensor) == o.type(other),
                  "{} and {} must have the same element type", o.describe(tensor), o.describe(other));
      }
    }
  }
};

/// All new tensors, then all new states.
template <int states>
std::map<int, Shape> infer_optimizer(const NodeOperands& o) {
  std::map<int, Shape> shapes;
  const int count = OptimizerRule{states}.tensors(o);
  for (int output = 0; output < (1 + states) * count; ++output) {
    if (const auto shape = o.shape(2 + output % count)) shapes[output] = *shape;
  }
  return shapes;
}

/// A value for each of the names that it lists, and a derivative by each of the first list.
void check_gradient(const NodeOperands& o) {
  std::set<std::string> names;
  int count = 0;
  for (const char* list : {"xs", "zs"}) {
    const auto* found = find_attribute(o.node(), list);
    if (found == nullptr) continue;
    for (const std::string& name : found->strings()) {
      o.require(names.insert(name).second, "its lists xs and zs have '{}' twice", name);
      ++count;
    }
  }
  o.require(o.input_count() == count, "{} operands; it has {} names in xs and zs, each with a value",
            o.input_count(), count);
  for (int k = 0; k < count; ++k) o.require(o.has(k), "input {} is missing", k);
  const int results = find_attribute(o.node(), "xs")->strings_size();
  o.require(o.node().output_size() <= results, "{} outputs; {} are allowed, one for each of xs",
            o.node().output_size(), results);
}

}  // namespace

void add_training_rules(RuleTable& rules) {
  const std::string domain = "ai.onnx.preview.training.";
  rules[domain + "Adagrad"] = {{OptimizerRule{.states = 1}}, {}, infer_optimizer<1>};
  rules[domain + "Momentum"] = {{OptimizerRule{.states = 1}}, {}, infer_optimizer<1>};
  rules[domain + "Adam"] = {{OptimizerRule{.states = 2}}, {}, infer_optimizer<2>};
  rules[domain + "Gradient"] = {.checks = {check_gradient}, .results_are_like_operands = true};
}

}  // namespace kodama::compiler::rules
