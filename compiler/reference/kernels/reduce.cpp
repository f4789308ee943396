#include <cmath>

#include "compiler/reference/kernels/kernel.h"
#include "compiler/reference/kernels/strided.h"

/// Reductions over axes, and what else runs along axes: ArgMax, ArgMin, CumSum.
namespace kodama::compiler::reference {

namespace {

/// Which axes a reduction removes, and where each input element goes.
struct Reduction {
  Shape kept_shape;                      ///< the input's, with 1 for reduced axes
  Shape result_shape;                    ///< kept_shape, without the 1s unless keepdims
  std::vector<int64_t> target_of_input;  ///< result element of each input element
  int64_t count = 1;                     ///< input elements per result element
};

/// nullopt: the operator is the identity (noop_with_empty_axes).
std::optional<Reduction> plan_reduction(const NodeContext& context) {
  const Tensor& x = context.input(0);
  std::vector<int64_t> axes;
  if (context.has_input(1)) {
    axes = context.integers(1);
  } else {
    axes = context.ints_attribute_if_present("axes").value_or(std::vector<int64_t>());
  }
  std::vector<bool> reduced = context.axis_flags(axes, x.rank());
  if (axes.empty()) {
    if (context.int_attribute("noop_with_empty_axes", 0) != 0) return std::nullopt;
    reduced.assign(reduced.size(), true);
  }
  const bool keep = context.int_attribute("keepdims") != 0;
  Reduction plan;
  plan.kept_shape = x.shape();
  for (size_t axis = 0; axis < reduced.size(); ++axis) {
    if (reduced[axis]) {
      plan.count *= x.shape()[axis];
      plan.kept_shape[axis] = 1;
    }
    if (!reduced[axis] || keep) plan.result_shape.push_back(plan.kept_shape[axis]);
  }
  plan.target_of_input = strided_offsets(x.shape(), broadcast_strides(plan.kept_shape, x.shape()));
  return plan;
}

/// Folds the input elements of every result element: accumulator = step(accumulator, x), starting with
/// `initial`.
template <typename T, typename Acc, typename Step>
std::vector<Acc> fold(const Tensor& x, const Reduction& plan, Acc initial, Step step) {
  std::vector<Acc> accumulators(static_cast<size_t>(element_count(plan.result_shape)), initial);
  const auto data = x.data<T>();
  for (size_t i = 0; i < data.size(); ++i) {
    Acc& accumulator = accumulators[static_cast<size_t>(plan.target_of_input[i])];
    accumulator = step(accumulator, static_cast<Acc>(static_cast<Compute<T>>(data[i])));
  }
  return accumulators;
}

template <typename T, typename Acc, typename Finish>
Tensor finish_all(DataType type, const Reduction& plan, const std::vector<Acc>& accumulators, Finish finish) {
  Tensor result(type, plan.result_shape);
  const auto to = result.data<T>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = to_element<T>(finish(accumulators[i]));
  return result;
}

/// body(TypeTag<T>, x, plan) -> Tensor for the input's type.
template <typename Body>
Kernel reduction(Body body) {
  return [body](const NodeContext& context) -> std::vector<Tensor> {
    const Tensor& x = context.input(0);
    const std::optional<Reduction> plan = plan_reduction(context);
    if (!plan) return {x};
    Tensor result;
    for_number_type(context, x.type(), [&](auto tag) { result = body(tag, x, *plan); });
    return {result};
  };
}

constexpr auto kAdd = [](auto a, auto b) { return a + b; };
constexpr auto kMultiply = [](auto a, auto b) { return a * b; };
constexpr auto kAddSquare = [](auto a, auto x) { return a + x * x; };
constexpr auto kSame = [](auto a) { return a; };

/// Integers accumulate modulo 2^64, floating point in double.
template <typename Step, typename Finish>
Kernel accumulate(int initial, Step step, Finish finish) {
  return reduction([=](auto tag, const Tensor& x, const Reduction& plan) {
    using T = typename decltype(tag)::Type;
    const auto sums = fold<T>(x, plan, static_cast<Accumulator<T>>(initial), step);
    return finish_all<T>(x.type(), plan, sums, finish);
  });
}

/// Everything in double, also for integers (L2, LogSum: they are no integers anyway and truncate at the end).
template <typename Step, typename Finish>
Kernel accumulate_in_double(Step step, Finish finish) {
  return reduction([=](auto tag, const Tensor& x, const Reduction& plan) {
    using T = typename decltype(tag)::Type;
    return finish_all<T>(x.type(), plan, fold<T>(x, plan, 0.0, step), finish);
  });
}

Tensor reduce_mean(const Tensor& x, const Reduction& plan) {
  Tensor result;
  visit_number_type(x.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto sums = fold<T>(x, plan, Accumulator<T>{0}, kAdd);
    result = finish_all<T>(x.type(), plan, sums, [&](auto sum) {
      if constexpr (kIsFloat<T>) {
        return sum / static_cast<double>(plan.count);
      } else if constexpr (std::is_signed_v<T>) {
        return wrapping_divide<int64_t>(static_cast<int64_t>(sum), plan.count);
      } else {
        return wrapping_divide<uint64_t>(sum, static_cast<uint64_t>(plan.count));
      }
    });
  });
  return result;
}

template <typename T>
Tensor reduce_l1(const Tensor& x, const Reduction& plan) {
  const auto sums = fold<T>(x, plan, Accumulator<T>{0}, [](auto sum, auto value) {
    if constexpr (kIsFloat<T>) {
      return sum + std::fabs(value);
    } else if constexpr (std::is_signed_v<T>) {
      return static_cast<int64_t>(value) < 0 ? sum - value : sum + value;
    } else {
      return sum + value;
    }
  });
  return finish_all<T>(x.type(), plan, sums, kSame);
}

/// log Σ exp(x) = m + log Σ exp(x - m) with m = max(x), so that nothing overflows.
template <typename T>
Tensor reduce_log_sum_exp(const Tensor& x, const Reduction& plan) {
  std::vector<double> highest = fold<T>(x, plan, -std::numeric_limits<double>::infinity(),
                                        [](double a, double b) { return maximum(a, b); });
  for (double& value : highest) {
    if (std::isinf(value)) value = 0.0;
  }
  std::vector<double> sums(highest.size(), 0.0);
  const auto data = x.data<T>();
  for (size_t i = 0; i < data.size(); ++i) {
    const auto target = static_cast<size_t>(plan.target_of_input[i]);
    sums[target] += std::exp(static_cast<double>(data[i]) - highest[target]);
  }
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = highest[i] + std::log(sums[i]);
  return finish_all<T>(x.type(), plan, sums, kSame);
}

/// ArgMax, ArgMin: better(candidate, best so far).
template <typename Better>
Kernel arg_best(Better better) {
  return [better](const NodeContext& context) -> std::vector<Tensor> {
    const Tensor& x = context.input(0);
    context.require(x.rank() > 0, "the input is a scalar; it needs an axis");
    const size_t axis = context.axis(context.int_attribute("axis"), x.rank());
    const bool last = context.int_attribute("select_last_index", 0) != 0;
    const int64_t extent = x.shape()[axis];
    const int64_t inner = count_between(x.shape(), axis + 1, x.shape().size());
    const int64_t outer = count_between(x.shape(), 0, axis);
    context.require(extent > 0 || outer * inner == 0, "axis {} has extent 0", axis);
    Shape shape = x.shape();
    if (context.int_attribute("keepdims") != 0) {
      shape[axis] = 1;
    } else {
      shape.erase(shape.begin() + static_cast<ptrdiff_t>(axis));
    }
    Tensor result(DataType::kInt64, shape);
    const auto to = result.data<int64_t>();
    for_number_type(context, x.type(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      const auto from = x.data<T>();
      for (int64_t i = 0; i < outer; ++i) {
        for (int64_t j = 0; j < inner; ++j) {
          int64_t best = 0;
          const auto value = [&](int64_t k) {
            return static_cast<Compute<T>>(from[static_cast<size_t>((i * extent + k) * inner + j)]);
          };
          for (int64_t k = 1; k < extent; ++k) {
            if (better(value(k), value(best)) || (last && value(k) == value(best))) best = k;
          }
          to[static_cast<size_t>(i * inner + j)] = best;
        }
      }
    });
    return {result};
  };
}

std::vector<Tensor> run_cumsum(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const size_t axis = context.axis(context.integer_scalar(1), x.rank());
  const bool exclusive = context.int_attribute("exclusive") != 0;
  const bool reverse = context.int_attribute("reverse") != 0;
  const int64_t extent = x.shape()[axis];
  const int64_t inner = count_between(x.shape(), axis + 1, x.shape().size());
  const int64_t outer = count_between(x.shape(), 0, axis);
  Tensor result(x.type(), x.shape());
  for_number_type(context, x.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto from = x.data<T>();
    const auto to = result.data<T>();
    for (int64_t i = 0; i < outer; ++i) {
      for (int64_t j = 0; j < inner; ++j) {
        Accumulator<T> sum = 0;
        for (int64_t step = 0; step < extent; ++step) {
          const int64_t k = reverse ? extent - 1 - step : step;
          const auto at = static_cast<size_t>((i * extent + k) * inner + j);
          const auto value = static_cast<Accumulator<T>>(static_cast<Compute<T>>(from[at]));
          to[at] = to_element<T>(exclusive ? sum : sum + value);
          sum += value;
        }
      }
    }
  });
  return {result};
}

}  // namespace

