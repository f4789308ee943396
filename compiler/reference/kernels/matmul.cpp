#include "compiler/reference/kernels/matmul.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "compiler/reference/kernels/dnnl_backend.h"
#include "compiler/reference/kernels/doubles.h"
#include "compiler/reference/kernels/strided.h"

namespace kodama::compiler::reference {

MatmulProblem plan_matmul(const NodeContext& context, const Shape& a, const Shape& b) {
  context.require(!a.empty() && !b.empty(), "shapes {} and {}: MatMul takes no scalars", shape_to_string(a),
                  shape_to_string(b));
  // A vector on the left is a row, one on the right a column; the axis it gets is removed at the end.
  Shape left = a;
  Shape right = b;
  if (a.size() == 1) left.insert(left.begin(), 1);
  if (b.size() == 1) right.push_back(1);
  MatmulProblem problem;
  problem.m = left[left.size() - 2];
  problem.k = left.back();
  problem.n = right.back();
  context.require(problem.k == right[right.size() - 2],
                  "shapes {} and {}: the inner extents {} and {} differ", shape_to_string(a),
                  shape_to_string(b), problem.k, right[right.size() - 2]);
  const Shape left_batch(left.begin(), left.end() - 2);
  const Shape right_batch(right.begin(), right.end() - 2);
  Shape batch(std::max(left_batch.size(), right_batch.size()), 1);
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto extent_of = [&](const Shape& shape) {
      const size_t missing = batch.size() - shape.size();
      return i < missing ? int64_t{1} : shape[i - missing];
    };
    const int64_t x = extent_of(left_batch);
    const int64_t y = extent_of(right_batch);
    context.require(x == y || x == 1 || y == 1, "shapes {} and {} can't be broadcast together",
                    shape_to_string(a), shape_to_string(b));
    batch[i] = x == 1 ? y : x;
  }
  problem.a_batches = strided_offsets(batch, broadcast_strides(left_batch, batch));
  problem.b_batches = strided_offsets(batch, broadcast_strides(right_batch, batch));
  problem.result_shape = batch;
  if (a.size() > 1) problem.result_shape.push_back(problem.m);
  if (b.size() > 1) problem.result_shape.push_back(problem.n);
  return problem;
}

namespace {

std::vector<Tensor> run_matmul(const NodeContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  const MatmulProblem problem = plan_matmul(context, a.shape(), b.shape());
  Tensor result(a.type(), problem.result_shape);
  if (a.type() == DataType::kFloat32 && result.size() > 0 && problem.k > 0 &&
      static_cast<double>(result.size()) * static_cast<double>(problem.k) >=
          static_cast<double>(kDnnlThreshold)) {
    for (size_t batch = 0; batch < problem.a_batches.size(); ++batch) {
      dnnl_matmul(false, false, problem.m, problem.n, problem.k,
                  a.data<float>().data() + problem.a_batches[batch] * problem.m * problem.k,
                  b.data<float>().data() + problem.b_batches[batch] * problem.k * problem.n,
                  result.data<float>().data() + static_cast<int64_t>(batch) * problem.m * problem.n);
    }
    return {result};
  }
  for_number_type(context, a.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto x = a.data<T>();
    const auto y = b.data<T>();
    const auto z = result.data<T>();
    multiply_matrices<Accumulator<T>>(
        problem, [&](size_t i) { return static_cast<Compute<T>>(x[i]); },
        [&](size_t i) { return static_cast<Compute<T>>(y[i]); },
        [&](size_t i, Accumulator<T> sum) { z[i] = to_element<T>(sum); });
  });
  return {result};
}

