#include "scheduler/problem/known_schedules.h"

#include <utility>

namespace kodama::scheduler {
namespace {

/// All that a scheduler can decide by, as bytes: no two problems have the same.
class ProblemKey {
 public:
  ProblemKey(const BlockScheduler& scheduler, const ScheduleProblem& problem,
             const passes::PassOptions& options) {
    text(scheduler.name);
    number(std::ssize(options));
    for (const auto& [name, value] : options) {
      text(name);
      text(value);
    }
    number(problem.is_loop ? 1 : 0);
    number(std::ssize(problem.resources));
    for (const auto& resource : problem.resources) number(resource.capacity);
    number(std::ssize(problem.classes));
    number(std::ssize(problem.operations));
    for (const auto& operation : problem.operations) {
      number(operation.earliest);
      number(operation.takes_step ? 1 : 0);
      number(std::ssize(operation.uses));
      for (const auto& use : operation.uses) {
        number(use.resource);
        number(use.key);
        number(use.invariant ? 1 : 0);
      }
      number(std::ssize(operation.classes));
      for (const int c : operation.classes) number(c);
    }
    number(std::ssize(problem.dependences));
    for (const auto& edge : problem.dependences) {
      number(edge.from);
      number(edge.to);
      number(edge.distance);
      number(edge.iterations);
    }
    number(std::ssize(problem.separations));
    for (const auto& each : problem.separations) {
      number(each.first);
      number(each.second);
      number(each.steps);
    }
  }
  std::string take() { return std::move(bytes_); }

 private:
  /// Small ones, of either sign, are one byte; the highest bit says that more follow.
  void number(int64_t value) {
    auto rest = static_cast<uint64_t>(value) << 1 ^ (value < 0 ? ~uint64_t{0} : 0);
    for (; rest >= 128; rest >>= 7) bytes_.push_back(static_cast<char>(rest % 128 + 128));
    bytes_.push_back(static_cast<char>(rest));
  }
  void text(const std::string& value) {
    number(std::ssize(value));
    bytes_ += value;
  }

  std::string bytes_;
};

}  // namespace

Schedule KnownSchedules::run(const BlockScheduler& scheduler, const ScheduleProblem& problem,
                             const passes::PassOptions& options) {
  if (!scheduler.plugin.empty()) return scheduler.run(problem, options);
  std::string key = ProblemKey(scheduler, problem, options).take();
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
  }
  Schedule schedule = scheduler.run(problem, options);
  const std::lock_guard lock(mutex_);
  const size_t bytes = key.size() + schedule.issue.size() * sizeof(schedule.issue[0]);
  if (bytes_ + bytes > kMostBytes) return schedule;
  bytes_ += bytes;
  return known_.emplace(std::move(key), std::move(schedule)).first->second;
}

}  // namespace kodama::scheduler
