#include "compiler/layers/fold.h"

#include <algorithm>
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

}  // namespace

TensorId add_fold(NodeLowering& lowering, const std::string& suffix, TensorId source,
                  const std::vector<bool>& reduced, FoldOp op) {
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
  if (element_count(extents) > kMostProducts) return std::nullopt;
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
  const std::string name = suffix.empty() ? "products" : suffix + "_products";
  const TensorId products = lowering.add_tensor(name, type, extents);
  MapBuilder map(lowering, extents);
  if (integer_type(type)) {
    const Integer first = map.integer_at(contract.a.tensor, a);
    map.finish(name, first * map.integer_at(contract.b.tensor, b), products);
  } else {
    const Term first = map.operand_at(contract.a.tensor, a);
    map.finish(name, first * map.operand_at(contract.b.tensor, b), products);
  }
  const TensorId sums =
      add_fold(lowering, suffix.empty() ? "sums" : suffix + "_sums", products, summed, FoldOp::kSum);
  return lowering.add_alias(suffix.empty() ? "result" : suffix + "_result", sums, contract.output_shape);
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
