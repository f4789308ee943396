#pragma once

#include <iosfwd>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compiler/package/compiled_model.h"
#include "compiler/plan/model_plan.h"
#include "compiler/runtime/comparison.h"
#include "compiler/runtime/runner.h"

/// What a run prints: the layer table, totals, outputs; and the same as JSON.
namespace kodama::compiler {

/// Errors by tensor name.
using Comparisons = std::map<std::string, Comparison>;

/// That of a stage's first result which has one; null: none.
const Comparison* find_comparison(const Stage& stage, const CompiledModel& model,
                                  const Comparisons& comparisons);

/// What a model's runs with the same inputs were like; there is one at least.
struct Runs {
  int64_t count = 0;
  int64_t first_cycles = 0;        ///< RunOutcome::first_cycles of the first
  double first_dram_bytes = 0;     ///< of the first
  const RunOutcome& steady_state;  ///< the last
};
/// One row per stage: operators, kind, shape, where, steps, cycles, host relayouts, errors; then the totals.
/// They are of the last run; the first, with all that happens once, has a line.
void print_layer_table(const CompiledModel& model, const Runs& runs, const Comparisons& comparisons,
                       std::ostream& out);
/// One line if a run has several slices of the batch; nothing otherwise.
void print_slices(const CompiledModel& model, std::ostream& out);
/// The relayouts on the chip: from which layouts to which, cycles, bound, and what they take of all cycles.
void print_relayouts(const CompiledModel& model, const RunOutcome& outcome, std::ostream& out);
/// The relayouts of a plan that is not compiled: the same with estimated cycles.
void print_planned_relayouts(const ModelPlan& plan, const LayerGraph& graph, std::ostream& out);
/// One row per planner.
void print_plans(const std::vector<PlanSummary>& plans, std::ostream& out);
nlohmann::ordered_json plans_to_json(const std::vector<PlanSummary>& plans);
/// Host layers with operator, node and reason; nothing if there are none.
void print_host_layers(const CompiledModel& model, std::ostream& out);
/// One line if the host takes a fifth of all cycles or more, with what takes most of them. `shares`: cycles
/// by node, "Add 'n'", each with the reason why it is there.
struct HostShare {
  std::string node;
  std::string reason;
  int64_t cycles = 0;
};
void print_host_share(const std::vector<HostShare>& shares, int64_t all_cycles, std::ostream& out);
/// Of a run: its Host layers.
std::vector<HostShare> host_shares(const CompiledModel& model, const RunOutcome& outcome);
/// One line if the search of a scheduler of blocks gave up somewhere: where nothing shorter is known, but
/// might exist. Nothing otherwise.
void print_schedules_given_up(const CompiledModel& model, std::ostream& out);

class TracedRun;
/// All of it, which `kodama report` makes a page of: per stage and in total the numbers of the layer table;
/// the network (network_json.h); of a traced run its timeline, transfers and memories (traced_run.h).
nlohmann::ordered_json run_to_json(const CompiledModel& model, const Runs& runs,
                                   const Comparisons& comparisons, const Comparisons& outputs,
                                   const TracedRun* traced = nullptr);

}  // namespace kodama::compiler
