#include <limits>
#include <type_traits>

#include "compiler/lowering/fold.h"

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

/// The result: `finish` of what elements were reduced to, which has one element along reduced axes.
template <typename F>
void finish_reduced(NodeLowering& lowering, TensorId reduced, F&& finish) {
  const Shape extents = lowering.tensor(reduced).shape;
  TensorId result = -1;
  if (extents == lowering.output_shape()) {
    result = lowering.output();
  } else {
    result = lowering.add_tensor("result", lowering.output_type(), extents);
    lowering.bind_output(result);
  }
  MapBuilder map(lowering, extents);
  map.finish("result", finish(map), result);
}
/// A formula of the elements, of `type`.
template <typename F>
TensorId add_terms(NodeLowering& lowering, const std::string& suffix, DataType type, F&& formula) {
  const Shape& shape = lowering.input_shape(0);
  const TensorId terms = lowering.add_tensor(suffix, type, shape);
  MapBuilder map(lowering, shape);
  map.finish(suffix, formula(map), terms);
  return terms;
}

/// An element as a double, and a double as a result.
Term double_of_input(const NodeLowering& lowering, MapBuilder& map) {
  return integer_type(lowering.input_type(0)) ? to_double(map.integer_of_input(0)) : map.operand_of_input(0);
}
template <typename F>
void finish_double(NodeLowering& lowering, TensorId reduced, F&& finish) {
  if (const auto type = integer_type(lowering.output_type())) {
    finish_reduced(lowering, reduced,
                   [&](MapBuilder& map) { return double_to_integer(finish(map.operand(reduced)), *type); });
  } else {
    finish_reduced(lowering, reduced, [&](MapBuilder& map) { return finish(map.operand(reduced)); });
  }
}

/// Of doubles, and of integers whose result isn't one before it is cut off: as in lower_simple.
HostReason lower_in_double(NodeLowering& lowering, FoldOp op, Term (*before)(Term), Term (*after)(Term)) {
  const auto reduced = reduced_axes(lowering);
  if (!reduced) return kUnknownAxes;
  const TensorId terms = add_terms(lowering, "terms", DataType::kFloat64,
                                   [&](MapBuilder& map) { return before(double_of_input(lowering, map)); });
  finish_double(lowering, add_fold(lowering, "", terms, *reduced, op), after);
  return kLowered;
}

/// Integers that stay integers.
HostReason lower_integers(NodeLowering& lowering, FoldOp op, Integer (*before)(const Integer&)) {
  const auto reduced = reduced_axes(lowering);
  if (!reduced) return kUnknownAxes;
  TensorId terms = lowering.input(0);
  if (before != nullptr) {
    terms = add_terms(lowering, "terms", lowering.output_type(),
                      [&](MapBuilder& map) { return before(map.integer_of_input(0)); });
  }
  const TensorId result = add_fold(lowering, "", terms, *reduced, op);
  lowering.bind_output(lowering.add_alias("kept", result, lowering.output_shape()));
  return kLowered;
}

FoldOp fold_op(ReduceLayer::Op op) {
  return op == ReduceLayer::Op::kSum    ? FoldOp::kSum
         : op == ReduceLayer::Op::kProd ? FoldOp::kProduct
         : op == ReduceLayer::Op::kMax  ? FoldOp::kMax
                                        : FoldOp::kMin;
}

