#pragma once

#include <optional>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "scheduler/optimizer/cluster_scheduling.h"

/// Segments of the optimizer by the compiler's instruction schedulers. Internal to scheduler/.
namespace kodama::scheduler {

/// UserError when there is no scheduler of blocks with this name; none is asked for by "".
void check_scheduler(const std::string& name);

/// Issue times of the segment, behind `before`; nothing where the scheduler can't be asked: forwarding, block
/// masks, operations that must stay together, the DAR.
std::optional<ClusterScheduler::Times> schedule_by_name(const std::string& name, const StreamSegment& segment,
                                                        const std::vector<RecentOperation>& before,
                                                        const isa::Chip& chip);

}  // namespace kodama::scheduler
