#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "isa/chip.h"
#include "isa/sequencer.h"
#include "scheduler/optimizer/cluster_scheduling.h"
#include "scheduler/optimizer/operation_flow.h"
#include "scheduler/optimizer/optimize.h"
#include "scheduler/optimizer/program_stream.h"
#include "scheduler/optimizer/stream_changes.h"

/// The optimizer's search over one segment: which changes, and which order. Internal to scheduler/.
namespace kodama::scheduler {

struct SegmentSolution {
  StreamSegment segment;  ///< with the changes
  ClusterScheduler::Times times;
  int64_t length = INT64_MAX;  ///< steps; INT64_MAX: there is no schedule
  /// Predicted, of the program up to here and of some of what follows (Surroundings); 0 in segments without
  /// transfers, where fewer steps are fewer cycles.
  int64_t cycles = 0;
  int64_t critical_path = INT64_MAX;
  StepBounds bounds;
  std::vector<bool> enabled;               ///< by change
  std::map<std::string, int64_t> changes;  ///< made, by the name of their kind

  /// What the objective makes of steps and cycles: smaller is better.
  std::pair<int64_t, int64_t> rank(Objective objective) const {
    if (length == INT64_MAX) return {INT64_MAX, INT64_MAX};
    return objective == Objective::kCycles ? std::pair(cycles, length) : std::pair(length, cycles);
  }
};

/// What is around a segment in time.
struct Surroundings {
  const std::vector<RecentOperation>& before;  ///< issued shortly before
  const isa::CyclePredictor& clock;            ///< where it begins
  /// What follows in the input, up to some transfers and waits: who leaves transfers under way pays for it
  /// there.
  const std::vector<isa::Statement>& after;
};

/// The best schedule found.
SegmentSolution search_segment(const ProgramStream& stream, const OperationFlow& flow,
                               const ProgramSegment& segment, std::vector<StreamChange> changes,
                               const Surroundings& around, const OptimizeOptions& options,
                               const isa::Chip& chip);

}  // namespace kodama::scheduler
