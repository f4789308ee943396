#include <cmath>
#include <limits>

#include "compiler/reference/kernels/doubles.h"
#include "compiler/reference/kernels/strided.h"

/// NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss: scores [N, C, d...], labels [N, d...], and perhaps a
/// weight for each of the C classes. Computed in double.
namespace kodama::compiler::reference {

namespace {

/// Scores of all samples.
struct Samples {
  int64_t classes = 0;
  int64_t stride = 1;  ///< elements after the axis of classes
  std::vector<double> scores;

  /// Where the score of a sample's class is.
  size_t at(size_t sample, int64_t c) const {
    const auto i = static_cast<int64_t>(sample);
    return static_cast<size_t>((i / stride * classes + c) * stride + i % stride);
  }
};

Samples samples_of(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& labels = context.input(1);
  context.require(x.rank() >= 2, "input 0 has shape {}; allowed is [N, C, ...]", shape_to_string(x.shape()));
  Shape wanted = x.shape();
  wanted.erase(wanted.begin() + 1);
  context.require(labels.shape() == wanted, "input 1 has shape {}; allowed is {}",
                  shape_to_string(labels.shape()), shape_to_string(wanted));
  context.require(!context.has_input(2) || context.input(2).shape() == Shape{x.shape()[1]},
                  "input 2 has another shape than [{}]", x.shape()[1]);
  Samples samples;
  samples.classes = x.shape()[1];
  samples.stride = count_between(x.shape(), 2, x.shape().size());
  samples.scores = as_doubles(context, x);
  return samples;
}

void make_log_softmax(Samples& samples, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    double highest = -std::numeric_limits<double>::infinity();
    for (int64_t c = 0; c < samples.classes; ++c)
      highest = std::max(highest, samples.scores[samples.at(i, c)]);
    double sum = 0;
    for (int64_t c = 0; c < samples.classes; ++c) sum += std::exp(samples.scores[samples.at(i, c)] - highest);
    for (int64_t c = 0; c < samples.classes; ++c) samples.scores[samples.at(i, c)] -= highest + std::log(sum);
  }
}

/// -score of the label times the label's weight; what is ignored has the loss and the weight 0.
Tensor likelihood_loss(const NodeContext& context, const Samples& log_probabilities) {
  const Tensor& labels = context.input(1);
  const std::string reduction = context.string_attribute("reduction");
  context.require(reduction == "none" || reduction == "sum" || reduction == "mean",
                  "reduction is '{}'; allowed are none, sum and mean", reduction);
  std::vector<double> losses;
  double sum = 0;
  double sum_of_weights = 0;
  for (size_t i = 0; i < static_cast<size_t>(labels.size()); ++i) {
    const int64_t label =
        labels.type() == DataType::kInt32 ? labels.data<int32_t>()[i] : labels.data<int64_t>()[i];
    const bool is_ignored =
        context.has_attribute("ignore_index") && label == context.int_attribute("ignore_index");
    context.require(is_ignored || (label >= 0 && label < log_probabilities.classes),
                    "a label is {}; 0 to {} is allowed", label, log_probabilities.classes - 1);
    const double weight = is_ignored             ? 0
                          : context.has_input(2) ? element_as_double(context.input(2), label)
                                                 : 1;
    losses.push_back(is_ignored ? 0 : -log_probabilities.scores[log_probabilities.at(i, label)] * weight);
    sum += losses.back();
    sum_of_weights += weight;
  }
  const DataType type = context.input(0).type();
  if (reduction == "none") return from_doubles(context, type, labels.shape(), losses);
  return from_doubles(context, type, {}, {reduction == "sum" ? sum : sum / sum_of_weights});
}

std::vector<Tensor> run_negative_log_likelihood(const NodeContext& context) {
  return {likelihood_loss(context, samples_of(context))};
}

std::vector<Tensor> run_softmax_cross_entropy(const NodeContext& context) {
  Samples samples = samples_of(context);
  make_log_softmax(samples, static_cast<size_t>(context.input(1).size()));
  const Tensor& x = context.input(0);
  return {likelihood_loss(context, samples), from_doubles(context, x.type(), x.shape(), samples.scores)};
}

}  // namespace

void register_loss(KernelRegistry& registry) {
  registry.add("NegativeLogLikelihoodLoss", run_negative_log_likelihood);
  registry.add("SoftmaxCrossEntropyLoss", run_softmax_cross_entropy);
}

}  // namespace kodama::compiler::reference
