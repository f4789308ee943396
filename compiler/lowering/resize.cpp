#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/lowering/convolution.h"

/// Resize: of every axis that changes, each output position is a weighted sum of a few input positions. Where
/// it is one position with weight 1, the axis is rearranged; else it is a Contract with a constant matrix,
/// one axis after the other.
namespace kodama::compiler {

namespace {

/// What an output position of an axis is made of.
struct Taps {
  std::vector<std::pair<int64_t, double>> weights;  ///< input position, weight; positions in order
  bool outside = false;                             ///< it is the extrapolation value
};

struct ResizedAxis {
  size_t axis = 0;
  int64_t input = 0;
  std::vector<Taps> taps;  ///< by output position

  int64_t output() const { return static_cast<int64_t>(taps.size()); }
  /// The input position that each output position is, where it is one.
  std::optional<std::vector<int64_t>> positions() const {
    std::vector<int64_t> result;
    for (const Taps& each : taps) {
      if (each.weights.size() != 1 || each.weights[0].second != 1 || each.outside) return std::nullopt;
      result.push_back(each.weights[0].first);
    }
    return result;
  }
  bool has_outside() const { return std::ranges::any_of(taps, &Taps::outside); }
};

struct ResizeAttributes {
  std::string mode, coordinates, nearest;
  double cubic_a = -0.75;
  bool exclude_outside = false;
};

/// Where an output position of an axis is in the input. `output`: how many there are; `length`: the same, of
/// a node with scales before it is cut to a whole number.
double input_coordinate(const ResizeAttributes& attributes, double position, int64_t input, int64_t output,
                        double length, const std::pair<double, double>& region) {
  const auto last = static_cast<double>(input - 1);
  // One quotient: of whole numbers it is exact where it is whole, and a division by a rounded scale isn't.
  const auto unscaled = [&](double at) { return at * static_cast<double>(input) / length; };
  if (attributes.coordinates == "asymmetric") return unscaled(position);
  if (attributes.coordinates == "align_corners") return length == 1 ? 0 : position * last / (length - 1);
  if (attributes.coordinates == "pytorch_half_pixel" && output <= 1) return 0;
  if (attributes.coordinates == "tf_half_pixel_for_nn") return unscaled(position + 0.5);
  if (attributes.coordinates == "tf_crop_and_resize") {
    const auto& [start, end] = region;
    return output <= 1 ? 0.5 * (start + end) * last
                       : start * last + position * (end - start) * last / static_cast<double>(output - 1);
  }
  return unscaled(position + 0.5) - 0.5;
}

double nearest_position(const std::string& mode, double coordinate) {
  if (mode == "floor") return std::floor(coordinate);
  if (mode == "ceil") return std::ceil(coordinate);
  if (mode == "round_prefer_ceil") return std::floor(coordinate + 0.5);
  return std::ceil(coordinate - 0.5);
}

/// Weights of the positions around a coordinate, from `first` on.
std::vector<double> window_weights(const ResizeAttributes& attributes, double coordinate, double& first) {
  first = std::floor(coordinate);
  const double t = coordinate - first;
  if (attributes.mode == "nearest") {
    first = nearest_position(attributes.nearest, coordinate);
    return {1};
  }
  if (attributes.mode != "cubic") return {1 - t, t};
  first -= 1;
  // Keys' kernel, in the distance from each of four positions.
  const double a = attributes.cubic_a;
  const auto near = [&](double s) { return ((a + 2) * s - (a + 3)) * s * s + 1; };
  const auto far = [&](double s) { return ((a * s - 5 * a) * s + 8 * a) * s - 4 * a; };
  return {far(1 + t), near(t), near(1 - t), far(2 - t)};
}

Taps taps_at(const ResizeAttributes& attributes, double coordinate, int64_t input) {
  Taps taps;
  if (attributes.coordinates == "tf_crop_and_resize" &&
      !(coordinate >= 0 && coordinate <= static_cast<double>(input - 1))) {
    taps.outside = true;
    return taps;
  }
  double first = 0;
  const std::vector<double> weights = window_weights(attributes, coordinate, first);
  std::map<int64_t, double> by_position;
  double total = 0;
  for (size_t k = 0; k < weights.size(); ++k) {
    const double position = first + static_cast<double>(k);
    const double inside = std::clamp(position, 0.0, static_cast<double>(input - 1));
    if (attributes.exclude_outside && position != inside) continue;
    by_position[static_cast<int64_t>(inside)] += weights[k];
    total += weights[k];
  }
  // Those of one position are one in all, but for their rounding.
  if (by_position.size() == 1 && total != 0) by_position.begin()->second = total = 1;
  for (const auto& [position, weight] : by_position) {
    if (weight != 0)
      taps.weights.emplace_back(position, attributes.exclude_outside ? weight / total : weight);
  }
  return taps;
}

/// A run of output positions [begin, end) that read offset + coefficient * position.
struct Run {
  int64_t begin, end, coefficient, offset;
};
std::vector<Run> runs_of(const std::vector<int64_t>& positions) {
  std::vector<Run> runs;
  const auto count = static_cast<int64_t>(positions.size());
  for (int64_t begin = 0; begin < count;) {
    const int64_t step = begin + 1 < count ? positions[begin + 1] - positions[begin] : 0;
    int64_t end = begin + 1;
    while (end < count && positions[end] - positions[end - 1] == step) ++end;
    runs.push_back({begin, end, step, positions[begin] - step * begin});
    begin = end;
  }
  return runs;
}

/// An axis of a Rearrange as two, blocks of `period` positions and the positions of a block: what a block
/// reads is what the one before it reads, `stride` further. Without such a period, one block.
struct PeriodicAxis {
  int64_t period = 1, stride = 0;
  std::vector<Run> runs;  ///< within a block
};
PeriodicAxis periodic(const std::vector<int64_t>& positions) {
  const auto count = static_cast<int64_t>(positions.size());
  PeriodicAxis best{count, 0, runs_of(positions)};
  for (int64_t period = count / 2; period >= 1; --period) {
    if (count % period != 0) continue;
    const int64_t stride = positions[period] - positions[0];
    bool fits = true;
    for (int64_t k = period; fits && k < count; ++k) fits = positions[k] - positions[k - period] == stride;
    if (!fits) continue;
    std::vector<Run> runs = runs_of({positions.begin(), positions.begin() + period});
    if (runs.size() <= best.runs.size()) best = {period, stride, std::move(runs)};
  }
  return best;
}

/// More pieces than this are worth a product with a matrix of zeros and ones.
constexpr size_t kMostPieces = 64;

/// Axes whose output positions are input positions.
TensorId rearrange_axes(NodeLowering& lowering, TensorId source, const std::vector<size_t>& axes,
                        const std::vector<PeriodicAxis>& periods, const Shape& to) {
  const Shape from = lowering.tensor(source).shape;
  Shape extents;
  std::vector<int> first_dims;  // of each axis; a resized one has two
  for (size_t axis = 0; axis < from.size(); ++axis) {
    first_dims.push_back(static_cast<int>(extents.size()));
    const auto found = std::ranges::find(axes, axis);
    if (found == axes.end()) {
      extents.push_back(from[axis]);
      continue;
    }
    const int64_t period = periods[static_cast<size_t>(found - axes.begin())].period;
    extents.push_back(to[axis] / period);
    extents.push_back(period);
  }
  RearrangeLayer rearrange;
  rearrange.extents = extents;
  AffineMap map(from.size(), extents.size());
  for (size_t axis = 0; axis < from.size(); ++axis) map.set(axis, static_cast<size_t>(first_dims[axis]), 1);
  rearrange.pieces = {{{source, map, 0}, std::vector<int64_t>(extents.size(), 0), extents}};
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto blocks = static_cast<size_t>(first_dims[axes[k]]);
    std::vector<RearrangeLayer::Piece> pieces;
    for (const RearrangeLayer::Piece& whole : rearrange.pieces) {
      for (const Run& run : periods[k].runs) {
        RearrangeLayer::Piece piece = whole;
        piece.begin[blocks + 1] = run.begin;
        piece.end[blocks + 1] = run.end;
        piece.input.map.set(axes[k], blocks, periods[k].stride)
            .set(axes[k], blocks + 1, run.coefficient)
            .set_offset(axes[k], run.offset);
        pieces.push_back(std::move(piece));
      }
    }
    rearrange.pieces = std::move(pieces);
  }
  const DataType type = lowering.tensor(source).type;
  const TensorId result = lowering.add_tensor("moved", type, extents);
  lowering.add_layer("moved", std::move(rearrange), result);
  return extents == to ? result : lowering.add_alias("resized", result, to);
}

/// A matrix of more than these is worse than the host.
constexpr int64_t kMostWeights = int64_t{1} << 24;

/// One axis by a matrix; `target` has the result's shape.
void contract_axis(NodeLowering& lowering, TensorId source, const ResizedAxis& resized, TensorId target) {
  using Role = ContractLayer::Role;
  const Shape from = lowering.tensor(source).shape;
  const std::string suffix = fmt::format("axis{}", resized.axis);
  Tensor weights(DataType::kFloat32, {resized.output(), resized.input});
  for (int64_t o = 0; o < resized.output(); ++o) {
    for (const auto& [position, weight] : resized.taps[o].weights)
      weights.data<float>()[o * resized.input + position] = static_cast<float>(weight);
  }
  ContractLayer contract;
  const size_t dims = from.size() + 1;  // the axes of the result, then what is summed over
  AffineMap source_map(from.size(), dims);
  AffineMap result_map(from.size(), dims);
  for (size_t axis = 0; axis < from.size(); ++axis) {
    const bool is_it = axis == resized.axis;
    contract.dims.push_back({is_it ? "o" : fmt::format("n{}", axis), is_it ? resized.output() : from[axis],
                             is_it ? Role::kM : Role::kN});
    source_map.set(axis, is_it ? from.size() : axis, 1);
    result_map.set(axis, axis, 1);
  }
  contract.dims.push_back({"k", resized.input, Role::kK});
  const TensorId matrix = lowering.add_constant(suffix + "_weights", std::move(weights));
  contract.a = {matrix, AffineMap(2, dims).set(0, resized.axis, 1).set(1, from.size(), 1), 0};
  contract.b = {source, source_map, 0};
  contract.output = result_map;
  contract.output_shape = lowering.tensor(target).shape;
  contract.epilogue = ScalarExpr::identity();
  lowering.add_layer(suffix, std::move(contract), target);
}

/// An axis that gets `factor` times as long, the same way everywhere: output position q * factor + r is the
/// sum of weights[r][j] times input position q + first + j, times scales[q * factor + r], which makes up for
/// positions outside the input.
struct PeriodicWeights {
  int64_t factor = 1, first = 0;
  std::vector<std::vector<double>> weights = {{1}};
  std::vector<double> scales;

