#include <limits>

#include "compiler/lowering/node_lowering.h"

/// What detectors read of pictures.
namespace kodama::compiler {

namespace {

using Role = ContractLayer::Role;
constexpr DataType kReal = DataType::kFloat32;

/// Of RoiAlign: the samples of an axis of its regions.
struct RegionAxis {
  const char* name;
  int64_t low, high;  ///< columns of `rois`
  int64_t bins, extent;
  int64_t samples;  ///< of a bin
};

/// How much each position of a picture's axis counts for each bin of each region: the mean over its samples
/// of what linear interpolation takes of the position, [regions, bins, extent]. With several pictures,
/// [regions, pictures, bins, extent], and zero for those that a region isn't in.
TensorId region_weights(NodeLowering& lowering, const RegionAxis& axis, int64_t pictures) {
  const int64_t regions = lowering.input_shape(1)[0];
  const int64_t samples = axis.samples;
  const double scale = lowering.float_attribute("spatial_scale");
  const bool half_pixel = lowering.string_attribute("coordinate_transformation_mode") != "output_half_pixel";
  const bool several = pictures > 1;
  ReduceLayer layer;
  layer.op = ReduceLayer::Op::kSum;
  layer.output_extents =
      several ? Shape{regions, pictures, axis.bins, axis.extent} : Shape{regions, axis.bins, axis.extent};
  layer.reduction_extents = {samples};
  const size_t rank = layer.output_extents.size();
  Formula formula;
  const auto read = [&](TensorId id, AffineMap map) {
    return read_input(formula, layer.inputs, {id, std::move(map), 0});
  };
  const auto corner = [&](int64_t column) {
    return read(lowering.input(1), AffineMap(2, rank + 1).set(0, 0, 1).set_offset(1, column)) * scale;
  };
  const auto number = [&](const char* of, size_t dim, int64_t count) {
    return read(lowering.add_numbers(fmt::format("{}_{}", axis.name, of), kReal, {count}),
                AffineMap(1, rank + 1).set(0, dim, 1));
  };
  const Term low = corner(axis.low);
  const Term length = corner(axis.high) - low;
  const Term bin = (half_pixel ? length : max(length, 1.0)) * (1.0 / static_cast<double>(axis.bins));
  const Term sample = (number("samples", rank, samples) + 0.5) * (1.0 / static_cast<double>(samples));
  const Term at = low - (half_pixel ? 0.5 : 0.0) + bin * (number("bins", rank - 2, axis.bins) + sample);
  const Term inside = min(max(at, 0.0), static_cast<double>(axis.extent - 1));
  const Term distance = abs(inside - number("positions", rank - 1, axis.extent));
  const Term weight = relu(1.0 - distance) * (1.0 / static_cast<double>(samples));
  // A pixel or more outside there is nothing.
  const Term zero = weight.constant(0);
  Term result = where(less(at, at.constant(-1)), zero, weight);
  result = where(less(at.constant(static_cast<double>(axis.extent)), at), zero, result);
  if (several) {
    const TensorId words = lowering.words_of(lowering.input(2));
    const AffineMap map = AffineMap(1, rank + 1).set(0, 0, 1);
    const Term picture = read(words, is_long(lowering.input_type(2)) ? map.extended(1, 0) : map);
    const TensorId all =
        lowering.add_numbers(fmt::format("{}_pictures", axis.name), DataType::kInt32, {pictures});
    const Term its = read(all, AffineMap(1, rank + 1).set(0, 1, 1));
    result = where(picture.apply(ScalarOp::kXor, its), zero, result);
  }
  layer.expr = formula.result(result);
  layer.epilogue = ScalarExpr::identity();
  tidy_inputs(layer.expr, layer.inputs);
  const std::string suffix = fmt::format("{}_weights", axis.name);
  const TensorId weights = lowering.add_tensor(suffix, kReal, layer.output_extents);
  lowering.add_layer(suffix, std::move(layer), weights);
  return weights;
}

/// The mean of samples is a sum over positions of the picture: a product with weights that follow from the
/// regions. Those of rows and of columns are computed by themselves, and multiplied for every position. Two
/// products, one after the other, would multiply less, but what is between them had to change its layout.
HostReason lower_roi_align(NodeLowering& lowering) {
  constexpr int64_t kMostWeights = int64_t{1} << 24;
  const std::string mode = lowering.string_attribute("mode");
  lowering.require(mode == "avg" || mode == "max", "mode is '{}'; avg and max are allowed", mode);
  if (lowering.int_attribute("sampling_ratio") <= 0) return "as many samples as a region is large";
  const Shape& x = lowering.input_shape(0);
  // The largest of samples is that of as many bins with one sample each.
  const int64_t ratio = lowering.int_attribute("sampling_ratio");
  const bool takes_largest = mode == "max" && ratio > 1;
  const int64_t samples = takes_largest ? 1 : ratio, finer = takes_largest ? ratio : 1;
  const Shape& result = lowering.output_shape();
  const Shape y = {result[0], result[1], result[2] * finer, result[3] * finer};
  const int64_t pictures = x[0], bins = y[0] * y[2] * y[3], positions = x[2] * x[3];
  if (bins > kMostWeights || pictures * positions > kMostWeights / bins)
    return fmt::format("{} bins, each with weights for {} positions", bins, pictures * positions);
  check_bounds(lowering, 2, lowering.input(2), 0, pictures - 1);
  const TensorId rows = region_weights(lowering, {"rows", 1, 3, y[2], x[2], samples}, pictures);
  const TensorId columns = region_weights(lowering, {"columns", 0, 2, y[3], x[3], samples}, 1);
  const Shape extents = {y[0], y[2], y[3], pictures, x[2], x[3]};
  const Shape of_rows = {y[0], pictures, y[2], x[2]};
  const TensorId rows_apart = lowering.add_alias("rows_apart", rows, of_rows);
  Formula formula;
  MapLayer weights;
  weights.extents = extents;
  weights.inputs = {{rows_apart, AffineMap(4, 6).set(0, 0, 1).set(1, 3, 1).set(2, 1, 1).set(3, 4, 1), 0},
                    {columns, AffineMap(3, 6).set(0, 0, 1).set(1, 2, 1).set(2, 5, 1), 0}};
  weights.expr = formula.result(formula.x(0) * formula.x(1));
  const TensorId weight = lowering.add_tensor("weights", kReal, extents);
  lowering.add_layer("weights", std::move(weights), weight);

  ContractLayer contract;
  contract.dims = {{"r", y[0], Role::kM}, {"oh", y[2], Role::kM},    {"ow", y[3], Role::kM},
                   {"c", y[1], Role::kN}, {"b", pictures, Role::kK}, {"p", positions, Role::kK}};
  const TensorId flat = lowering.add_alias("flat_weights", weight, {y[0], y[2], y[3], pictures, positions});
  const TensorId picture = lowering.add_alias("flat", lowering.input(0), {pictures, y[1], positions});
  contract.a = {flat, AffineMap(5, 6).set(0, 0, 1).set(1, 1, 1).set(2, 2, 1).set(3, 4, 1).set(4, 5, 1), 0};
  contract.b = {picture, AffineMap(3, 6).set(0, 4, 1).set(1, 3, 1).set(2, 5, 1), 0};
  contract.output = AffineMap(4, 6).set(0, 0, 1).set(1, 3, 1).set(2, 1, 1).set(3, 2, 1);
  contract.output_shape = y;
  contract.epilogue = ScalarExpr::identity();
  if (!takes_largest) {
    lowering.add_layer("", std::move(contract), lowering.output());
    return kLowered;
  }
  const TensorId all = lowering.add_tensor("all", lowering.output_type(), y);
  lowering.add_layer("all", std::move(contract), all);
  AffineMap of_bin = AffineMap(4, 6).set(0, 0, 1).set(1, 1, 1);
  of_bin.set(2, 2, finer).set(2, 4, 1).set(3, 3, finer).set(3, 5, 1);
  lowering.add_layer("",
                     ReduceLayer{ReduceLayer::Op::kMax,
                                 result,
                                 {finer, finer},
                                 {{all, of_bin, 0}},
                                 ScalarExpr::identity(),
                                 ScalarExpr::identity(),
                                 {}},
                     lowering.output());
  return kLowered;
}

/// How much an element along an axis may be of a bin of MaxRoiPool, so that the least of it and the element
/// is what counts: infinity inside, minus infinity outside; [regions, bins, extent].
TensorId pooled_elements(NodeLowering& lowering, const RegionAxis& axis) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const int64_t regions = lowering.input_shape(1)[0];
  const double scale = lowering.float_attribute("spatial_scale");
  const Shape extents = {regions, axis.bins, axis.extent};
  MapBuilder map(lowering, extents);
  // Halves away from 0.
  const auto corner = [&](int64_t column) {
    const Term at =
        map.operand_at(lowering.input(1), AffineMap(2, 3).set(0, 0, 1).set_offset(1, column)) * scale;
    const Term magnitude = floor(abs(at) + 0.5);
    return select(at, magnitude, -magnitude);
  };
  const auto number = [&](const char* of, size_t dim, int64_t count) {
    const std::string suffix = fmt::format("{}_{}", axis.name, of);
    return map.operand_at(lowering.add_numbers(suffix, kReal, {count}), AffineMap(1, 3).set(0, dim, 1));
  };
  const Term from = corner(axis.low);
  const Term length = max(corner(axis.high) - from + 1, 1.0);
  const Term bin = number("bins", 1, axis.bins), element = number("elements", 2, axis.extent);
  const auto bins = static_cast<double>(axis.bins);
  // Whole numbers over a whole number: half of one more, and no rounding crosses the next.
  const Term begin = from + floor((bin * length + 0.5) * (1 / bins));
  const Term end = from + floor(((bin + 1) * length + (bins - 0.5)) * (1 / bins));
  const Term outside = less(element, begin).apply(ScalarOp::kOr, negation(less(element, end)));
  const std::string suffix = fmt::format("{}_inside", axis.name);
  const TensorId result = lowering.add_tensor(suffix, kReal, extents);
  map.finish(suffix, where(outside, map.constant(-kInfinity), map.constant(kInfinity)), result);
  return result;
}

/// Every bin looks at all elements of all pictures.
HostReason lower_max_roi_pool(NodeLowering& lowering) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr int64_t kMostLooks = int64_t{1} << 28;
  const Shape& x = lowering.input_shape(0);
  const Shape& y = lowering.output_shape();
  lowering.require(x.size() == 4 && y.size() == 4 && lowering.input_shape(1) == Shape{y[0], 5},
                   "X is {}, rois {}; [N, C, H, W] and [regions, 5] are needed", shape_to_string(x),
                   shape_to_string(lowering.input_shape(1)));
  const int64_t positions = x[0] * x[2] * x[3];
  if (element_count(y) > kMostLooks / positions)
    return fmt::format("{} bins, each from {} positions", element_count(y), positions);
  const TensorId pictures = lowering.add_tensor("pictures", DataType::kInt32, {y[0]});
  {
    MapBuilder map(lowering, {y[0]});
    const Term number = map.operand_at(lowering.input(1), AffineMap(2, 1).set(0, 0, 1));
    map.finish("pictures", to_integer(number, {32, true}), pictures);
  }
  check_bounds(lowering, 1, pictures, 0, x[0] - 1);
  const TensorId rows = pooled_elements(lowering, {"rows", 2, 4, y[2], x[2], 1});
  const TensorId columns = pooled_elements(lowering, {"columns", 1, 3, y[3], x[3], 1});
  ReduceLayer layer;
  layer.op = ReduceLayer::Op::kMax;
  layer.output_extents = y;
  layer.reduction_extents = {x[0], x[2], x[3]};
  Formula formula;
  const auto read = [&](TensorId id, AffineMap map) {
    return read_input(formula, layer.inputs, {id, std::move(map), 0});
  };
  const auto along = [](size_t bin, size_t element) {
    return AffineMap(3, 7).set(0, 0, 1).set(1, bin, 1).set(2, element, 1);
  };
  Term value = read(lowering.input(0), AffineMap(4, 7).set(0, 4, 1).set(1, 1, 1).set(2, 5, 1).set(3, 6, 1));
  value = min(value, min(read(rows, along(2, 5)), read(columns, along(3, 6))));
  if (x[0] > 1) {
    const TensorId all = lowering.add_numbers("all_pictures", DataType::kInt32, {x[0]});
    const Term differs = read(pictures, AffineMap(1, 7).set(0, 0, 1))
                             .apply(ScalarOp::kXor, read(all, AffineMap(1, 7).set(0, 4, 1)));
    value = where(differs, value.constant(-kInfinity), value);
  }
  layer.expr = formula.result(value);
  // A bin without elements is 0.
  Formula epilogue;
  const Term most = epilogue.x(0);
  layer.epilogue = epilogue.result(where(equal(most, most.constant(-kInfinity)), most.constant(0), most));
  lowering.add_layer("", std::move(layer), lowering.output());
  return kLowered;
}

