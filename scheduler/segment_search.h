#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "isa/chip.h"
#include "scheduler/cluster_scheduling.h"
#include "scheduler/operation_flow.h"
#include "scheduler/optimize.h"
#include "scheduler/program_stream.h"
#include "scheduler/stream_changes.h"

/// The optimizer's search over one segment: which changes, and which order. Internal to scheduler/.
namespace kodama::scheduler {

struct SegmentSolution {
  StreamSegment segment;  ///< with the changes
  ClusterScheduler::Times times;
  int64_t length = INT64_MAX;  ///< steps; INT64_MAX: there is no schedule
  int64_t critical_path = INT64_MAX;
  StepBounds bounds;
  std::vector<bool> enabled;  ///< by change
  int64_t forwarded = 0;      ///< operands that the changes turn into reads of forwarding registers
  int64_t renamed = 0;        ///< values that the changes move

  bool better_than(const SegmentSolution& other) const {
    return std::pair(length, critical_path) < std::pair(other.length, other.critical_path);
  }
};

/// The best schedule found, behind `before`.
SegmentSolution search_segment(const ProgramStream& stream, const OperationFlow& flow,
                               const ProgramSegment& segment, std::vector<StreamChange> changes,
                               const std::vector<RecentOperation>& before, const OptimizeOptions& options,
                               const isa::Chip& chip);

}  // namespace kodama::scheduler