/// before: applied to each element; after: to the reduced value.
HostReason lower_simple(NodeLowering& lowering, ReduceLayer::Op op, Term (*before)(Term),
                        Term (*after)(Term)) {
  if (!has_float_arithmetic(lowering.output_type()))
    return lower_in_double(lowering, fold_op(op), before, after);
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

/// Reductions of integers. Words are reduced as they are; what the chip can't reduce at once, in parts.
class IntegerReduction {
 public:
  IntegerReduction(NodeLowering& lowering, const std::vector<bool>& reduced)
      : lowering_(lowering),
        space_(reduction_over(lowering.input_shape(0), reduced, lowering.output_shape())),
        type_(*integer_type(lowering.output_type())) {}

  HostReason sum() {
    // Of halves of words, with zeros above them, sums don't overflow.
    constexpr int64_t kMostHalves = int64_t{1} << 16;
    if (!type_.is_wide()) return finish(reduce("sum", Op::kIntSum, [](Term low, Term) { return low; }));
    if (element_count(space_.reduction_extents) > kMostHalves) return "a sum of too many 64-bit integers";
    std::vector<TensorId> halves;
    for (const int half : {0, 1, 2, 3}) {
      const auto part = [half](Term low, Term high) {
        const Term word = half < 2 ? low : high;
        const Term bits = half % 2 == 0 ? word : word.apply(ScalarOp::kShiftRight, word.integer(16));
        return bits.apply(ScalarOp::kAnd, bits.integer(0xffff));
      };
      halves.push_back(reduce(fmt::format("half{}", half), Op::kIntSum, part));
    }
    MapBuilder map(lowering_, lowering_.output_shape());
    Integer total = integer_constant(map.operand(halves[0]), 0, {64, false});
    for (int half = 0; half < 4; ++half) {
      const Term word = map.operand(halves[static_cast<size_t>(half)]);
      const Integer part{word, word.integer(0), {64, false}};
      total = total + shift_left(part, integer_constant(word, 16 * half, {32, false}));
    }
    map.finish("", {total.low, total.high, type_}, lowering_.output());
    return kLowered;
  }

  HostReason extreme(bool largest) {
    const Op op = largest ? Op::kIntMax : Op::kIntMin;
    if (!type_.is_wide()) {
      const bool flips = type_ == IntegerType{32, false};
      const auto order = [flips](Term low, Term) { return flips ? flipped(low) : low; };
      return finish(reduce("extreme", op, order), flips);
    }
    // The upper words decide, and the lower ones of those that have the best.
    const bool is_signed = type_.is_signed;
    const TensorId upper =
        reduce("upper", op, [&](Term, Term high) { return is_signed ? high : flipped(high); });
    const auto among_best = [&](Term low, Term high, Term best) {
      const Term differs = (is_signed ? high : flipped(high)).apply(ScalarOp::kXor, best);
      const double worst = identity_of(op);
      return where(differs, low.integer(static_cast<int32_t>(worst)), flipped(low));
    };
    const TensorId lower = reduce("lower", op, among_best, upper);
    MapBuilder map(lowering_, lowering_.output_shape());
    const Term high = map.operand(upper);
    map.finish("", {flipped(map.operand(lower)), is_signed ? high : flipped(high), type_},
               lowering_.output());
    return kLowered;
  }

 private:
  using Op = ReduceLayer::Op;

  /// With a sign, words order as they did without.
  static Term flipped(Term word) {
    return word.apply(ScalarOp::kXor, word.integer(std::numeric_limits<int32_t>::min()));
  }

  /// int32, of the result's shape: `op` of a formula of both words, and of the result of another reduction.
  template <typename F>
  TensorId reduce(const std::string& suffix, Op op, F&& formula_of, TensorId other = -1) {
    const TensorId words = lowering_.words_of(lowering_.input(0));
    Formula formula;
    ReduceLayer layer;
    layer.op = op;
    layer.output_extents = space_.output_extents;
    layer.reduction_extents = space_.reduction_extents;
    const AffineMap map = type_.is_wide() ? space_.input_map.extended(1, 0) : space_.input_map;
    layer.inputs = {{words, map, 0}, {words, map, 0}};
    if (type_.is_wide()) layer.inputs[1].map.set_offset(space_.input_map.axes(), 1);
    if constexpr (std::is_invocable_v<F, Term, Term>) {
      layer.expr = formula.result(formula_of(formula.x(0), formula.x(1)));
    } else {
      const size_t rank = space_.output_extents.size();
      AffineMap of_result(rank, map.dims());
      for (size_t axis = 0; axis < rank; ++axis) of_result.set(axis, axis, 1);
      layer.inputs.push_back({other, of_result, 0});
      layer.expr = formula.result(formula_of(formula.x(0), formula.x(1), formula.x(2)));
    }
    layer.epilogue = ScalarExpr::identity();
    tidy_inputs(layer.expr, layer.inputs);
    const TensorId result = lowering_.add_tensor(suffix, DataType::kInt32, space_.output_extents);
    lowering_.add_layer(suffix, std::move(layer), result);
    return result;
  }
  HostReason finish(TensorId word, bool flips = false) {
    MapBuilder map(lowering_, lowering_.output_shape());
    const Term term = map.operand(word);
    const Integer number = integer_of_word(flips ? flipped(term) : term, {32, true});
    map.finish("", convert(number, type_), lowering_.output());
    return kLowered;
  }

  NodeLowering& lowering_;
  Reduction space_;
  IntegerType type_;
};

/// Sums and extremes of floats or integers.
HostReason lower_plain(NodeLowering& lowering, ReduceLayer::Op op) {
  if (!makes_integers(lowering)) return lower_simple(lowering, op, unchanged, unchanged);
  const auto reduced = reduced_axes(lowering);
  if (!reduced) return kUnknownAxes;
  IntegerReduction reduction(lowering, *reduced);
  return op == ReduceLayer::Op::kSum ? reduction.sum() : reduction.extreme(op == ReduceLayer::Op::kMax);
}

HostReason lower_reduce_sum(NodeLowering& lowering) {
  return lower_plain(lowering, ReduceLayer::Op::kSum);
}
HostReason lower_reduce_max(NodeLowering& lowering) {
  return lower_plain(lowering, ReduceLayer::Op::kMax);
}
HostReason lower_reduce_min(NodeLowering& lowering) {
  return lower_plain(lowering, ReduceLayer::Op::kMin);
}
HostReason lower_reduce_prod(NodeLowering& lowering) {
  if (makes_integers(lowering)) return lower_integers(lowering, FoldOp::kProduct, nullptr);
  return lower_simple(lowering, ReduceLayer::Op::kProd, unchanged, unchanged);
}
HostReason lower_reduce_l1(NodeLowering& lowering) {
  if (makes_integers(lowering)) return lower_integers(lowering, FoldOp::kSum, absolute);
  return lower_simple(lowering, ReduceLayer::Op::kSum, abs, unchanged);
}
HostReason lower_reduce_l2(NodeLowering& lowering) {
  return lower_simple(lowering, ReduceLayer::Op::kSum, square, sqrt);
}
HostReason lower_reduce_sum_square(NodeLowering& lowering) {
  if (makes_integers(lowering))
    return lower_integers(lowering, FoldOp::kSum, [](const Integer& a) { return a * a; });
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
  const int64_t count = reduced_count(lowering.input_shape(0), *reduced);
  if (is_double(lowering.output_type())) {
    const TensorId sum = add_fold(lowering, "", lowering.input(0), *reduced, FoldOp::kSum);
    finish_double(lowering, sum, [&](Term x) { return x / x.constant(static_cast<double>(count)); });
  } else if (const auto type = integer_type(lowering.output_type())) {
    // The sum needs more bits than the numbers.
    const IntegerType wide{64, type->is_signed};
    const DataType between = type->is_signed ? DataType::kInt64 : DataType::kUint64;
    const TensorId terms = add_terms(lowering, "terms", between,
                                     [&](MapBuilder& map) { return convert(map.integer_of_input(0), wide); });
    const TensorId sum = add_fold(lowering, "", terms, *reduced, FoldOp::kSum);
    finish_reduced(lowering, sum, [&](MapBuilder& map) {
      const Integer total = map.integer(sum);
      return convert(divide(total, integer_constant(total.low, count, wide)).quotient, *type);
    });
  } else {
    add_mean(lowering, *reduced);
  }
  return kLowered;
}

/// log(sum(exp(x))) as m + log(sum(exp(x - m))) with the maximum m, so that nothing overflows.
HostReason lower_reduce_log_sum_exp(NodeLowering& lowering) {
  const auto reduced = reduced_axes(lowering);
  if (!reduced) return kUnknownAxes;
  const Shape& shape = lowering.input_shape(0);
  if (!has_float_arithmetic(lowering.output_type())) {
    const TensorId numbers = add_terms(lowering, "numbers", DataType::kFloat64,
                                       [&](MapBuilder& map) { return double_of_input(lowering, map); });
    const TensorId most = add_fold(lowering, "most", numbers, *reduced, FoldOp::kMax);
    const TensorId terms = add_terms(lowering, "terms", DataType::kFloat64, [&](MapBuilder& map) {
      return exp(map.operand(numbers) - map.operand(most));
    });
    const TensorId sum = add_fold(lowering, "", terms, *reduced, FoldOp::kSum);
    MapBuilder map(lowering, lowering.tensor(sum).shape);
    const TensorId result = lowering.add_tensor("sums", DataType::kFloat64, lowering.tensor(sum).shape);
    map.finish("sums", log(map.operand(sum)) + map.operand(most), result);
    finish_double(lowering, result, unchanged);
    return kLowered;
  }
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

/// The norm of the node's attribute p over input 0.
void add_norm(NodeLowering& lowering, const std::string& suffix, const Reduction& space, TensorId output) {
  Formula expr, epilogue;
  lowering.add_layer(suffix,
                     ReduceLayer{ReduceLayer::Op::kSum,
                                 space.output_extents,
                                 space.reduction_extents,
                                 {{lowering.input(0), space.input_map, 0}},
                                 expr.result(norm_term(lowering, expr.x(0))),
                                 epilogue.result(norm_of_sum(lowering, epilogue.x(0))),
                                 {}},
                     output);
}

/// Elements over the p-norm along an axis; of zeros they stay zeros.
HostReason lower_lp_normalization(NodeLowering& lowering) {
  const Shape& shape = lowering.input_shape(0);
  std::vector<bool> reduced(shape.size(), false);
  reduced[lowering.axis(lowering.int_attribute("axis"), shape.size())] = true;
  Shape kept = shape;
  for (size_t axis = 0; axis < kept.size(); ++axis) kept[axis] = reduced[axis] ? 1 : kept[axis];
  const Reduction space = reduction_over(shape, reduced, kept);
  const TensorId norm = lowering.add_tensor("norm", DataType::kFloat32, kept);
  add_norm(lowering, "norm", space, norm);
  MapBuilder map(lowering, shape);
  const Term x = map.operand_of_input(0);
  const Term divisor = map.operand(norm);
  const Term zero = x.constant(0);
  map.finish("", where(equal(divisor, zero), zero, x / divisor), lowering.output());
  return kLowered;
}

HostReason lower_global_average_pool(NodeLowering& lowering) {
  if (is_double(lowering.output_type())) {
    const std::vector<bool> axes = spatial_axes(lowering);
    const auto count = static_cast<double>(reduced_count(lowering.input_shape(0), axes));
    const TensorId sum = add_fold(lowering, "", lowering.input(0), axes, FoldOp::kSum);
    finish_double(lowering, sum, [&](Term x) { return x / x.constant(count); });
    return kLowered;
  }
  add_mean(lowering, spatial_axes(lowering));
  return kLowered;
}

HostReason lower_global_max_pool(NodeLowering& lowering) {
  if (is_double(lowering.output_type())) {
    lowering.bind_output(add_fold(lowering, "", lowering.input(0), spatial_axes(lowering), FoldOp::kMax));
    return kLowered;
  }
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
  add_norm(lowering, "", space, lowering.output());
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
  constexpr auto kAllNumbers = ElementTypes::kAllNumbers;
  table.push_back({"ReduceSum", lower_reduce_sum, kAllNumbers});
  table.push_back({"ReduceMean", lower_reduce_mean, kAllNumbers});
  table.push_back({"ReduceMax", lower_reduce_max, kAllNumbers});
  table.push_back({"ReduceMin", lower_reduce_min, kAllNumbers});
  table.push_back({"ReduceProd", lower_reduce_prod, kAllNumbers});
  table.push_back({"ReduceL1", lower_reduce_l1, kAllNumbers});
  table.push_back({"ReduceL2", lower_reduce_l2, kAllNumbers});
  table.push_back({"ReduceSumSquare", lower_reduce_sum_square, kAllNumbers});
  table.push_back({"ReduceLogSum", lower_reduce_log_sum, kAllNumbers});
  table.push_back({"ReduceLogSumExp", lower_reduce_log_sum_exp, kAllNumbers});
  table.push_back({"LpNormalization", lower_lp_normalization, kFloats});
  table.push_back({"GlobalAveragePool", lower_global_average_pool, ElementTypes::kReals});
  table.push_back({"GlobalLpPool", lower_global_lp_pool, kFloats});
  table.push_back({"GlobalMaxPool", lower_global_max_pool, ElementTypes::kReals});
}

}  // namespace kodama::compiler
