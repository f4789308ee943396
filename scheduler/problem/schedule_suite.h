#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "passes/pass_options.h"
#include "scheduler/problem/schedule_problem.h"

/// Studying schedulers without the compiler: `kodama schedule` and `kodama bench schedule`.
namespace kodama::scheduler {

/// A random block, or loop with recurrences, of an imaginary machine with the units, latencies and ports of a
/// VLIW processor: the same for the same seed everywhere.
ScheduleProblem random_problem(uint64_t seed, int operations, bool is_loop);

/// Runs a scheduler, whose options these are, and checks its schedule. InternalError, of a plugin PassError,
/// that names the broken rule.
Schedule checked_schedule(const ScheduleProblem& problem, const BlockScheduler& scheduler,
                          const passes::PassOptions& options);

struct ScheduleFileRequest {
  std::string file;
  std::string scheduler;  ///< empty: the default of blocks or loops
  passes::PassOptions options;
  std::string output;    ///< the schedule as JSON; empty: none
  std::string schedule;  ///< checks this schedule instead of making one; empty: none
  /// Receives a block or loop and its schedule, if that is right; may be empty.
  std::function<void(const ScheduleProblem&, const Schedule&)> draw = {};
};
/// Solves the problem of a JSON file and prints steps and bounds, and what issues when. The exit code: 1 when
/// a schedule is wrong, or is said to be the shortest and isn't. That none is shorter is only printed where
/// our bound or our search has shown it, whatever a file or plugin says.
int schedule_file(const ScheduleFileRequest& request, std::ostream& out);

struct ScheduleBenchRequest {
  std::string directory;                ///< JSON problems; empty: none
  int random_blocks = 200;              ///< seeds 1, 2, …
  std::vector<std::string> schedulers;  ///< empty: all
  passes::PassOptions options;
  bool details = false;  ///< a line per problem
};
/// All problems by all schedulers: steps, lower bound, gap, time; per scheduler the geometric mean of steps
/// over bound, and how many are proven. InternalError, of a plugin PassError, when a schedule is wrong, or
/// better than a proven optimum.
int bench_schedules(const ScheduleBenchRequest& request, std::ostream& out);

}  // namespace kodama::scheduler