/// alpha * op(A) op(B) + beta * C.
std::vector<Tensor> run_gemm(const NodeContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  context.require(a.rank() == 2 && b.rank() == 2, "A has shape {} and B {}; allowed are matrices",
                  shape_to_string(a.shape()), shape_to_string(b.shape()));
  const bool transpose_a = context.int_attribute("transA") != 0;
  const bool transpose_b = context.int_attribute("transB") != 0;
  const double alpha = context.float_attribute("alpha");
  const double beta = context.float_attribute("beta");
  const int64_t m = a.shape()[transpose_a ? 1 : 0];
  const int64_t k = a.shape()[transpose_a ? 0 : 1];
  const int64_t n = b.shape()[transpose_b ? 0 : 1];
  context.require(k == b.shape()[transpose_b ? 1 : 0],
                  "A {} (transA {}) and B {} (transB {}): inner extents differ", shape_to_string(a.shape()),
                  transpose_a, shape_to_string(b.shape()), transpose_b);
  const Shape shape = {m, n};
  Tensor result(a.type(), shape);
  std::optional<Tensor> c;
  if (context.has_input(2)) {
    const Tensor& given = context.input(2);
    context.require(context.broadcast_shape({&result, &given}) == shape,
                    "C has shape {}, which can't be broadcast to {}", shape_to_string(given.shape()),
                    shape_to_string(shape));
    c = broadcast_to(given, shape);
  }
  const bool use_dnnl =
      a.type() == DataType::kFloat32 && result.size() > 0 && k > 0 &&
      static_cast<double>(result.size()) * static_cast<double>(k) >= static_cast<double>(kDnnlThreshold);
  for_number_type(context, a.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto z = result.data<T>();
    const auto finish = [&](size_t i, auto product) {
      if constexpr (kIsFloat<T>) {
        const double scaled = alpha * static_cast<double>(product);
        z[i] = to_element<T>(c ? scaled + beta * static_cast<double>(c->data<T>()[i]) : scaled);
      } else {
        // Exact for the factors that make sense on integers; others scale in double and truncate.
        const auto scale = [](double factor, T value) {
          return factor == 1.0 ? value
                               : static_cast<T>(static_cast<int64_t>(factor * static_cast<double>(value)));
        };
        const T scaled = scale(alpha, static_cast<T>(product));
        z[i] = c ? wrapping_add(scaled, scale(beta, c->data<T>()[i])) : scaled;
      }
    };
    if constexpr (std::is_same_v<T, float>) {
      if (use_dnnl) {
        dnnl_matmul(transpose_a, transpose_b, m, n, k, a.data<float>().data(), b.data<float>().data(),
                    z.data());
        for (size_t i = 0; i < z.size(); ++i) finish(i, z[i]);
        return;
      }
    }
    const Tensor left = transpose_a ? transpose(a, {1, 0}) : a;
    const Tensor right = transpose_b ? transpose(b, {1, 0}) : b;
    const auto x = left.data<T>();
    const auto y = right.data<T>();
    multiply_matrices<Accumulator<T>>(
        plan_matmul(context, left.shape(), right.shape()),
        [&](size_t i) { return static_cast<Compute<T>>(x[i]); },
        [&](size_t i) { return static_cast<Compute<T>>(y[i]); }, finish);
  });
  return {result};
}

template <typename... Args>
void require_einsum(const std::string& equation, bool condition, fmt::format_string<Args...> format,
                    Args&&... args) {
  if (condition) return;
  throw isa::UserError(
      fmt::format("equation '{}': {}", equation, fmt::format(format, std::forward<Args>(args)...)));
}

/// The labels of one term; `rank` is that of its operand.
EinsumLabels parse_labels(const std::string& equation, const std::string& term, int64_t rank) {
  EinsumLabels labels;
  const auto letters =
      static_cast<int64_t>(std::count_if(term.begin(), term.end(), [](char c) { return c != '.'; }));
  for (size_t i = 0; i < term.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
      labels.push_back(term[i]);
      continue;
    }
    require_einsum(
        equation,
        term.compare(i, 3, "...") == 0 && term.find('.', i + 3) == std::string::npos && rank >= letters,
        "'{}' doesn't fit an operand of rank {}; letters and one '...' are allowed", term, rank);
    for (auto k = static_cast<int>(rank - letters); k > 0; --k) labels.push_back(-k);
    i += 2;
  }
  return labels;
}

/// The sum over all labels that the result doesn't have of the product of the operands' elements.
std::vector<Tensor> run_einsum(const NodeContext& context) {
  const std::vector<const Tensor*> operands = context.inputs();
  std::vector<Shape> shapes;
  for (const Tensor* operand : operands) shapes.push_back(operand->shape());
  const EinsumPlan plan = plan_einsum(context.string_attribute("equation"), shapes);
  EinsumLabels summed;
  Shape summed_shape;
  for (const auto& [label, extent] : plan.extents) {
    if (std::find(plan.result.begin(), plan.result.end(), label) != plan.result.end()) continue;
    summed.push_back(label);
    summed_shape.push_back(extent);
  }
  // Per operand, where its element is: an offset for the result's index plus one for the summed index.
  std::vector<std::vector<int64_t>> result_offsets;
  std::vector<std::vector<int64_t>> summed_offsets;
  for (size_t k = 0; k < operands.size(); ++k) {
    const Strides own = strides_of(operands[k]->shape());
    const auto strides_for = [&](const EinsumLabels& wanted) {
      Strides strides;
      for (const int label : wanted) {
        strides.push_back(0);  // a label that is there twice walks the diagonal
        for (size_t axis = 0; axis < own.size(); ++axis) {
          if (plan.operands[k][axis] == label && operands[k]->shape()[axis] != 1) strides.back() += own[axis];
        }
      }
      return strides;
    };
    result_offsets.push_back(strided_offsets(plan.result_shape, strides_for(plan.result)));
    summed_offsets.push_back(strided_offsets(summed_shape, strides_for(summed)));
  }
  Tensor result(operands[0]->type(), plan.result_shape);
  for_number_type(context, result.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto to = result.data<T>();
    for (size_t i = 0; i < to.size(); ++i) {
      Accumulator<T> sum = 0;
      for (size_t j = 0; j < summed_offsets[0].size(); ++j) {
        Accumulator<T> product = 1;
        for (size_t k = 0; k < operands.size(); ++k) {
          const auto at = static_cast<size_t>(result_offsets[k][i] + summed_offsets[k][j]);
          product *= static_cast<Accumulator<T>>(static_cast<Compute<T>>(operands[k]->data<T>()[at]));
        }
        sum += product;
      }
      to[i] = to_element<T>(sum);
    }
  });
  return {result};
}

}  // namespace

