#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/driver/random_rows.h"

namespace kodama::compiler {
namespace {

using Add = std::function<void(RandomNodes&, const std::string&)>;

/// An attribute that is a float, in a range, or not there.
struct RealAttribute {
  const char* name;
  double low;
  double high;
};

/// One operand, from `low` to `high`.
Add function_from(double low, double high, const std::vector<RealAttribute>& attributes = {}) {
  return [=](RandomNodes& nodes, const std::string& op) {
    const RandomValue x = nodes.want_for(op, {.low = low, .high = high});
    Attributes list;
    for (const RealAttribute& each : attributes) {
      if (nodes.chance(70)) list.set(each.name, nodes.real(each.low, each.high));
    }
    nodes.add(op, {x.name}, list);
  };
}
Add function_of_all(const std::vector<RealAttribute>& attributes = {}) {
  return function_from(-kLargestFloat, kLargestFloat, attributes);
}
/// Integers of all sizes, too.
Add function_of_numbers() {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  return function_from(-kAny, kAny);
}

/// NaN and infinities are data like others.
void add_test_of_specials(RandomNodes& nodes, const std::string& op) {
  Wanted wanted{.types = RandomNodes::types(op, 0), .may_be_special = true};
  RandomValue x = nodes.want(wanted);
  if (!x.has_special && nodes.chance(60)) {
    Tensor tensor = nodes.random_tensor(DataType::kFloat32, x.shape(), -4, 4);
    for (float& element : tensor.data<float>()) {
      const int64_t kind = nodes.number(0, 5);
      if (kind == 0) element = std::numeric_limits<float>::quiet_NaN();
      if (kind == 1) element = std::numeric_limits<float>::infinity();
      if (kind == 2) element = -std::numeric_limits<float>::infinity();
    }
    x = nodes.add_input(tensor);
  }
  nodes.add(op, {x.name});
}

constexpr double kAnyNumber = std::numeric_limits<double>::infinity();
const Wanted kAnyOperand{.low = -kAnyNumber, .high = kAnyNumber};

std::vector<std::string> in_any_order(RandomNodes& nodes, std::vector<std::string> names) {
  nodes.shuffle(names);
  return names;
}

void add_binary(RandomNodes& nodes, const std::string& op) {
  const RandomValue a = nodes.want_for(op, kAnyOperand);
  const RandomValue b = nodes.chance(5) ? a : nodes.partner(a, kAnyOperand);
  nodes.add(op, in_any_order(nodes, {a.name, b.name}));
}

void add_variadic(RandomNodes& nodes, const std::string& op) {
  const RandomValue a = nodes.want_for(op, kAnyOperand);
  std::vector<std::string> names{a.name};
  for (int64_t more = nodes.number(0, 3); more > 0; --more) {
    const RandomValue b = nodes.partner(a, kAnyOperand, more > 1);  // the last may be larger
    names.push_back(b.name);
  }
  nodes.add(op, in_any_order(nodes, names));
}

/// Not zero, and not what makes a quotient of integers overflow.
Wanted divisor(RandomNodes& nodes, DataType type) {
  if (is_float_type(type)) return nodes.chance(70) ? Wanted{.low = 0.2} : Wanted{.high = -0.2};
  if (lowest_of(type) < 0 && nodes.chance(30)) return {.low = -kAnyNumber, .high = -2};
  return {.low = 1, .high = kAnyNumber};
}

void add_division(RandomNodes& nodes, const std::string& op) {
  const RandomValue a = nodes.want_for(op, kAnyOperand);
  const RandomValue b = nodes.partner(a, divisor(nodes, a.type()));
  nodes.add(op, {a.name, b.name});
}

void add_mod(RandomNodes& nodes, const std::string& op) {
  const RandomValue a = nodes.want_for(op, kAnyOperand);
  const RandomValue b = nodes.partner(a, divisor(nodes, a.type()));
  const bool is_fmod = is_float_type(a.type()) || nodes.chance(30);
  nodes.add(op, {a.name, b.name}, is_fmod ? Attributes().set("fmod", 1) : Attributes());
}

void add_power(RandomNodes& nodes, const std::string& op) {
  const DataType type = nodes.pick_type(RandomNodes::types(op, 0));
  if (is_integer_type(type)) {
    const RandomValue base = nodes.want({.types = {type}, .low = -20, .high = 20});
    const RandomValue exponent = nodes.partner(
        base, {.types = RandomNodes::only_integers(RandomNodes::types(op, 1)), .low = 0, .high = 4});
    nodes.add(op, {base.name, exponent.name});
  } else if (nodes.chance(50)) {
    const RandomValue base = nodes.want({.types = {type}, .low = 0.1, .high = 20});
    const RandomValue exponent =
        nodes.partner(base, {.types = RandomNodes::types(op, 1), .low = -2, .high = 3});
    nodes.add(op, {base.name, exponent.name});
  } else {
    const RandomValue base = nodes.want({.types = {type}, .low = -20, .high = 20});
    const DataType exponent = nodes.pick_type(RandomNodes::types(op, 1));
    nodes.add(op, {base.name, nodes.scalar(static_cast<double>(nodes.number(1, 4)), exponent)});
  }
}

void add_bit_shift(RandomNodes& nodes, const std::string& op) {
  const RandomValue a = nodes.want_for(op, kAnyOperand);
  const double bits = 8 * static_cast<double>(element_size(a.type()));
  const RandomValue b = nodes.partner(a, {.low = 0, .high = bits - 1});
  nodes.add(op, {a.name, b.name}, Attributes().set("direction", nodes.word({"LEFT", "RIGHT"})));
}

void add_clip(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = nodes.want_for(op, kAnyOperand);
  const double least = lowest_of(x.type()) < 0 || is_float_type(x.type()) ? -3 : 1;
  const std::string low = nodes.chance(70) ? nodes.scalar(least, x.type()) : "";
  const std::string high = nodes.chance(70) ? nodes.scalar(5, x.type()) : "";
  nodes.add(op, {x.name, low, high});
}

void add_where(RandomNodes& nodes, const std::string& op) {
  const RandomValue condition = nodes.want_for(op);
  Wanted any = kAnyOperand;
  any.types = {nodes.pick_type(RandomNodes::types(op, 1))};
  any.may_be_special = true;
  const RandomValue a = nodes.partner(condition, any);
  any.types = {a.type()};
  const RandomValue b =
      nodes.partner(product_of(a.shape()) > product_of(condition.shape()) ? a : condition, any);
  // Shapes that both fit the condition needn't fit each other.
  const size_t common = std::min(a.shape().size(), b.shape().size());
  for (size_t k = 1; k <= common; ++k) {
    const int64_t left = a.shape()[a.shape().size() - k];
    const int64_t right = b.shape()[b.shape().size() - k];
    if (left != right && left != 1 && right != 1) throw RandomNodes::Misfit();
  }
  for (const RandomValue* each : {&a, &b}) {
    const size_t shared = std::min(each->shape().size(), condition.shape().size());
    for (size_t k = 1; k <= shared; ++k) {
      const int64_t left = each->shape()[each->shape().size() - k];
      const int64_t right = condition.shape()[condition.shape().size() - k];
      if (left != right && left != 1 && right != 1) throw RandomNodes::Misfit();
    }
  }
  nodes.add(op, {condition.name, a.name, b.name});
}

void add_prelu(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = nodes.want_for(op);
  const RandomValue slope = nodes.partner(x, {.low = -20, .high = 20}, true);
  nodes.add(op, {x.name, slope.name});
}

void add_cast(RandomNodes& nodes, const std::string& op) {
  std::vector<DataType> targets = RandomNodes::types(op, 0);  // those of the result are the same
  const DataType to = nodes.pick_type(targets);
  Wanted wanted = kAnyOperand;
  wanted.types = RandomNodes::types(op, 0);
  std::string x;
  if (to == DataType::kString) {
    wanted.types = RandomNodes::only_integers(wanted.types);
    x = nodes.want(wanted).name;
  } else if (nodes.chance(4)) {
    Tensor text(DataType::kString, {nodes.number(1, 9)});
    for (std::string& each : text.strings()) each = nodes.word({"1", "-2", "3", "40", "0"});
    if (to == DataType::kBool || (is_integer_type(to) && lowest_of(to) == 0)) throw RandomNodes::Misfit();
    x = nodes.add_constant(text);
  } else {
    std::erase(wanted.types, DataType::kString);
    const RandomValue from = nodes.want(wanted);
    const bool is_fit = !is_float_type(from.type()) || !is_integer_type(to) ||
                        (from.low >= lowest_of(to) && from.high <= largest_of(to));
    if (!is_fit) throw RandomNodes::Misfit();
    x = from.name;
  }
  if (op == "Cast") {
    nodes.add(op, {x}, Attributes().set("to", to));
    return;
  }
  Wanted like = kAnyOperand;
  like.types = {to};
  nodes.add(op, {x, nodes.want(like).name});
}

void add_dropout(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = nodes.want_for(op);
  const bool is_training = nodes.chance(20);
  const std::string ratio = nodes.chance(50) ? nodes.scalar(nodes.real(0, 0.9)) : "";
  Attributes attributes;
  if (nodes.chance(60) || is_training) attributes.set("seed", nodes.number(0, 99));
  nodes.add(op, {x.name, ratio, is_training ? nodes.scalar(1, DataType::kBool) : ""}, attributes);
}

/// Along an axis, or from it on.
Add along_axis(double low, double high) {
  return [=](RandomNodes& nodes, const std::string& op) {
    const RandomValue x = nodes.want_for(op, {.least_rank = 1, .low = low, .high = high});
    Attributes attributes;
    if (nodes.chance(80)) attributes.set("axis", nodes.number(-x.rank(), x.rank() - 1));
    nodes.add(op, {x.name}, attributes);
  };
}

}  // namespace

std::vector<RandomRow> element_wise_rows() {
  const auto exact = RowErrors::kNone;
  const auto rounds = RowErrors::kRounds;
  const auto sums = RowErrors::kSums;
  return {
      {"Abs", function_of_numbers(), exact, false, false, true},
      {"Acos", function_from(-0.9, 0.9)},
      {"Acosh", function_from(1.1, 1e4)},
      {"Add", add_binary},
      {"And", add_binary, exact},
      {"Asin", function_from(-0.9, 0.9)},
      {"Asinh", function_from(-1e3, 1e3)},
      {"Atan", function_of_all()},
      {"Atanh", function_from(-0.9, 0.9)},
      {"BitShift", add_bit_shift, exact},
      {"Cast", add_cast, rounds, true},
      {"CastLike", add_cast, rounds, true},
      {"Ceil", function_of_all(), exact, true},
      {"Celu", function_from(-20, 1e3, {{"alpha", 0.2, 2}})},
      {"Clip", add_clip, exact, false, false, true},
      {"Cos", function_from(-100, 100)},
      {"Cosh", function_from(-5, 5)},
      {"Div", add_division},
      {"Dropout", add_dropout},
      {"Elu", function_from(-20, 1e3, {{"alpha", 0.2, 2}})},
      {"Equal", add_binary, exact, true},
      {"Erf", function_of_all()},
      {"Exp", function_from(-10, 6)},
      {"Floor", function_of_all(), exact, true},
      {"Greater", add_binary, exact, true},
      {"GreaterOrEqual", add_binary, exact, true},
      {"HardSigmoid", function_of_all({{"alpha", 0.1, 1}, {"beta", 0, 1}}), rounds, false, false, true},
      {"HardSwish", function_of_all()},
      {"Hardmax", along_axis(-kLargestFloat, kLargestFloat), exact, true},
      {"IsInf", add_test_of_specials, exact, true},
      {"IsNaN", add_test_of_specials, exact, true},
      {"LeakyRelu", function_of_all({{"alpha", -0.5, 0.5}}), rounds, false, false, true},
      {"Less", add_binary, exact, true},
      {"LessOrEqual", add_binary, exact, true},
      {"Log", function_from(0.05, kLargestFloat)},
      {"LogSoftmax", along_axis(-50, 50), sums},
      {"Max", add_variadic, exact},
      {"Mean", add_variadic, sums},
      {"Min", add_variadic, exact},
      {"Mod", add_mod, rounds, true},
      {"Mul", add_binary},
      {"Neg", function_of_numbers(), exact, false, false, true},
      {"Not", function_of_numbers(), exact},
      {"Or", add_binary, exact},
      {"PRelu", add_prelu},
      {"Pow", add_power},
      {"Reciprocal", function_from(0.1, 1e4)},
      {"Relu", function_of_numbers(), exact, false, false, true},
      {"Round", function_of_all(), exact, true},
      {"Selu", function_from(-20, 1e3, {{"alpha", 0.5, 2}, {"gamma", 0.5, 2}})},
      {"Shrink", function_of_all({{"lambd", 0.1, 2}, {"bias", -1, 1}}), rounds, true},
      {"Sigmoid", function_from(-30, 30), rounds},
      {"Sign", function_of_numbers(), exact, true},
      {"Sin", function_from(-100, 100)},
      {"Sinh", function_from(-5, 5)},
      {"Softmax", along_axis(-50, 50), sums},
      {"Softplus", function_from(-20, 50)},
      {"Softsign", function_of_all(), rounds, false, false, true},
      {"Sqrt", function_from(0.01, kLargestFloat)},
      {"Sub", add_binary},
      {"Sum", add_variadic},
      {"Tan", function_from(-1.3, 1.3)},
      {"Tanh", function_of_all(), rounds, false, false, true},
      {"ThresholdedRelu", function_of_all({{"alpha", -1, 2}}), exact, true},
      {"Where", add_where, exact},
      {"Xor", add_binary, exact},
  };
}

}  // namespace kodama::compiler
