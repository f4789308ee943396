#include "compiler/graph/gradient/optimizers.h"

#include <numbers>

/// Formulas are PyTorch's: its defaults, its place of epsilon, its order of decay and step.
namespace kodama::compiler::gradient {

namespace {

/// The gradient of the loss with weight decay as a part of it.
Term with_decay(const Choice& o, const UpdateStep& s) {
  return o["decay"] == 0 ? s.gradient : s.gradient + s.parameter * o["decay"];
}

Updated sgd(const Choice& o, const UpdateStep& s) {
  return {s.parameter - s.rate * with_decay(o, s), {}};
}

Updated momentum(const Choice& o, const UpdateStep& s) {
  const Term gradient = with_decay(o, s);
  const Term velocity = s.slots[0] * o["momentum"] + gradient;
  const Term step = o["nesterov"] != 0 ? gradient + velocity * o["momentum"] : velocity;
  return {s.parameter - s.rate * step, {velocity}};
}

/// 1 - beta^t, from that of the step before: exact to the last bits also where beta is near 1.
template <const char* kBeta>
Term correction(const Choice& o, const Term& now) {
  return now * o[kBeta] + (1 - o[kBeta]);
}
constexpr char kBeta1[] = "beta1";
constexpr char kBeta2[] = "beta2";

Updated adam_step(const Choice& o, const UpdateStep& s, const Term& parameter, const Term& gradient) {
  const Term mean = s.slots[0] * o["beta1"] + gradient * (1 - o["beta1"]);
  const Term square = s.slots[1] * o["beta2"] + gradient * gradient * (1 - o["beta2"]);
  const Term rate = s.rate / s.shared[0];
  const Term scale = map("Reciprocal", sqrt(s.shared[1]));
  return {parameter - rate * mean / (sqrt(square) * scale + o["epsilon"]), {mean, square}};
}
Updated adam(const Choice& o, const UpdateStep& s) {
  return adam_step(o, s, s.parameter, with_decay(o, s));
}
/// Weight decay apart from the gradient.
Updated adamw(const Choice& o, const UpdateStep& s) {
  const Term decayed = o["decay"] == 0 ? s.parameter : s.parameter - s.parameter * (s.rate * o["decay"]);
  return adam_step(o, s, decayed, s.gradient);
}

Updated adagrad(const Choice& o, const UpdateStep& s) {
  const Term gradient = with_decay(o, s);
  const Term squares = s.slots[0] + gradient * gradient;
  return {s.parameter - s.rate * gradient / (sqrt(squares) + o["epsilon"]), {squares}};
}

Term constant_rate(const Choice& /*o*/, const Term& steps) {
  return steps.graph->number(1, steps.type);
}
/// Grows over `warmup` steps.
Term warm_up(const Choice& o, const Term& steps, const Term& factor) {
  if (o["warmup"] <= 0) return factor;
  const Term one = steps.graph->number(1, steps.type);
  return factor * minimum((steps + 1.0) / o["warmup"], one);
}
Term stairs(const Choice& o, const Term& steps) {
  const Term falls = map("Floor", steps / o["every"]);
  return warm_up(o, steps, pow(steps.graph->number(o["factor"], steps.type), falls));
}
/// The share of the way that is done, at most 1.
Term progress(const Choice& o, const Term& steps) {
  return minimum(steps / o["steps"], steps.graph->number(1, steps.type));
}
Term linear(const Choice& o, const Term& steps) {
  return warm_up(o, steps, 1.0 - progress(o, steps) * (1 - o["least"]));
}
Term cosine(const Choice& o, const Term& steps) {
  const Term wave = map("Cos", progress(o, steps) * std::numbers::pi);
  return warm_up(o, steps, (wave + 1.0) * ((1 - o["least"]) / 2) + o["least"]);
}

Term mean_of(const Term& x) {
  return sum_all(x) / static_cast<double>(x.size());
}
Term cross_entropy(const Choice& /*o*/, const Term& output, const Term& target) {
  return output.graph->add("SoftmaxCrossEntropyLoss", {output, target}, output.type, {});
}
Term likelihood(const Choice& /*o*/, const Term& output, const Term& target) {
  return output.graph->add("NegativeLogLikelihoodLoss", {output, target}, output.type, {});
}
Term mean_square(const Choice& /*o*/, const Term& output, const Term& target) {
  const Term difference = output - target;
  return mean_of(difference * difference);
}
Term mean_distance(const Choice& /*o*/, const Term& output, const Term& target) {
  return mean_of(abs(output - target));
}
Term huber(const Choice& o, const Term& output, const Term& target) {
  const Term difference = output - target;
  const Term size = abs(difference);
  const Term square = difference * difference * 0.5;
  return mean_of(select(less(size, o["delta"]), square, (size - o["delta"] / 2) * o["delta"]));
}
/// max(x, 0) - x t + log(1 + exp(-|x|))
Term binary_cross_entropy(const Choice& /*o*/, const Term& output, const Term& target) {
  return mean_of(map("Relu", output) - output * target + map("Softplus", -abs(output)));
}

}  // namespace

const std::vector<OptimizerRow>& optimizer_rows() {
  const ChoiceKey decay = {"decay", 0, "weight decay"};
  const std::vector<ChoiceKey> adams = {{"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}};
  const auto with = [](std::vector<ChoiceKey> keys, const ChoiceKey& more) {
    keys.push_back(more);
    return keys;
  };
  const std::vector<SharedSlot> corrections = {{"correction1", correction<kBeta1>},
                                               {"correction2", correction<kBeta2>}};
  static const std::vector<OptimizerRow> kRows = {
      {{"sgd", "plain gradient descent", {{"lr", 0.01}, decay}}, {}, {}, sgd},
      {{"momentum",
        "gradient descent with a velocity",
        {{"lr", 0.01}, {"momentum", 0.9}, {"nesterov", 0}, decay}},
       {"velocity"},
       {},
       momentum},
      {{"adam", "Adam", with(adams, decay)}, {"mean", "square"}, corrections, adam},
      {{"adamw", "Adam, decay apart from the gradient", with(adams, {"decay", 0.01, "weight decay"})},
       {"mean", "square"},
       corrections,
       adamw},
      {{"adagrad", "Adagrad", {{"lr", 0.01}, {"epsilon", 1e-10}, decay}}, {"squares"}, {}, adagrad},
  };
  return kRows;
}

const std::vector<ScheduleRow>& schedule_rows() {
  const ChoiceKey warmup = {"warmup", 0, "steps in which the rate grows"};
  static const std::vector<ScheduleRow> kRows = {
      {{"constant", "the same rate in all steps"}, constant_rate},
      {{"steps", "times a factor every so many steps", {{"every", 1000}, {"factor", 0.1}, warmup}}, stairs},
      {{"linear", "falls to a share of itself", {{"steps", 1000}, {"least", 0}, warmup}}, linear},
      {{"cosine", "falls along half a wave", {{"steps", 1000}, {"least", 0}, warmup}}, cosine},
  };
  return kRows;
}

const std::vector<LossRow>& loss_rows() {
  static const std::vector<LossRow> kRows = {
      {{"softmax-cross-entropy", "of classes, from logits"}, true, cross_entropy},
      {{"nll", "of classes, from logarithms of probabilities"}, true, likelihood},
      {{"mse", "mean of squared differences"}, false, mean_square},
      {{"l1", "mean of differences"}, false, mean_distance},
      {{"huber", "squared differences, beyond delta straight on", {{"delta", 1}}}, false, huber},
      {{"binary-cross-entropy", "of yes and no, from logits"}, false, binary_cross_entropy},
  };
  return kRows;
}

}  // namespace kodama::compiler::gradient