EinsumPlan plan_einsum(std::string equation, const std::vector<Shape>& operands) {
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  const std::string left = equation.substr(0, arrow);
  EinsumPlan plan;
  std::map<int, int> occurrences;
  int64_t ellipsis_rank = 0;
  size_t begin = 0;
  for (const Shape& shape : operands) {
    const auto rank = static_cast<int64_t>(shape.size());
    require_einsum(equation, begin <= left.size(), "it has fewer terms than there are inputs ({})",
                   operands.size());
    const size_t end = std::min(left.find(',', begin), left.size());
    plan.operands.push_back(parse_labels(equation, left.substr(begin, end - begin), rank));
    begin = end + 1;
    const EinsumLabels& labels = plan.operands.back();
    require_einsum(equation, static_cast<int64_t>(labels.size()) == rank,
                   "term {} names {} axes, input {} has shape {}", plan.operands.size() - 1, labels.size(),
                   plan.operands.size() - 1, shape_to_string(shape));
    for (size_t axis = 0; axis < labels.size(); ++axis) {
      const int label = labels[axis];
      int64_t& extent = plan.extents.emplace(label, shape[axis]).first->second;
      require_einsum(equation, extent == shape[axis] || extent == 1 || shape[axis] == 1,
                     "an index has extents {} and {}", extent, shape[axis]);
      if (extent == 1) extent = shape[axis];
      ++occurrences[label];
      if (label < 0) ellipsis_rank = std::max<int64_t>(ellipsis_rank, -label);
    }
  }
  require_einsum(equation, begin > left.size(), "it has more terms than there are inputs ({})",
                 operands.size());
  if (arrow != std::string::npos) {
    const std::string right = equation.substr(arrow + 2);
    const auto letters = std::count_if(right.begin(), right.end(), [](char c) { return c != '.'; });
    plan.result = parse_labels(equation, right, ellipsis_rank + letters);
  } else {  // "..." and then, in alphabetic order, what appears once: the order of a std::map
    for (const auto& [label, count] : occurrences) {
      if (label < 0 || count == 1) plan.result.push_back(label);
    }
  }
  for (const int label : plan.result) {
    require_einsum(equation, plan.extents.count(label) > 0, "the result has an index that no input has");
    require_einsum(equation, std::count(plan.result.begin(), plan.result.end(), label) == 1,
                   "the result has an index twice");
    plan.result_shape.push_back(plan.extents[label]);
  }
  return plan;
}

namespace {

/// By elimination with the largest pivot of each column; `a` is overwritten.
double determinant(std::vector<double>& a, size_t n) {
  double result = 1;
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i) {
      if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k])) pivot = i;
    }
    if (a[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      for (size_t j = 0; j < n; ++j) std::swap(a[pivot * n + j], a[k * n + j]);
      result = -result;
    }
    result *= a[k * n + k];
    for (size_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] / a[k * n + k];
      for (size_t j = k; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return result;
}

std::vector<Tensor> run_det(const NodeContext& context) {
  const Tensor& x = context.input(0);
  context.require(x.rank() >= 2 && x.shape()[x.shape().size() - 2] == x.shape().back(),
                  "the input has shape {}; allowed are square matrices", shape_to_string(x.shape()));
  const auto n = static_cast<size_t>(x.shape().back());
  const Shape shape(x.shape().begin(), x.shape().end() - 2);
  const std::vector<double> elements = as_doubles(context, x);
  std::vector<double> results;
  for (size_t i = 0; i < static_cast<size_t>(element_count(shape)); ++i) {
    const auto begin = elements.begin() + static_cast<ptrdiff_t>(i * n * n);
    std::vector<double> matrix(begin, begin + static_cast<ptrdiff_t>(n * n));
    results.push_back(determinant(matrix, n));
  }
  return {from_doubles(context, x.type(), shape, results)};
}

}  // namespace

void register_matmul(KernelRegistry& registry) {
  registry.add("MatMul", run_matmul);
  registry.add("Gemm", run_gemm);
  registry.add("Einsum", run_einsum);
  registry.add("Det", run_det);
}

}  // namespace kodama::compiler::reference
