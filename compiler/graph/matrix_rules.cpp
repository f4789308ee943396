#include <algorithm>

#include "compiler/graph/operator_checks.h"
#include "compiler/reference/kernels/matmul.h"

namespace kodama::compiler::rules {

namespace {

Check matmul(int a, int b) {
  return [=](const NodeOperands& o) {
    rank_at_least(a, 1)(o);
    rank_at_least(b, 1)(o);
    auto left = o.shape(a);
    auto right = o.shape(b);
    if (!left || !right) return;
    if (left->size() == 1) left->insert(left->begin(), 1);
    if (right->size() == 1) right->push_back(1);
    const auto fits = [&] {
      if (left->back() != (*right)[right->size() - 2]) return false;
      for (size_t k = 3; k <= std::min(left->size(), right->size()); ++k) {
        const int64_t l = (*left)[left->size() - k];
        const int64_t r = (*right)[right->size() - k];
        if (l != r && l != 1 && r != 1) return false;
      }
      return true;
    };
    o.require(
        fits(),
        "{} times {}: the last axis of the first must be as long as the last but one of the second, and "
        "the axes before them must broadcast",
        o.describe(a), o.describe(b));
  };
}

void check_gemm(const NodeOperands& o) {
  rank_of(0, 2)(o);
  rank_of(1, 2)(o);
  rank_between(2, 0, 2)(o);
  const auto a = o.shape(0);
  const auto b = o.shape(1);
  if (!a || !b) return;
  const bool transpose_a = o.integer("transA").value_or(0) != 0;
  const bool transpose_b = o.integer("transB").value_or(0) != 0;
  o.require((*a)[transpose_a ? 0 : 1] == (*b)[transpose_b ? 1 : 0],
            "{}{} times {}{}: the inner extents {} and {} differ", o.describe(0),
            transpose_a ? " transposed" : "", o.describe(1), transpose_b ? " transposed" : "",
            (*a)[transpose_a ? 0 : 1], (*b)[transpose_b ? 1 : 0]);
  const Shape result{(*a)[transpose_a ? 1 : 0], (*b)[transpose_b ? 0 : 1]};
  if (const auto c = o.shape(2); c && o.since_version() >= 7) {
    o.require(broadcasts_to(*c, result), "{} can't be broadcast to the product, which is {}", o.describe(2),
              shape_to_string(result));
  }
}

/// nullopt while a shape isn't known.
std::optional<reference::EinsumPlan> plan_of_einsum(const NodeOperands& o) {
  std::vector<Shape> shapes;
  for (int i = 0; i < o.input_count(); ++i) {
    const auto shape = o.shape(i);
    if (!shape) return std::nullopt;
    shapes.push_back(*shape);
  }
  return reference::plan_einsum(o.text("equation").value_or(""), shapes);
}

void check_einsum(const NodeOperands& o) {
  try {
    (void)plan_of_einsum(o);
  } catch (const isa::UserError& error) {
    o.require(false, "{}", error.what());
  }
}

std::map<int, Shape> infer_einsum(const NodeOperands& o) {
  const auto plan = plan_of_einsum(o);
  return plan ? std::map<int, Shape>{{0, plan->result_shape}} : std::map<int, Shape>();
}

void check_det(const NodeOperands& o) {
  rank_at_least(0, 2)(o);
  const auto shape = o.shape(0);
  if (!shape) return;
  o.require((*shape)[shape->size() - 2] == shape->back(), "{} isn't square in its last two axes",
            o.describe(0));
}

}  // namespace

void add_matrix_rules(RuleTable& rules) {
  rules["MatMul"] = {{matmul(0, 1)}};
  rules["MatMulInteger"] = {{matmul(0, 1), rank_between(2, 0, 1), rank_between(3, 0, 1)}};
  rules["QLinearMatMul"] = {{matmul(0, 3), rank_between(1, 0, 1), rank_between(2, 0, 1),
                             rank_between(4, 0, 1), rank_between(5, 0, 1), rank_between(6, 0, 1),
                             rank_between(7, 0, 1)}};
  rules["Gemm"] = {{check_gemm}};
  rules["Einsum"] = {{check_einsum}, {}, infer_einsum};
  rules["Det"] = {{check_det}};
}

}  // namespace kodama::compiler::rules
