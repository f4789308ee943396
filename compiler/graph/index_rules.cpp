#include <algorithm>
#include <limits>

#include "compiler/graph/operator_checks.h"

namespace kodama::compiler::rules {

namespace {

void check_slice(const NodeOperands& o) {
  rank_at_least(0, 1)(o);
  const auto rank = o.rank(0);
  for (int i = 1; i < o.input_count(); ++i) {
    list_of_integers(i)(o);
    if (const auto size = o.size(i), other = o.size(1); o.has(i) && size && other) {
      o.require(*size == *other, "{} has {} elements, {} has {}; as many are allowed", o.describe(i), *size,
                o.describe(1), *other);
    }
  }
  const auto starts = list_of(o, "starts", 1).values;
  const auto ends = list_of(o, "ends", 2).values;
  const auto [axes_given, axes_name] = list_of(o, "axes", 3);
  if (starts && ends) {
    o.require(starts->size() == ends->size(), "{} starts and {} ends; as many are allowed", starts->size(),
              ends->size());
  }
  if (starts && axes_given) {
    o.require(starts->size() == axes_given->size(), "{} starts and {} axes; as many are allowed",
              starts->size(), axes_given->size());
  }
  if (rank && axes_given) check_axes(o, *axes_given, *rank, axes_name);
  if (rank && starts) {
    o.require(static_cast<int64_t>(starts->size()) <= *rank, "{} starts; {} has rank {}", starts->size(),
              o.describe(0), *rank);
  }
  if (const auto steps = o.integers(4)) {
    for (int64_t step : *steps) {
      o.require(step != 0 && step != std::numeric_limits<int64_t>::min(),
                "{} holds {}; steps other than 0 and -2^63 are allowed", o.describe(4), step);
    }
  }
}

void check_top_k(const NodeOperands& o) {
  rank_at_least(0, 1)(o);
  axis("axis")(o);
  std::optional<int64_t> k = o.integer("k");
  std::string what = "attribute k";
  if (o.has(1)) {
    one_element(1)(o);
    what = o.describe(1);
    if (const auto values = o.integers(1); values && values->size() == 1) k = values->front();
  }
  if (!k || !o.rank(0)) return;
  const int64_t at = o.integer("axis").value_or(-1);
  const auto extent = extent_along(o, 0, at);
  o.require(*k >= 0 && (!extent || *k <= *extent),
            "{} holds k = {}; 0 to {}, the length of axis {} of {}, is allowed", what, *k,
            extent ? std::to_string(*extent) : "?", at, o.describe(0));
}

void check_gather_elements(const NodeOperands& o) {
  rank_at_least(0, 1)(o);
  axis("axis")(o);
  same_rank(1, 0)(o);
}

void check_scatter_elements(const NodeOperands& o) {
  check_gather_elements(o);
  same_rank(2, 1)(o);
  one_of("reduction", {"none", "add", "mul"})(o);
  check_same_shape(o, 1, 2);
}

void check_gather_nd(const NodeOperands& o) {
  rank_at_least(0, 1)(o);
  rank_at_least(1, 1)(o);
  const int64_t batch = o.integer("batch_dims").value_or(0);
  const auto rank = o.rank(0);
  const auto index_rank = o.rank(1);
  if (!rank || !index_rank) return;
  o.require(batch >= 0 && batch < std::min(*rank, *index_rank),
            "attribute batch_dims is {}; 0 to {} is allowed for {} and {}", batch,
            std::min(*rank, *index_rank) - 1, o.describe(0), o.describe(1));
  for (int64_t axis = 0; axis < batch; ++axis) {
    const auto own = o.extent(0, axis);
    const auto other = o.extent(1, axis);
    o.require(!own || !other || *own == *other,
              "axis {} of {} and of {} differ; the first batch_dims = {} axes are the same in both", axis,
              o.describe(0), o.describe(1), batch);
  }
  const auto depth = o.extent(1, *index_rank - 1);
  if (depth) {
    o.require(*depth >= 1 && *depth <= *rank - batch,
              "the last axis of {} has {} elements; 1 to {}, the axes of {}, is allowed", o.describe(1),
              *depth, *rank - batch, o.describe(0));
  }
}

void check_scatter_nd(const NodeOperands& o) {
  check_gather_nd(o);
  one_of("reduction", {"none", "add", "mul"})(o);
  const auto data = o.shape(0);
  const auto indices = o.shape(1);
  const auto updates = o.shape(2);
  if (!data || !indices || !updates) return;
  Shape wanted(indices->begin(), indices->end() - 1);
  wanted.insert(wanted.end(), data->begin() + indices->back(), data->end());
  o.require(*updates == wanted, "{} should have shape {}", o.describe(2), shape_to_string(wanted));
}

void check_one_hot(const NodeOperands& o) {
  axis("axis", 0, 1)(o);
  one_element(1)(o);
  const auto size = o.size(2);
  if (size) o.require(*size == 2, "{} has {} elements; 2 are allowed", o.describe(2), *size);
  if (const Tensor* depth = o.constant(1); depth != nullptr && depth->size() == 1) {
    const double value = element_as_double(*depth, 0);
    o.require(value >= 0 && value <= static_cast<double>(kMaxTensorElements),
              "{} holds {}; a depth of 0 to {} is allowed", o.describe(1), value, kMaxTensorElements);
  }
}

void check_compress(const NodeOperands& o) {
  if (!o.has_attribute("axis")) return;
  rank_at_least(0, 1)(o);
  axis("axis")(o);
}

std::map<int, Shape> infer_one_hot(const NodeOperands& o) {
  const Tensor* depth = o.constant(1);
  auto shape = o.shape(0);
  if (depth == nullptr || depth->size() != 1 || !shape) return {};
  const auto rank = static_cast<int64_t>(shape->size());
  int64_t at = o.integer("axis").value_or(-1);
  if (at < 0) at += rank + 1;
  shape->insert(shape->begin() + at, static_cast<int64_t>(element_as_double(*depth, 0)));
  return {{0, *shape}};
}

std::map<int, Shape> infer_compress(const NodeOperands& o) {
  const Tensor* condition = o.constant(1);
  auto shape = o.shape(0);
  if (condition == nullptr || condition->type() != DataType::kBool || !shape) return {};
  const auto taken = std::ranges::count_if(condition->data<uint8_t>(), [](uint8_t bit) { return bit != 0; });
  if (!o.has_attribute("axis")) return {{0, {taken}}};
  const int64_t at = o.integer("axis").value_or(0);
  (*shape)[static_cast<size_t>(at < 0 ? at + static_cast<int64_t>(shape->size()) : at)] = taken;
  return {{0, *shape}};
}

void check_reverse_sequence(const NodeOperands& o) {
  rank_at_least(0, 2)(o);
  rank_of(1, 1)(o);
  flag("batch_axis")(o);
  flag("time_axis")(o);
  o.require(o.integer("batch_axis").value_or(1) != o.integer("time_axis").value_or(0),
            "attributes batch_axis and time_axis are the same");
  const int64_t batch = o.integer("batch_axis").value_or(1);
  vector_along(1, 0, batch)(o);
}

}  // namespace

void add_index_rules(RuleTable& rules) {
  rules["Slice"] = {{check_slice}, {1, 2, 3, 4}};
  rules["Gather"] = {{rank_at_least(0, 1), axis("axis")}};
  rules["GatherElements"] = {{check_gather_elements}};
  rules["GatherND"] = {{check_gather_nd}};
  rules["Scatter"] = {{check_scatter_elements}};
  rules["ScatterElements"] = {{check_scatter_elements}};
  rules["ScatterND"] = {{check_scatter_nd}};
  rules["OneHot"] = {{check_one_hot}, {1}, infer_one_hot};
  rules["TopK"] = {{check_top_k}, {1}};
  rules["Compress"] = {{check_compress, rank_of(1, 1)}, {1}, infer_compress};
  rules["Unique"] = {{axis("axis"), flag("sorted")}, {0}};
  rules["NonZero"] = {{}, {0}};
  rules["Trilu"] = {{rank_at_least(0, 2), one_element(1)}};
  rules["ReverseSequence"] = {{check_reverse_sequence}};
}

}  // namespace kodama::compiler::rules
