#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "isa/chip.h"
#include "isa/program.h"
#include "scheduler/machine_program.h"
#include "scheduler/pass_options.h"
#include "scheduler/schedule_problem.h"

/// From a machine program whose values have addresses to a program: a problem (schedule_problem.h) is made of
/// every block and given to a scheduler by name. Nothing leaves its block; what issued before a block is part
/// of its problem.
///
/// A loop is a block that repeats, with `nop`s at its end as far as the next iteration needs them. Where its
/// body is one block without transfers, a loop scheduler may let iterations overlap, if that is shorter: code
/// for iterations that begin, a loop, and code for those that end.
namespace kodama::scheduler {

/// Names of schedulers; empty = default.
struct SchedulerChoice {
  std::string blocks = {};
  std::string loops = {};
  PassOptions options = {};  ///< of both
  /// Receives every problem before it is solved; may be empty.
  std::function<void(const ScheduleProblem&)> observe = {};
};

/// Every schedule is checked against its problem. InternalError when one is wrong.
isa::Program schedule_program(const MachineProgram& program, const isa::Chip& chip,
                              const SchedulerChoice& choice = {});

}  // namespace kodama::scheduler
