#include <algorithm>
#include <cmath>
#include <span>

#include "compiler/reference/kernels/doubles.h"
#include "compiler/reference/kernels/strided.h"

/// Normalizations and softmax. Statistics are computed in double.
namespace kodama::compiler::reference {

namespace {

std::vector<double> channel_values(const NodeContext& context, size_t input, int64_t channels) {
  const Tensor& tensor = context.input(input);
  context.require(tensor.size() == channels, "input {} has shape {}; allowed is [{}]", input,
                  shape_to_string(tensor.shape()), channels);
  std::vector<double> values;
  for (int64_t i = 0; i < channels; ++i) values.push_back(element_as_double(tensor, i));
  return values;
}

std::vector<Tensor> run_batch_normalization(const NodeContext& context) {
  const Tensor& x = context.input(0);
  context.require(x.rank() >= 1, "X is a scalar; allowed is [N, C, ...]");
  const bool per_activation = context.int_attribute("spatial", 1) == 0;
  // [N, C, plane]; with spatial = 0 every activation is a channel of its own. A vector has one channel.
  const int64_t batch = x.shape()[0];
  int64_t channels = x.rank() >= 2 ? x.shape()[1] : 1;
  int64_t plane = x.rank() >= 2 ? count_between(x.shape(), 2, x.shape().size()) : 1;
  if (per_activation) {
    channels *= plane;
    plane = 1;
  }
  const std::vector<double> scale = channel_values(context, 1, channels);
  const std::vector<double> bias = channel_values(context, 2, channels);
  std::vector<double> mean = channel_values(context, 3, channels);
  std::vector<double> variance = channel_values(context, 4, channels);
  const double epsilon = context.float_attribute("epsilon");
  const int version = context.since_version();
  const bool training = version >= 14  ? context.int_attribute("training_mode") != 0
                        : version >= 7 ? context.output_count() > 1
                                       : context.int_attribute("is_test") == 0;
  std::vector<double> values = as_doubles(context, x);
  const auto at = [&](int64_t n, int64_t c, int64_t i) {
    return static_cast<size_t>((n * channels + c) * plane + i);
  };
  std::vector<double> running_mean = mean;
  std::vector<double> running_variance = variance;
  if (training) {
    const double momentum = context.float_attribute("momentum");
    const auto count = static_cast<double>(batch * plane);
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      double squares = 0;
      for (int64_t n = 0; n < batch; ++n) {
        for (int64_t i = 0; i < plane; ++i) sum += values[at(n, c, i)];
      }
      const double average = sum / count;
      for (int64_t n = 0; n < batch; ++n) {
        for (int64_t i = 0; i < plane; ++i) squares += std::pow(values[at(n, c, i)] - average, 2);
      }
      const auto channel = static_cast<size_t>(c);
      mean[channel] = average;
      variance[channel] = squares / count;
      running_mean[channel] = running_mean[channel] * momentum + average * (1 - momentum);
      running_variance[channel] = running_variance[channel] * momentum + variance[channel] * (1 - momentum);
    }
  }
  for (int64_t c = 0; c < channels; ++c) {
    const auto channel = static_cast<size_t>(c);
    const double factor = scale[channel] / std::sqrt(variance[channel] + epsilon);
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t i = 0; i < plane; ++i) {
        double& value = values[at(n, c, i)];
        value = (value - mean[channel]) * factor + bias[channel];
      }
    }
  }
  const auto statistic = [&](size_t like, const std::vector<double>& numbers) {
    return from_doubles(context, context.input(like).type(), context.input(like).shape(), numbers);
  };
  // Before opset 14, outputs 3 and 4 are the batch's own statistics.
  std::vector<Tensor> outputs = {from_doubles(context, x.type(), x.shape(), values),
                                 statistic(3, running_mean), statistic(4, running_variance)};
  if (version < 14) {
    outputs.push_back(statistic(3, mean));
    outputs.push_back(statistic(4, variance));
  }
  return outputs;
}

/// Per sample and channel: scale * (x - mean) / sqrt(variance + epsilon) + bias.
std::vector<Tensor> run_instance_normalization(const NodeContext& context) {
  const Tensor& x = context.input(0);
  context.require(x.rank() >= 3, "the input has shape {}; allowed is [N, C, spatial...]",
                  shape_to_string(x.shape()));
  const int64_t channels = x.shape()[1];
  const auto plane = static_cast<size_t>(count_between(x.shape(), 2, x.shape().size()));
  const std::vector<double> scale = channel_values(context, 1, channels);
  const std::vector<double> bias = channel_values(context, 2, channels);
  const double epsilon = context.float_attribute("epsilon");
  std::vector<double> values = as_doubles(context, x);
  for (size_t begin = 0, i = 0; begin < values.size(); begin += plane, ++i) {
    const size_t channel = i % static_cast<size_t>(channels);
    const auto elements = std::span(values).subspan(begin, plane);
    double mean = 0;
    for (const double value : elements) mean += value / static_cast<double>(plane);
    double variance = 0;
    for (const double value : elements)
      variance += (value - mean) * (value - mean) / static_cast<double>(plane);
    const double factor = scale[channel] / std::sqrt(variance + epsilon);
    for (double& value : elements) value = (value - mean) * factor + bias[channel];
  }
  return {from_doubles(context, x.type(), x.shape(), values)};
}

