#pragma once

#include <string>

#include "scheduler/problem/schedule_problem.h"

/// `kodama schedule --draw`: what depends on what, and what issues when.
namespace kodama::tools {

/// As SVG: the dependences, drawn by Graphviz, and below them the steps from left to right with a row for
/// every unit (resources that operations name "unit …"; others, if there are none), each operation by its
/// number. Of a loop the first iteration, with a line at every interval.
/// UnsupportedError for more steps than a picture shows.
std::string schedule_svg(const scheduler::ScheduleProblem& problem, const scheduler::Schedule& schedule);
/// The dependences alone, in Graphviz' own language, for other drawings of it.
std::string schedule_dot(const scheduler::ScheduleProblem& problem, const scheduler::Schedule& schedule);

}  // namespace kodama::tools
