#include "compiler/layers/scalar_expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "isa/error.h"

namespace kodama::compiler {

namespace {

struct OpRow {
  const char* name;
  std::string_view kinds;  ///< scalar_op_kinds
  int arity() const { return static_cast<int>(kinds.find(':')); }
};

/// Indexed by ScalarOp.
constexpr OpRow kOps[] = {
    {"input", ":a"},
    {"constant", ":f"},
    {"add", "rr:r"},
    {"sub", "rr:r"},
    {"mul", "rr:r"},
    {"div", "rr:r"},
    {"neg", "r:r"},
    {"abs", "r:r"},
    {"max", "rr:r"},
    {"min", "rr:r"},
    {"relu", "r:r"},
    {"reciprocal", "r:r"},
    {"sqrt", "r:r"},
    {"floor", "r:r"},
    {"select_not_negative", "raa:a"},
    {"exp", "f:f"},
    {"log", "f:f"},
    {"tanh", "f:f"},
    {"sigmoid", "f:f"},
    {"erf", "f:f"},
    {"pow", "ff:f"},
    {"equal", "rr:i"},
    {"less", "rr:i"},
    {"int", ":i"},
    {"int_add", "ii:i"},
    {"int_sub", "ii:i"},
    {"int_max", "ii:i"},
    {"int_min", "ii:i"},
    {"unsigned_max", "ii:i"},
    {"and", "ii:i"},
    {"or", "ii:i"},
    {"xor", "ii:i"},
    {"shift_left", "ii:i"},
    {"shift_right", "ii:i"},
    {"shift_right_signed", "ii:i"},
    {"is_zero", "i:i"},
    {"select", "iaa:a"},
    {"to_int", "f:i"},
    {"float_bits", "f:i"},
    {"from_bits", "i:f"},
    {"double", ":d"},
    {"double_input", ":d"},
    {"pair", "ii:d"},
    {"high_word", "d:i"},
    {"low_word", "d:i"},
    {"widen", "f:d"},
    {"narrow", "d:f"},
    {"to_long", "d:d"},
};
static_assert(std::size(kOps) == kScalarOps);

const OpRow& row_of(ScalarOp op) {
  return kOps[static_cast<size_t>(op)];
}

/// The last 32 bits of a number.
uint32_t bits_of(double number) {
  return static_cast<uint32_t>(static_cast<int64_t>(number));
}
double int_of(uint32_t bits) {
  return static_cast<int32_t>(bits);
}

double evaluate_integers(ScalarOp op, uint32_t a, uint32_t b) {
  const auto as_signed = [](uint32_t bits) { return static_cast<int32_t>(bits); };
  switch (op) {
    case ScalarOp::kIntAdd:
      return int_of(a + b);
    case ScalarOp::kIntSub:
      return int_of(a - b);
    case ScalarOp::kIntMax:
      return std::max(as_signed(a), as_signed(b));
    case ScalarOp::kIntMin:
      return std::min(as_signed(a), as_signed(b));
    case ScalarOp::kUnsignedMax:
      return int_of(std::max(a, b));
    case ScalarOp::kAnd:
      return int_of(a & b);
    case ScalarOp::kOr:
      return int_of(a | b);
    case ScalarOp::kXor:
      return int_of(a ^ b);
    case ScalarOp::kShiftLeft:
      return int_of(a << (b % 32));
    case ScalarOp::kShiftRight:
      return int_of(a >> (b % 32));
    case ScalarOp::kShiftRightSigned:
      return as_signed(a) >> (b % 32);
    case ScalarOp::kIsZero:
      return a == 0 ? 1 : 0;
    case ScalarOp::kFromBits:
      return std::bit_cast<float>(a);
    default:
      throw isa::InternalError(
          fmt::format("internal error in ScalarExpr: {} is no operation on integers", scalar_op_name(op)));
  }
}

uint64_t long_bits(double number) {
  return std::bit_cast<uint64_t>(number);
}

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
    case ScalarOp::kPow:
      return std::pow(a, b);
    case ScalarOp::kFloor:
      return std::floor(a);
    case ScalarOp::kSelectNotNegative:
      return a >= 0 ? b : c;
    case ScalarOp::kEqual:
      return a == b ? 1 : 0;
    case ScalarOp::kLess:
      return a < b ? 1 : 0;
    case ScalarOp::kSelect:
      return a != 0 ? b : c;
    case ScalarOp::kToInt:
      return std::isnan(a) ? 0 : std::clamp(std::trunc(a), -2147483648.0, 2147483647.0);
    case ScalarOp::kFloatBits:
      return int_of(std::bit_cast<uint32_t>(static_cast<float>(a)));
    case ScalarOp::kPair:
      return std::bit_cast<double>(uint64_t{bits_of(a)} << 32 | bits_of(b));
    case ScalarOp::kHighWord:
      return int_of(static_cast<uint32_t>(long_bits(a) >> 32));
    case ScalarOp::kLowWord:
      return int_of(static_cast<uint32_t>(long_bits(a)));
    case ScalarOp::kWiden:
    case ScalarOp::kNarrow:
      return static_cast<float>(a);
    case ScalarOp::kToLong: {
      constexpr double kLimit = 0x1p63;
      if (std::isnan(a)) return 0;
      if (a >= kLimit) return std::bit_cast<double>(std::numeric_limits<int64_t>::max());
      return std::bit_cast<double>(static_cast<int64_t>(std::max(a, -kLimit)));
    }
    case ScalarOp::kInput:
    case ScalarOp::kConstant:
    case ScalarOp::kIntConstant:
    case ScalarOp::kDoubleConstant:
    case ScalarOp::kDoubleInput:
      throw isa::InternalError("internal error in ScalarExpr: a leaf has no operation");
    default:
      return evaluate_integers(op, bits_of(a), bits_of(b));
  }
}

