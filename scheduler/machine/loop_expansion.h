#pragma once

#include <cstdint>

#include "isa/chip.h"
#include "scheduler/machine/machine_program.h"

/// Copies of loop bodies, for loops whose iterations will overlap ("modulo variable expansion"). A value that
/// every iteration writes before it reads is one register, so an iteration can't write it before the one
/// before has read it: overlapping ends there. Of a body that stands there several times, each copy has
/// registers of its own.
///
/// Example: with two copies,
///
///     Loop 9 { load %x[8k] -> %t;  add %s, %t -> %s }
///
/// becomes
///
///     Loop 4 { load %x[16k] -> %t;  add %s, %t -> %s;  load %x[16k+8] -> %t.1;  add %s, %t.1 -> %s }
///     load %x[64] -> %t;  add %s, %t -> %s
///
/// A matrix register that an iteration writes before it reads is such a value, too: every second copy takes
/// the other one, where the body leaves it free and no block of the program reads what it didn't write.
namespace kodama::scheduler {

/// Expands the innermost loops of one block without transfers, as far as iterations have values of their own:
/// to as many copies as an iteration's longest way is longer than what it keeps a unit busy, and
/// `most_copies`. Returns whether anything changed.
bool expand_loops(MachineProgram& program, const isa::Chip& chip, int64_t most_copies);

}  // namespace kodama::scheduler
