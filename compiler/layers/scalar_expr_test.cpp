#include "compiler/layers/scalar_expr.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compiler/layers/formula.h"
#include "isa/error.h"

namespace kodama::compiler {
namespace {

double evaluate(const ScalarExpr& expr, std::vector<double> inputs) {
  return expr.evaluate(inputs);
}

TEST(ScalarExpr, PrintsAndEvaluates) {
  Formula f;
  const ScalarExpr expr = f.result(relu(f.x(0) * 0.5 + f.x(1)));
  EXPECT_EQ(expr.to_string(), "relu(add(mul(x0, 0.5), x1))");
  EXPECT_EQ(expr.input_count(), 2);
  EXPECT_EQ(evaluate(expr, {4, 1}), 3);
  EXPECT_EQ(evaluate(expr, {-4, 1}), 0);
}

TEST(ScalarExpr, SharesEqualNodesAndDropsUnusedOnes) {
  Formula f;
  (void)exp(f.x(3));
  const Term power = exp(f.x(0));
  const ScalarExpr expr = f.result(power / (exp(f.x(0)) + 1));
  EXPECT_EQ(expr.nodes().size(), 5U);
  EXPECT_EQ(expr.input_count(), 1);
  EXPECT_EQ(expr.to_string(), "t1 = exp(x0); div(t1, add(t1, 1))");
}

TEST(ScalarExpr, ANodeBeforeTheLastCanBeTheResult) {
  ScalarExpr expr;
  const int x = expr.input(0);
  const int half = expr.apply(ScalarOp::kMul, x, expr.constant(0.5));
  expr.apply(ScalarOp::kNeg, half);
  expr.set_result(half);
  EXPECT_EQ(expr.to_string(), "mul(x0, 0.5)");
}

TEST(ScalarExpr, SignedZerosAreDifferentConstants) {
  ScalarExpr expr;
  EXPECT_NE(expr.constant(0.0), expr.constant(-0.0));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(expr.constant(nan), expr.constant(nan));
}

TEST(ScalarExpr, SubstitutesAProducer) {
  Formula f;
  const ScalarExpr consumer = f.result(f.x(0) - f.x(1) * f.x(1));
  Formula g;
  const ScalarExpr producer = g.result(exp(g.x(0)) + g.x(1));
  const std::vector<int> producer_inputs = {1, 0};
  const std::vector<int> own_inputs = {0, -1};
  const ScalarExpr fused = consumer.substitute(1, producer, producer_inputs, own_inputs);
  EXPECT_EQ(fused.to_string(), "t3 = add(exp(x1), x0); sub(x0, mul(t3, t3))");
  EXPECT_DOUBLE_EQ(evaluate(fused, {2, 1}), 2 - std::pow(std::exp(1.0) + 2, 2));
}

TEST(ScalarExpr, RenumbersInputs) {
  Formula f;
  const ScalarExpr expr = f.result(f.x(0) + f.x(2));
  const std::vector<int> numbers = {1, -1, 1};
  EXPECT_EQ(expr.renumbered(numbers).to_string(), "add(x1, x1)");
}

TEST(ScalarExpr, SelectsAndRefusesNonsense) {
  Formula f;
  const ScalarExpr expr = f.result(select(f.x(0), f.x(1), f.x(2)));
  EXPECT_EQ(evaluate(expr, {0, 1, 2}), 1);
  EXPECT_EQ(evaluate(expr, {-1e-9, 1, 2}), 2);
  EXPECT_THROW(evaluate(expr, {0, 1}), isa::InternalError);
  ScalarExpr broken;
  EXPECT_THROW(broken.apply(ScalarOp::kAdd, 0, 1), isa::InternalError);
  EXPECT_THROW(broken.apply(ScalarOp::kConstant, -1), isa::InternalError);
}

}  // namespace
}  // namespace kodama::compiler