/// y = x / (bias + alpha / size * Σ x²)^beta, the sum over `size` neighbouring channels.
std::vector<Tensor> run_lrn(const NodeContext& context) {
  const Tensor& x = context.input(0);
  context.require(x.rank() >= 2, "the input has shape {}; allowed is [N, C, ...]",
                  shape_to_string(x.shape()));
  const int64_t size = context.int_attribute("size");
  context.require(size >= 1, "size is {}; allowed is 1 and more", size);
  const double alpha = context.float_attribute("alpha");
  const double beta = context.float_attribute("beta");
  const double bias = context.float_attribute("bias");
  const int64_t channels = x.shape()[1];
  const int64_t plane = count_between(x.shape(), 2, x.shape().size());
  const std::vector<double> values = as_doubles(context, x);
  std::vector<double> result(values.size());
  for (int64_t n = 0; n < x.shape()[0]; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t first = c - std::min(c, (size - 1) / 2);
      const int64_t last = c + std::min(channels - 1 - c, size / 2);  // ceil((size - 1) / 2)
      for (int64_t i = 0; i < plane; ++i) {
        double squares = 0;
        for (int64_t k = first; k <= last; ++k) {
          squares += std::pow(values[static_cast<size_t>((n * channels + k) * plane + i)], 2);
        }
        const auto at = static_cast<size_t>((n * channels + c) * plane + i);
        result[at] = values[at] / std::pow(bias + alpha / static_cast<double>(size) * squares, beta);
      }
    }
  }
  return {from_doubles(context, x.type(), x.shape(), result)};
}

/// Rewrites every line along an axis, in double: f(line), where line[i] is element i.
template <typename F>
Tensor map_lines(const NodeContext& context, const Tensor& x, int64_t outer, int64_t extent, int64_t inner,
                 F f) {
  std::vector<double> values = as_doubles(context, x);
  std::vector<double> line(static_cast<size_t>(extent));
  if (values.empty()) return x;
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < inner; ++j) {
      const auto at = [&](size_t k) {
        return static_cast<size_t>((i * extent + static_cast<int64_t>(k)) * inner + j);
      };
      for (size_t k = 0; k < line.size(); ++k) line[k] = values[at(k)];
      f(line);
      for (size_t k = 0; k < line.size(); ++k) values[at(k)] = line[k];
    }
  }
  return from_doubles(context, x.type(), x.shape(), values);
}

/// Softmax and its kin: before opset 13 over all axes from `axis` on, from 13 on along `axis`.
template <typename F>
Kernel softmax_like(F f) {
  return [f](const NodeContext& context) -> std::vector<Tensor> {
    const Tensor& x = context.input(0);
    context.require(x.rank() > 0, "the input is a scalar; it needs an axis");
    const int64_t given = context.int_attribute("axis");
    const bool flattens = context.since_version() < 13;
    // Flattening at axis = rank is allowed: rows of one element.
    const size_t axis =
        flattens && given == x.rank() ? static_cast<size_t>(given) : context.axis(given, x.rank());
    const int64_t outer = count_between(x.shape(), 0, axis);
    if (flattens)
      return {map_lines(context, x, outer, count_between(x.shape(), axis, x.shape().size()), 1, f)};
    return {map_lines(context, x, outer, x.shape()[axis],
                      count_between(x.shape(), axis + 1, x.shape().size()), f)};
  };
}

double line_maximum(const std::vector<double>& line) {
  double highest = line[0];
  for (const double value : line) highest = maximum(highest, value);
  return highest;
}

void softmax(std::vector<double>& line) {
  const double highest = line_maximum(line);
  double sum = 0;
  for (double& value : line) sum += value = std::exp(value - highest);
  for (double& value : line) value /= sum;
}

void log_softmax(std::vector<double>& line) {
  const double highest = line_maximum(line);
  double sum = 0;
  for (const double value : line) sum += std::exp(value - highest);
  for (double& value : line) value = value - highest - std::log(sum);
}

void hardmax(std::vector<double>& line) {
  const auto best = std::max_element(line.begin(), line.end()) - line.begin();
  std::fill(line.begin(), line.end(), 0.0);
  line[static_cast<size_t>(best)] = 1.0;
}

std::vector<Tensor> run_lp_normalization(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const size_t axis = context.axis(context.int_attribute("axis"), x.rank());
  const int64_t p = context.int_attribute("p");
  context.require(p == 1 || p == 2, "p is {}; allowed are 1 and 2", p);
  return {map_lines(context, x, count_between(x.shape(), 0, axis), x.shape()[axis],
                    count_between(x.shape(), axis + 1, x.shape().size()), [p](std::vector<double>& line) {
                      double norm = 0;
                      for (const double value : line) norm += p == 1 ? std::fabs(value) : value * value;
                      if (p == 2) norm = std::sqrt(norm);
                      for (double& value : line) value = norm == 0 ? 0 : value / norm;
                    })};
}

