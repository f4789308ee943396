#pragma once

#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"
#include "scheduler/problem/schedule_problem.h"

/// Scheduling problems of a finished program: each of its segments (optimize.h), its operations in the order
/// of the program, as a block of schedule_problem.h. Schedulers can be studied on them without the optimizer.
///
/// Example: `ladd $lm0v $ln0v $lr0v` before `nop` and `ladd $lr0v $ls0v $lr8v` becomes two operations, and a
/// dependence of distance 2 from the first to the second.
namespace kodama::scheduler {

struct ProgramProblems {
  std::vector<ScheduleProblem> problems;  ///< "NAME 1", "NAME 2", … by the place of the segment
  std::vector<Schedule> schedules;        ///< by problem: when its operations issue in the program
  int skipped = 0;                        ///< segments that are no such problem
};

/// Best of a plain form (plain_form()), which shows the schedulers no order but one that keeps the meaning.
/// What issued before a segment sets its operations' earliest steps, as in the program. Loops are unrolled,
/// segments of more than 600 operations cut.
///
/// A forwarding register holds its value until the next operation of its unit, as for the compiler's
/// schedulers: writers and readers of one keep their order. Other work in between, which a program better
/// avoids (isa/hazards.h reports it), is not forbidden.
///
/// Segments are skipped whose meaning is not in dependences and resources: with block masks, `noforward`, a
/// forwarding register read over a statement, the DAR, and operations of one step that read what each other
/// write, or write the same place. UserError when the program has hazards.
ProgramProblems program_problems(const isa::Program& program, const std::string& name, const isa::Chip& chip);

}  // namespace kodama::scheduler