  int64_t taps() const { return static_cast<int64_t>(weights[0].size()); }
};
std::optional<PeriodicWeights> periodic_weights(const ResizedAxis& resized) {
  const int64_t factor = resized.output() / resized.input;
  if (resized.output() % resized.input != 0 || resized.has_outside()) return std::nullopt;
  PeriodicWeights result;
  result.factor = factor;
  // Of every residue, a position that lacks nothing shows the weights.
  int64_t last = std::numeric_limits<int64_t>::min();
  result.first = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> shown;  // blocks
  const auto taps_of = [&](int64_t block, int64_t r) -> const auto& {
    return resized.taps[static_cast<size_t>(block * factor + r)].weights;
  };
  for (int64_t r = 0; r < factor; ++r) {
    int64_t best = 0;
    for (int64_t block = 1; block < resized.input; ++block) {
      if (taps_of(block, r).size() > taps_of(best, r).size()) best = block;
    }
    if (taps_of(best, r).empty()) return std::nullopt;
    result.first = std::min(result.first, taps_of(best, r).front().first - best);
    last = std::max(last, taps_of(best, r).back().first - best);
    shown.push_back(best);
  }
  result.weights.assign(static_cast<size_t>(factor),
                        std::vector<double>(static_cast<size_t>(last - result.first + 1)));
  for (int64_t r = 0; r < factor; ++r) {
    const int64_t block = shown[static_cast<size_t>(r)];
    for (const auto& [position, weight] : taps_of(block, r))
      result.weights[static_cast<size_t>(r)][static_cast<size_t>(position - block - result.first)] = weight;
  }
  for (int64_t o = 0; o < resized.output(); ++o) {
    const std::vector<double>& weights = result.weights[static_cast<size_t>(o % factor)];
    const Taps& taps = resized.taps[static_cast<size_t>(o)];
    double inside = 0;
    double wanted = 0;
    for (size_t j = 0; j < weights.size(); ++j) {
      const int64_t position = o / factor + result.first + static_cast<int64_t>(j);
      if (position >= 0 && position < resized.input) inside += weights[j];
    }
    for (const auto& [position, weight] : taps.weights) wanted += weight;
    if (inside == 0) return std::nullopt;
    const double scale = wanted / inside;
    for (const auto& [position, weight] : taps.weights) {
      const int64_t j = position - o / factor - result.first;
      constexpr double kRounding = 1e-9;
      if (j < 0 || j >= result.taps() ||
          std::fabs(weights[static_cast<size_t>(j)] * scale - weight) > kRounding)
        return std::nullopt;
    }
    result.scales.push_back(scale);
  }
  return result;
}

/// More residues than this make a matrix with more rows than it saves sums.
constexpr int64_t kMostResidues = 16;

/// Spatial axes that all get longer periodically, by one convolution of every channel, whose output channels
/// are the residues of the output positions. False if they aren't such.
bool convolve_axes(NodeLowering& lowering, TensorId source, const std::vector<ResizedAxis>& axes) {
  const Shape from = lowering.tensor(source).shape;
  if (from.size() < 3) return false;
  const size_t spatial = from.size() - 2;
  std::vector<PeriodicWeights> periods(spatial);
  for (size_t axis = 0; axis < spatial; ++axis)
    periods[axis].scales.assign(static_cast<size_t>(from[2 + axis]), 1);
  int64_t residues = 1;
  for (const ResizedAxis& resized : axes) {
    const auto period = resized.axis < 2 ? std::nullopt : periodic_weights(resized);
    if (!period) return false;
    residues *= period->factor;
    periods[resized.axis - 2] = *period;
  }
  if (residues > kMostResidues) return false;
  Convolution convolution;
  Shape strides;
  Shape weights_shape = {residues, 1};
  Shape scale_shape = {residues};
  for (size_t axis = 0; axis < spatial; ++axis) {
    strides.push_back(periods[axis].factor);
    weights_shape.push_back(periods[axis].taps());
    scale_shape.push_back(from[2 + axis]);
    convolution.window.kernel.push_back(periods[axis].taps());
    convolution.window.pad_begin.push_back(-periods[axis].first);
  }
  convolution.window.stride = convolution.window.dilation = Shape(spatial, 1);
  convolution.window.pad_end = Shape(spatial, 0);
  // Products of what the axes have, by residue and by tap or position.
  const auto product = [&](const Shape& shape, size_t first, const auto& value_of) {
    Tensor tensor(DataType::kFloat32, shape);
    for (int64_t k = 0; k < tensor.size(); ++k) {
      int64_t rest = k;
      double value = 1;
      std::vector<int64_t> inner(spatial);
      for (size_t axis = spatial; axis-- > 0;) {
        inner[axis] = rest % shape[first + axis];
        rest /= shape[first + axis];
      }
      for (size_t axis = spatial; axis-- > 0;) {
        value *= value_of(periods[axis], rest % strides[axis], inner[axis]);
        rest /= strides[axis];
      }
      tensor.data<float>()[k] = static_cast<float>(value);
    }
    return tensor;
  };
  const Tensor kernel = product(weights_shape, 2, [](const PeriodicWeights& period, int64_t r, int64_t j) {
    return period.weights[static_cast<size_t>(r)][static_cast<size_t>(j)];
  });
  const Tensor scale = product(scale_shape, 1, [](const PeriodicWeights& period, int64_t r, int64_t q) {
    return period.scales[static_cast<size_t>(q * period.factor + r)];
  });
  // The same kernel for every channel.
  Shape all_shape = weights_shape;
  all_shape[0] *= from[1];
  Tensor all(DataType::kFloat32, all_shape);
  for (int64_t k = 0; k < all.size(); ++k) all.data<float>()[k] = kernel.data<float>()[k % kernel.size()];
  convolution.x = source;
  convolution.w = lowering.add_constant("weights", std::move(all));
  if (std::ranges::any_of(scale.data<float>(), [](float each) { return each != 1; }))
    convolution.scale = lowering.add_constant("scales", scale);
  convolution.groups = from[1];
  Shape result = from;
  result[1] *= residues;
  convolution.target = lowering.add_tensor("residues", lowering.output_type(), result);
  add_convolution(lowering, "", convolution);
  weave_residues(lowering, convolution.target, strides);
  return true;
}

/// The extrapolation value wherever one of the axes is outside.
void extrapolate(NodeLowering& lowering, TensorId source, const std::vector<ResizedAxis>& axes) {
  const Shape& to = lowering.output_shape();
  MapBuilder map(lowering, to);
  const Term x = map.operand(source);
  Term is_outside = x.constant(-1);
  for (const ResizedAxis& resized : axes) {
    if (!resized.has_outside()) continue;
    Shape shape(to.size() - resized.axis, 1);
    shape[0] = resized.output();
    Tensor outside(DataType::kFloat32, shape);
    for (int64_t o = 0; o < resized.output(); ++o)
      outside.data<float>()[o] = resized.taps[o].outside ? 1.0F : -1.0F;
    is_outside = max(is_outside, map.operand(lowering.add_constant("outside", std::move(outside))));
  }
  const Term value = x.constant(lowering.float_attribute("extrapolation_value"));
  map.finish("", select(is_outside, value, x), lowering.output());
}

/// The constant numbers of an operand; empty where it isn't given.
std::optional<std::vector<double>> constant_numbers(const NodeLowering& lowering, int index) {
  std::vector<double> numbers;
  if (!lowering.has_input(index) || element_count(lowering.input_shape(index)) == 0) return numbers;
  const Tensor* tensor = lowering.constant_input(index);
  if (tensor == nullptr) return std::nullopt;
  for (int64_t k = 0; k < tensor->size(); ++k) numbers.push_back(element_as_double(*tensor, k));
  return numbers;
}

HostReason lower_resize(NodeLowering& lowering) {
  const Shape& from = lowering.input_shape(0);
  const Shape& to = lowering.output_shape();
  const auto region = constant_numbers(lowering, 1);
  const auto scales = constant_numbers(lowering, 2);
  if (!scales || !constant_numbers(lowering, 3)) return "scales and sizes aren't constant";
  ResizeAttributes attributes;
  attributes.mode = lowering.string_attribute("mode");
  attributes.coordinates = lowering.string_attribute("coordinate_transformation_mode");
  attributes.nearest = lowering.string_attribute("nearest_mode");
  attributes.cubic_a = lowering.float_attribute("cubic_coeff_a");
  attributes.exclude_outside = lowering.int_attribute("exclude_outside") != 0;
  const bool crops = attributes.coordinates == "tf_crop_and_resize";
  if (crops && !region) return "the region isn't constant";
  lowering.require(!crops || region->size() == 2 * from.size(), "roi has {} numbers; {} are needed",
                   region ? region->size() : 0, 2 * from.size());
  lowering.require(scales->empty() || scales->size() == from.size(), "{} scales for an input of rank {}",
                   scales->size(), from.size());

  std::vector<ResizedAxis> axes;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    const double length =
        scales->empty() ? static_cast<double>(to[axis]) : (*scales)[axis] * static_cast<double>(from[axis]);
    const double scale =
        scales->empty() ? static_cast<double>(to[axis]) / static_cast<double>(from[axis]) : (*scales)[axis];
    const std::pair<double, double> part =
        crops ? std::pair{(*region)[axis], (*region)[axis + from.size()]} : std::pair{0.0, 1.0};
    if (from[axis] == to[axis] && scale == 1 && part == std::pair{0.0, 1.0}) continue;
    ResizedAxis resized{axis, from[axis], {}};
    for (int64_t o = 0; o < to[axis]; ++o) {
      const double coordinate =
          input_coordinate(attributes, static_cast<double>(o), from[axis], to[axis], length, part);
      resized.taps.push_back(taps_at(attributes, coordinate, from[axis]));
    }
    axes.push_back(std::move(resized));
  }

