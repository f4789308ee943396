#include <numeric>

#include "compiler/graph/gradient/gradient_rules.h"

/// Losses of classes. They are written with a mask of the classes, not with gathered elements: its gradient
/// is a mask again, where that of a gather would be a scatter.
namespace kodama::compiler::gradient {

namespace {

/// -sum of weight * log_probabilities at the labels; see ONNX's page of NegativeLogLikelihoodLoss.
Term likelihood_loss(const NodeParts& n, const Term& log_probabilities, const Term& labels,
                     const Term& weights) {
  const DataType type = log_probabilities.type;
  const int64_t classes = log_probabilities.extent(1);
  Shape along_classes(log_probabilities.shape.size(), 1);
  along_classes[1] = classes;
  const Term numbers = reshape(counting(n.graph(), classes, labels.type), along_classes);
  const Term is_label = equal(unsqueeze(labels, {1}), numbers);
  const Term picked = reduce_sum(select(is_label, log_probabilities, 0.0), {1}, false);

  const bool ignores = n.has_attribute("ignore_index");
  Term ignored;
  Term safe = labels;
  if (ignores) {
    ignored = equal(labels, static_cast<double>(n.integer("ignore_index")));
    safe = select(ignored, 0.0, labels);
  }
  // Also without weights: labels that aren't classes are an error of this Gather.
  const Term per_class = weights ? weights : n.graph().filled(1, type, {classes});
  Term weight = n.graph().add("Gather", {per_class, safe}, type, labels.shape,
                              {onnx::MakeAttribute("axis", int64_t{0})});
  if (ignores) weight = select(ignored, 0.0, weight);
  const Term losses = -(picked * weight);
  const std::string reduction = n.text("reduction", "mean");
  if (reduction == "none") return losses;
  const Term total = sum_all(losses);
  if (reduction == "sum") return total;
  if (!weights && !ignores) return total / static_cast<double>(labels.size());
  return total / sum_all(weight);
}

void softmax_cross_entropy(NodeParts& n) {
  const Term scores = n.x(0);
  const Term log_probabilities = n.graph().add("LogSoftmax", {scores}, scores.type, scores.shape,
                                               {onnx::MakeAttribute("axis", int64_t{1})});
  n.finish(0, likelihood_loss(n, log_probabilities, n.x(1), n.x(2)));
  n.finish(1, log_probabilities);
}

void negative_log_likelihood(NodeParts& n) {
  n.finish(0, likelihood_loss(n, n.x(0), n.x(1), n.x(2)));
}

}  // namespace

std::vector<GradientRow> loss_gradients() {
  return {
      {"NegativeLogLikelihoodLoss", nullptr, negative_log_likelihood},
      {"SoftmaxCrossEntropyLoss", nullptr, softmax_cross_entropy},
  };
}

}  // namespace kodama::compiler::gradient
