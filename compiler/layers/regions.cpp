#include "compiler/layers/node_lowering.h"

/// What detectors read of pictures.
namespace kodama::compiler {

namespace {

using Role = ContractLayer::Role;
constexpr DataType kReal = onnx::TensorProto_DataType_FLOAT;

/// Of RoiAlign: the samples of an axis of its regions.
struct RegionAxis {
  const char* name;
  int64_t low, high;  ///< columns of `rois`
  int64_t bins, extent;
};

/// How much each position of a picture's axis counts for each bin of each region: the mean over its samples
/// of what linear interpolation takes of the position, [regions, bins, extent]. With several pictures,
/// [regions, pictures, bins, extent], and zero for those that a region isn't in.
TensorId region_weights(NodeLowering& lowering, const RegionAxis& axis, int64_t pictures) {
  const int64_t regions = lowering.input_shape(1)[0];
  const int64_t samples = lowering.int_attribute("sampling_ratio");
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
    const TensorId all = lowering.add_numbers(fmt::format("{}_pictures", axis.name),
                                              onnx::TensorProto_DataType_INT32, {pictures});
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
  if (lowering.string_attribute("mode") != "avg") return "the maximum of samples";
  if (lowering.int_attribute("sampling_ratio") <= 0) return "as many samples as a region is large";
  const Shape& x = lowering.input_shape(0);
  const Shape& y = lowering.output_shape();
  const int64_t pictures = x[0], bins = y[0] * y[2] * y[3], positions = x[2] * x[3];
  if (bins > kMostWeights || pictures * positions > kMostWeights / bins)
    return fmt::format("{} bins, each with weights for {} positions", bins, pictures * positions);
  check_bounds(lowering, 2, lowering.input(2), 0, pictures - 1);
  const TensorId rows = region_weights(lowering, {"rows", 1, 3, y[2], x[2]}, pictures);
  const TensorId columns = region_weights(lowering, {"columns", 0, 2, y[3], x[3]}, 1);
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
  lowering.add_layer("", std::move(contract), lowering.output());
  return kLowered;
}

}  // namespace

void register_regions(OperatorTable& table) {
  table.push_back(
      {"RoiAlign", lower_roi_align, ElementTypes::kChipFloats, "mode avg, a sampling_ratio that isn't 0"});
}

}  // namespace kodama::compiler