/// (x - mean) / deviation over the axes, computed as ONNX's body of the operator does.
/// Rows of all axes from `axis` on. Statistics and the normalized elements are of `stash_type`; the scale and
/// the bias are X's.
std::vector<Tensor> run_layer_normalization(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const size_t axis = context.axis(context.int_attribute("axis"), x.rank());
  const auto row = static_cast<size_t>(count_between(x.shape(), axis, x.shape().size()));
  const auto rows = static_cast<size_t>(count_between(x.shape(), 0, axis));
  const int64_t number = context.int_attribute("stash_type");
  const auto stash = static_cast<DataType>(number);
  context.require(is_data_type(number) && visit_float_type(stash, [](auto) {}),
                  "stash_type is {}; allowed are float types", number);
  const auto rounded = [&](DataType type, const std::vector<double>& values) {
    return as_doubles(context, from_doubles(context, type, x.shape(), values));
  };
  const auto factors = [&](size_t input) {
    const std::vector<double> given = as_doubles(context, context.input(input));
    context.require(given.size() == row || given.size() == 1, "input {} has shape {}; allowed is {} elements",
                    input, shape_to_string(context.input(input).shape()), row);
    return given.size() == row ? given : std::vector<double>(row, given[0]);
  };
  std::vector<double> values = rounded(stash, as_doubles(context, x));
  std::vector<double> means, inverses;
  const double epsilon = context.float_attribute("epsilon");
  for (size_t r = 0; r < rows; ++r) {
    const std::span<double> elements(values.data() + r * row, row);
    double mean = 0, variance = 0;
    for (const double value : elements) mean += value;
    mean /= static_cast<double>(row);
    for (const double value : elements) variance += (value - mean) * (value - mean);
    const double deviation = std::sqrt(variance / static_cast<double>(row) + epsilon);
    for (double& value : elements) value = (value - mean) / deviation;
    means.push_back(mean);
    inverses.push_back(1 / deviation);
  }
  const std::vector<double> scale = factors(1);
  values = rounded(x.type(), rounded(stash, values));
  for (size_t i = 0; i < values.size(); ++i) values[i] *= scale[i % row];
  if (context.has_input(2)) {
    const std::vector<double> bias = factors(2);
    values = rounded(x.type(), values);
    for (size_t i = 0; i < values.size(); ++i) values[i] += bias[i % row];
  }
  Shape kept = x.shape();
  std::fill(kept.begin() + static_cast<ptrdiff_t>(axis), kept.end(), 1);
  return {from_doubles(context, x.type(), x.shape(), values), from_doubles(context, stash, kept, means),
          from_doubles(context, stash, kept, inverses)};
}

std::vector<Tensor> run_mean_variance_normalization(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const std::vector<bool> reduced = context.axis_flags(context.ints_attribute("axes"), x.rank());
  // Where the statistics of an element are.
  Shape kept = x.shape();
  for (size_t axis = 0; axis < kept.size(); ++axis) {
    if (reduced[axis]) kept[axis] = 1;
  }
  const std::vector<int64_t> place = strided_offsets(x.shape(), broadcast_strides(kept, x.shape()));
  std::vector<double> values = as_doubles(context, x);
  std::vector<double> mean(static_cast<size_t>(element_count(kept)), 0);
  std::vector<double> variance(mean.size(), 0);
  // Divided once: the mean of equal elements is theirs, and nothing is left of them.
  const double count = static_cast<double>(values.size()) / static_cast<double>(mean.size());
  const auto average = [&](std::vector<double>& sums, auto value) {
    for (size_t i = 0; i < values.size(); ++i) sums[static_cast<size_t>(place[i])] += value(i);
    for (double& sum : sums) sum /= count;
  };
  average(mean, [&](size_t i) { return values[i]; });
  average(variance, [&](size_t i) { return std::pow(values[i] - mean[static_cast<size_t>(place[i])], 2); });
  constexpr double kEpsilon = 1e-9;  // added to the deviation
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<size_t>(place[i]);
    values[i] = (values[i] - mean[at]) / (std::sqrt(variance[at]) + kEpsilon);
  }
  return {from_doubles(context, x.type(), x.shape(), values)};
}

}  // namespace

void register_normalization(KernelRegistry& registry) {
  registry.add("BatchNormalization", run_batch_normalization);
  registry.add("InstanceNormalization", run_instance_normalization);
  registry.add("LayerNormalization", run_layer_normalization);
  registry.add("LRN", run_lrn);
  registry.add("MeanVarianceNormalization", run_mean_variance_normalization);
  registry.add("LpNormalization", run_lp_normalization);
  registry.add("Softmax", softmax_like(softmax));
  registry.add("LogSoftmax", softmax_like(log_softmax));
  registry.add("Hardmax", softmax_like(hardmax));
}

}  // namespace kodama::compiler::reference