  TensorId source = lowering.input(0);
  Shape shape = from;
  std::vector<size_t> moved;
  std::vector<PeriodicAxis> periods;
  std::vector<ResizedAxis> weighted;
  size_t pieces = 1;
  for (const ResizedAxis& resized : axes) {
    const auto positions = resized.positions();
    std::optional<PeriodicAxis> period;
    if (positions) period = periodic(*positions);
    if (!period || pieces * period->runs.size() > kMostPieces) {
      weighted.push_back(resized);
      continue;
    }
    pieces *= period->runs.size();
    moved.push_back(resized.axis);
    periods.push_back(*period);
    shape[resized.axis] = resized.output();
  }
  if (!weighted.empty() && !has_float_arithmetic(lowering.input_type(0)))
    return fmt::format("weighted sums of {}", data_type_name(lowering.input_type(0)));
  for (const ResizedAxis& resized : weighted) {
    if (resized.output() * resized.input > kMostWeights)
      return fmt::format("a matrix of {} by {} weights", resized.output(), resized.input);
  }
  // What makes the tensor larger comes last.
  std::ranges::stable_sort(weighted, {}, [](const ResizedAxis& resized) {
    return static_cast<double>(resized.output()) / static_cast<double>(resized.input);
  });
  const bool grows = element_count(shape) > element_count(from);
  const auto move = [&] {
    if (moved.empty()) return;
    Shape moved_shape = lowering.tensor(source).shape;
    for (const size_t axis : moved) moved_shape[axis] = to[axis];
    source = rearrange_axes(lowering, source, moved, periods, moved_shape);
  };
  if (!grows) move();
  const bool extrapolates = std::ranges::any_of(axes, &ResizedAxis::has_outside) &&
                            lowering.float_attribute("extrapolation_value") != 0;
  if (!weighted.empty() && moved.empty() && !extrapolates && convolve_axes(lowering, source, weighted))
    return kLowered;
  for (size_t k = 0; k < weighted.size(); ++k) {
    const bool is_last = k + 1 == weighted.size() && (!grows || moved.empty()) && !extrapolates;
    Shape next = lowering.tensor(source).shape;
    next[weighted[k].axis] = weighted[k].output();
    const TensorId target =
        is_last ? lowering.output()
                : lowering.add_tensor(fmt::format("axis{}", weighted[k].axis), lowering.output_type(), next);
    contract_axis(lowering, source, weighted[k], target);
    source = target;
    if (is_last) return kLowered;
  }
  if (grows) move();
  if (extrapolates) {
    extrapolate(lowering, source, axes);
  } else {
    lowering.bind_output(source);
  }
  return kLowered;
}

}  // namespace

void register_resize(OperatorTable& table) {
  table.push_back({"Resize", lower_resize, ElementTypes::kAnyFirst});
}

}  // namespace kodama::compiler
