#include <algorithm>
#include <cmath>

#include "compiler/reference/kernels/convolution.h"
#include "compiler/reference/kernels/kernel.h"
#include "compiler/reference/kernels/matmul.h"
#include "compiler/reference/kernels/strided.h"

/// Linear quantization: real = (quantized - zero point) * scale.
namespace kodama::compiler::reference {

namespace {

int64_t integer_element(const Tensor& tensor, size_t index) {
  return static_cast<int64_t>(element_as_double(tensor, static_cast<int64_t>(index)));
}

/// A quantized tensor's integers without their zero point, which is a scalar or has one element per index of
/// `axis`.
std::vector<int64_t> centered(const NodeContext& context, const Tensor& x, const Tensor* zero_point,
                              size_t axis) {
  std::vector<int64_t> values(static_cast<size_t>(x.size()));
  for_integer_type(context, x.type(), [&](auto tag) {
    const auto data = x.data<typename decltype(tag)::Type>();
    std::copy(data.begin(), data.end(), values.begin());
  });
  if (zero_point == nullptr) return values;
  const bool is_single = zero_point->size() == 1;
  context.require(is_single || (axis < x.shape().size() && zero_point->size() == x.shape()[axis]),
                  "a zero point has shape {} for a tensor of shape {}", shape_to_string(zero_point->shape()),
                  shape_to_string(x.shape()));
  const int64_t inner = is_single ? 1 : count_between(x.shape(), axis + 1, x.shape().size());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto channel =
        static_cast<size_t>(is_single ? 0 : static_cast<int64_t>(i) / inner % x.shape()[axis]);
    values[i] -= integer_element(*zero_point, channel);
  }
  return values;
}

/// round(value) + zero point, halves to even, saturated to T.
template <typename T>
T quantized(double value, int64_t zero_point) {
  const double shifted = std::nearbyint(value) + static_cast<double>(zero_point);
  if (std::isnan(shifted)) return 0;
  return static_cast<T>(std::clamp(shifted, static_cast<double>(std::numeric_limits<T>::lowest()),
                                   static_cast<double>(std::numeric_limits<T>::max())));
}

/// Index of the scale for every element: scales are scalars or vectors along `axis`.
std::vector<int64_t> scale_index(const NodeContext& context, const Tensor& x, const Tensor& scale) {
  if (scale.size() == 1) return strided_offsets(x.shape(), Strides(x.shape().size(), 0));
  const size_t axis = context.axis(context.int_attribute("axis", 1), x.rank());
  context.require(scale.rank() == 1 && scale.size() == x.shape()[axis],
                  "the scale has shape {}; allowed is a scalar or [{}]", shape_to_string(scale.shape()),
                  x.shape()[axis]);
  Strides strides(x.shape().size(), 0);
  strides[axis] = 1;
  return strided_offsets(x.shape(), strides);
}

void check_zero_point(const NodeContext& context, size_t scale, size_t zero_point) {
  const Tensor* const zero = context.optional_input(zero_point);
  if (zero == nullptr) return;
  const Tensor& scales = context.input(scale);
  context.require(zero->size() == scales.size(),
                  "inputs {} and {} have shapes {} and {}; they must be the same", scale, zero_point,
                  shape_to_string(scales.shape()), shape_to_string(zero->shape()));
}

std::vector<Tensor> run_quantize_linear(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& scale = context.input(1);
  check_zero_point(context, 1, 2);
  const Tensor* const zero_point = context.optional_input(2);
  const std::vector<int64_t> channel = scale_index(context, x, scale);
  Tensor result(zero_point != nullptr ? zero_point->type() : DataType::kUint8, x.shape());
  for_integer_type(context, result.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto to = result.data<T>();
    for (size_t i = 0; i < to.size(); ++i) {
      const auto x_value = static_cast<float>(element_as_double(x, static_cast<int64_t>(i)));
      const int64_t zero =
          zero_point != nullptr ? integer_element(*zero_point, static_cast<size_t>(channel[i])) : 0;
      to[i] = quantized<T>(x_value / scale.data<float>()[static_cast<size_t>(channel[i])], zero);
    }
  });
  return {result};
}

std::vector<Tensor> run_dequantize_linear(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& scale = context.input(1);
  check_zero_point(context, 1, 2);
  const std::vector<int64_t> channel = scale_index(context, x, scale);
  const size_t axis = scale.size() == 1 ? 0 : context.axis(context.int_attribute("axis", 1), x.rank());
  const std::vector<int64_t> values = centered(context, x, context.optional_input(2), axis);
  Tensor result(DataType::kFloat32, x.shape());
  const auto to = result.data<float>();
  for (size_t i = 0; i < to.size(); ++i) {
    to[i] = static_cast<float>(values[i]) * scale.data<float>()[static_cast<size_t>(channel[i])];
  }
  return {result};
}

