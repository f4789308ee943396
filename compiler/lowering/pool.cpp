#include "compiler/lowering/pool.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "compiler/lowering/fold.h"

/// Pooling over windows: a Reduce whose access has two coefficients per spatial axis.
namespace kodama::compiler {

namespace {

struct Pool {
  Window window;
  ReduceLayer layer;  ///< without op, expressions and fill
};

Pool pool_of(NodeLowering& lowering, bool has_dilations) {
  const Shape& input = lowering.input_shape(0);
  const Shape& output = lowering.output_shape();
  lowering.require(input.size() >= 3 && output.size() == input.size(),
                   "the input is {}; batch, channel and spatial axes are needed", shape_to_string(input));
  const Shape kernel = lowering.ints_attribute("kernel_shape").value_or(Shape{});
  Pool pool;
  pool.window = window_of(lowering, kernel, Shape(input.begin() + 2, input.end()),
                          Shape(output.begin() + 2, output.end()), has_dilations);
  AffineMap map(input.size(), input.size() + kernel.size());
  map.set(0, 0, 1).set(1, 1, 1);
  for (size_t axis = 0; axis < kernel.size(); ++axis) {
    pool.window.read(map, 2 + axis, axis, 2 + axis, input.size() + axis);
  }
  pool.layer.output_extents = output;
  pool.layer.reduction_extents = kernel;
  pool.layer.inputs = {{lowering.input(0), map, 0}};
  pool.layer.expr = ScalarExpr::identity();
  pool.layer.epilogue = ScalarExpr::identity();
  return pool;
}

/// Row-major number of a spatial position, a whole number below 2^21, to its number when the first spatial
/// axis is the fastest. The half keeps the quotient's rounding error from reaching the next whole number.
Term column_major(Term number, const Shape& spatial) {
  int64_t stride = element_count(spatial);
  Term rest = number;
  Term result = number.constant(0);
  for (size_t axis = spatial.size(); axis-- > 0;) {
    stride /= spatial[axis];
    const auto extent = static_cast<double>(spatial[axis]);
    const Term quotient = floor((rest + 0.5) * (1 / extent));
    result = result + (rest - quotient * extent) * static_cast<double>(stride);
    rest = quotient;
  }
  return result;
}

/// The output Indices: the first input element of the window that equals its maximum, numbered through the
/// whole tensor; -1 for a window without elements. Within one channel it is the minimum of a Reduce; what
/// comes before the channel is added in its epilogue.
HostReason lower_indices(NodeLowering& lowering, ReduceLayer pool, TensorId maximum) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Shape& input = lowering.input_shape(0);
  const Shape& output = lowering.output_shape();
  const Shape spatial(input.begin() + 2, input.end());
  const int64_t channel_size = element_count(spatial);
  const bool by_columns = lowering.int_attribute("storage_order", 0) != 0;
  constexpr int64_t kLargestNumber = int64_t{1} << 24;
  if (element_count(input) > kLargestNumber || (by_columns && channel_size > kLargestNumber / 8)) {
    return "its Indices are too large to be exact in single precision";
  }
  std::vector<float> channels;
  for (int64_t i = 0; i < input[0] * input[1]; ++i) channels.push_back(static_cast<float>(i * channel_size));
  Shape channel_shape(output.size(), 1);
  std::copy_n(input.begin(), 2, channel_shape.begin());
  constexpr DataType kFloat = DataType::kFloat32;
  const TensorId number_id = lowering.add_numbers("numbers", kFloat, spatial);
  const TensorId channel_id =
      lowering.add_constant("channels", Tensor::from_values(kFloat, channel_shape, channels));

