#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "passes/pass_options.h"

/// Instruction scheduling as a problem of its own: when does each operation of a block, or of the body of a
/// loop, issue? Nothing here knows the instruction set; machine_problem.h makes such problems of operations.
///
/// Every operation issues in one step. Four things restrict it:
///
///   - resources: what it uses in the step in which it issues. A resource has room for `capacity` users;
///   users
///     with the same key (>= 0) share a place. A unit is a resource without keys; a read port of a memory one
///     whose keys are addresses: operations that read the same may share it;
///   - dependences: issue(to) >= issue(from) + distance. 0 = the same step or later; over iterations (see
///     below) a distance may be negative;
///   - separations: an operation of class `second` doesn't issue in the `steps` steps after one of class
///     `first`, whichever of them comes first in the program (the one port of LM: writes last longer than a
///     step);
///   - its earliest step, because of what issued before the block.
///
/// In a loop, iteration k of everything issues k * interval steps after iteration 0, and dependences reach
/// over `iterations` iterations: issue(to) + iterations * interval >= issue(from) + distance.
///
/// Example: s += x[k] * y[k], with one unit each and a result three steps after its operation
///
///     operations    0 "load x", 1 "load y" (unit "load");  2 "product" (unit "mau");  3 "sum" (unit "alu")
///     dependences   0 -> 2 by 3, 1 -> 2 by 3, 2 -> 3 by 3, and 3 -> 3 by 3 over one iteration
///
/// As a block it takes 8 steps: loads in 0 and 1, the product in 4, the sum in 7; no schedule is shorter, as
/// the longest path says (0, 3, 3, 1) and the two loads, of which one is second. As a loop its interval is at
/// least 2 (two loads on one unit) and at least 3 (the sum needs itself); at 3 an iteration starts every
/// three steps while those before are still under way.
namespace kodama::scheduler {

struct ScheduleProblem {
  struct Resource {
    std::string name;
    int64_t capacity = 1;
  };
  struct Use {
    int resource = 0;
    int64_t key = -1;  ///< users with the same key share; -1: with nobody
    /// Loops: the key means the same in every iteration, so that users of different iterations share, too.
    bool invariant = false;
    bool operator==(const Use&) const = default;
  };
  struct Operation {
    std::string text;  ///< for people
    int64_t earliest = 0;
    /// MVs are statements between steps: they issue just before the step of their time and use nothing.
    bool takes_step = true;
    std::vector<Use> uses;
    std::vector<int> classes;
  };
  struct Dependence {
    int from = 0;
    int to = 0;
    int64_t distance = 0;
    int64_t iterations = 0;  ///< loops only
  };
  struct Separation {
    int first = 0;
    int second = 0;
    int64_t steps = 0;
  };

  std::string name;
  bool is_loop = false;
  std::vector<Resource> resources;
  std::vector<std::string> classes;
  std::vector<Operation> operations;  ///< in program order: dependences of no iterations lead forward
  std::vector<Dependence> dependences;
  std::vector<Separation> separations;
};

struct Schedule {
  std::vector<int64_t> issue;  ///< by operation
  int64_t interval = 0;        ///< loops only
  /// Nothing is better, says who made it. It is believed of Kodama's own schedulers alone (schedule_suite.h).
  bool is_optimal = false;
  /// Its scheduler has shown that no schedule is shorter than this; 0: it has shown nothing.
  int64_t shown_bound = 0;
  bool gave_up = false;  ///< the scheduler's search ended at its limit
};

/// Steps of a block, or of one iteration: up to the last operation that takes one.
int64_t schedule_steps(const ScheduleProblem& problem, const Schedule& schedule);

/// What no schedule can beat. `block_bound` is in steps, `interval_bound` the least interval that resources
/// (and separations) and recurrences leave.
struct BlockBound {
  int64_t critical_path = 0;
  int64_t resources = 0;  ///< uses of the busiest, with the paths before and behind them
  int64_t steps() const { return critical_path > resources ? critical_path : resources; }
};
BlockBound block_bound(const ScheduleProblem& problem);
struct IntervalBound {
  int64_t resources = 0;
  int64_t recurrences = 0;
  int64_t interval() const { return resources > recurrences ? resources : recurrences; }
};
IntervalBound interval_bound(const ScheduleProblem& problem);

/// Distances, earliest steps and steps of separations are at most this (distances over iterations: at least
/// its negative), dependences reach over at most `kMostIterations`: sums of them never overflow.
inline constexpr int64_t kMostSteps = 1'000'000'000;
inline constexpr int64_t kMostIterations = 1000;
/// Empty when the problem is one: numbers in range, every operation fits into a step by itself, dependences
/// of no iterations lead forward in the program by 0 steps or more. Else what is wrong, and what is allowed.
std::string problem_fault(const ScheduleProblem& problem);
/// InternalError with the fault.
void check_problem(const ScheduleProblem& problem);
/// Shares no code with the schedulers. Empty when the schedule is right; else the rule that is broken, with
/// the operations that break it.
std::string schedule_fault(const ScheduleProblem& problem, const Schedule& schedule);

/// A scheduler by name. Blocks and loops may have different ones.
struct BlockScheduler {
  std::string name;
  std::string description;
  std::vector<passes::PassOptionInfo> options = {};
  bool for_blocks = true;
  bool for_loops = false;  ///< finds an interval, too
  /// Iterations may overlap: loops get copies of their bodies, each with registers of its own.
  bool overlaps = false;
  std::function<Schedule(const ScheduleProblem&, const passes::PassOptions&)> run;
  std::string plugin = {};  ///< the file it came from; empty: Kodama's own. Filled by register_pass
};
const std::vector<BlockScheduler>& block_schedulers();
void register_pass(BlockScheduler scheduler);
/// UserError listing the names when there is none.
const BlockScheduler& find_block_scheduler(std::string_view name, bool for_loop);

/// As JSON, to study schedulers without the compiler. UserError naming file (or other source) and field when
/// the text isn't a problem or schedule.
std::string to_json(const ScheduleProblem& problem);
ScheduleProblem problem_from_json(const std::string& text, const std::string& source);
std::string to_json(const ScheduleProblem& problem, const Schedule& schedule);
Schedule schedule_from_json(const ScheduleProblem& problem, const std::string& text,
                            const std::string& source);

}  // namespace kodama::scheduler
