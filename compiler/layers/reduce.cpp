#include "compiler/layers/node_lowering.h"

/// Reductions over axes.
namespace kodama::compiler {

namespace {

/// The iteration space of a reduction: how it reads its operand, and how an epilogue reads a tensor of the
/// result's shape.
struct Reduction {
  Shape output_extents;
  Shape reduction_extents;
  AffineMap input_map;
};

Reduction reduction_over(const Shape& input, const std::vector<bool>& reduced, const Shape& output) {
  Reduction reduction;
  reduction.output_extents = output;
  for (size_t axis = 0; axis < input.size(); ++axis) {
    if (reduced[axis]) reduction.reduction_extents.push_back(input[axis]);
  }
  const bool keeps_axes = output.size() == input.size();
  reduction.input_map = AffineMap(input.size(), output.size() + reduction.reduction_extents.size());
  size_t output_dim = 0;
  size_t reduction_dim = output.size();
  for (size_t axis = 0; axis < input.size(); ++axis) {
    if (reduced[axis]) {
      reduction.input_map.set(axis, reduction_dim++, 1);
      if (keeps_axes) ++output_dim;  // of extent 1
    } else {
      reduction.input_map.set(axis, output_dim++, 1);
    }
  }
  return reduction;
}

/// The axes of a Reduce operator as flags; nullopt if they aren't known before the model runs.
std::optional<std::vector<bool>> reduced_axes(NodeLowering& lowering) {
  const size_t rank = lowering.input_shape(0).size();
  std::vector<int64_t> axes;
  bool reduces_all = true;  // when no axes are given
  if (lowering.node().op_type() == "ReduceSum") {
    // The one of them that has its axes as an operand in opset 17.
    if (lowering.has_input(1)) {
      const auto values = lowering.constant_integers(1);
      if (!values) return std::nullopt;
      axes = *values;
    }
    reduces_all = lowering.int_attribute("noop_with_empty_axes") == 0;
  } else {
    axes = lowering.ints_attribute("axes").value_or(std::vector<int64_t>{});
  }
  if (axes.empty()) return std::vector<bool>(rank, reduces_all);
  return lowering.axis_flags(axes, rank);
}

int64_t reduced_count(const Shape& shape, const std::vector<bool>& reduced) {
  int64_t count = 1;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (reduced[axis]) count *= shape[axis];
  }
  return count;
}

constexpr const char* kUnknownAxes = "the axes aren't constant";

Term unchanged(Term x) {
  return x;
}
Term square(Term x) {
  return x * x;
}

/// before: applied to each element; after: to the reduced value.
HostReason lower_simple(NodeLowering& lowering, ReduceLayer::Op op, Term (*before)(Term),
                        Term (*after)(Term)) {
  const auto reduced = reduced_axes(lowering);
  if (!reduced) return kUnknownAxes;
  const Shape& shape = lowering.input_shape(0);
  const Reduction space = reduction_over(shape, *reduced, lowering.output_shape());
  Formula expr;
  Formula epilogue;
  lowering.add_layer("",
                     ReduceLayer{op,
                                 space.output_extents,
                                 space.reduction_extents,
                                 {{lowering.input(0), space.input_map, 0}},
                                 expr.result(before(expr.x(0))),
                                 epilogue.result(after(epilogue.x(0))),
                                 {}},
                     lowering.output());
  return kLowered;
}

HostReason lower_reduce_sum(NodeLowering& lowering) {
  return lower_simple(lowering, ReduceLayer::Op::kSum, unchanged, unchanged);
}
HostReason lower_reduce_max(NodeLowering& lowering) {
  return lower_simple(lowering, ReduceLayer::Op::kMax, unchanged, unchanged);
}
HostReason lower_reduce_min(NodeLowering& lowering) {
  return lower_simple(lowering, ReduceLayer::Op::kMin, unchanged, unchanged);
}
HostReason lower_reduce_prod(NodeLowering& lowering) {
  return lower_simple(lowering, ReduceLayer::Op::kProd, unchanged, unchanged);
}
HostReason lower_reduce_l1(NodeLowering& lowering) {
  return lower_simple(lowering, ReduceLayer::Op::kSum, abs, unchanged);
}
HostReason lower_reduce_l2(NodeLowering& lowering) {
  return lower_simple(lowering, ReduceLayer::Op::kSum, square, sqrt);
}
HostReason lower_reduce_sum_square(NodeLowering& lowering) {
  return lower_simple(lowering, ReduceLayer::Op::kSum, square, unchanged);
}
HostReason lower_reduce_log_sum(NodeLowering& lowering) {
  return lower_simple(lowering, ReduceLayer::Op::kSum, unchanged, log);
}

void add_mean(NodeLowering& lowering, const std::vector<bool>& reduced) {
  const Shape& shape = lowering.input_shape(0);
  const Reduction space = reduction_over(shape, reduced, lowering.output_shape());
  Formula epilogue;
  const double scale = 1.0 / static_cast<double>(reduced_count(shape, reduced));
  lowering.add_layer("",
                     ReduceLayer{ReduceLayer::Op::kSum,
                                 space.output_extents,
                                 space.reduction_extents,
                                 {{lowering.input(0), space.input_map, 0}},
                                 ScalarExpr::identity(),
                                 epilogue.result(epilogue.x(0) * scale),
                                 {}},
                     lowering.output());
}

HostReason lower_reduce_mean(NodeLowering& lowering) {
  const auto reduced = reduced_axes(lowering);
  if (!reduced) return kUnknownAxes;
  add_mean(lowering, *reduced);
  return kLowered;
}

/// log(sum(exp(x))) as m + log(sum(exp(x - m))) with the maximum m, so that nothing overflows.
HostReason lower_reduce_log_sum_exp(NodeLowering& lowering) {
  const auto reduced = reduced_axes(lowering);
  if (!reduced) return kUnknownAxes;
  const Shape& shape = lowering.input_shape(0);
  const Reduction space = reduction_over(shape, *reduced, lowering.output_shape());
  const TensorAccess x{lowering.input(0), space.input_map, 0};
  const TensorId maximum = lowering.add_tensor("max", lowering.output_type(), space.output_extents);
  lowering.add_layer("max",
                     ReduceLayer{ReduceLayer::Op::kMax,
                                 space.output_extents,
                                 space.reduction_extents,
                                 {x},
                                 ScalarExpr::identity(),
                                 ScalarExpr::identity(),
                                 {}},
                     maximum);
  const size_t rank = space.output_extents.size();
  AffineMap maximum_map(rank, space.input_map.dims());
  for (size_t axis = 0; axis < rank; ++axis) maximum_map.set(axis, axis, 1);
  Formula expr;
  Formula epilogue;
  lowering.add_layer("",
                     ReduceLayer{ReduceLayer::Op::kSum,
                                 space.output_extents,
                                 space.reduction_extents,
                                 {x, {maximum, maximum_map, 0}},
                                 expr.result(exp(expr.x(0) - expr.x(1))),
                                 epilogue.result(log(epilogue.x(0)) + epilogue.x(1)),
                                 {{maximum, AffineMap::identity(rank), 0}}},
                     lowering.output());
  return kLowered;
}

/// All axes but the batch and the channels.
std::vector<bool> spatial_axes(const NodeLowering& lowering) {
  const size_t rank = lowering.input_shape(0).size();
  lowering.require(rank >= 2, "the input is {}; batch and channel axes are needed",
                   shape_to_string(lowering.input_shape(0)));
  std::vector<bool> flags(rank, true);
  flags[0] = flags[1] = false;
  return flags;
}

HostReason lower_global_average_pool(NodeLowering& lowering) {
  add_mean(lowering, spatial_axes(lowering));
  return kLowered;
}

HostReason lower_global_max_pool(NodeLowering& lowering) {
  const Reduction space =
      reduction_over(lowering.input_shape(0), spatial_axes(lowering), lowering.output_shape());
  lowering.add_layer("",
                     ReduceLayer{ReduceLayer::Op::kMax,
                                 space.output_extents,
                                 space.reduction_extents,
                                 {{lowering.input(0), space.input_map, 0}},
                                 ScalarExpr::identity(),
                                 ScalarExpr::identity(),
                                 {}},
                     lowering.output());
  return kLowered;
}

HostReason lower_global_lp_pool(NodeLowering& lowering) {
  const Reduction space =
      reduction_over(lowering.input_shape(0), spatial_axes(lowering), lowering.output_shape());
  Formula expr;
  Formula epilogue;
  lowering.add_layer("",
                     ReduceLayer{ReduceLayer::Op::kSum,
                                 space.output_extents,
                                 space.reduction_extents,
                                 {{lowering.input(0), space.input_map, 0}},
                                 expr.result(norm_term(lowering, expr.x(0))),
                                 epilogue.result(norm_of_sum(lowering, epilogue.x(0))),
                                 {}},
                     lowering.output());
  return kLowered;
}

}  // namespace