  const AffineMap& read = pool.inputs[0].map;
  AffineMap number_map(spatial.size(), read.dims());
  for (size_t axis = 0; axis < spatial.size(); ++axis) {
    for (size_t dim = 0; dim < read.dims(); ++dim) number_map.set(axis, dim, read.coefficient(2 + axis, dim));
    number_map.set_offset(axis, read.offset(2 + axis));
  }
  AffineMap maximum_map(output.size(), read.dims());
  for (size_t axis = 0; axis < output.size(); ++axis) maximum_map.set(axis, axis, 1);
  pool.op = ReduceLayer::Op::kMin;
  pool.inputs.push_back({maximum, maximum_map, 0});
  pool.inputs.push_back({number_id, number_map, kInfinity});
  Formula candidate;
  const Term value = candidate.x(0), best = candidate.x(1);
  const Term is_maximum = integer_type(lowering.output_type())
                              ? value.apply(ScalarOp::kXor, best).apply(ScalarOp::kIsZero)
                              : equal(value, best);
  pool.expr = candidate.result(where(is_maximum, candidate.x(2), candidate.constant(kInfinity)));
  Formula epilogue;
  const Term first = epilogue.x(0);
  const Term in_channel = by_columns ? column_major(first, spatial) : first;
  pool.epilogue = epilogue.result(
      select(static_cast<double>(kLargestNumber) - first, in_channel + epilogue.x(1), epilogue.constant(-1)));
  pool.epilogue_inputs = {lowering.broadcast(channel_id, output)};
  const Shape extents = pool.output_extents;
  const TensorId indices = lowering.add_tensor("indices", kFloat, extents);
  lowering.add_layer("indices", std::move(pool), indices);
  MapBuilder map(lowering, extents);
  map.finish("whole", to_integer(map.operand(indices), *integer_type(lowering.output_type(1))),
             lowering.output(1));
  return kLowered;
}

/// Of doubles: windows reduced.
TensorId pool_of_doubles(NodeLowering& lowering, const Pool& pool, FoldOp op) {
  return add_reduction_of_doubles(lowering, "pooled", lowering.input(0), pool.layer.inputs[0].map,
                                  pool.layer.output_extents, pool.layer.reduction_extents, op);
}

HostReason lower_max_pool(NodeLowering& lowering) {
  // Places in windows stand for Indices that a gradient alone reads: nobody makes these.
  const onnx::NodeProto& node = lowering.node();
  const bool is_scattered = lowering.has_output(1) && has_float_arithmetic(lowering.output_type()) &&
                            is_only_scattered(lowering.view(), node.output(1));
  if (is_scattered && !is_read(lowering.view(), node.output(0))) {
    lowering.output(0);
    lowering.output(1);
    return kLowered;
  }
  Pool pool = pool_of(lowering, true);
  if (is_double(lowering.output_type())) {
    if (lowering.has_output(1)) return "the Indices of doubles";
    lowering.bind_output(pool_of_doubles(lowering, pool, FoldOp::kMax));
    return kLowered;
  }
  if (const auto type = integer_type(lowering.output_type())) {
    pool.layer.op = ReduceLayer::Op::kIntMax;
    pool.layer.inputs[0].fill = type->is_signed ? -static_cast<double>(int64_t{1} << (type->bits - 1)) : 0;
  } else {
    pool.layer.op = ReduceLayer::Op::kMax;
    pool.layer.inputs[0].fill = -std::numeric_limits<double>::infinity();
  }
  const TensorId maximum = lowering.output();
  lowering.add_layer("", pool.layer, maximum);
  if (!lowering.has_output(1)) return kLowered;
  if (is_scattered) {
    lowering.output(1);
    return kLowered;
  }
  return lower_indices(lowering, std::move(pool.layer), maximum);
}

/// Per output position of one axis, how many of the kernel's positions count.
std::vector<int64_t> window_counts(const Window& window, size_t axis, int64_t input, int64_t output,
                                   bool include_pad) {
  // With ceil_mode a window may hang over the padding: what is beyond it never counts.
  const int64_t begin = include_pad ? -window.pad_begin[axis] : 0;
  const int64_t end = include_pad ? input + window.pad_end[axis] : input;
  std::vector<int64_t> counts;
  for (int64_t o = 0; o < output; ++o) {
    // Positions first + k * dilation, for k below the kernel's extent.
    const int64_t first = o * window.stride[axis] - window.pad_begin[axis];
    const auto positions_before = [&](int64_t limit) {
      const int64_t count = (limit - first + window.dilation[axis] - 1) / window.dilation[axis];
      return limit <= first ? 0 : std::min(count, window.kernel[axis]);
    };
    counts.push_back(positions_before(end) - positions_before(begin));
  }
  return counts;
}

HostReason lower_average_pool(NodeLowering& lowering) {
  Pool pool = pool_of(lowering, false);
  pool.layer.op = ReduceLayer::Op::kSum;
  const bool include_pad = lowering.int_attribute("count_include_pad") != 0;
  const Shape& input = lowering.input_shape(0);
  const Shape& output = lowering.output_shape();
  const size_t spatial = pool.window.kernel.size();
  // The count of a window is the product of its axes' counts.
  std::vector<float> scales = {1.0F};
  for (size_t axis = 0; axis < spatial; ++axis) {
    const auto counts = window_counts(pool.window, axis, input[2 + axis], output[2 + axis], include_pad);
    std::vector<float> wider;
    wider.reserve(scales.size() * counts.size());
    for (float scale : scales) {
      for (int64_t count : counts) wider.push_back(scale * static_cast<float>(count));
    }
    scales = std::move(wider);
  }
  // A window with nothing in it averages to 0.
  if (is_double(lowering.output_type())) {
    const std::vector<double> counts(scales.begin(), scales.end());
    const TensorId count = lowering.add_constant(
        "counts",
        Tensor::from_values(DataType::kFloat64,
                            counts.size() == 1 ? Shape{} : Shape(output.begin() + 2, output.end()), counts));
    const TensorId sum = pool_of_doubles(lowering, pool, FoldOp::kSum);
    MapBuilder map(lowering, output);
    const Term divisor = max(map.operand(count), 1.0);
    map.finish("", map.operand(sum) / divisor, lowering.output());
    return kLowered;
  }
  for (float& scale : scales) scale = scale == 0 ? 0.0F : 1.0F / scale;
  Formula epilogue;
  if (std::adjacent_find(scales.begin(), scales.end(), std::not_equal_to<>()) == scales.end()) {
    pool.layer.epilogue = epilogue.result(epilogue.x(0) * scales[0]);
  } else {
    const Shape shape(output.begin() + 2, output.end());
    const TensorId id =
        lowering.add_constant("scale", Tensor::from_values(DataType::kFloat32, shape, scales));
    pool.layer.epilogue = epilogue.result(epilogue.x(0) * epilogue.x(1));
    pool.layer.epilogue_inputs = {lowering.broadcast(id, output)};
  }
  lowering.add_layer("", std::move(pool.layer), lowering.output());
  return kLowered;
}

HostReason lower_lp_pool(NodeLowering& lowering) {
  Pool pool = pool_of(lowering, false);
  pool.layer.op = ReduceLayer::Op::kSum;
  Formula expr;
  Formula epilogue;
  pool.layer.expr = expr.result(norm_term(lowering, expr.x(0)));
  pool.layer.epilogue = epilogue.result(norm_of_sum(lowering, epilogue.x(0)));
  lowering.add_layer("", std::move(pool.layer), lowering.output());
  return kLowered;
}

/// Every place of the result looks for its index among all; of several the last counts, as if they were
/// written in order.
HostReason lower_max_unpool(NodeLowering& lowering) {
  constexpr int64_t kMostLooks = int64_t{1} << 24;
  const Shape& x = lowering.input_shape(0);
  const Shape& y = lowering.output_shape();
  const int64_t count = element_count(x), places = element_count(y);
  if (count > kMostLooks / places) return fmt::format("{} places, each from {} indices", places, count);
  lowering.require(lowering.input_shape(1) == x, "X is {} and I {}; they must be the same",
                   shape_to_string(x), shape_to_string(lowering.input_shape(1)));
  // Indices count in the tensor that was pooled; output_shape may be larger.
  const Shape kernel = lowering.ints_attribute("kernel_shape").value_or(Shape{});
  const Shape strides = lowering.ints_attribute("strides").value_or(Shape(kernel.size(), 1));
  const Shape pads = lowering.ints_attribute("pads").value_or(Shape(2 * kernel.size(), 0));
  lowering.require(kernel.size() + 2 == x.size() && strides.size() == kernel.size() &&
                       pads.size() == 2 * kernel.size() && y.size() == x.size(),
                   "kernel_shape, strides or pads don't fit X {}", shape_to_string(x));
  Shape pooled = {x[0], x[1]};
  for (size_t axis = 0; axis < kernel.size(); ++axis)
    pooled.push_back((x[axis + 2] - 1) * strides[axis] + kernel[axis] - pads[axis] -
                     pads[kernel.size() + axis]);
  for (size_t axis = 0; axis < y.size(); ++axis) {
    if (pooled[axis] <= 0 || y[axis] < pooled[axis]) return "output_shape is smaller than what was pooled";
  }
  check_bounds(lowering, 1, lowering.input(1), 0, element_count(pooled) - 1);
  constexpr DataType kIndex = DataType::kInt32;
  std::vector<int32_t> numbers;
  for (int64_t place = 0; place < places; ++place) {
    int64_t rest = place, number = 0, stride = 1;
    bool is_inside = true;
    for (size_t axis = y.size(); axis-- > 0; rest /= y[axis]) {
      is_inside = is_inside && rest % y[axis] < pooled[axis];
      number += rest % y[axis] * stride;
      stride *= pooled[axis];
    }
    numbers.push_back(is_inside ? static_cast<int32_t>(number) : -1);
  }
  const TensorId place =
      lowering.add_constant("places", Tensor::from_values<int32_t>(kIndex, {places}, numbers));
  const TensorId order = lowering.add_numbers("order", kIndex, {count});
  const TensorId indices = lowering.add_alias("indices", lowering.input(1), {count});
  const TensorId values = lowering.add_alias("values", lowering.input(0), {count});
  const AffineMap of_place = AffineMap(1, 2).set(0, 0, 1), of_value = AffineMap(1, 2).set(0, 1, 1);
  const auto same = [](Term a, Term b) { return a.apply(ScalarOp::kXor, b).apply(ScalarOp::kIsZero); };
  const auto reduce = [&](const std::string& suffix, ReduceLayer::Op op, auto&& formula_of, TensorId output) {
    Formula formula;
    ReduceLayer layer;
    layer.op = op;
    layer.output_extents = {places};
    layer.reduction_extents = {count};
    const auto read = [&](TensorId id, const AffineMap& map) {
      return read_input(formula, layer.inputs, {id, map, 0});
    };
    layer.expr = formula.result(formula_of(read));
    layer.epilogue = ScalarExpr::identity();
    tidy_inputs(layer.expr, layer.inputs);
    lowering.add_layer(suffix, std::move(layer), output);
  };
  const TensorId last = lowering.add_tensor("last", kIndex, {places});
  reduce(
      "last", ReduceLayer::Op::kIntMax,
      [&](const auto& read) {
        const Term index = read(lowering.words_of(indices), of_value.extended(1, 0));
        const Term number = read(order, of_value);
        return where(same(index, read(place, of_place)), number, number.integer(-1));
      },
      last);
  const TensorId result = lowering.add_tensor("result", lowering.output_type(), {places});
  reduce(
      "result", ReduceLayer::Op::kSum,
      [&](const auto& read) {
        const Term value = read(values, of_value);
        return where(same(read(order, of_value), read(last, of_place)), value, value.constant(0));
      },
      result);
  lowering.bind_output(result);
  return kLowered;
}

}  // namespace

void register_pool(OperatorTable& table) {
  table.push_back({"MaxUnpool", lower_max_unpool, ElementTypes::kChipFloats,
                   "few elements: every place looks at all indices"});
  table.push_back({"MaxPool", lower_max_pool, ElementTypes::kAllNumbers,
                   "Indices, where more than its gradient reads them, below 2^24, and not of doubles"});
  table.push_back({"LpPool", lower_lp_pool, ElementTypes::kChipFloats});
  table.push_back({"AveragePool", lower_average_pool, ElementTypes::kReals});
}

}  // namespace kodama::compiler