/// An axis of a picture that GridSample reads.
struct SampledAxis {
  const char* name;
  int64_t extent;
  int64_t column;  ///< of the grid
};

/// Where a position outside the picture is read: at the edge, or mirrored there.
Term padded(Term position, int64_t extent, bool align_corners, const std::string& padding) {
  if (padding == "zeros") return position;
  const auto last = static_cast<double>(extent - 1);
  if (padding == "reflection") {
    const double low = align_corners ? 0 : -0.5;
    const double span = align_corners ? last : last + 1;
    if (span <= 0) return position.constant(0);
    const Term distance = abs(position - low);
    const Term turns = floor(distance * (1 / span));
    const Term rest = distance - turns * span;
    const Term is_odd = turns - floor(turns * 0.5) * 2 - 1;
    position = select(is_odd, span - rest, rest) + low;
  }
  return min(max(position, 0.0), last);
}

/// What the cubic of `a` = -0.75 gives an element at this distance.
Term cubic_weight(Term distance) {
  constexpr double kA = -0.75;
  const Term d = abs(distance);
  const Term near = ((d * (kA + 2) - (kA + 3)) * d) * d + 1;
  const Term far = ((d * kA - 5 * kA) * d + 8 * kA) * d - 4 * kA;
  return select(1.0 - d, near, select(2.0 - d, far, d.constant(0)));
}

