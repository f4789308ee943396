#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/driver/shrink_graph.h"
#include "compiler/dynamic/compare_values.h"

/// Comparison of models that decide by numbers which they have computed.
///
/// Rounding errors of an operand that is compared, sorted or rounded to an integer aren't small in the
/// result: of two boxes whose scores are equal in the reference, the chip may keep the other one, and what
/// follows is then of other boxes. Neither is wrong. Such operands are compared themselves, and what is made
/// of them is compared with what the reference makes of the same: of the values that the chip has computed.
/// Every operator is held to the reference that way, and errors don't get past an operand that was compared.
namespace kodama::compiler {

/// The same with more outputs: what operators read whose results a small change of operands changes a lot
/// (takes_steps of random_rows.h), if it isn't exact.
GraphProblem with_outputs_to_compare(GraphProblem problem);

/// Values of the model's outputs as they follow from the operands that the chip had: where those are outputs,
/// too, what the chip has made of them, and else what the reference makes of others.
ValueMap outputs_of_chip_operands(const GraphProblem& problem, const ValueMap& of_chip);
/// What nodes read instead of `computed`: what the chip has made of it, if `of_chip` has the value and others
/// can compute with it as well.
const Value& operand_of_chip(const std::string& name, const Value& computed, const ValueMap& of_chip);

/// Outputs beside what the reference makes of the chip's operands.
struct OperandsComparison {
  std::vector<ValueComparison> operands;  ///< added outputs, each beside what those before it lead to
  std::vector<ValueComparison> outputs;   ///< of the model
  /// Outputs whose bits aren't those of the run without the operands: nothing is shown of that run then.
  std::vector<std::string> changed;
  bool is_within(double tolerance) const;
};
/// Runs the model once more, by `run`, with all such operands as outputs. `outputs`: of the run in question.
/// None if there are no such operands.
std::optional<OperandsComparison> compare_with_chip_operands(
    const GraphProblem& problem, const ValueMap& outputs,
    const std::function<ValueMap(const GraphProblem&)>& run);

}  // namespace kodama::compiler
