#include "compiler/lowering/fold.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace kodama::compiler {
namespace {

/// A combination, of floats and of integers, and what it leaves as it is.
struct Combination {
  Term (*reals)(Term, Term);
  Integer (*integers)(const Integer&, const Integer&);
};

Combination combination_of(FoldOp op) {
  switch (op) {
    case FoldOp::kSum:
      return {[](Term a, Term b) { return a + b; }, operator+ };
    case FoldOp::kProduct:
      return {[](Term a, Term b) { return a * b; }, operator* };
    case FoldOp::kMax:
      return {[](Term a, Term b) { return max(a, b); }, maximum};
    case FoldOp::kMin:
      return {[](Term a, Term b) { return min(a, b); }, minimum};
  }
  throw isa::InternalError("internal error in add_fold: no such combination");
}

double real_identity(FoldOp op) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return op == FoldOp::kSum ? 0 : op == FoldOp::kProduct ? 1 : op == FoldOp::kMax ? -kInfinity : kInfinity;
}

int64_t integer_identity(FoldOp op, IntegerType type) {
  if (op == FoldOp::kSum || op == FoldOp::kProduct) return op == FoldOp::kSum ? 0 : 1;
  const bool lowest = op == FoldOp::kMax;
  if (!type.is_signed) return lowest ? 0 : static_cast<int64_t>(~uint64_t{0} >> (64 - type.bits));
  const int64_t most = std::numeric_limits<int64_t>::max() >> (64 - type.bits);
  return lowest ? -most - 1 : most;
}

/// result[p] = the combination of source at every map, over `extents`.
TensorId combine(NodeLowering& lowering, const std::string& suffix, TensorId source, const Shape& extents,
                 const std::vector<AffineMap>& maps, FoldOp op) {
  const DataType type = lowering.tensor(source).type;
  const Combination combination = combination_of(op);
  const TensorId result = lowering.add_tensor(suffix, type, extents);
  MapBuilder map(lowering, extents);
  if (const auto integers = integer_type(type)) {
    const int64_t outside = integer_identity(op, *integers);
    Integer value = map.integer_at(source, maps[0], outside);
    for (size_t k = 1; k < maps.size(); ++k)
      value = combination.integers(value, map.integer_at(source, maps[k], outside));
    map.finish(suffix, value, result);
  } else {
    const double outside = real_identity(op);
    Term value = map.operand_at(source, maps[0], outside);
    for (size_t k = 1; k < maps.size(); ++k)
      value = combination.reals(value, map.operand_at(source, maps[k], outside));
    map.finish(suffix, value, result);
  }
  return result;
}

ReduceLayer::Op reduction_of_doubles(FoldOp op) {
  return op == FoldOp::kSum       ? ReduceLayer::Op::kSum
         : op == FoldOp::kProduct ? ReduceLayer::Op::kProd
         : op == FoldOp::kMax     ? ReduceLayer::Op::kMax
                                  : ReduceLayer::Op::kMin;
}

/// A Reduce layer of doubles under construction, over the dims of `outputs` and `reduced`: every result is
/// computed for each of its two words, and the epilogue takes one.
class DoubleReduction {
 public:
  DoubleReduction(NodeLowering& lowering, Shape outputs, Shape reduced)
      : lowering_(lowering), outputs_(std::move(outputs)), reduced_(std::move(reduced)) {}

  /// An operand; `map` is over the dims.
  Term read(TensorId id, const AffineMap& map, double outside) {
    const TensorId words = lowering_.words_of(id);
    const auto bits = std::bit_cast<uint64_t>(outside);
    const auto word = [&](int number) {
      TensorAccess access{words, over_words(map), 0};
      access.map.set_offset(map.axes(), number);
      access.fill = static_cast<double>(static_cast<int32_t>(bits >> (32 * number)));
      return read_input(formula_, inputs_, std::move(access));
    };
    const Term low = word(0);
    return pair(word(1), low);
  }

