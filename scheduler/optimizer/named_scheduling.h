#pragma once

#include <optional>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "scheduler/optimizer/cluster_scheduling.h"

/// Segments of the optimizer by the compiler's instruction schedulers. Internal to scheduler/.
namespace kodama::scheduler {

/// UserError when there is no scheduler of blocks with the name that is asked for, and for options that
/// neither it nor a kind of change (stream_changes.h) has.
void check_choice(const OptimizeOptions& options);

/// Issue times of the segment, behind `before`, by options.scheduler; nothing where it can't be asked:
/// forwarding, block masks, operations that must stay together, the DAR.
std::optional<ClusterScheduler::Times> schedule_by_name(const OptimizeOptions& options,
                                                        const StreamSegment& segment,
                                                        const std::vector<RecentOperation>& before,
                                                        const isa::Chip& chip);

}  // namespace kodama::scheduler
