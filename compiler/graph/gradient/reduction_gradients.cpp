#include <numeric>

#include "compiler/graph/gradient/gradient_rules.h"

/// Reductions over axes. Rules see result and gradient with all axes of the operand, reduced ones of
/// extent 1.
namespace kodama::compiler::gradient {

namespace {

struct Reduction {
  Term x, y, dy;
  Ints axes;
  int64_t count = 1;  ///< elements per result
};

void reduce_back(NodeGradient& n, Term (*formula)(const Reduction& r)) {
  Reduction r;
  r.x = n.x();
  Ints axes;
  if (n.node().op_type() == "ReduceSum") {
    if (n.has(1)) axes = n.integers(1);
    if (axes.empty() && n.integer("noop_with_empty_axes") != 0) return n.give(0, n.dy());
  } else {
    axes = n.ints("axes").value_or(Ints());
  }
  if (axes.empty()) {
    axes.resize(r.x.shape.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  r.axes = n.axes(axes);
  Shape kept = r.x.shape;
  for (int64_t axis : r.axes) {
    r.count *= kept[static_cast<size_t>(axis)];
    kept[static_cast<size_t>(axis)] = 1;
  }
  r.y = reshape(n.y(), kept);
  r.dy = reshape(n.dy(), kept);
  n.give(0, expand(formula(r), r.x.shape));
}

std::function<void(NodeGradient&)> reduction(Term (*formula)(const Reduction& r)) {
  return [formula](NodeGradient& n) { reduce_back(n, formula); };
}

Term sum_rule(const Reduction& r) {
  return r.dy;
}
Term mean_rule(const Reduction& r) {
  return r.dy / static_cast<double>(r.count);
}
/// Elements that are the extreme share the gradient.
Term extreme_rule(const Reduction& r) {
  const Term hits = cast(equal(r.x, r.y), r.x.type);
  return hits * (r.dy / reduce_sum(hits, r.axes));
}
/// The product of the others, also where one of them is zero.
Term product_rule(const Reduction& r) {
  const Term is_zero = equal(r.x, 0.0);
  const Term zeros = reduce_sum(cast(is_zero, r.x.type), r.axes);
  const Term others = reduce("ReduceProd", select(is_zero, 1.0, r.x), r.axes);
  const Term of_zeros = select(equal(zeros, 1.0), others, 0.0);
  return r.dy * select(is_zero, of_zeros, r.y / select(is_zero, 1.0, r.x));
}
Term l1_rule(const Reduction& r) {
  return r.dy * sign(r.x);
}
Term l2_rule(const Reduction& r) {
  const Term is_zero = equal(r.y, 0.0);
  return r.x * select(is_zero, 0.0, r.dy / select(is_zero, 1.0, r.y));
}
Term log_sum_rule(const Reduction& r) {
  return r.dy / reduce_sum(r.x, r.axes);
}
Term log_sum_exp_rule(const Reduction& r) {
  return r.dy * exp(r.x - r.y);
}
Term sum_square_rule(const Reduction& r) {
  return r.dy * r.x * 2.0;
}

}  // namespace

std::vector<GradientRow> reduction_gradients() {
  return {
      {"ReduceL1", reduction(l1_rule)},          {"ReduceL2", reduction(l2_rule)},
      {"ReduceLogSum", reduction(log_sum_rule)}, {"ReduceLogSumExp", reduction(log_sum_exp_rule)},
      {"ReduceMax", reduction(extreme_rule)},    {"ReduceMean", reduction(mean_rule)},
      {"ReduceMin", reduction(extreme_rule)},    {"ReduceProd", reduction(product_rule)},
      {"ReduceSum", reduction(sum_rule)},        {"ReduceSumSquare", reduction(sum_square_rule)},
  };
}

}  // namespace kodama::compiler::gradient
