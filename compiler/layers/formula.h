#pragma once

#include <span>
#include <vector>

#include "compiler/layers/scalar_expr.h"

/// Scalar expressions written as formulas:
///
///     Formula f;
///     ScalarExpr expr = f.result(relu(f.x(0) * 0.5 + f.x(1)));
///
/// Formulas of floats are formulas of doubles, where their terms are that.
namespace kodama::compiler {

/// A node of an expression under construction.
struct Term {
  ScalarExpr* expr;
  int node;
  Term apply(ScalarOp op) const { return {expr, expr->apply(op, node)}; }
  Term apply(ScalarOp op, Term b) const { return {expr, expr->apply(op, node, b.node)}; }
  bool is_double() const { return expr->is_double(node); }
  /// A number like this one: a float, or a double.
  Term constant(double value) const {
    return {expr, is_double() ? expr->double_constant(value) : expr->constant(value)};
  }
  Term integer(int32_t value) const { return {expr, expr->int_constant(value)}; }
};

inline Term operator+(Term a, Term b) {
  return a.apply(ScalarOp::kAdd, b);
}
inline Term operator-(Term a, Term b) {
  return a.apply(ScalarOp::kSub, b);
}
inline Term operator*(Term a, Term b) {
  return a.apply(ScalarOp::kMul, b);
}
inline Term operator/(Term a, Term b) {
  return a.apply(ScalarOp::kDiv, b);
}
inline Term operator+(Term a, double b) {
  return a + a.constant(b);
}
inline Term operator-(Term a, double b) {
  return a - a.constant(b);
}
inline Term operator*(Term a, double b) {
  return a * a.constant(b);
}
inline Term operator-(double a, Term b) {
  return b.constant(a) - b;
}
inline Term operator+(double a, Term b) {
  return b.constant(a) + b;
}
inline Term operator*(double a, Term b) {
  return b.constant(a) * b;
}
inline Term operator-(Term a) {
  return a.apply(ScalarOp::kNeg);
}
inline Term max(Term a, Term b) {
  return a.apply(ScalarOp::kMax, b);
}
inline Term min(Term a, Term b) {
  return a.apply(ScalarOp::kMin, b);
}
inline Term max(Term a, double b) {
  return max(a, a.constant(b));
}
inline Term min(Term a, double b) {
  return min(a, a.constant(b));
}
inline Term relu(Term a) {
  return a.apply(ScalarOp::kRelu);
}
inline Term abs(Term a) {
  return a.apply(ScalarOp::kAbs);
}
inline Term reciprocal(Term a) {
  return a.apply(ScalarOp::kReciprocal);
}
inline Term sqrt(Term a) {
  return a.apply(ScalarOp::kSqrt);
}
// Of floats operations of the chip, of doubles formulas (compiler/layers/doubles.cpp).
Term exp(Term a);
Term log(Term a);
Term tanh(Term a);
Term sigmoid(Term a);
Term pow(Term a, Term b);
inline Term floor(Term a) {
  return a.apply(ScalarOp::kFloor);
}
/// Conditions.
inline Term equal(Term a, Term b) {
  return a.apply(ScalarOp::kEqual, b);
}
inline Term less(Term a, Term b) {
  return a.apply(ScalarOp::kLess, b);
}
/// condition >= 0 ? yes : no
inline Term select(Term condition, Term yes, Term no) {
  return {condition.expr,
          condition.expr->apply(ScalarOp::kSelectNotNegative, condition.node, yes.node, no.node)};
}
/// condition (an integer) != 0 ? yes : no
inline Term where(Term condition, Term yes, Term no) {
  return {condition.expr, condition.expr->apply(ScalarOp::kSelect, condition.node, yes.node, no.node)};
}

/// To a whole number, half to even: up where more than a half is missing to the number below, or a half and
/// that is odd.
inline Term round_to_even(Term x) {
  const Term below = floor(x);
  const Term missing = x - below;
  const Term is_odd = below - floor(below * 0.5) * 2 - 1;
  const Term from_odd = select(missing - 0.5, x.constant(1), x.constant(0));
  const Term from_even = select(0.5 - missing, x.constant(0), x.constant(1));
  return below + select(is_odd, from_odd, from_even);
}

// Activations: of operators, and of recurrent ones' gates.
inline Term leaky_relu(Term x, double alpha) {
  return select(x, x, x * alpha);
}
/// exp(x) - 1 for x <= 0. Near zero the difference would keep few of the digits: there its series.
inline Term exp_minus_one(Term x) {
  // Terms of the series until what is left out of it is below half a unit in the last place.
  const int terms = x.is_double() ? 9 : 5;
  const double near = x.is_double() ? 1.0 / 16 : 1.0 / 8;
  Term series = x.constant(1);
  for (int k = terms; k > 1; --k) series = series * x * (1.0 / k) + 1;
  return select(x + near, series * x, exp(x) - 1);
}
/// alpha (exp(x) - 1) for x <= 0, without an overflow where x > 0 and it isn't used.
inline Term elu(Term x, double alpha) {
  return select(x, x, exp_minus_one(min(x, 0)) * alpha);
}
inline Term hard_sigmoid(Term x, double alpha, double beta) {
  return min(relu(x * alpha + beta), 1);
}
/// log(1 + x) for x from 0 to 1. The sum drops digits of a small x: what is left of it says by how much the
/// logarithm is then too small or too large.
inline Term log_of_one_plus(Term x) {
  const Term sum = x + 1, kept = sum - 1;
  return where(equal(kept, kept.constant(0)), x, log(sum) * (x / kept));
}
/// log(1 + exp(x)), written so that exp never overflows.
inline Term softplus(Term x) {
  return relu(x) + log_of_one_plus(exp(-abs(x)));
}
inline Term softsign(Term x) {
  return x / (abs(x) + 1);
}
inline Term thresholded_relu(Term x, double alpha) {
  return select(alpha - x, x.constant(0), x);
}

class Formula {
 public:
  Formula() = default;
  Formula(const Formula&) = delete;  // terms point into it
  Formula& operator=(const Formula&) = delete;

  Term x(int number) { return {&expr_, expr_.input(number)}; }
  Term constant(double value) { return {&expr_, expr_.constant(value)}; }
  Term integer(int32_t value) { return {&expr_, expr_.int_constant(value)}; }
  Term double_constant(double value) { return {&expr_, expr_.double_constant(value)}; }
  Term double_input(int number) { return {&expr_, expr_.double_input(number)}; }
  ScalarExpr result(Term term) {
    ScalarExpr expr = expr_;
    expr.set_result(term.node);
    return expr;
  }

 private:
  ScalarExpr expr_;
};

}  // namespace kodama::compiler
