#pragma once

#include <mutex>
#include <string>
#include <unordered_map>

#include "scheduler/problem/schedule_problem.h"

/// Layers of a network repeat their kernels: problems of instruction scheduling come again with other names
/// and addresses, and a scheduler makes the same of them. It is asked once.
///
/// Two problems are the same when all numbers of them are; texts and names decide nothing. A scheduler's
/// answer depends on the problem and its options alone, which is a rule for Kodama's own (`BlockScheduler`);
/// plugins are asked every time.
///
/// Example: a network with 50 times the same activation has 50 loops with the same dependences; the modulo
/// scheduler searches an interval for the first.
namespace kodama::scheduler {

class KnownSchedules {
 public:
  /// What `scheduler` makes of the problem, now or before. Throws what the scheduler throws. Several threads
  /// may ask at a time.
  Schedule run(const BlockScheduler& scheduler, const ScheduleProblem& problem,
               const passes::PassOptions& options);

 private:
  /// Of all keys and schedules; what comes when it is reached is not remembered.
  static constexpr size_t kMostBytes = size_t{1} << 26;

  std::mutex mutex_;
  std::unordered_map<std::string, Schedule> known_;
  size_t bytes_ = 0;
};

}  // namespace kodama::scheduler
