#pragma once

#include "isa/chip.h"
#include "isa/costs.h"
#include "isa/instruction.h"
#include "scheduler/optimizer/optimize.h"
#include "scheduler/optimizer/program_stream.h"

/// Operations of a program that nobody needs, for the optimizer. Internal to scheduler/.
namespace kodama::scheduler {

/// Takes out the destinations in `memory`; false when the instruction would be illegal without them.
bool drop_destinations(isa::Instruction& instruction, isa::HazardResource memory);

/// Marks as dead what has no results that anybody reads, and takes out destinations that nobody reads.
void prune_stream(ProgramStream& stream, const OptimizeOptions& options, const isa::Chip& chip);

}  // namespace kodama::scheduler