Term norm_term(const NodeLowering& lowering, Term x) {
  const int64_t p = lowering.int_attribute("p");
  lowering.require(p >= 1, "p is {}; it must be positive", p);
  if (p == 1) return abs(x);
  if (p == 2) return x * x;
  return pow(abs(x), x.constant(static_cast<double>(p)));
}

Term norm_of_sum(const NodeLowering& lowering, Term sum) {
  const int64_t p = lowering.int_attribute("p");
  if (p == 1) return sum;
  if (p == 2) return sqrt(sum);
  return pow(sum, sum.constant(1 / static_cast<double>(p)));
}

void register_reduce(OperatorTable& table) {
  constexpr auto kFloats = ElementTypes::kChipFloats;
  table.push_back({"ReduceSum", lower_reduce_sum, kFloats});
  table.push_back({"ReduceMean", lower_reduce_mean, kFloats});
  table.push_back({"ReduceMax", lower_reduce_max, kFloats});
  table.push_back({"ReduceMin", lower_reduce_min, kFloats});
  table.push_back({"ReduceProd", lower_reduce_prod, kFloats});
  table.push_back({"ReduceL1", lower_reduce_l1, kFloats});
  table.push_back({"ReduceL2", lower_reduce_l2, kFloats});
  table.push_back({"ReduceSumSquare", lower_reduce_sum_square, kFloats});
  table.push_back({"ReduceLogSum", lower_reduce_log_sum, kFloats});
  table.push_back({"ReduceLogSumExp", lower_reduce_log_sum_exp, kFloats});
  table.push_back({"GlobalAveragePool", lower_global_average_pool, kFloats});
  table.push_back({"GlobalLpPool", lower_global_lp_pool, kFloats});
  table.push_back({"GlobalMaxPool", lower_global_max_pool, kFloats});
}

}  // namespace kodama::compiler
