#include "scheduler/problem/coarse_positions.h"

#include <algorithm>

#include "scheduler/problem/indexing.h"

namespace kodama::scheduler {

CoarsePositions::CoarsePositions(const TransferProblem& problem, size_t few) : coarse_(problem) {
  const size_t tasks = problem.task_cycles.size();
  is_coarser_ = tasks >= few;
  std::vector<bool> is_event(tasks + 1, !is_coarser_);
  is_event[0] = is_event[tasks] = true;
  for (const TransferProblem::Transfer& transfer : problem.transfers)
    is_event[index(transfer.earliest)] = is_event[index(transfer.latest)] = true;
  for (const TransferProblem::Buffer& buffer : problem.buffers)
    is_event[index(buffer.first_task)] = is_event[index(buffer.last_task) + 1] = true;

  std::vector<int64_t> number(tasks + 1);  // of the position at or before each
  coarse_.task_cycles.clear();
  for (size_t task = 0; task < tasks; ++task) {
    const int64_t cycles = problem.task_cycles[task];
    if (is_event[task] || coarse_.task_cycles.back() + cycles > problem.issue_interval) {
      position_.push_back(static_cast<int64_t>(task));
      coarse_.task_cycles.push_back(cycles);
    } else {
      coarse_.task_cycles.back() += cycles;
    }
    number[task] = std::ssize(position_) - 1;
  }
  number[tasks] = std::ssize(position_);
  position_.push_back(static_cast<int64_t>(tasks));

  for (TransferProblem::Transfer& transfer : coarse_.transfers) {
    transfer.earliest = number[index(transfer.earliest)];
    transfer.latest = number[index(transfer.latest)];
  }
  for (TransferProblem::Buffer& buffer : coarse_.buffers) {
    buffer.first_task = number[index(buffer.first_task)];
    buffer.last_task = number[index(buffer.last_task)];
  }
}

int64_t CoarsePositions::coarse(int64_t position) const {
  return std::ranges::lower_bound(position_, position) - position_.begin();
}

TransferSchedule CoarsePositions::refined(TransferSchedule schedule) const {
  for (int64_t& issue : schedule.issue) {
    if (issue != TransferSchedule::kDropped) issue = position_[index(issue)];
  }
  return schedule;
}

}  // namespace kodama::scheduler
