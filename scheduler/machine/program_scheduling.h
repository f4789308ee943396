#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "isa/chip.h"
#include "isa/program.h"
#include "passes/pass_options.h"
#include "scheduler/machine/machine_program.h"
#include "scheduler/problem/known_schedules.h"
#include "scheduler/problem/schedule_problem.h"

/// From a machine program whose values have addresses to a program: a problem (schedule_problem.h) is made of
/// every block and given to a scheduler by name. Nothing leaves its block; what issued before a block is part
/// of its problem.
///
/// A loop is a block that repeats, with `nop`s at its end as far as the next iteration needs them. Where its
/// body is one block without transfers, a loop scheduler may let iterations overlap, if that is shorter: code
/// for iterations that begin, a loop, and code for those that end.
namespace kodama::scheduler {

/// What is known of the schedules that a program is made of. Each block counts once, however often it runs; a
/// loop whose iterations overlap counts as one.
struct ScheduleProofs {
  int64_t schedules = 0;
  int64_t proven = 0;         ///< one of Kodama's own schedulers has shown that none is shorter
  int64_t gave_up = 0;        ///< the scheduler's search ended at its limit
  int64_t gave_up_steps = 0;  ///< steps (loops: intervals) of those where it gave up, added up
  int64_t gave_up_bound = 0;  ///< as many of them are shown to be needed

  ScheduleProofs& operator+=(const ScheduleProofs& other);
  bool operator==(const ScheduleProofs&) const = default;
};

/// Names of schedulers; empty = default.
struct SchedulerChoice {
  std::string blocks = {};
  std::string loops = {};
  passes::PassOptions options = {};  ///< of both
  /// Receives every problem before it is solved; may be empty.
  std::function<void(const ScheduleProblem&)> observe = {};
  /// Receives, at the end, what is known of the schedules that the program is made of; may be empty.
  std::function<void(const ScheduleProofs&)> conclude = {};
  KnownSchedules* known = nullptr;  ///< of programs before this one; null: those of this program alone
};

/// Every schedule is checked against its problem. InternalError when one is wrong.
isa::Program schedule_program(const MachineProgram& program, const isa::Chip& chip,
                              const SchedulerChoice& choice = {});

}  // namespace kodama::scheduler
