#include "compiler/layers/scalar_expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "isa/error.h"

namespace kodama::compiler {

namespace {

struct OpRow {
  const char* name;
  int arity;
};

/// Indexed by ScalarOp.
constexpr OpRow kOps[] = {
    {"input", 0}, {"constant", 0}, {"add", 2},
    {"sub", 2},   {"mul", 2},      {"div", 2},
    {"neg", 1},   {"abs", 1},      {"max", 2},
    {"min", 2},   {"relu", 1},     {"reciprocal", 1},
    {"sqrt", 1},  {"exp", 1},      {"log", 1},
    {"tanh", 1},  {"sigmoid", 1},  {"erf", 1},
    {"floor", 1}, {"equal", 2},    {"select_not_negative", 3},
};
static_assert(std::size(kOps) == kScalarOps);

double evaluate_op(ScalarOp op, double a, double b, double c) {
  switch (op) {
    case ScalarOp::kAdd:
      return a + b;
    case ScalarOp::kSub:
      return a - b;
    case ScalarOp::kMul:
      return a * b;
    case ScalarOp::kDiv:
      return a / b;
    case ScalarOp::kNeg:
      return -a;
    case ScalarOp::kAbs:
      return std::fabs(a);
    case ScalarOp::kMax:
      return std::isnan(a) || a > b ? a : b;
    case ScalarOp::kMin:
      return std::isnan(a) || a < b ? a : b;
    case ScalarOp::kRelu:
      return std::isnan(a) || a > 0 ? a : 0;
    case ScalarOp::kReciprocal:
      return 1 / a;
    case ScalarOp::kSqrt:
      return std::sqrt(a);
    case ScalarOp::kExp:
      return std::exp(a);
    case ScalarOp::kLog:
      return std::log(a);
    case ScalarOp::kTanh:
      return std::tanh(a);
    case ScalarOp::kSigmoid:
      return 1 / (1 + std::exp(-a));
    case ScalarOp::kErf:
      return std::erf(a);
    case ScalarOp::kFloor:
      return std::floor(a);
    case ScalarOp::kEqual:
      return a == b ? 1 : 0;
    case ScalarOp::kSelectNotNegative:
      return a >= 0 ? b : c;
    case ScalarOp::kInput:
    case ScalarOp::kConstant:
      break;
  }
  throw isa::InternalError("internal error in ScalarExpr: a leaf has no operation");
}

/// Constants compare by their bits: -0 and 0 differ, a NaN equals itself.
bool same_node(const ScalarNode& a, const ScalarNode& b) {
  return a.op == b.op && a.args == b.args && a.input == b.input &&
         (a.value == b.value ? std::signbit(a.value) == std::signbit(b.value)
                             : std::isnan(a.value) && std::isnan(b.value));
}

int append(std::vector<ScalarNode>& nodes, const ScalarNode& node) {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const ScalarNode& other) { return same_node(node, other); });
  if (found != nodes.end()) return static_cast<int>(found - nodes.begin());
  nodes.push_back(node);
  return static_cast<int>(nodes.size()) - 1;
}

}  // namespace

std::string scalar_op_name(ScalarOp op) {
  return kOps[static_cast<size_t>(op)].name;
}
int scalar_op_arity(ScalarOp op) {
  return kOps[static_cast<size_t>(op)].arity;
}

int ScalarExpr::input(int number) {
  isa::check_internal(number >= 0, "ScalarExpr", "input {}", number);
  ScalarNode node;
  node.input = number;
  return append(nodes_, node);
}

int ScalarExpr::constant(double value) {
  ScalarNode node;
  node.op = ScalarOp::kConstant;
  node.value = value;
  return append(nodes_, node);
}

int ScalarExpr::apply(ScalarOp op, int a, int b, int c) {
  ScalarNode node;
  node.op = op;
  node.args = {a, b, c};
  const int arity = scalar_op_arity(op);
  for (int i = 0; i < 3; ++i) {
    isa::check_internal(i < arity ? node.args[i] >= 0 && node.args[i] <= result() : node.args[i] == -1,
                        "ScalarExpr", "argument {} of {} is node {} of {}", i, scalar_op_name(op),
                        node.args[i], nodes_.size());
  }
  isa::check_internal(arity > 0, "ScalarExpr", "{} isn't an operation", scalar_op_name(op));
  if (op == ScalarOp::kDiv && nodes_[b].op == ScalarOp::kConstant) {
    // A division is worth thirty products. The factor is one, and no tiny or huge one.
    constexpr double kMost = 0x1p100;
    const double divisor = nodes_[b].value;
    if (std::abs(divisor) < kMost && std::abs(divisor) > 1 / kMost)
      return apply(ScalarOp::kMul, a, constant(1 / divisor));
  }
  return append(nodes_, node);
}

