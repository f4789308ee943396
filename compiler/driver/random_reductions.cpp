#include <algorithm>

#include "compiler/driver/random_rows.h"

namespace kodama::compiler {
namespace {

using Add = std::function<void(RandomNodes&, const std::string&)>;

/// Over some axes, or all; elements from `low` to `high`.
Add reduction(double low, double high) {
  return [=](RandomNodes& nodes, const std::string& op) {
    const RandomValue x = nodes.want_for(op, {.low = low, .high = high});
    Attributes attributes;
    if (nodes.chance(60)) attributes.set("keepdims", nodes.number(0, 1));
    std::vector<int64_t> axes = x.rank() == 0 ? std::vector<int64_t>{} : nodes.some_axes(x.rank());
    for (int64_t& each : axes) each = nodes.either(each, x.rank());
    const bool takes_all = axes.empty() || nodes.chance(15);
    if (op == "ReduceSum") {  // whose axes are an operand
      const bool is_noop = takes_all && nodes.chance(30);
      if (is_noop) attributes.set("noop_with_empty_axes", 1);
      nodes.add(op, {x.name, takes_all ? "" : nodes.list(axes)}, attributes);
      return;
    }
    if (!takes_all) attributes.set("axes", axes);
    nodes.add(op, {x.name}, attributes);
  };
}

void add_cum_sum(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = nodes.want_for(op, {.least_rank = 1});
  Attributes attributes;
  if (nodes.chance(40)) attributes.set("exclusive", nodes.number(0, 1));
  if (nodes.chance(40)) attributes.set("reverse", nodes.number(0, 1));
  const DataType type = nodes.chance(50) ? DataType::kInt64 : DataType::kInt32;
  nodes.add(op, {x.name, nodes.scalar(static_cast<double>(nodes.number(-x.rank(), x.rank() - 1)), type)},
            attributes);
}

// ---- normalizations

void add_batch_normalization(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = nodes.want_for(op, {.least_rank = 2});
  const Shape shape{x.shape()[1]};
  const bool is_training = nodes.chance(15) && x.size() / x.shape()[1] > 2;
  const auto pick_type = [&](int input) {
    return input < 3 && is_training ? x.type() : nodes.chance(80) ? x.type() : DataType::kFloat32;
  };
  const DataType of_scale = pick_type(1);
  const DataType of_mean = pick_type(3);
  std::vector<std::string> inputs{
      x.name, nodes.constant(shape, 1.5, 0.5, of_scale), nodes.constant(shape, 1, std::nullopt, of_scale),
      nodes.constant(shape, 1, std::nullopt, of_mean), nodes.constant(shape, 2, 0.5, of_mean)};
  Attributes attributes;
  if (nodes.chance(50)) attributes.set("epsilon", nodes.real(1e-3, 1e-1));
  if (is_training) attributes.set("training_mode", 1).set("momentum", nodes.real(0.5, 0.9));
  nodes.add(op, inputs, attributes, is_training ? 3 : 1);
}

void add_instance_normalization(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = nodes.want_for(
      op, {.least_rank = 3, .fits = [](const Shape& shape) { return product_of(shape, 2) > 2; }});
  const Shape shape{x.shape()[1]};
  Attributes attributes;
  if (nodes.chance(60)) attributes.set("epsilon", nodes.real(1e-3, 1e-1));
  nodes.add(
      op,
      {x.name, nodes.constant(shape, 1.5, 0.5, x.type()), nodes.constant(shape, 1, std::nullopt, x.type())},
      attributes);
}

void add_layer_normalization(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = nodes.want_for(op, {.least_rank = 1});
  const int64_t axis = nodes.chance(75) ? x.rank() - 1 : nodes.number(0, x.rank() - 1);
  const Shape shape(x.shape().begin() + axis, x.shape().end());
  if (product_of(shape) < 3) throw RandomNodes::Misfit();
  std::vector<std::string> inputs{x.name, nodes.constant(shape, 1.5, 0.5, x.type())};
  if (nodes.chance(80)) inputs.push_back(nodes.constant(shape, 1, std::nullopt, x.type()));
  Attributes attributes = Attributes().set("axis", nodes.chance(50) ? axis : axis - x.rank());
  if (nodes.chance(50)) attributes.set("epsilon", nodes.real(1e-3, 1e-1));
  nodes.add(op, inputs, attributes);
}

void add_lp_normalization(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = nodes.want_for(op, {.least_rank = 1, .low = 0.05, .high = 1e3});
  nodes.add(op, {x.name},
            Attributes().set("axis", nodes.number(-x.rank(), x.rank() - 1)).set("p", nodes.number(1, 2)));
}

void add_mean_variance_normalization(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = nodes.want_for(op, {.least_rank = 2});
  std::vector<int64_t> axes = nodes.some_axes(x.rank());
  const bool is_default = x.rank() == 4 && nodes.chance(50);
  int64_t count = 1;
  for (const int64_t axis : is_default ? std::vector<int64_t>{0, 2, 3} : axes)
    count *= x.shape()[static_cast<size_t>(axis)];
  if (count < 3) throw RandomNodes::Misfit();
  nodes.add(op, {x.name}, is_default ? Attributes() : Attributes().set("axes", axes));
}

// ---- losses

/// Classes for every place of [N, C, ...], but for C.
RandomValue classes_for(RandomNodes& nodes, const RandomValue& x) {
  Shape shape = x.shape();
  const int64_t classes = shape[1];
  shape.erase(shape.begin() + 1);
  return nodes.indices(shape, 0, classes);
}

void add_loss(RandomNodes& nodes, const std::string& op) {
  const RandomValue x = nodes.want_for(op, {.least_rank = 2, .most_rank = 4, .low = -30, .high = 30});
  std::vector<std::string> inputs{x.name, classes_for(nodes, x).name};
  if (nodes.chance(50)) inputs.push_back(nodes.constant({x.shape()[1]}, 1.5, 0.5, x.type()));
  Attributes attributes = Attributes().set("reduction", nodes.word({"none", "sum", "mean"}));
  if (nodes.chance(30)) attributes.set("ignore_index", x.shape()[1]);
  nodes.add(op, inputs, attributes);
}

}  // namespace

std::vector<RandomRow> reduction_rows() {
  const auto exact = RowErrors::kNone;
  const auto sums = RowErrors::kSums;
  return {
      {"BatchNormalization", add_batch_normalization, sums},
      {"CumSum", add_cum_sum, sums},
      {"InstanceNormalization", add_instance_normalization, sums},
      {"LayerNormalization", add_layer_normalization, sums},
      {"LpNormalization", add_lp_normalization, sums},
      {"MeanVarianceNormalization", add_mean_variance_normalization, sums},
      {"NegativeLogLikelihoodLoss", add_loss, sums},
      {"ReduceL1", reduction(-1e3, 1e3), sums},
      {"ReduceL2", reduction(-1e3, 1e3), sums},
      {"ReduceLogSum", reduction(0.5, 1e3), sums},
      {"ReduceLogSumExp", reduction(-20, 20), sums},
      {"ReduceMax", reduction(-kLargestFloat, kLargestFloat), exact},
      {"ReduceMean", reduction(-kLargestFloat, kLargestFloat), sums},
      {"ReduceMin", reduction(-kLargestFloat, kLargestFloat), exact},
      {"ReduceProd", reduction(-4, 4)},
      {"ReduceSum", reduction(-kLargestFloat, kLargestFloat), sums},
      {"ReduceSumSquare", reduction(-100, 100), sums},
      {"SoftmaxCrossEntropyLoss", add_loss, sums},
  };
}

}  // namespace kodama::compiler