  TensorId finish(const std::string& suffix, Term value, ReduceLayer::Op op) {
    const size_t rank = outputs_.size();
    Formula epilogue;
    const Integer bits = bits_of_double(epilogue.double_input(0));
    const TensorId numbers = lowering_.add_numbers(suffix + "_words", DataType::kInt32, {2});
    ReduceLayer layer;
    layer.op = op;
    layer.output_extents = words_shape(outputs_);
    layer.reduction_extents = reduced_;
    layer.inputs = inputs_;
    layer.expr = formula_.result(value);
    layer.epilogue = epilogue.result(where(epilogue.x(1), bits.high, bits.low));
    layer.epilogue_inputs = {{numbers, AffineMap(1, rank + 1).set(0, rank, 1), 0}};
    tidy_inputs(layer.expr, layer.inputs);
    const TensorId result = lowering_.add_tensor(suffix, DataType::kFloat64, outputs_);
    lowering_.add_layer(suffix, std::move(layer), lowering_.words_of(result));
    return result;
  }

 private:
  /// With the words' dim between those of the result and those that are reduced, and an axis for the word.
  AffineMap over_words(const AffineMap& map) const {
    AffineMap wide(map.axes() + 1, map.dims() + 1);
    for (size_t axis = 0; axis < map.axes(); ++axis) {
      wide.set_offset(axis, map.offset(axis));
      for (size_t dim = 0; dim < map.dims(); ++dim)
        wide.set(axis, dim < outputs_.size() ? dim : dim + 1, map.coefficient(axis, dim));
    }
    return wide;
  }

  NodeLowering& lowering_;
  Shape outputs_, reduced_;
  Formula formula_;
  std::vector<TensorAccess> inputs_;
};

/// Along one axis; long lists in parts first, so that there are more results to compute at a time.
TensorId reduce_doubles(NodeLowering& lowering, const std::string& suffix, TensorId source, size_t axis,
                        FoldOp op) {
  constexpr int64_t kLong = 64;
  const Shape shape = lowering.tensor(source).shape;
  const int64_t count = shape[axis];
  int64_t parts = 1;
  while (count > kLong * parts) parts *= 2;
  Shape outputs = shape;
  outputs[axis] = parts;
  const int64_t each = (count + parts - 1) / parts;
  AffineMap map = AffineMap::identity(shape.size()).extended(0, 1);
  map.set(axis, axis, each).set(axis, shape.size(), 1);
  const TensorId result = add_reduction_of_doubles(lowering, suffix, source, map, outputs, {each}, op);
  return parts == 1 ? result : reduce_doubles(lowering, suffix + "_parts", result, axis, op);
}

}  // namespace

TensorId add_reduction_of_doubles(NodeLowering& lowering, const std::string& suffix, TensorId source,
                                  const AffineMap& map, const Shape& outputs, const Shape& reduced,
                                  FoldOp op) {
  DoubleReduction reduction(lowering, outputs, reduced);
  const Term value = reduction.read(source, map, real_identity(op));
  return reduction.finish(suffix, value, reduction_of_doubles(op));
}

TensorId add_fold(NodeLowering& lowering, const std::string& suffix, TensorId source,
                  const std::vector<bool>& reduced, FoldOp op) {
  if (is_double(lowering.tensor(source).type)) {
    for (size_t axis = 0; axis < reduced.size(); ++axis) {
      if (!reduced[axis] || lowering.tensor(source).shape[axis] == 1) continue;
      source = reduce_doubles(lowering, fmt::format("{}{}", suffix.empty() ? "fold" : suffix, axis), source,
                              axis, op);
    }
    return source;
  }
  constexpr int64_t kTerms = 4;
  const std::string prefix = suffix.empty() ? "fold" : suffix;
  int step = 0;
  for (size_t axis = 0; axis < reduced.size(); ++axis) {
    if (!reduced[axis]) continue;
    while (lowering.tensor(source).shape[axis] > 1) {
      Shape extents = lowering.tensor(source).shape;
      const int64_t count = extents[axis];
      const int64_t apart = (count + kTerms - 1) / kTerms;
      extents[axis] = apart;
      std::vector<AffineMap> maps;
      for (int64_t at = 0; at < count; at += apart) {
        maps.push_back(AffineMap::identity(extents.size()));
        maps.back().set_offset(axis, at);
      }
      source = combine(lowering, fmt::format("{}{}", prefix, step++), source, extents, maps, op);
    }
  }
  return source;
}

