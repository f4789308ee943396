#pragma once

#include "compiler/plan/problem_bound.h"
#include "compiler/report/report.h"

/// What the tables and the JSON have in common. Private to compiler/report.
namespace kodama::compiler {

/// Relayouts are no part of the problem, and layers on the host take no cycles.
ProblemWork work_of(const Stage& stage);

}  // namespace kodama::compiler