/// How much each position along an axis of a picture counts for each position of the grid: [N, H', W',
/// extent].
TensorId sample_weights(NodeLowering& lowering, const SampledAxis& axis) {
  const std::string mode = lowering.string_attribute("mode");
  const std::string padding = lowering.string_attribute("padding_mode");
  const bool align_corners = lowering.int_attribute("align_corners") != 0;
  const Shape& grid = lowering.input_shape(1);
  const Shape extents = {grid[0], grid[1], grid[2], axis.extent};
  MapBuilder map(lowering, extents);
  AffineMap at = AffineMap(4, 4).set_offset(3, axis.column);
  for (size_t k = 0; k < 3; ++k) at.set(k, k, 1);
  const Term normalized = map.operand_at(lowering.input(1), at);
  const auto length = static_cast<double>(axis.extent);
  const Term pixel =
      align_corners ? (normalized + 1) * ((length - 1) / 2) : (normalized + 1) * (length / 2) - 0.5;
  // What is no number, or infinite, is far outside, or with padding the first element.
  constexpr double kFar = 0x1p20;
  const Term is_number = less(abs(pixel), pixel.constant(kFar));
  const Term position = where(is_number, pixel, pixel.constant(padding == "zeros" ? -kFar : 0));
  const Term element =
      map.word_at(lowering.add_numbers(std::string(axis.name) + "_numbers", kReal, {axis.extent}),
                  AffineMap(1, 4).set(0, 3, 1));
  const auto pad = [&](Term of) { return padded(of, axis.extent, align_corners, padding); };
  const Term zero = pixel.constant(0), one = pixel.constant(1);
  Term weight = zero;
  if (mode == "nearest") {
    weight = where(equal(round_to_even(pad(position)), element), one, zero);
  } else if (mode == "bilinear") {
    weight = relu(1.0 - abs(pad(position) - element));
  } else {
    // Each of the four elements is padded on its own.
    const Term below = floor(position);
    for (int k = -1; k <= 2; ++k) {
      const Term tap = below + k;
      weight = weight + where(equal(floor(pad(tap)), element), cubic_weight(position - tap), zero);
    }
  }
  const std::string suffix = std::string(axis.name) + "_weights";
  const TensorId weights = lowering.add_tensor(suffix, kReal, extents);
  map.finish(suffix, weight, weights);
  return weights;
}

