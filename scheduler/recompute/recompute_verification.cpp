#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/recompute/recompute.h"

namespace kodama::scheduler {
namespace {

/// What must be there, from the end backwards.
class BackwardWalk {
 public:
  explicit BackwardWalk(const RecomputeProblem& problem) : problem_(problem) {
    for (const auto& value : problem.values) wanted_.push_back(value.is_kept);
  }

  /// The step `operation`, which runs before all that were told until now; `is_first` of this operation.
  void step(const RecomputeProblem::Operation& operation, bool is_first) {
    int64_t bytes = operation.workspace;
    std::vector<bool> alive = wanted_;
    for (const int value : operation.reads) alive[static_cast<size_t>(value)] = true;
    for (const int value : operation.makes) {
      // A kept value is there since it was made first.
      alive[static_cast<size_t>(value)] = true;
      wanted_[static_cast<size_t>(value)] = problem_.values[static_cast<size_t>(value)].is_kept && !is_first;
    }
    for (size_t value = 0; value < alive.size(); ++value)
      bytes += alive[value] ? problem_.values[value].bytes : 0;
    peak = std::max(peak, bytes);
    cycles += operation.cycles;
    for (const int value : operation.reads) wanted_[static_cast<size_t>(value)] = true;
  }
  /// A value that is wanted and that nothing makes; -1: none.
  int missing() const {
    const auto found = std::ranges::find(wanted_, true);
    return found == wanted_.end() ? -1 : static_cast<int>(found - wanted_.begin());
  }

  int64_t peak = 0;
  int64_t cycles = 0;

 private:
  const RecomputeProblem& problem_;
  std::vector<bool> wanted_;
};

}  // namespace

std::string schedule_fault(const RecomputeProblem& problem, const RecomputeSchedule& schedule) {
  const bool is_solved = schedule.status == RecomputeStatus::kSolved;
  if (schedule.steps.empty() && !problem.operations.empty())
    return is_solved ? "solved, without steps" : std::string();
  std::vector<int64_t> times(problem.operations.size(), 0);
  std::vector<bool> is_first(schedule.steps.size(), false);
  for (size_t k = 0; k < schedule.steps.size(); ++k) {
    const int step = schedule.steps[k];
    if (step < 0 || std::cmp_greater_equal(step, problem.operations.size()))
      return fmt::format("step {} is operation {}, of {}", k, step, problem.operations.size());
    is_first[k] = ++times[static_cast<size_t>(step)] == 1;
  }
  for (size_t k = 0; k < times.size(); ++k) {
    const auto& operation = problem.operations[k];
    if (times[k] == 0) return fmt::format("operation '{}' is left out", operation.name);
    if (times[k] > 1 && operation.once)
      return fmt::format("operation '{}' is done {} times, and can't be repeated", operation.name, times[k]);
  }
  BackwardWalk walk(problem);
  for (size_t k = schedule.steps.size(); k-- > 0;)
    walk.step(problem.operations[static_cast<size_t>(schedule.steps[k])], is_first[k]);
  if (const int value = walk.missing(); value >= 0)
    return fmt::format("value '{}' is read before it is made",
                       problem.values[static_cast<size_t>(value)].name);
  if (walk.peak != schedule.peak) return fmt::format("the peak is {}, not {}", walk.peak, schedule.peak);
  if (walk.cycles != schedule.cycles)
    return fmt::format("the steps take {} cycles, not {}", walk.cycles, schedule.cycles);
  if (is_solved && walk.peak > problem.limit)
    return fmt::format("the peak {} exceeds the limit {}", walk.peak, problem.limit);
  if (schedule.status == RecomputeStatus::kInfeasible && walk.peak <= problem.limit)
    return fmt::format("called infeasible, with a peak of {} <= {}", walk.peak, problem.limit);
  return {};
}

}  // namespace kodama::scheduler
