#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/tensor/comparison.h"
#include "compiler/tensor/value.h"

namespace kodama::compiler {

/// How a value is beside what it should be.
struct ValueComparison {
  std::string name;
  /// Of all tensors of the value: the largest errors. `problem` says what else differs: kinds, lengths.
  Comparison worst;
  /// The value is right as one of a set: its rows are those that are expected, in another order.
  bool as_set = false;
};

/// Compares all values of `expected`. Where tensors of `rows` differ, and several of them have as many rows,
/// a row of all of them together is one thing (a detector's box, label and score): their order may be
/// another.
std::vector<ValueComparison> compare_values(const ValueMap& actual, const ValueMap& expected,
                                            const std::set<std::string>& rows, double tolerance);

}  // namespace kodama::compiler