/// A product with weights that follow from the grid, as RoiAlign is one.
HostReason lower_grid_sample(NodeLowering& lowering) {
  constexpr int64_t kMostWeights = int64_t{1} << 24;
  const Shape& x = lowering.input_shape(0);
  const Shape& grid = lowering.input_shape(1);
  const Shape& y = lowering.output_shape();
  lowering.require(x.size() == 4 && grid.size() == 4 && grid[3] == 2 && grid[0] == x[0],
                   "X is {}, grid {}; [N, C, H, W] and [N, H', W', 2] are needed", shape_to_string(x),
                   shape_to_string(grid));
  const std::string mode = lowering.string_attribute("mode");
  lowering.require(mode == "bilinear" || mode == "nearest" || mode == "bicubic",
                   "mode is '{}'; bilinear, nearest and bicubic are allowed", mode);
  const std::string padding = lowering.string_attribute("padding_mode");
  lowering.require(padding == "zeros" || padding == "border" || padding == "reflection",
                   "padding_mode is '{}'; zeros, border and reflection are allowed", padding);
  const int64_t points = grid[1] * grid[2], positions = x[2] * x[3];
  if (x[0] * points > kMostWeights / positions)
    return fmt::format("{} points, each with weights for {} positions", x[0] * points, positions);
  const TensorId rows = sample_weights(lowering, {"rows", x[2], 1});
  const TensorId columns = sample_weights(lowering, {"columns", x[3], 0});
  const Shape extents = {x[0], points, x[2], x[3]};
  MapBuilder map(lowering, extents);
  const auto weights_along = [&](TensorId id, size_t dim) {
    const TensorId flat =
        lowering.add_alias(dim == 2 ? "rows_flat" : "columns_flat", id, {x[0], points, x[dim]});
    return map.operand_at(flat, AffineMap(3, 4).set(0, 0, 1).set(1, 1, 1).set(2, dim, 1));
  };
  const TensorId weights = lowering.add_tensor("weights", kReal, extents);
  const Term of_row = weights_along(rows, 2);
  map.finish("weights", of_row * weights_along(columns, 3), weights);

  ContractLayer contract;
  contract.dims = {
      {"b", x[0], Role::kBatch}, {"p", points, Role::kM}, {"c", x[1], Role::kN}, {"i", positions, Role::kK}};
  const TensorId flat = lowering.add_alias("flat_weights", weights, {x[0], points, positions});
  const TensorId picture = lowering.add_alias("flat", lowering.input(0), {x[0], x[1], positions});
  contract.a = {flat, AffineMap(3, 4).set(0, 0, 1).set(1, 1, 1).set(2, 3, 1), 0};
  contract.b = {picture, AffineMap(3, 4).set(0, 0, 1).set(1, 2, 1).set(2, 3, 1), 0};
  contract.output = AffineMap(3, 4).set(0, 0, 1).set(1, 2, 1).set(2, 1, 1);
  contract.output_shape = {y[0], y[1], points};
  contract.epilogue = ScalarExpr::identity();
  const TensorId result = lowering.add_tensor("sampled", lowering.output_type(), contract.output_shape);
  lowering.add_layer("", std::move(contract), result);
  lowering.bind_output(result);
  return kLowered;
}

}  // namespace

void register_regions(OperatorTable& table) {
  table.push_back({"GridSample", lower_grid_sample, ElementTypes::kChipFloats});
  table.push_back({"RoiAlign", lower_roi_align, ElementTypes::kChipFloats, "a sampling_ratio that isn't 0"});
  table.push_back({"MaxRoiPool", lower_max_roi_pool, ElementTypes::kChipFloats,
                   "not too many bins: each looks at all positions"});
}

}  // namespace kodama::compiler
