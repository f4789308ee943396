#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/driver/random_nodes.h"

/// How random models use every operator: one row each. Private to compiler/driver.
namespace kodama::compiler {

/// How the chip's result may differ from the reference's for the same operands.
enum class RowErrors : uint8_t {
  kNone,          ///< not at all: bits are moved, chosen or compared, or integers are computed
  kRounds,        ///< by the rounding of the result
  kSums,          ///< by the rounding of sums, relative to the largest element of an operand
  kDeterminants,  ///< by the rounding of the terms of Leibniz' formula, of which little may be left
  kProducts,      ///< by the precision of matrix products, relative to the largest element of an operand
  kWeights,       ///< the same, and products are with numbers that the operator makes, as in interpolation
};

struct RandomRow {
  std::string name;  ///< as docs/operators.md has it
  /// Adds a node of the operator `op`, with others that it needs. RandomNodes::Misfit if it can't.
  std::function<void(RandomNodes& nodes, const std::string& op)> add;
  RowErrors errors = RowErrors::kRounds;
  /// Small changes of operands that are floats change results a lot (comparisons, rounding to integers): it
  /// is compared for the operands that the chip has computed, which are outputs of the model for that.
  bool steps = false;
  /// Models with it are compiled in parts while they run.
  bool is_dynamic = false;
  /// Defined for all operands, with results that don't grow: for graphs in nodes, which run on many values.
  bool in_bodies = false;
  /// The first output of which `steps` is true: of MaxPool only places step, not the largest elements.
  int first_step = 0;
};

/// In the order of docs/operators.md.
const std::vector<RandomRow>& random_rows();
/// The row of an operator of ONNX, or of its training domain.
const RandomRow& random_row(const std::string& op);
/// Whether small changes of what a node reads change some of its results a lot (RandomRow::steps).
bool takes_steps(const onnx::NodeProto& node);
/// Operators without a row, with the reason.
const std::map<std::string, std::string>& operators_without_row();

/// The rows by kind, a function for each file.
std::vector<RandomRow> element_wise_rows();
std::vector<RandomRow> movement_rows();
std::vector<RandomRow> indexing_rows();
std::vector<RandomRow> reduction_rows();
std::vector<RandomRow> window_rows();
std::vector<RandomRow> product_rows();
std::vector<RandomRow> other_rows();
std::vector<RandomRow> control_rows();

}  // namespace kodama::compiler