std::optional<TensorId> add_products(NodeLowering& lowering, const std::string& suffix,
                                     const ContractLayer& contract) {
  constexpr int64_t kMostProducts = int64_t{1} << 22;
  // The dims in the order of the result's elements, then those that are summed.
  std::vector<size_t> order;
  const AffineMap& output = contract.output;
  std::vector<bool> is_placed(contract.dims.size(), false);
  for (size_t axis = 0; axis < output.axes(); ++axis) {
    const size_t first = order.size();
    for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
      if (output.coefficient(axis, dim) == 0) continue;
      order.push_back(dim);
      is_placed[dim] = true;
    }
    std::sort(order.begin() + static_cast<std::ptrdiff_t>(first), order.end(),
              [&](size_t a, size_t b) { return output.coefficient(axis, a) > output.coefficient(axis, b); });
  }
  std::vector<bool> summed(order.size(), false);
  for (size_t dim = 0; dim < contract.dims.size(); ++dim) {
    if (is_placed[dim]) continue;
    order.push_back(dim);
    summed.push_back(true);
  }
  Shape extents;
  for (const size_t dim : order) extents.push_back(contract.dims[dim].extent);
  const auto in_order = [&](const AffineMap& map) {
    AffineMap result(map.axes(), order.size());
    for (size_t axis = 0; axis < map.axes(); ++axis) {
      result.set_offset(axis, map.offset(axis));
      for (size_t k = 0; k < order.size(); ++k) result.set(axis, k, map.coefficient(axis, order[k]));
    }
    return result;
  };
  const AffineMap a = in_order(contract.a.map), b = in_order(contract.b.map);
  const DataType type = lowering.tensor(contract.a.tensor).type;
  const auto outer = static_cast<std::ptrdiff_t>(std::ranges::count(summed, false));
  const Shape outputs(extents.begin(), extents.begin() + outer),
      inner(extents.begin() + outer, extents.end());
  const auto name = [&](const char* what) {
    return suffix.empty() ? std::string(what) : suffix + "_" + what;
  };
  TensorId sums = -1;
  if (is_double(type)) {
    DoubleReduction reduction(lowering, outputs, inner);
    const Term first = reduction.read(contract.a.tensor, a, 0);
    sums = reduction.finish(name("sums"), first * reduction.read(contract.b.tensor, b, 0),
                            ReduceLayer::Op::kSum);
  } else if (!integer_type(type)->is_wide()) {
    Formula formula;
    ReduceLayer layer;
    layer.op = ReduceLayer::Op::kIntSum;
    layer.output_extents = outputs;
    layer.reduction_extents = inner;
    const auto read = [&](const TensorAccess& access, const AffineMap& map) {
      return integer_of_word(read_input(formula, layer.inputs, {access.tensor, map, 0}), {32, true});
    };
    const Integer first = read(contract.a, a);
    layer.expr = formula.result((first * read(contract.b, b)).low);
    Formula epilogue;
    const Integer total = integer_of_word(epilogue.x(0), {32, true});
    layer.epilogue = epilogue.result(convert(total, *integer_type(type)).low);
    sums = lowering.add_tensor(name("sums"), type, outputs);
    lowering.add_layer(name("sums"), std::move(layer), sums);
  } else {
    if (element_count(extents) > kMostProducts) return std::nullopt;
    const TensorId products = lowering.add_tensor(name("products"), type, extents);
    MapBuilder map(lowering, extents);
    const Integer first = map.integer_at(contract.a.tensor, a);
    map.finish(name("products"), first * map.integer_at(contract.b.tensor, b), products);
    sums = add_fold(lowering, name("sums"), products, summed, FoldOp::kSum);
  }
  return lowering.add_alias(name("result"), sums, contract.output_shape);
}

TensorId add_scan_by_steps(NodeLowering& lowering, TensorId source, const Scan& scan) {
  const Shape shape = lowering.tensor(source).shape;
  const int64_t direction = scan.reverse ? 1 : -1;
  // Exclusive sums are those of elements that have moved by one.
  int64_t moved = scan.exclusive ? 1 : 0;
  int step = 0;
  const auto map_at = [&](int64_t distance) {
    return AffineMap::identity(shape.size()).set_offset(scan.axis, direction * distance);
  };
  for (int64_t distance = 1; distance < shape[scan.axis] || moved != 0; distance *= 2) {
    std::vector<AffineMap> maps = {map_at(moved)};
    if (distance < shape[scan.axis]) maps.push_back(map_at(moved + distance));
    source = combine(lowering, fmt::format("scan{}", step++), source, shape, maps, FoldOp::kSum);
    moved = 0;
  }
  return source;
}

}  // namespace kodama::compiler
