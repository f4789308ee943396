#pragma once

#include <onnx/onnx_pb.h>

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
  /// Of those compared as a set, how many rows have a partner; -1: it wasn't.
  int64_t rows_found = -1;
};

/// Makes `worst` that of both.
void include(Comparison& worst, const Comparison& other);

/// The outputs of a model whose rows are found at run time and come in the order of numbers that were
/// computed: their number is open, and they depend on a TopK or NonMaxSuppression. Where such numbers are
/// equal but for rounding, the order of rows is, too, only as exact as these.
std::set<std::string> outputs_in_order_of_scores(const onnx::GraphProto& graph);

/// Compares all values of `expected`. Where tensors of `rows` differ, those with as many rows are compared
/// once more as a set, of which a row of all of them together is one thing (a detector's box, label and
/// score): their number must be that of the expected ones, and each must have a partner of its own among
/// these, in which every element is right by the same tolerance.
std::vector<ValueComparison> compare_values(const ValueMap& actual, const ValueMap& expected,
                                            const std::set<std::string>& rows, double tolerance);

}  // namespace kodama::compiler
