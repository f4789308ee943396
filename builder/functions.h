#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "builder/operand.h"

/// Layers as PyTorch's torch.nn.functional has them, made of operators. Errors as those of the operators, at
/// the line of the call.
namespace kodama::builder::F {

/// Height and width; one number is both.
struct Pair {
  Pair(int64_t both) : height(both), width(both) {}  // NOLINT
  Pair(int64_t height, int64_t width) : height(height), width(width) {}

  int64_t height, width;
};

Value relu(const Operand& x, Here here = Here::line());
Value sigmoid(const Operand& x, Here here = Here::line());
Value tanh(const Operand& x, Here here = Here::line());
/// x * sigmoid(x).
Value silu(const Operand& x, Here here = Here::line());
/// x / 2 * (1 + erf(x / sqrt 2)).
Value gelu(const Operand& x, Here here = Here::line());
Value softmax(const Operand& x, int64_t axis = -1, Here here = Here::line());
Value log_softmax(const Operand& x, int64_t axis = -1, Here here = Here::line());

Value matmul(const Operand& a, const Operand& b, Here here = Here::line());
/// x [..., in], weight [out, in], bias [out]: [..., out].
Value linear(const Value& x, const Value& weight, const Value& bias = {}, Here here = Here::line());

struct ConvOptions {
  Pair dilation = 1;
  int64_t groups = 1;
  Pair padding = 0;
  Pair stride = 1;
};
/// x [N, C, H, W], weight [out, C / groups, height, width], bias [out].
Value conv2d(const Value& x, const Value& weight, const Value& bias = {}, const ConvOptions& options = {},
             Here here = Here::line());

struct PoolOptions {
  bool ceil_mode = false;
  Pair padding = 0;
  std::optional<Pair> stride = {};  ///< else that of the window
};
Value max_pool2d(const Value& x, Pair window, const PoolOptions& options = {}, Here here = Here::line());
Value avg_pool2d(const Value& x, Pair window, const PoolOptions& options = {}, Here here = Here::line());
/// [N, C, H, W] to [N, C, 1, 1].
Value global_avg_pool2d(const Value& x, Here here = Here::line());

/// Over the last axis.
Value layer_norm(const Operand& x, const Operand& weight, const Operand& bias, double epsilon = 1e-5,
                 Here here = Here::line());
/// With running statistics; in training steps with those of the batch (docs/training.md).
Value batch_norm(const Operand& x, const Operand& weight, const Operand& bias, const Operand& mean,
                 const Operand& variance, double epsilon = 1e-5, Here here = Here::line());
/// Does nothing but in training steps.
Value dropout(const Operand& x, double ratio = 0.5, Here here = Here::line());

/// Rows of `table` [count, width] by integers of any shape.
Value embedding(const Operand& indices, const Operand& table, Here here = Here::line());
/// softmax(q k^T / sqrt(width) + mask) v of q [..., n, width], k [..., m, width] and v [..., m, out].
Value scaled_dot_product_attention(const Value& query, const Value& key, const Value& value,
                                   const Value& mask = {}, Here here = Here::line());

Value flatten(const Operand& x, int64_t axis = 1, Here here = Here::line());
/// One extent may be -1: what is left.
Value reshape(const Operand& x, const std::vector<int64_t>& shape, Here here = Here::line());
Value permute(const Operand& x, const std::vector<int64_t>& axes, Here here = Here::line());
Value concat(const Operands& parts, int64_t axis, Here here = Here::line());
/// Parts of these extents along an axis.
std::vector<Value> split(const Operand& x, const std::vector<int64_t>& extents, int64_t axis,
                         Here here = Here::line());
/// Over all axes, or these, which are kept with extent 1 if so asked.
Value mean(const Operand& x, const std::vector<int64_t>& axes = {}, bool keep = false,
           Here here = Here::line());
Value sum(const Operand& x, const std::vector<int64_t>& axes = {}, bool keep = false,
          Here here = Here::line());

/// Mean over the batch; scores [N, C, ...], labels [N, ...] of int64 or int32.
Value cross_entropy(const Operand& scores, const Operand& labels, Here here = Here::line());
/// Mean of squares of differences.
Value mse_loss(const Operand& x, const Operand& target, Here here = Here::line());

}  // namespace kodama::builder::F
