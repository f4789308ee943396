#include "builder/functions.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include "builder/operators.h"

namespace kodama::builder::F {

namespace {

std::vector<int64_t> extents(Pair pair) {
  return {pair.height, pair.width};
}

std::vector<int64_t> around(Pair pair) {
  return {pair.height, pair.width, pair.height, pair.width};
}

}  // namespace

Value relu(const Operand& x, Here here) {
  return op::Relu(x, here);
}

Value sigmoid(const Operand& x, Here here) {
  return op::Sigmoid(x, here);
}

Value tanh(const Operand& x, Here here) {
  return op::Tanh(x, here);
}

Value silu(const Operand& x, Here here) {
  return op::Mul(x, op::Sigmoid(x, here), here);
}

Value gelu(const Operand& x, Here here) {
  const Value erf = op::Erf(op::Div(x, std::numbers::sqrt2, here), here);
  return op::Mul(op::Mul(x, op::Add(erf, 1, here), here), 0.5, here);
}

Value softmax(const Operand& x, int64_t axis, Here here) {
  return op::Softmax(x, {.axis = axis}, here);
}

Value log_softmax(const Operand& x, int64_t axis, Here here) {
  return op::LogSoftmax(x, {.axis = axis}, here);
}

Value matmul(const Operand& a, const Operand& b, Here here) {
  return op::MatMul(a, b, here);
}

Value linear(const Value& x, const Value& weight, const Value& bias, Here here) {
  if (x.rank(here) == 2) return op::Gemm(x, weight, bias, {.alpha = 1, .beta = 1, .transB = 1}, here);
  const Value product = op::MatMul(x, op::Transpose(weight, {.perm = {1, 0}}, here), here);
  return bias.has_value() ? op::Add(product, bias, here) : product;
}

Value conv2d(const Value& x, const Value& weight, const Value& bias, const ConvOptions& options, Here here) {
  if (weight.rank(here) != 4)
    throw isa::UserError(here.location(), fmt::format("conv2d: the weight '{}' has {} axes; 4 are allowed",
                                                      weight.name(), weight.rank(here)));
  return op::Conv(x, weight, bias,
                  {.dilations = extents(options.dilation),
                   .group = options.groups,
                   .kernel_shape = std::vector<int64_t>{weight.extent(2, here), weight.extent(3, here)},
                   .pads = around(options.padding),
                   .strides = extents(options.stride)},
                  here);
}

Value max_pool2d(const Value& x, Pair window, const PoolOptions& options, Here here) {
  return op::MaxPool(x,
                     {.ceil_mode = options.ceil_mode,
                      .kernel_shape = extents(window),
                      .pads = around(options.padding),
                      .strides = extents(options.stride.value_or(window))},
                     here);
}

Value avg_pool2d(const Value& x, Pair window, const PoolOptions& options, Here here) {
  return op::AveragePool(x,
                         {.ceil_mode = options.ceil_mode,
                          .kernel_shape = extents(window),
                          .pads = around(options.padding),
                          .strides = extents(options.stride.value_or(window))},
                         here);
}

Value global_avg_pool2d(const Value& x, Here here) {
  return op::GlobalAveragePool(x, here);
}

Value layer_norm(const Operand& x, const Operand& weight, const Operand& bias, double epsilon, Here here) {
  return op::LayerNormalization(x, weight, bias, {.axis = -1, .epsilon = epsilon}, here);
}

Value batch_norm(const Operand& x, const Operand& weight, const Operand& bias, const Operand& mean,
                 const Operand& variance, double epsilon, Here here) {
  return op::BatchNormalization(x, weight, bias, mean, variance, {.epsilon = epsilon}, here);
}

Value dropout(const Operand& x, double ratio, Here here) {
  return op::Dropout(x, ratio, {}, {}, here);
}

Value embedding(const Operand& indices, const Operand& table, Here here) {
  return op::Gather(table, indices, {.axis = 0}, here);
}

Value scaled_dot_product_attention(const Value& query, const Value& key, const Value& value,
                                   const Value& mask, Here here) {
  const int64_t rank = key.rank(here);
  if (rank < 2)
    throw isa::UserError(here.location(),
                         fmt::format("scaled_dot_product_attention: the key '{}' has {} axes; 2 and more are "
                                     "allowed",
                                     key.name(), rank));
  std::vector<int64_t> swapped(static_cast<size_t>(rank));
  std::iota(swapped.begin(), swapped.end(), 0);
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  const double scale = 1 / std::sqrt(static_cast<double>(key.extent(-1, here)));
  Value weights = op::MatMul(op::Mul(query, scale, here), op::Transpose(key, {.perm = swapped}, here), here);
  if (mask.has_value()) weights = op::Add(weights, mask, here);
  return op::MatMul(op::Softmax(weights, {.axis = -1}, here), value, here);
}

Value flatten(const Operand& x, int64_t axis, Here here) {
  return op::Flatten(x, {.axis = axis}, here);
}

Value reshape(const Operand& x, const std::vector<int64_t>& shape, Here here) {
  return op::Reshape(x, shape, {}, here);
}

Value permute(const Operand& x, const std::vector<int64_t>& axes, Here here) {
  return op::Transpose(x, {.perm = axes}, here);
}

Value concat(const Operands& parts, int64_t axis, Here here) {
  return op::Concat(parts, {.axis = axis}, here);
}

std::vector<Value> split(const Operand& x, const std::vector<int64_t>& extents, int64_t axis, Here here) {
  return op::Split(x, extents, static_cast<int64_t>(extents.size()), {.axis = axis}, here);
}

Value mean(const Operand& x, const std::vector<int64_t>& axes, bool keep, Here here) {
  op::ReduceMeanAttributes attributes{.keepdims = keep};
  if (!axes.empty()) attributes.axes = axes;
  return op::ReduceMean(x, attributes, here);
}

Value sum(const Operand& x, const std::vector<int64_t>& axes, bool keep, Here here) {
  return op::ReduceSum(x, axes.empty() ? Operand() : Operand(axes, here), {.keepdims = keep}, here);
}

Value cross_entropy(const Operand& scores, const Operand& labels, Here here) {
  return op::SoftmaxCrossEntropyLoss(scores, labels, {.reduction = "mean"}, here);
}

Value mse_loss(const Operand& x, const Operand& target, Here here) {
  const Value difference = op::Sub(x, target, here);
  return mean(op::Mul(difference, difference, here), {}, false, here);
}

}  // namespace kodama::builder::F
