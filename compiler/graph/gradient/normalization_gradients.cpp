#include <numeric>

#include "compiler/graph/gradient/gradient_rules.h"

/// Normalizations and softmax.
namespace kodama::compiler::gradient {

namespace {

Ints axes_from(int64_t first, int64_t end) {
  Ints axes;
  for (int64_t axis = first; axis < end; ++axis) axes.push_back(axis);
  return axes;
}

Term mean(const Term& x, const Ints& axes) {
  double count = 1;
  for (int64_t axis : axes) count *= static_cast<double>(x.extent(axis));
  return reduce_sum(x, axes) / count;
}

/// x over some axes, with mean 0 and variance 1.
struct Normalized {
  Ints axes;
  Term centered;  ///< x - mean
  Term inverse;   ///< 1 / sqrt(variance + epsilon)
  Term x;         ///< centered * inverse
};

Normalized normalize(const Term& x, const Ints& axes, double epsilon) {
  Normalized n;
  n.axes = axes;
  n.centered = x - reduce("ReduceMean", x, axes);
  const Term variance = reduce("ReduceMean", n.centered * n.centered, axes);
  n.inverse = map("Reciprocal", sqrt(epsilon == 0 ? variance : variance + epsilon));
  n.x = n.centered * n.inverse;
  return n;
}

/// The gradient of x from that of the normalized x.
Term denormalize(const Normalized& n, const Term& dx) {
  return n.inverse * (dx - mean(dx, n.axes) - n.x * mean(dx * n.x, n.axes));
}

/// [C] as [1, C, 1, ...].
Term per_channel(const Term& x, const Term& like) {
  Shape shape(like.shape.size(), 1);
  shape[1] = x.size();
  return reshape(cast(x, like.type), shape);
}

void give_channel(NodeGradient& n, int input, const Term& gradient, const Ints& axes) {
  if (!n.wants(input)) return;
  const Term x = n.x(input);
  n.give(input, cast(reshape(reduce_sum(gradient, axes), x.shape), x.type));
}

void batch_normalization(NodeGradient& n) {
  const Term x = n.x();
  const double epsilon = n.number("epsilon");
  Ints axes = axes_from(2, x.rank());
  axes.insert(axes.begin(), 0);
  const Term dy = n.dy_or_zeros(0);
  const Term scale = per_channel(n.x(1), x);
  const Term total = reduce_sum(dy, axes);
  if (n.wants(2)) n.give(2, cast(reshape(total, n.x(2).shape), n.x(2).type));
  if (n.integer("training_mode") == 0) {
    const Term centered = x - per_channel(n.x(3), x);
    const Term inverse = map("Reciprocal", sqrt(per_channel(n.x(4), x) + epsilon));
    if (n.wants(0)) n.give(0, dy * (scale * inverse));
    if (n.wants(1)) give_channel(n, 1, dy * centered * inverse, axes);
    if (n.wants(3)) give_channel(n, 3, -(dy * (scale * inverse)), axes);
    if (n.wants(4)) give_channel(n, 4, dy * centered * (scale * inverse * inverse * inverse * -0.5), axes);
    return;
  }
  const double momentum = n.number("momentum");
  const double count = static_cast<double>(x.size()) / static_cast<double>(n.x(1).size());
  const Term average = reduce("ReduceMean", x, axes);
  // What is as large as the data is read and made as seldom as can be: x - average is another node for each
  // that reads it, and so a part of it, and all else is for a channel.
  const auto centered = [&] { return x - average; };
  const Term deviation = centered();
  const Term variance = reduce("ReduceMean", deviation * deviation, axes);
  const Term inverse = map("Reciprocal", sqrt(variance + epsilon));
  const Term along = reduce_sum(dy * centered(), axes) * inverse;
  if (n.wants(1)) n.give(1, cast(reshape(along, n.x(1).shape), n.x(1).type));
  Term dx = (dy - total / count - centered() * (along * inverse / count)) * (scale * inverse);
  // Running mean and variance are sums of the old ones and of those of the batch.
  for (int k = 1; k <= 2; ++k) {
    const Term running = n.dy(k);
    const Term old = running ? running : n.graph().filled(0, n.x(2 + k).type, n.x(2 + k).shape);
    n.give(2 + k, old * momentum);
    if (!running) continue;
    const Term own = per_channel(running, x) * ((1 - momentum) / count);
    dx = dx + (k == 1 ? own : own * centered() * 2.0);
  }
  n.give(0, dx);
}

void instance_normalization(NodeGradient& n) {
  const Term x = n.x();
  const Normalized normalized = normalize(x, axes_from(2, x.rank()), n.number("epsilon"));
  Ints others = axes_from(2, x.rank());
  others.insert(others.begin(), 0);
  if (n.wants(0)) n.give(0, denormalize(normalized, n.dy() * per_channel(n.x(1), x)));
  if (n.wants(1)) give_channel(n, 1, n.dy() * normalized.x, others);
  give_channel(n, 2, n.dy(), others);
}

void layer_normalization(NodeGradient& n) {
  const Term x = n.x();
  const Ints axes = axes_from(n.axis(), x.rank());
  const Normalized normalized = normalize(x, axes, n.number("epsilon"));
  const Term dy = n.dy_or_zeros(0);
  if (n.wants(1)) n.give(1, dy * normalized.x);
  if (n.wants(2)) n.give(2, dy);
  if (!n.wants(0)) return;
  Term dx = denormalize(normalized, dy * n.x(1));
  if (const Term of_mean = n.dy(1)) {
    dx = dx + mean(expand(cast(of_mean, x.type), x.shape), axes);
  }
  if (const Term of_inverse = n.dy(2)) {
    double count = 1;
    for (int64_t axis : axes) count *= static_cast<double>(x.extent(axis));
    const Term inverse = normalized.inverse;
    dx = dx - cast(of_inverse, x.type) * inverse * inverse * normalized.x / count;
  }
  n.give(0, dx);
}

void mean_variance_normalization(NodeGradient& n) {
  const Normalized normalized = normalize(n.x(), n.axes(n.ints("axes").value_or(Ints{0, 2, 3})), 0);
  n.give(0, denormalize(normalized, n.dy()));
}

void lp_normalization(NodeGradient& n) {
  const Term x = n.x();
  const Ints axes = {n.axis()};
  const bool is_one = n.integer("p") == 1;
  const Term norm = reduce(is_one ? "ReduceL1" : "ReduceL2", x, axes);
  const Term along = reduce_sum(n.dy() * n.y(), axes);
  n.give(0, (n.dy() - (is_one ? sign(x) : n.y()) * along) / norm);
}

void softmax(NodeGradient& n) {
  const Term weighted = n.dy() * n.y();
  n.give(0, weighted - n.y() * reduce_sum(weighted, {n.axis()}));
}

void log_softmax(NodeGradient& n) {
  n.give(0, n.dy() - exp(n.y()) * reduce_sum(n.dy(), {n.axis()}));
}

}  // namespace

std::vector<GradientRow> normalization_gradients() {
  return {
      {"BatchNormalization", batch_normalization},
      {"Hardmax", nullptr, nullptr, {}, true},
      {"InstanceNormalization", instance_normalization},
      {"LayerNormalization", layer_normalization},
      {"LogSoftmax", log_softmax},
      {"LpNormalization", lp_normalization},
      {"MeanVarianceNormalization", mean_variance_normalization},
      {"Softmax", softmax},
  };
}

}  // namespace kodama::compiler::gradient
