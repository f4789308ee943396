#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/graph/gradient/choice.h"
#include "compiler/graph/gradient/terms.h"

/// Losses, optimizers and schedules of learning rates: a row each. Private to compiler/graph/gradient.
namespace kodama::compiler::gradient {

/// What an update sees, all of the parameter's type; the learning rate is a number of that type.
struct UpdateStep {
  Term parameter, gradient, rate;
  std::vector<Term> slots;   ///< state of the parameter's shape
  std::vector<Term> shared;  ///< state that all parameters share, as it is in this step
};
struct Updated {
  Term parameter;
  std::vector<Term> slots;
};

/// State of a single number that is computed once a step.
struct SharedSlot {
  std::string name;
  Term (*next)(const Choice& options, const Term& now);
};

struct OptimizerRow {
  ChoiceRow choice;
  std::vector<std::string> slots;  ///< per parameter; zeros in the beginning
  std::vector<SharedSlot> shared;  ///< zero in the beginning
  Updated (*update)(const Choice& options, const UpdateStep& step);
};
const std::vector<OptimizerRow>& optimizer_rows();

struct ScheduleRow {
  ChoiceRow choice;
  /// The factor of the learning rate in a step, from the number of steps before it (of float32).
  Term (*factor)(const Choice& options, const Term& steps);
};
const std::vector<ScheduleRow>& schedule_rows();

struct LossRow {
  ChoiceRow choice;
  bool has_classes = false;  ///< labels are int64 numbers of classes: of [N, C, d...] they are [N, d...]
  /// A scalar from the model's output and what it should be.
  Term (*loss)(const Choice& options, const Term& output, const Term& target);
};
const std::vector<LossRow>& loss_rows();

/// The choices of rows of any of these tables.
template <typename Row>
std::vector<ChoiceRow> choices_of(const std::vector<Row>& rows) {
  std::vector<ChoiceRow> choices;
  for (const Row& row : rows) choices.push_back(row.choice);
  return choices;
}
template <typename Row>
const Row& row_of(const std::vector<Row>& rows, const Choice& choice) {
  for (const Row& row : rows) {
    if (row.choice.name == choice.name) return row;
  }
  return rows.at(rows.size());  // parse_choice knows the rows' names alone
}

}  // namespace kodama::compiler::gradient
