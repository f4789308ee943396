#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "compiler/layers/doubles.h"
#include "compiler/lowering/node_lowering.h"

/// Normalizations.
namespace kodama::compiler {

namespace {

struct Moments {
  TensorId mean = -1;
  TensorId spread = -1;
};
/// The mean of `x` over the reduction extents, and what `finish` makes of the sum of squared deviations from
/// it, a tensor `spread_name`. `mean_map` reads the mean at a point of both extents.
Moments add_moments(NodeLowering& lowering, const TensorAccess& x, const Shape& kept, const Shape& over,
                    const AffineMap& mean_map, const char* spread_name,
                    const std::function<Term(const Term&)>& finish) {
  constexpr auto kFloat = DataType::kFloat32;
  const double share = 1.0 / static_cast<double>(element_count(over));
  Moments moments;
  moments.mean = lowering.add_tensor("mean", kFloat, kept);
  Formula average;
  lowering.add_layer("mean",
                     ReduceLayer{ReduceLayer::Op::kSum,
                                 kept,
                                 over,
                                 {x},
                                 ScalarExpr::identity(),
                                 average.result(average.x(0) * share),
                                 {}},
                     moments.mean);
  moments.spread = lowering.add_tensor(spread_name, kFloat, kept);
  Formula deviation;
  const Term difference = deviation.x(0) - deviation.x(1);
  Formula spread;
  lowering.add_layer("variance",
                     ReduceLayer{ReduceLayer::Op::kSum,
                                 kept,
                                 over,
                                 {x, {moments.mean, mean_map, 0}},
                                 deviation.result(difference * difference),
                                 spread.result(finish(spread.x(0))),
                                 {}},
                     moments.spread);
  return moments;
}

/// Training: the statistics are the batch's own, over all axes but the channels', and are mixed into the
/// running ones, which are returned.
HostReason lower_training_batch_normalization(NodeLowering& lowering) {
  const Shape& shape = lowering.input_shape(0);
  const size_t rank = shape.size();
  const Shape channels = {shape[1]};
  Shape others = shape;
  others.erase(others.begin() + 1);
  AffineMap x_map(rank, rank);
  x_map.set(1, 0, 1).set(0, 1, 1);
  for (size_t axis = 2; axis < rank; ++axis) x_map.set(axis, axis, 1);
  AffineMap channel_map(1, rank);
  channel_map.set(0, 0, 1);
  const TensorAccess x{lowering.input(0), x_map, 0};
  const double share = 1.0 / static_cast<double>(element_count(others));

  const auto [mean, variance] = add_moments(lowering, x, channels, others, channel_map, "variance",
                                            [&](const Term& squares) { return squares * share; });

  Shape per_channel(rank - 1, 1);
  per_channel[0] = shape[1];
  const auto as_channels = [&](const char* suffix, TensorId id) {
    return lowering.add_alias(suffix, id, per_channel);
  };
  MapBuilder map(lowering, shape);
  const Term centered = map.operand_of_input(0) - map.operand(as_channels("mean1", mean));
  const Term scale = map.operand(as_channels("scale", lowering.input(1)));
  const Term bias = map.operand(as_channels("bias", lowering.input(2)));
  const Term deviations =
      sqrt(map.operand(as_channels("variance1", variance)) + lowering.float_attribute("epsilon"));
  map.finish("", centered * (scale / deviations) + bias, lowering.output());

  const double momentum = lowering.float_attribute("momentum");
  for (const auto& [output, statistic, suffix] :
       {std::tuple{1, mean, "running mean"}, std::tuple{2, variance, "running variance"}}) {
    if (!lowering.has_output(output)) continue;
    MapBuilder running(lowering, channels);
    const Term old = running.operand_of_input(output + 2);
    running.finish(suffix, old * momentum + running.operand(statistic) * (1 - momentum),
                   lowering.output(output));
  }
  return kLowered;
}

/// y = (x - mean) / sqrt(variance + epsilon) * scale + bias per channel, with the statistics given.
HostReason lower_batch_normalization(NodeLowering& lowering) {
  const Shape& shape = lowering.input_shape(0);
  if (shape.size() < 2) return "the input has no channel axis";
  const int64_t channels = shape[1];
  for (int i = 1; i < 5; ++i) {
    lowering.require(lowering.input_shape(i) == Shape{channels}, "input {} is {}; [{}] is needed", i,
                     shape_to_string(lowering.input_shape(i)), channels);
  }
  // Where one of them is a double, all are.
  bool in_double = false;
  for (int i = 0; i < 5; ++i) in_double |= is_double(lowering.input_type(i));
  if (lowering.int_attribute("training_mode") != 0) {
    if (in_double) return "statistics of doubles";
    return lower_training_batch_normalization(lowering);
  }
  // As a tensor of shape [C, 1, ...] a vector is broadcast over all axes but the channels.
  Shape per_channel(shape.size() - 1, 1);
  per_channel[0] = channels;
  const double epsilon = lowering.float_attribute("epsilon");
  MapBuilder map(lowering, lowering.output_shape());
  const auto as_operand = [&](Term value) { return in_double && !value.is_double() ? widen(value) : value; };
  const Term x = as_operand(map.operand_of_input(0));
  const Tensor* scale = lowering.constant_input(1);
  const Tensor* bias = lowering.constant_input(2);
  const Tensor* mean = lowering.constant_input(3);
  const Tensor* variance = lowering.constant_input(4);
  if (scale && bias && mean && variance && !in_double) {
    Tensor factor(DataType::kFloat32, per_channel);
    Tensor shift(DataType::kFloat32, per_channel);
    for (int64_t c = 0; c < channels; ++c) {
      const double value =
          element_as_double(*scale, c) / std::sqrt(element_as_double(*variance, c) + epsilon);
      factor.data<float>()[c] = static_cast<float>(value);
      shift.data<float>()[c] =
          static_cast<float>(element_as_double(*bias, c) - element_as_double(*mean, c) * value);
    }
    const Term a = map.operand(lowering.add_constant("scale", std::move(factor)));
    const Term b = map.operand(lowering.add_constant("shift", std::move(shift)));
    map.finish("", x * a + b, lowering.output());
    return kLowered;
  }
  const auto channel_operand = [&](const char* suffix, int index) {
    return as_operand(map.operand(lowering.add_alias(suffix, lowering.input(index), per_channel)));
  };
  const Term scale_term = channel_operand("scale", 1);
  const Term bias_term = channel_operand("bias", 2);
  const Term mean_term = channel_operand("mean", 3);
  const Term variance_term = channel_operand("variance", 4);
  const Term factor = scale_term / sqrt(variance_term + epsilon);
  const Term result = (x - mean_term) * factor + bias_term;
  const bool narrows = in_double && !is_double(lowering.output_type());
  map.finish("", narrows ? narrow(result, lowering.output_type()) : result, lowering.output());
  return kLowered;
}

/// The same with the mean and variance of each channel of each picture.
HostReason lower_instance_normalization(NodeLowering& lowering) {
  const Shape& shape = lowering.input_shape(0);
  lowering.require(shape.size() >= 3 && lowering.input_shape(1) == Shape{shape[1]} &&
                       lowering.input_shape(2) == Shape{shape[1]},
                   "input is {}, scale {}, B {}; [N, C, ...], [C] and [C] are needed", shape_to_string(shape),
                   shape_to_string(lowering.input_shape(1)), shape_to_string(lowering.input_shape(2)));
  const size_t rank = shape.size();
  Shape statistics(rank, 1);
  statistics[0] = shape[0];
  statistics[1] = shape[1];
  const Shape window(shape.begin() + 2, shape.end());
  AffineMap x_map(rank, rank + window.size());
  AffineMap mean_map(rank, rank + window.size());
  for (size_t axis = 0; axis < rank; ++axis) x_map.set(axis, axis < 2 ? axis : rank + axis - 2, 1);
  mean_map.set(0, 0, 1).set(1, 1, 1);
  const TensorAccess x{lowering.input(0), x_map, 0};
  const double scale = 1.0 / static_cast<double>(element_count(window));

  const double epsilon = lowering.float_attribute("epsilon");
  const auto [mean, factor] =
      add_moments(lowering, x, statistics, window, mean_map, "factor",
                  [&](const Term& squares) { return reciprocal(sqrt(squares * scale + epsilon)); });
  Shape per_channel(rank - 1, 1);
  per_channel[0] = shape[1];
  MapBuilder map(lowering, shape);
  const Term normalized = (map.operand_of_input(0) - map.operand(mean)) * map.operand(factor);
  const Term scaled = normalized * map.operand(lowering.add_alias("scale", lowering.input(1), per_channel));
  const Term shift = map.operand(lowering.add_alias("bias", lowering.input(2), per_channel));
  map.finish("", scaled + shift, lowering.output());
  return kLowered;
}

/// y = (x - mean) / sqrt(variance + epsilon) * scale + bias, with the moments of each row along the last
/// axes.
HostReason lower_layer_normalization(NodeLowering& lowering) {
  const Shape& shape = lowering.input_shape(0);
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t axis = lowering.int_attribute("axis");
  if (axis < 0) axis += rank;
  lowering.require(axis >= 0 && axis < rank, "axis is {}, the input {}", axis, shape_to_string(shape));
  Shape statistics = shape;
  std::fill(statistics.begin() + axis, statistics.end(), 1);
  const Shape row(shape.begin() + axis, shape.end());
  AffineMap x_map(shape.size(), shape.size() + row.size());
  AffineMap mean_map(shape.size(), shape.size() + row.size());
  for (size_t k = 0; k < shape.size(); ++k) {
    const bool is_inner = k >= static_cast<size_t>(axis);
    x_map.set(k, is_inner ? shape.size() + k - static_cast<size_t>(axis) : k, 1);
    if (!is_inner) mean_map.set(k, k, 1);
  }
  const TensorAccess x{lowering.input(0), x_map, 0};
  const double share = 1.0 / static_cast<double>(element_count(row));
  const double epsilon = lowering.float_attribute("epsilon");
  const auto [mean, factor] =
      add_moments(lowering, x, statistics, row, mean_map, "factor",
                  [&](const Term& squares) { return reciprocal(sqrt(squares * share + epsilon)); });
  MapBuilder map(lowering, shape);
  Term result = (map.operand_of_input(0) - map.operand(mean)) * map.operand(factor);
  result = result * map.operand_of_input(1);
  if (lowering.has_input(2)) result = result + map.operand_of_input(2);
  map.finish("", result, lowering.output());
  if (lowering.has_output(1)) lowering.bind_output(mean, 1);
  if (lowering.has_output(2)) lowering.bind_output(factor, 2);
  return kLowered;
}

/// y = x / (bias + alpha / size * sum of squares)^beta, over a window of channels around each.
HostReason lower_local_response_normalization(NodeLowering& lowering) {
  const Shape& shape = lowering.input_shape(0);
  lowering.require(shape.size() >= 2, "the input is {}; it has no channels", shape_to_string(shape));
  const size_t rank = shape.size();
  const int64_t size = lowering.int_attribute("size");
  lowering.require(size >= 1, "size is {}; it must be positive", size);
  // Of a window that is longer than there are channels, the rest is never read.
  const int64_t before = std::min((size - 1) / 2, shape[1] - 1);
  const int64_t after = std::min(size / 2, shape[1] - 1);
  AffineMap window(rank, rank + 1);
  for (size_t axis = 0; axis < rank; ++axis) window.set(axis, axis, 1);
  window.set(1, rank, 1).set_offset(1, -before);
  Formula square;
  Formula epilogue;
  const double share = lowering.float_attribute("alpha") / static_cast<double>(size);
  const Term sum = epilogue.x(0) * share + lowering.float_attribute("bias");
  const Term factor = exp(log(sum) * -lowering.float_attribute("beta"));
  lowering.add_layer("",
                     ReduceLayer{ReduceLayer::Op::kSum,
                                 shape,
                                 {before + 1 + after},
                                 {{lowering.input(0), window, 0}},
                                 square.result(square.x(0) * square.x(0)),
                                 epilogue.result(epilogue.x(1) * factor),
                                 {{lowering.input(0), AffineMap::identity(rank), 0}}},
                     lowering.output());
  return kLowered;
}

}  // namespace

void register_normalization(OperatorTable& table) {
  table.push_back(
      {"BatchNormalization", lower_batch_normalization, ElementTypes::kReals, "doubles: inference"});
  table.push_back({"InstanceNormalization", lower_instance_normalization, ElementTypes::kChipFloats});
  table.push_back({"LayerNormalization", lower_layer_normalization, ElementTypes::kChipFloats});
  table.push_back({"LRN", lower_local_response_normalization, ElementTypes::kChipFloats});
}

}  // namespace kodama::compiler