int append(std::vector<ScalarNode>& nodes, const ScalarNode& node) {
  const auto found = std::find(nodes.begin(), nodes.end(), node);
  if (found != nodes.end()) return static_cast<int>(found - nodes.begin());
  nodes.push_back(node);
  return static_cast<int>(nodes.size()) - 1;
}

}  // namespace

bool ScalarNode::operator==(const ScalarNode& other) const {
  return op == other.op && args == other.args && input == other.input &&
         (value == other.value ? std::signbit(value) == std::signbit(other.value)
                               : std::isnan(value) && std::isnan(other.value));
}

std::string scalar_op_name(ScalarOp op) {
  return row_of(op).name;
}
int scalar_op_arity(ScalarOp op) {
  return row_of(op).arity();
}

std::string_view scalar_op_kinds(ScalarOp op) {
  return row_of(op).kinds;
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

int ScalarExpr::int_constant(int32_t value) {
  ScalarNode node;
  node.op = ScalarOp::kIntConstant;
  node.value = value;
  return append(nodes_, node);
}

int ScalarExpr::double_constant(double value) {
  ScalarNode node;
  node.op = ScalarOp::kDoubleConstant;
  node.value = value;
  return append(nodes_, node);
}

int ScalarExpr::double_input(int number) {
  ScalarNode node;
  node.op = ScalarOp::kDoubleInput;
  node.input = number;
  return append(nodes_, node);
}

int ScalarExpr::leaf(const ScalarNode& node) {
  isa::check_internal(scalar_op_arity(node.op) == 0, "ScalarExpr", "{} is no leaf", scalar_op_name(node.op));
  return append(nodes_, node);
}

bool ScalarExpr::is_double(int node) const {
  for (;;) {
    const ScalarNode& at = nodes_[static_cast<size_t>(node)];
    const char made = row_of(at.op).kinds.back();
    if (made == 'd') return true;
    if ((made != 'r' && made != 'a') || at.op == ScalarOp::kInput) return false;
    node = at.args[made == 'a' ? 1 : 0];
  }
}

/// The node that an operation on integers is without being computed: a constant, or an argument as it is; -1
/// if it has to be. Formulas of wide integers have many of them, since the upper word is often known.
int ScalarExpr::simplified(ScalarOp op, int a, int b, int c) {
  const auto known = [&](int node) -> std::optional<int32_t> {
    if (node < 0 || nodes_[node].op != ScalarOp::kIntConstant) return std::nullopt;
    return static_cast<int32_t>(nodes_[node].value);
  };
  const auto x = known(a), y = known(b);
  switch (op) {
    case ScalarOp::kSelect:
      if (b == c) return b;
      if (x) return *x != 0 ? b : c;
      return -1;
    case ScalarOp::kFromBits:
      if (nodes_[a].op == ScalarOp::kFloatBits) return nodes_[a].args[0];
      return -1;
    case ScalarOp::kPair: {
      const ScalarNode &high = nodes_[a], &low = nodes_[b];
      if (high.op == ScalarOp::kHighWord && low.op == ScalarOp::kLowWord && high.args[0] == low.args[0])
        return high.args[0];
      return -1;
    }
    case ScalarOp::kHighWord:
      return nodes_[a].op == ScalarOp::kPair ? nodes_[a].args[0] : -1;
    case ScalarOp::kLowWord:
      return nodes_[a].op == ScalarOp::kPair ? nodes_[a].args[1] : -1;
    case ScalarOp::kIsZero:
      return x ? int_constant(*x == 0 ? 1 : 0) : -1;
    case ScalarOp::kIntAdd:
    case ScalarOp::kOr:
    case ScalarOp::kXor:
      if (x == 0) return b;
      break;
    case ScalarOp::kAnd:
      if (x == 0 || y == 0) return int_constant(0);
      if (x == -1) return b;
      if (y == -1) return a;
      break;
    case ScalarOp::kIntSub:
    case ScalarOp::kShiftLeft:
    case ScalarOp::kShiftRight:
    case ScalarOp::kShiftRightSigned:
    case ScalarOp::kIntMax:
    case ScalarOp::kIntMin:
    case ScalarOp::kUnsignedMax:
      break;
    default:
      return -1;
  }
  if (x && y) {
    const auto word = [](int32_t value) { return static_cast<uint32_t>(value); };
    return int_constant(static_cast<int32_t>(evaluate_integers(op, word(*x), word(*y))));
  }
  const bool keeps_a = op != ScalarOp::kIntMax && op != ScalarOp::kIntMin && op != ScalarOp::kUnsignedMax &&
                       op != ScalarOp::kAnd;
  return keeps_a && y == 0 ? a : -1;
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
  return moved(node);
}

int ScalarExpr::moved(const ScalarNode& node) {
  if (scalar_op_arity(node.op) > 0) {
    const int simple = simplified(node.op, node.args[0], node.args[1], node.args[2]);
    if (simple >= 0) return simple;
  }
  return append(nodes_, node);
}

ScalarKind ScalarExpr::kind(std::span<const ScalarKind> inputs) const {
  std::vector<ScalarKind> kinds;
  const auto kind_of = [](char letter) {
    return letter == 'f' ? ScalarKind::kFloat : letter == 'i' ? ScalarKind::kInteger : ScalarKind::kDouble;
  };
  for (const ScalarNode& node : nodes_) {
    const std::string_view row = row_of(node.op).kinds;
    const int arity = scalar_op_arity(node.op);
    std::optional<ScalarKind> any, real;
    if (node.op == ScalarOp::kInput) any = inputs[static_cast<size_t>(node.input)];
    for (int k = 0; k < arity; ++k) {
      const ScalarKind found = kinds[static_cast<size_t>(node.args[static_cast<size_t>(k)])];
      const char wanted = row[static_cast<size_t>(k)];
      if (wanted == 'a' && !any) any = found;
      if (wanted == 'r' && !real) real = found == ScalarKind::kInteger ? ScalarKind::kFloat : found;
      const ScalarKind allowed = wanted == 'a' ? *any : wanted == 'r' ? *real : kind_of(wanted);
      if (found == allowed) continue;  // formulas are long
      isa::check_internal(false, "ScalarExpr", "argument {} of {} is of the other kind in {}", k,
                          scalar_op_name(node.op), to_string());
    }
    const char made = row.back();
    kinds.push_back(made == 'a' ? *any : made == 'r' ? *real : kind_of(made));
  }
  isa::check_internal(!kinds.empty(), "ScalarExpr", "an empty expression has no kind");
  return kinds.back();
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
      renumbered.push_back(combined.moved(moved));
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

ScalarExpr ScalarExpr::with_constant(int k, ScalarKind kind, uint32_t word) const {
  ScalarExpr result;
  std::vector<int> numbers;
  for (ScalarNode node : nodes_) {
    for (int& arg : node.args) {
      if (arg >= 0) arg = numbers[static_cast<size_t>(arg)];
    }
    const bool is_it = node.op == ScalarOp::kInput && node.input == k;
    numbers.push_back(!is_it                       ? result.moved(node)
                      : kind == ScalarKind::kFloat ? result.constant(std::bit_cast<float>(word))
                                                   : result.int_constant(static_cast<int32_t>(word)));
  }
  result.set_result(numbers.back());
  return result;
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
    if (node.input >= 0) {
      values[i] = inputs[node.input];
    } else if (scalar_op_arity(node.op) == 0) {
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
    if (node.op == ScalarOp::kDoubleInput) {
      texts.push_back(fmt::format("d{}", node.input));
    } else if (node.op == ScalarOp::kInput) {
      texts.push_back(fmt::format("x{}", node.input));
    } else if (node.op == ScalarOp::kConstant) {
      texts.push_back(fmt::format("{}", node.value));
    } else if (node.op == ScalarOp::kIntConstant) {
      texts.push_back(fmt::format("int({})", node.value));
    } else if (node.op == ScalarOp::kDoubleConstant) {
      texts.push_back(fmt::format("double({})", node.value));
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
