#include <limits>
#include <numeric>

#include "compiler/lowering/fold.h"

/// Operators along one axis in which places matter: running sums, and who is first.
namespace kodama::compiler {

namespace {

/// Up to so many elements a running sum is a sum of its own for every place; longer axes are done in blocks.
constexpr int64_t kDirectScan = 24;
constexpr int64_t kScanBlock = 16;

/// result[i] = sum over k < terms of source[i - k], or [i + k], of what there is along the axis; without the
/// place itself if exclusive.
void add_window_sums(NodeLowering& lowering, const std::string& suffix, TensorId source, const Scan& scan,
                     int64_t terms, TensorId target) {
  const Shape extents = lowering.tensor(source).shape;
  AffineMap map(extents.size(), extents.size() + 1);
  for (size_t axis = 0; axis < extents.size(); ++axis) map.set(axis, axis, 1);
  const int64_t direction = scan.reverse ? 1 : -1;
  map.set(scan.axis, extents.size(), direction).set_offset(scan.axis, scan.exclusive ? direction : 0);
  lowering.add_layer(suffix,
                     ReduceLayer{ReduceLayer::Op::kSum,
                                 extents,
                                 {terms},
                                 {{source, map, 0}},
                                 ScalarExpr::identity(),
                                 ScalarExpr::identity(),
                                 {}},
                     target);
}

/// The running sums of `source`; blocks of it are summed by themselves, then the sums of the blocks before
/// (after) are added, which are running sums again. `target` is where they go, or -1 for a new tensor.
TensorId add_scan(NodeLowering& lowering, TensorId source, const Scan& scan, int level, TensorId target) {
  const Shape shape = lowering.tensor(source).shape;
  const DataType type = lowering.tensor(source).type;
  const int64_t extent = shape[scan.axis];
  const auto name = [&](const char* what) { return fmt::format("{}{}", what, level); };
  if (extent <= kDirectScan) {
    if (target < 0) target = lowering.add_tensor(name("scan"), type, shape);
    add_window_sums(lowering, name("scan"), source, scan, extent, target);
    return target;
  }
  const int64_t blocks = (extent + kScanBlock - 1) / kScanBlock;
  Shape padded = shape;
  padded[scan.axis] = blocks * kScanBlock;
  if (padded != shape) {
    RearrangeLayer rearrange;
    rearrange.extents = padded;
    rearrange.pieces = {
        {{source, AffineMap::identity(shape.size()), 0}, std::vector<int64_t>(shape.size(), 0), shape}};
    source = lowering.add_tensor(name("padded"), type, padded);
    lowering.add_layer(name("padded"), std::move(rearrange), source);
  }
  Shape blocked = padded;
  blocked[scan.axis] = kScanBlock;
  blocked.insert(blocked.begin() + static_cast<ptrdiff_t>(scan.axis), blocks);
  const TensorId source_blocks = lowering.add_alias(name("blocks"), source, blocked);
  const TensorId inner = lowering.add_tensor(name("inner"), type, blocked);
  add_window_sums(lowering, name("inner"), source_blocks, {scan.axis + 1, scan.exclusive, scan.reverse},
                  kScanBlock, inner);

  Shape totals_shape = shape;
  totals_shape[scan.axis] = blocks;
  const size_t rank = shape.size();
  AffineMap totals_map(rank + 1, rank + 1);
  for (size_t axis = 0; axis < rank; ++axis) totals_map.set(axis <= scan.axis ? axis : axis + 1, axis, 1);
  totals_map.set(scan.axis + 1, rank, 1);
  const TensorId totals = lowering.add_tensor(name("totals"), type, totals_shape);
  lowering.add_layer(name("totals"),
                     ReduceLayer{ReduceLayer::Op::kSum,
                                 totals_shape,
                                 {kScanBlock},
                                 {{source_blocks, totals_map, 0}},
                                 ScalarExpr::identity(),
                                 ScalarExpr::identity(),
                                 {}},
                     totals);
  const TensorId before = add_scan(lowering, totals, {scan.axis, true, scan.reverse}, level + 1, -1);
  Shape column = totals_shape;
  column.insert(column.begin() + static_cast<ptrdiff_t>(scan.axis) + 1, 1);
  MapBuilder map(lowering, blocked);
  const Term sum = map.operand(inner) + map.operand(lowering.add_alias(name("before"), before, column));
  const TensorId sums = lowering.add_tensor(name("sums"), type, blocked);
  map.finish(name("sums"), sum, sums);
  const TensorId whole = lowering.add_alias(name("whole"), sums, padded);
  if (padded == shape) return whole;
  RearrangeLayer slice;
  slice.extents = shape;
  slice.pieces = {{{whole, AffineMap::identity(rank), 0}, std::vector<int64_t>(rank, 0), shape}};
  if (target < 0) target = lowering.add_tensor(name("slice"), type, shape);
  lowering.add_layer(name("slice"), std::move(slice), target);
  return target;
}

HostReason lower_cum_sum(NodeLowering& lowering) {
  const Shape& shape = lowering.input_shape(0);
  const auto axes = lowering.constant_integers(1);
  if (!axes) return "the axis isn't constant";
  lowering.require(axes->size() == 1, "{} axes are given; 1 is needed", axes->size());
  const Scan scan{lowering.axis((*axes)[0], shape.size()), lowering.int_attribute("exclusive") != 0,
                  lowering.int_attribute("reverse") != 0};
  if (!has_float_arithmetic(lowering.output_type())) {
    lowering.bind_output(add_scan_by_steps(lowering, lowering.input(0), scan));
    return kLowered;
  }
  const bool direct = shape[scan.axis] <= kDirectScan;
  const TensorId result = add_scan(lowering, lowering.input(0), scan, 0, direct ? lowering.output() : -1);
  if (!direct) lowering.bind_output(result);
  return kLowered;
}

}  // namespace

void register_scan(OperatorTable& table) {
  table.push_back({"CumSum", lower_cum_sum, ElementTypes::kAllNumbers});
}

}  // namespace kodama::compiler
