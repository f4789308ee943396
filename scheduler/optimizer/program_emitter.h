#pragma once

#include <cstdint>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"
#include "isa/sequencer.h"
#include "scheduler/optimizer/cluster_scheduling.h"
#include "scheduler/optimizer/program_stream.h"

/// From segments with issue times back to statements, for the optimizer. Internal to scheduler/.
namespace kodama::scheduler {

class ProgramEmitter {
 public:
  ProgramEmitter(const isa::Program& program, const isa::Chip& chip);

  /// What the next segment must keep its distance from.
  const std::vector<RecentOperation>& recent() const { return recent_; }
  /// Where in time the next segment begins.
  const isa::CyclePredictor& clock() const { return clock_; }

  /// The operations at these steps of the segment.
  void scheduled(const StreamSegment& segment, const ClusterScheduler::Times& times);
  /// As in the input, with nops in front as far as what comes before needs them.
  void verbatim(const ProgramStream& stream, const ProgramSegment& segment);
  void statement(const isa::Statement& statement);

  /// The program, once.
  isa::Program finish();

 private:
  void nops(int64_t count);
  void pass(std::vector<RecentOperation> issued, int64_t length);

  const isa::Chip& chip_;
  isa::CyclePredictor clock_;
  int64_t reach_;  ///< of hazards, in steps
  isa::Program result_;
  std::vector<RecentOperation> recent_;
};

}  // namespace kodama::scheduler
