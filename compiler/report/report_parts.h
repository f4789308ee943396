#pragma once

#include "compiler/plan/problem_bound.h"
#include "compiler/report/report.h"

/// What the tables and the JSON have in common. Private to compiler/report.
namespace kodama::compiler {

/// Relayouts are no part of the problem, and layers on the host take no cycles.
ProblemWork work_of(const Stage& stage);
/// Of the first output that was compared; null if none was.
const Comparison* find_comparison(const Stage& stage, const CompiledModel& model,
                                  const Comparisons& comparisons);

}  // namespace kodama::compiler
