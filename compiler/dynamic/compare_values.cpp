#include "compiler/dynamic/compare_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/graph/walk.h"

namespace kodama::compiler {

namespace {

/// Rows are compared each with each.
constexpr int64_t kMostRows = 4096;

Comparison compare(const Value& actual, const Value& expected) {
  Comparison result;
  if (actual.is_tensor() && expected.is_tensor()) return compare_tensors(actual.tensor(), expected.tensor());
  if (actual.is_optional() != expected.is_optional() || actual.is_sequence() != expected.is_sequence() ||
      actual.has_element() != expected.has_element() || actual.size() != expected.size() ||
      actual.element_type() != expected.element_type()) {
    result.problem = fmt::format("{} instead of {}", actual.describe(), expected.describe());
    return result;
  }
  for (size_t k = 0; k < expected.size(); ++k) {
    Comparison each = compare_tensors(actual.at(k), expected.at(k));
    if (!each.problem.empty()) each.problem = fmt::format("tensor {}: {}", k, each.problem);
    include(result, each);
  }
  return result;
}

/// A tensor and what it should be, of which rows are compared.
struct Pair {
  const Tensor& actual;
  const Tensor& expected;
  double allowed;  ///< error
};

double largest(const Tensor& tensor) {
  double result = 0;
  for (int64_t k = 0; k < tensor.size(); ++k) {
    const double value = std::abs(element_as_double(tensor, k));
    if (std::isfinite(value)) result = std::max(result, value);
  }
  return result;
}

bool same_row(const Pair& pair, int64_t actual_row, int64_t expected_row) {
  const int64_t width = pair.expected.size() / pair.expected.shape()[0];
  for (int64_t k = 0; k < width; ++k) {
    const double a = element_as_double(pair.actual, actual_row * width + k);
    const double e = element_as_double(pair.expected, expected_row * width + k);
    if (a != e && !(std::abs(a - e) <= pair.allowed)) return false;
  }
  return true;
}

/// Gives as many rows as can be a partner of their own among the expected ones.
class RowMatching {
 public:
  RowMatching(const std::vector<Pair>& pairs, int64_t count)
      : pairs_(pairs), count_(count), taker_(static_cast<size_t>(count), -1) {}

  /// How many that are.
  int64_t run() {
    int64_t found = 0;
    for (int64_t row = 0; row < count_; ++row) {
      tried_.assign(static_cast<size_t>(count_), false);
      if (find_partner(row)) ++found;
    }
    return found;
  }

 private:
  bool fits(int64_t row, int64_t other) const {
    return std::ranges::all_of(pairs_, [&](const Pair& pair) { return same_row(pair, row, other); });
  }

  /// Rows within the tolerance of several may have to leave a partner to another row: augmenting paths.
  bool find_partner(int64_t row) {
    for (int64_t step = 0; step < count_; ++step) {
      const int64_t other = (row + step) % count_;  // most are where they should be
      const auto place = static_cast<size_t>(other);
      if (tried_[place] || !fits(row, other)) continue;
      tried_[place] = true;
      if (taker_[place] >= 0 && !find_partner(taker_[place])) continue;
      taker_[place] = row;
      return true;
    }
    return false;
  }

  const std::vector<Pair>& pairs_;
  const int64_t count_;
  std::vector<int64_t> taker_;  ///< of each expected row; -1: nobody
  std::vector<bool> tried_;     ///< expected rows, for the present row
};

bool has_rows(const Value& value) {
  return value.is_tensor() && value.tensor().rank() > 0 && value.tensor().shape()[0] > 0 &&
         value.tensor().shape()[0] <= kMostRows && element_size(value.element_type()) != 0;
}

/// Whether the order of what a node makes may be that of numbers which were computed.
bool is_in_order_of_scores(const onnx::NodeProto& node, const std::set<std::string>& ordered) {
  const auto makes_order = [&](const onnx::NodeProto& each) {
    const bool sorts = each.op_type() == "TopK" || each.op_type() == "NonMaxSuppression";
    return (each.domain().empty() && sorts) ||
           std::ranges::any_of(each.input(), [&](const auto& name) { return ordered.contains(name); });
  };
  bool found = makes_order(node);
  for (const auto& attribute : node.attribute()) {
    for_each_node_in(attribute.g().node(), [&](const onnx::NodeProto& each) { found |= makes_order(each); });
    for (const auto& value : attribute.g().output()) found |= ordered.contains(value.name());
  }
  return found;
}

}  // namespace

void include(Comparison& worst, const Comparison& other) {
  worst.max_absolute = std::max(worst.max_absolute, other.max_absolute);
  worst.max_relative = std::max(worst.max_relative, other.max_relative);
  worst.unequal += other.unequal;
  if (worst.problem.empty()) worst.problem = other.problem;
}

std::set<std::string> outputs_in_order_of_scores(const onnx::GraphProto& graph) {
  std::set<std::string> ordered;
  for (const onnx::NodeProto& node : graph.node()) {
    if (is_in_order_of_scores(node, ordered)) ordered.insert(node.output().begin(), node.output().end());
  }
  std::set<std::string> names;
  for (const auto& output : graph.output()) {
    const auto& shape = output.type().tensor_type().shape();
    const bool is_open = shape.dim_size() > 0 && !shape.dim(0).has_dim_value();
    if (is_open && ordered.contains(output.name())) names.insert(output.name());
  }
  return names;
}

std::vector<ValueComparison> compare_values(const ValueMap& actual, const ValueMap& expected,
                                            const std::set<std::string>& rows, double tolerance) {
  std::vector<ValueComparison> results;
  std::map<int64_t, std::vector<size_t>> by_rows;  // places in results
  for (const auto& [name, value] : expected) {
    const Value& own = actual.at(name);
    results.push_back({.name = name, .worst = compare(own, value)});
    if (rows.contains(name) && has_rows(value) && has_rows(own) &&
        own.tensor().shape() == value.tensor().shape() && own.element_type() == value.element_type())
      by_rows[value.tensor().shape()[0]].push_back(results.size() - 1);
  }
  for (const auto& [count, group] : by_rows) {
    if (std::ranges::all_of(group, [&](size_t k) { return within(results[k].worst, tolerance); })) continue;
    std::vector<Pair> pairs;
    for (const size_t k : group) {
      const Tensor& wanted = expected.at(results[k].name).tensor();
      const bool is_float = wanted.type() == DataType::kFloat32 || wanted.type() == DataType::kFloat64 ||
                            wanted.type() == DataType::kFloat16 || wanted.type() == DataType::kBfloat16;
      pairs.push_back(
          {actual.at(results[k].name).tensor(), wanted, is_float ? tolerance * largest(wanted) : 0});
    }
    const int64_t found = RowMatching(pairs, count).run();
    for (const size_t k : group) {
      results[k].rows_found = found;
      results[k].as_set = found == count;
    }
  }
  return results;
}

}  // namespace kodama::compiler