void register_reduce(KernelRegistry& registry) {
  registry.add("ReduceSum", accumulate(0, kAdd, kSame));
  registry.add("ReduceProd", accumulate(1, kMultiply, kSame));
  registry.add("ReduceSumSquare", accumulate(0, kAddSquare, kSame));
  registry.add("ReduceL2", accumulate_in_double(kAddSquare, [](double sum) { return std::sqrt(sum); }));
  registry.add("ReduceLogSum", accumulate_in_double(kAdd, [](double sum) { return std::log(sum); }));
  registry.add("ReduceMean",
               reduction([](auto, const Tensor& x, const Reduction& plan) { return reduce_mean(x, plan); }));
  registry.add("ReduceMax", reduction([](auto tag, const Tensor& x, const Reduction& plan) {
                 using T = typename decltype(tag)::Type;
                 return finish_all<T>(
                     x.type(), plan,
                     fold<T>(x, plan, lowest_value<T>(), [](auto a, auto b) { return maximum(a, b); }),
                     kSame);
               }));
  registry.add("ReduceMin", reduction([](auto tag, const Tensor& x, const Reduction& plan) {
                 using T = typename decltype(tag)::Type;
                 return finish_all<T>(
                     x.type(), plan,
                     fold<T>(x, plan, highest_value<T>(), [](auto a, auto b) { return minimum(a, b); }),
                     kSame);
               }));
  registry.add("ReduceL1", reduction([](auto tag, const Tensor& x, const Reduction& plan) {
                 return reduce_l1<typename decltype(tag)::Type>(x, plan);
               }));
  registry.add("ReduceLogSumExp", reduction([](auto tag, const Tensor& x, const Reduction& plan) {
                 return reduce_log_sum_exp<typename decltype(tag)::Type>(x, plan);
               }));
  registry.add("ArgMax", arg_best([](auto a, auto b) { return a > b; }));
  registry.add("ArgMin", arg_best([](auto a, auto b) { return a < b; }));
  registry.add("CumSum", run_cumsum);
}

}  // namespace kodama::compiler::reference