/// A's zero point may be per row, B's per column.
std::vector<Tensor> run_matmul_integer(const NodeContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  const MatmulProblem problem = plan_matmul(context, a.shape(), b.shape());
  const std::vector<int64_t> x = centered(context, a, context.optional_input(2),
                                          a.shape().size() - std::min<size_t>(2, a.shape().size()));
  const std::vector<int64_t> y = centered(context, b, context.optional_input(3), b.shape().size() - 1);
  Tensor result(DataType::kInt32, problem.result_shape);
  const auto to = result.data<int32_t>();
  multiply_matrices<int64_t>(
      problem, [&](size_t i) { return x[i]; }, [&](size_t i) { return y[i]; },
      [&](size_t i, int64_t sum) { to[i] = static_cast<int32_t>(sum); });
  return {result};
}

std::vector<Tensor> run_conv_integer(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& weights = context.input(1);
  const ConvolutionProblem problem = plan_convolution(context, x, weights);
  const std::vector<int64_t> x_values = centered(context, x, context.optional_input(2), x.shape().size());
  const std::vector<int64_t> w_values = centered(context, weights, context.optional_input(3), 0);
  Tensor result(DataType::kInt32, problem.result_shape);
  const auto to = result.data<int32_t>();
  convolve<int64_t>(
      problem, x, weights, [&](size_t i) { return x_values[i]; }, [&](size_t i) { return w_values[i]; },
      [&](size_t i, size_t, int64_t sum) { to[i] = static_cast<int32_t>(sum); });
  return {result};
}

/// The float scale of an input: its element `channel`, or its only one.
double scale_of(const Tensor& scale, size_t channel) {
  return element_as_double(scale, scale.size() == 1 ? 0 : static_cast<int64_t>(channel));
}

void require_scale(const NodeContext& context, size_t index, int64_t channels) {
  const Tensor& scale = context.input(index);
  context.require(scale.size() == 1 || scale.size() == channels,
                  "input {} has shape {}; allowed is a scalar or [{}]", index, shape_to_string(scale.shape()),
                  channels);
}

std::vector<Tensor> run_qlinear_matmul(const NodeContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(3);
  const MatmulProblem problem = plan_matmul(context, a.shape(), b.shape());
  const std::vector<int64_t> x =
      centered(context, a, &context.input(2), a.shape().size() - std::min<size_t>(2, a.shape().size()));
  const std::vector<int64_t> y = centered(context, b, &context.input(5), b.shape().size() - 1);
  require_scale(context, 1, problem.m);
  require_scale(context, 4, problem.n);
  const double y_scale = context.scalar(6);
  const auto zero_point = static_cast<int64_t>(context.scalar(7));
  Tensor result(context.input(7).type(), problem.result_shape);
  for_integer_type(context, result.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto to = result.data<T>();
    multiply_matrices<int64_t>(
        problem, [&](size_t i) { return x[i]; }, [&](size_t i) { return y[i]; },
        [&](size_t i, int64_t sum) {
          const size_t row = i / static_cast<size_t>(problem.n) % static_cast<size_t>(problem.m);
          const size_t column = i % static_cast<size_t>(problem.n);
          const double factor =
              scale_of(context.input(1), row) * scale_of(context.input(4), column) / y_scale;
          to[i] = quantized<T>(static_cast<double>(sum) * factor, zero_point);
        });
  });
  return {result};
}

std::vector<Tensor> run_qlinear_conv(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& weights = context.input(3);
  const ConvolutionProblem problem = plan_convolution(context, x, weights);
  const std::vector<int64_t> x_values = centered(context, x, &context.input(2), x.shape().size());
  const std::vector<int64_t> w_values = centered(context, weights, &context.input(5), 0);
  const int64_t channels = weights.shape()[0];
  require_scale(context, 4, channels);
  const double x_scale = context.scalar(1);
  const double y_scale = context.scalar(6);
  const auto zero_point = static_cast<int64_t>(context.scalar(7));
  const Tensor* const bias = context.optional_input(8);  // quantized with x_scale * w_scale
  context.require(bias == nullptr || bias->shape() == Shape{channels}, "B must have shape [{}]", channels);
  Tensor result(context.input(7).type(), problem.result_shape);
  for_integer_type(context, result.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto to = result.data<T>();
    convolve<int64_t>(
        problem, x, weights, [&](size_t i) { return x_values[i]; }, [&](size_t i) { return w_values[i]; },
        [&](size_t i, size_t channel, int64_t sum) {
          if (bias != nullptr) sum += bias->data<int32_t>()[channel];
          const double factor = x_scale * scale_of(context.input(4), channel) / y_scale;
          to[i] = quantized<T>(static_cast<double>(sum) * factor, zero_point);
        });
  });
  return {result};
}

}  // namespace

void register_quantize(KernelRegistry& registry) {
  registry.add("QuantizeLinear", run_quantize_linear);
  registry.add("DequantizeLinear", run_dequantize_linear);
  registry.add("MatMulInteger", run_matmul_integer);
  registry.add("ConvInteger", run_conv_integer);
  registry.add("QLinearMatMul", run_qlinear_matmul);
  registry.add("QLinearConv", run_qlinear_conv);
}

}  // namespace kodama::compiler::reference
