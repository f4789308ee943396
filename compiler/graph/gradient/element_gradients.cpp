#include <cmath>
#include <numbers>

#include "compiler/graph/gradient/gradient_rules.h"

/// Operators that work element by element.
namespace kodama::compiler::gradient {

namespace {

/// An operator of one operand: dx from x, y and dy.
using Formula = Term (*)(NodeGradient& n, const Term& x, const Term& y, const Term& dy);

std::function<void(NodeGradient&)> unary(Formula formula) {
  return [formula](NodeGradient& n) { n.give(0, formula(n, n.x(), n.y(), n.dy())); };
}

/// dy where the condition holds, else 0.
Term where(const Term& condition, const Term& dy) {
  return select(condition, dy, 0.0);
}

void add(NodeGradient& n) {
  n.give(0, n.dy());
  n.give(1, n.dy());
}
void subtract(NodeGradient& n) {
  n.give(0, n.dy());
  if (n.wants(1)) n.give(1, -n.dy());
}
void multiply(NodeGradient& n) {
  if (n.wants(0)) n.give(0, n.dy() * n.x(1));
  if (n.wants(1)) n.give(1, n.dy() * n.x(0));
}
void divide(NodeGradient& n) {
  const Term da = n.dy() / n.x(1);
  n.give(0, da);
  if (n.wants(1)) n.give(1, -(da * n.y()));
}

/// With fmod, a - trunc(a / b) * b; the other form is for integers.
void remainder(NodeGradient& n) {
  n.give(0, n.dy());
  if (!n.wants(1)) return;
  const Term quotient = n.x(0) / n.x(1);
  n.give(1, -(n.dy() * sign(quotient) * map("Floor", abs(quotient))));
}

void power(NodeGradient& n) {
  const Term x = n.x(0);
  const Term exponent = cast(n.x(1), x.type);
  // Where the exponent is zero, x^-1 of zero would make 0 * infinity.
  if (n.wants(0)) {
    const Term slope = exponent * pow(x, exponent - 1.0);
    n.give(0, n.dy() * select(equal(exponent, 0.0), 0.0, slope));
  }
  if (n.wants(1)) {
    const Term is_positive = greater(x, 0.0);
    const Term logarithm = log(select(is_positive, x, 1.0));
    n.give(1, cast(n.dy() * n.y() * where(is_positive, logarithm), n.x(1).type));
  }
}

/// Operands that are the extreme share its gradient.
void extreme(NodeGradient& n) {
  const Term y = n.y();
  std::vector<Term> hits;
  for (int i = 0; i < n.input_count(); ++i) hits.push_back(cast(equal(n.x(i), y), y.type));
  const Term share = n.dy() / sum(hits);
  for (int i = 0; i < n.input_count(); ++i) {
    if (n.wants(i)) n.give(i, share * hits[static_cast<size_t>(i)]);
  }
}

void sum_of_all(NodeGradient& n) {
  for (int i = 0; i < n.input_count(); ++i) n.give(i, n.dy());
}
void mean_of_all(NodeGradient& n) {
  const Term share = n.dy() / static_cast<double>(n.input_count());
  for (int i = 0; i < n.input_count(); ++i) n.give(i, share);
}

void prelu(NodeGradient& n) {
  const Term is_negative = less(n.x(), 0.0);
  if (n.wants(0)) n.give(0, select(is_negative, n.dy() * n.x(1), n.dy()));
  if (n.wants(1)) n.give(1, where(is_negative, n.dy() * n.x()));
}

void select_elements(NodeGradient& n) {
  if (n.wants(1)) n.give(1, where(n.x(0), n.dy()));
  if (n.wants(2)) n.give(2, select(n.x(0), 0.0, n.dy()));
}

/// y = min(max(x, low), high).
void clip(NodeGradient& n) {
  const Term x = n.x();
  Term inside;
  const auto limit = [&](const Term& beyond, int operand) {
    if (n.wants(operand)) n.give(operand, where(beyond, n.dy()));
    inside = inside ? both(inside, negated(beyond)) : negated(beyond);
  };
  const Term is_high = n.has(2) ? greater(n.has(1) ? maximum(x, n.x(1)) : x, n.x(2)) : Term();
  if (n.has(1)) {
    const Term is_low = less(x, n.x(1));
    limit(is_high ? both(is_low, negated(is_high)) : is_low, 1);
  }
  if (is_high) limit(is_high, 2);
  n.give(0, inside ? where(inside, n.dy()) : n.dy());
}

void convert(NodeGradient& n) {
  n.give(0, cast(n.dy(), n.x().type));
}

void dropout(NodeGradient& n) {
  const bool is_training = n.has(2) && n.constant(2).data<uint8_t>()[0] != 0;
  if (!is_training) return n.give(0, n.dy());
  const Term mask = n.output(1, kBool, n.x().shape);
  const double ratio = n.has(1) ? element_as_double(n.constant(1), 0) : 0.5;
  n.give(0, ratio < 1 ? where(mask, n.dy() * (1 / (1 - ratio))) : n.dy() * 0.0);
}

}  // namespace

std::vector<GradientRow> element_gradients() {
  using N = NodeGradient&;
  using T = const Term&;
#define UNARY(formula)                                                                       \
  unary([]([[maybe_unused]] N n, [[maybe_unused]] T x, [[maybe_unused]] T y, T dy) -> Term { \
    return formula;                                                                          \
  })
  return {
      {"Abs", UNARY(dy * sign(x))},
      {"Acos", UNARY(-(dy / sqrt(1.0 - x * x)))},
      {"Acosh", UNARY(dy / sqrt(x * x - 1.0))},
      {"Add", add},
      {"Asin", UNARY(dy / sqrt(1.0 - x * x))},
      {"Asinh", UNARY(dy / sqrt(x * x + 1.0))},
      {"Atan", UNARY(dy / (x * x + 1.0))},
      {"Atanh", UNARY(dy / (1.0 - x * x))},
      {"Cast", convert},
      {"CastLike", convert, nullptr, {1}},
      {"Ceil", nullptr, nullptr, {}, true},
      {"Celu", UNARY(select(greater(x, 0.0), dy, dy * (y / n.number("alpha") + 1.0)))},
      {"Clip", clip},
      {"Cos", UNARY(-(dy * map("Sin", x)))},
      {"Cosh", UNARY(dy * map("Sinh", x))},
      {"Div", divide},
      {"Dropout", dropout, nullptr, {1}},
      {"Elu", UNARY(select(greater(x, 0.0), dy, dy * (y + n.number("alpha"))))},
      {"Erf", UNARY(dy * exp(-(x * x)) * (2 / std::sqrt(std::numbers::pi)))},
      {"Exp", UNARY(dy * y)},
      {"Floor", nullptr, nullptr, {}, true},
      {"HardSigmoid", UNARY(where(both(greater(y, 0.0), less(y, 1.0)), dy * n.number("alpha")))},
      {"HardSwish", UNARY(select(greater(x, 3.0), dy, where(greater(x, -3.0), dy * (x / 3.0 + 0.5))))},
      {"Identity", UNARY(dy)},
      {"LeakyRelu", UNARY(select(less(x, 0.0), dy * n.number("alpha"), dy))},
      {"Log", UNARY(dy / x)},
      {"Max", extreme},
      {"Mean", mean_of_all},
      {"Min", extreme},
      {"Mod", remainder},
      {"Mul", multiply},
      {"Neg", UNARY(-dy)},
      {"PRelu", prelu},
      {"Pow", power},
      {"RandomNormalLike", nullptr, nullptr, {}, true},
      {"RandomUniformLike", nullptr, nullptr, {}, true},
      {"Reciprocal", UNARY(-(dy * y * y))},
      {"Relu", UNARY(where(greater(y, 0.0), dy))},
      {"Round", nullptr, nullptr, {}, true},
      {"Selu", UNARY(select(greater(x, 0.0), dy * n.number("gamma"),
                            dy * (y + n.number("gamma") * n.number("alpha"))))},
      {"Shrink", UNARY(where(greater(abs(x), n.number("lambd")), dy))},
      {"Sigmoid", UNARY(dy * y * (1.0 - y))},
      {"Sign", nullptr, nullptr, {}, true},
      {"Sin", UNARY(dy * map("Cos", x))},
      {"Sinh", UNARY(dy * map("Cosh", x))},
      {"Softplus", UNARY(dy * map("Sigmoid", x))},
      {"Softsign", unary([](N, T x, T, T dy) -> Term {
         const Term size = abs(x) + 1.0;
         return dy / (size * size);
       })},
      {"Sqrt", UNARY(dy * 0.5 / y)},
      {"Sub", subtract},
      {"Sum", sum_of_all},
      {"Tan", UNARY(dy * (y * y + 1.0))},
      {"Tanh", UNARY(dy * (1.0 - y * y))},
      {"ThresholdedRelu", UNARY(where(greater(x, n.number("alpha")), dy))},
      {"Where", select_elements, nullptr, {0}},
  };
#undef UNARY
}

}  // namespace kodama::compiler::gradient