void ScalarExpr::set_result(int node) {
  isa::check_internal(node >= 0 && node <= result(), "ScalarExpr", "result is node {} of {}", node,
                      nodes_.size());
  std::vector<bool> used(nodes_.size(), false);
  used[node] = true;
  for (int i = node; i >= 0; --i) {
    if (!used[i]) continue;
    for (int arg : nodes_[i].args) {
      if (arg >= 0) used[arg] = true;
    }
  }
  // A node depends on earlier nodes only, so what remains ends with the result.
  std::vector<int> renumbered(nodes_.size(), -1);
  std::vector<ScalarNode> kept;
  for (int i = 0; i <= node; ++i) {
    if (!used[i]) continue;
    ScalarNode copy = nodes_[i];
    for (int& arg : copy.args) {
      if (arg >= 0) arg = renumbered[arg];
    }
    renumbered[i] = static_cast<int>(kept.size());
    kept.push_back(copy);
  }
  nodes_ = std::move(kept);
}

int ScalarExpr::input_count() const {
  int count = 0;
  for (const ScalarNode& node : nodes_) count = std::max(count, node.input + 1);
  return count;
}

ScalarExpr ScalarExpr::substitute(int k, const ScalarExpr& producer, std::span<const int> producer_inputs,
                                  std::span<const int> own_inputs) const {
  ScalarExpr combined;
  // Copies `from`; an input becomes what `leaf` says.
  const auto copy = [&combined](const ScalarExpr& from, const auto& leaf) {
    std::vector<int> renumbered;
    for (const ScalarNode& node : from.nodes_) {
      if (node.op == ScalarOp::kInput) {
        renumbered.push_back(leaf(node.input));
        continue;
      }
      ScalarNode moved = node;
      for (int& arg : moved.args) {
        if (arg >= 0) arg = renumbered[arg];
      }
      renumbered.push_back(append(combined.nodes_, moved));
    }
    isa::check_internal(!renumbered.empty(), "ScalarExpr::substitute", "an empty expression");
    return renumbered.back();
  };
  const auto renumber = [&combined](std::span<const int> numbers, int input) {
    isa::check_internal(static_cast<size_t>(input) < numbers.size(), "ScalarExpr::substitute",
                        "input {} has no new number among {}", input, numbers.size());
    return combined.input(numbers[input]);
  };
  const int value = copy(producer, [&](int input) { return renumber(producer_inputs, input); });
  const int result = copy(*this, [&](int input) { return input == k ? value : renumber(own_inputs, input); });
  combined.set_result(result);
  return combined;
}

ScalarExpr ScalarExpr::renumbered(std::span<const int> inputs) const {
  ScalarExpr result;
  std::vector<int> moved;
  for (ScalarNode node : nodes_) {
    for (int& arg : node.args) {
      if (arg >= 0) arg = moved[arg];
    }
    if (node.op == ScalarOp::kInput) {
      isa::check_internal(static_cast<size_t>(node.input) < inputs.size(), "ScalarExpr::renumbered",
                          "input {} has no new number among {}", node.input, inputs.size());
      node.input = inputs[node.input];
    }
    moved.push_back(append(result.nodes_, node));
  }
  if (!moved.empty()) result.set_result(moved.back());
  return result;
}

double ScalarExpr::evaluate(std::span<const double> inputs) const {
  if (nodes_.empty() || static_cast<size_t>(input_count()) > inputs.size()) {
    isa::check_internal(false, "ScalarExpr::evaluate", "{} inputs for '{}'", inputs.size(), to_string());
  }
  // Called per element: no allocation.
  static thread_local std::vector<double> values;
  values.resize(nodes_.size());
  const auto value_of = [&](int node) { return node < 0 ? 0.0 : values[node]; };
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const ScalarNode& node = nodes_[i];
    if (node.op == ScalarOp::kInput) {
      values[i] = inputs[node.input];
    } else if (node.op == ScalarOp::kConstant) {
      values[i] = node.value;
    } else {
      values[i] =
          evaluate_op(node.op, value_of(node.args[0]), value_of(node.args[1]), value_of(node.args[2]));
    }
  }
  return values[nodes_.size() - 1];
}

std::string ScalarExpr::to_string() const {
  if (nodes_.empty()) return "";
  std::vector<int> uses(nodes_.size(), 0);
  for (const ScalarNode& node : nodes_) {
    for (int arg : node.args) {
      if (arg >= 0) ++uses[arg];
    }
  }
  // A result that is used often is named first, so that the text isn't exponentially longer than the nodes.
  std::string definitions;
  std::vector<std::string> texts;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const ScalarNode& node = nodes_[i];
    if (node.op == ScalarOp::kInput) {
      texts.push_back(fmt::format("x{}", node.input));
    } else if (node.op == ScalarOp::kConstant) {
      texts.push_back(fmt::format("{}", node.value));
    } else {
      std::string text = scalar_op_name(node.op) + "(";
      for (int k = 0; k < scalar_op_arity(node.op); ++k) {
        if (k > 0) text += ", ";
        text += texts[node.args[k]];
      }
      text += ")";
      if (uses[i] > 1) {
        definitions += fmt::format("t{} = {}; ", i, text);
        text = fmt::format("t{}", i);
      }
      texts.push_back(std::move(text));
    }
  }
  return definitions + texts.back();
}

ScalarExpr ScalarExpr::identity() {
  ScalarExpr expr;
  expr.input(0);
  return expr;
}

}  // namespace kodama::compiler
