#pragma once

#include "simulator/engine/chip_memories.h"
#include "simulator/engine/decode.h"
#include "simulator/engine/l1b.h"

/// Steps that reach beyond their L1B: L2BM instructions, and the way into the DAR.
namespace kodama::simulator {

/// One step in an L2B: what its L2BM instructions read, then its L1Bs, then what those instructions write.
void run_step_in_l2b(const Node& node, int l2b, const Counters& counters, ChipMemories& memories,
                     Scratch& scratch);

/// An instruction of a step from L2BM to L1BM, for one L1B of the chip. The L2BM must not change in the step.
void fetch_from_l2bm(const MicroOp& op, int number, const Counters& counters, ChipMemories& memories);

/// l2bmdars and l2bmdarw of a step, in all groups.
void run_dar_operations(const Node& node, const Counters& counters, ChipMemories& memories);

}  // namespace kodama::simulator
