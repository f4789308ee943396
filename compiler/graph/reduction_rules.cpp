#include <algorithm>

#include "compiler/graph/onnx_model.h"
#include "compiler/graph/operator_checks.h"

namespace kodama::compiler::rules {

namespace {

void check_batch_normalization(const NodeOperands& o) {
  rank_at_least(0, 1)(o);
  for (int i = 1; i < 5; ++i) vector_along(i, 0, 1)(o);
}

void check_loss(const NodeOperands& o) {
  rank_at_least(0, 2)(o);
  one_of("reduction", {"none", "mean", "sum"})(o);
  const auto rank = o.rank(0);
  const auto target = o.rank(1);
  if (rank && target) {
    o.require(*target == *rank - 1, "{} has rank {}; rank {}, one less than {}, is allowed", o.describe(1),
              *target, *rank - 1, o.describe(0));
    for (int64_t k = 0; k < *target; ++k) {
      const auto own = o.extent(1, k);
      const auto wanted = o.extent(0, k == 0 ? 0 : k + 1);
      if (own && wanted) {
        o.require(*own == *wanted, "{} and {} don't fit on axis {}", o.describe(1), o.describe(0), k);
      }
    }
  }
  if (rank && o.has(2)) vector_along(2, 0, 1)(o);
}

/// ONNX's body of the operator flattens Scale and B, so it is right only for those with a number for each
/// element of the normalized axes, or with one number in all.
void check_flattened(const NodeOperands& o, int input) {
  const auto shape = o.shape(input);
  const auto data = o.shape(0);
  if (!shape || !data || o.size(input) == 1) return;
  const int64_t at = o.integer("axis").value_or(-1);
  const auto without_ones = [](auto from, auto to) {
    return Shape(std::find_if(from, to, [](int64_t extent) { return extent != 1; }), to);
  };
  const Shape normalized = without_ones(data->begin() + (at < 0 ? at + std::ssize(*data) : at), data->end());
  if (without_ones(shape->begin(), shape->end()) == normalized) return;
  throw isa::UnsupportedError(
      fmt::format("{}: {} has no number for each element of the normalized axes; expand it to {}",
                  describe_node(o.node()), o.describe(input), shape_to_string(normalized)));
}

void check_layer_normalization(const NodeOperands& o) {
  axis("axis")(o);
  for (int input : {1, 2}) {
    broadcasts_to_input(input, 0)(o);
    check_flattened(o, input);
  }
}

}  // namespace

void add_reduction_rules(RuleTable& rules) {
  for (const char* op : {"ReduceSum", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum",
                         "ReduceLogSumExp", "ReduceMean", "ReduceMax", "ReduceMin"}) {
    rules[op] = {{list_of_integers(1), axes(), flag("keepdims")}, {1}};
  }
  for (const char* op : {"ArgMax", "ArgMin"})
    rules[op] = {{rank_at_least(0, 1), axis("axis"), flag("keepdims")}};
  for (const char* op : {"Softmax", "LogSoftmax", "Hardmax"}) rules[op] = {{axis("axis")}};
  rules["CumSum"] = {{rank_at_least(0, 1), one_element(1), axes()}};
  rules["LpNormalization"] = {{rank_at_least(0, 1), axis("axis"), integer_between("p", 1, 2)}};
  rules["MeanVarianceNormalization"] = {{axes(-1)}};
  rules["LRN"] = {{rank_at_least(0, 2), positive("size")}};
  rules["BatchNormalization"] = {{check_batch_normalization}};
  rules["InstanceNormalization"] = {{rank_at_least(0, 3), vector_along(1, 0, 1), vector_along(2, 0, 1)}};
  rules["LayerNormalization"] = {{check_layer_normalization}};
  for (const char* op : {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}) rules[op] = {{check_loss}};
}

}  // namespace kodama::compiler::rules
