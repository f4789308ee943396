#pragma once

#include "compiler/reference/kernels/kernel.h"

/// Plain matrix products, shared by MatMul, Gemm, MatMulInteger and QLinearMatMul.
namespace kodama::compiler::reference {

/// A batch of products [m, k] x [k, n].
struct MatmulProblem {
  int64_t m = 0;
  int64_t k = 0;
  int64_t n = 0;
  /// Per product, the number of the operands' matrices.
  std::vector<int64_t> a_batches;
  std::vector<int64_t> b_batches;
  Shape result_shape;
};

/// numpy's matmul. UserError if the shapes don't fit.
MatmulProblem plan_matmul(const NodeContext& context, const Shape& a, const Shape& b);

/// The labels of one operand or of the result of an Einsum equation, an axis each. Axes that "..." stands for
/// are labelled with negative numbers, -1 for the last.
using EinsumLabels = std::vector<int>;

struct EinsumPlan {
  std::vector<EinsumLabels> operands;
  EinsumLabels result;
  std::map<int, int64_t> extents;  ///< by label
  Shape result_shape;
};

/// What an equation means for operands of these shapes. UserError if it isn't one or doesn't fit.
EinsumPlan plan_einsum(std::string equation, const std::vector<Shape>& operands);

/// store(result index, Σ a * b) with sums in Acc; a_value and b_value turn an element's index into its value.
template <typename Acc, typename AValue, typename BValue, typename Store>
void multiply_matrices(const MatmulProblem& problem, AValue a_value, BValue b_value, Store store) {
  const auto m = static_cast<size_t>(problem.m);
  const auto k = static_cast<size_t>(problem.k);
  const auto n = static_cast<size_t>(problem.n);
  std::vector<Acc> row(n);
  for (size_t batch = 0; batch < problem.a_batches.size(); ++batch) {
    const size_t a_begin = static_cast<size_t>(problem.a_batches[batch]) * m * k;
    const size_t b_begin = static_cast<size_t>(problem.b_batches[batch]) * k * n;
    for (size_t i = 0; i < m; ++i) {
      std::fill(row.begin(), row.end(), Acc{0});
      for (size_t l = 0; l < k; ++l) {
        const auto factor = static_cast<Acc>(a_value(a_begin + i * k + l));
        for (size_t j = 0; j < n; ++j) row[j] += factor * static_cast<Acc>(b_value(b_begin + l * n + j));
      }
      for (size_t j = 0; j < n; ++j) store((batch * m + i) * n + j, row[j]);
    }
  }
}

}  // namespace kodama::compiler::reference
