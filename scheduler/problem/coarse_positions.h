#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/problem/transfer_problem.h"

/// A transfer problem with fewer positions, for schedulers whose time grows with them: tasks are one where
/// nothing begins or ends between them, no transfer must be issued there, and they take no longer than it
/// takes to start a transfer. What is planned with these is a schedule of the problem itself. Where positions
/// are few they stay as they are.
///
/// Example, starts 16 cycles apart, tasks of 4 cycles, a load at position 6 at the latest:
///
///     tasks  0 1 2 3 | 4 5 | 6 7 8 9 | ...      positions 0, 4, 6, 10
namespace kodama::scheduler {

class CoarsePositions {
 public:
  /// That many positions are few.
  static constexpr size_t kFew = size_t{1} << 16;

  explicit CoarsePositions(const TransferProblem& problem, size_t few = kFew);

  const TransferProblem& problem() const { return coarse_; }
  bool is_coarser() const { return is_coarser_; }
  /// The first of its positions at or behind one of the problem it was made of.
  int64_t coarse(int64_t position) const;
  /// A schedule of `problem()` with the positions of the problem it was made of.
  TransferSchedule refined(TransferSchedule schedule) const;

 private:
  TransferProblem coarse_;
  bool is_coarser_ = false;
  std::vector<int64_t> position_;  ///< by position
};

}  // namespace kodama::scheduler
