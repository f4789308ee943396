#pragma once

#include <string_view>

#include "isa/chip.h"
#include "scheduler/machine/machine_program.h"

/// Runs two machine programs side by side, operation by operation and through all iterations, with marks in
/// place of data, and compares what operations read. Internal to verify/.
///
/// A mark says which operation made a word, and which of its words it is. When both programs come to their
/// next operation, it must be the same in every field, and every word it reads must have the same mark on
/// both sides; then both get the same new marks for what it writes. Where a value lives doesn't matter,
/// and copies, which one side may have more of than the other, move marks as they are:
///
///     before                              after
///     fvadd %a, %b -> %c                  fvadd %a, %b -> %c
///                                         lpassa %c -> %c.spilled         the marks of %c
///     fvmul %c, %d -> %e                  lpassa %c.spilled -> %f
///                                         fvmul %f, %d -> %e              reads the marks of %c
///
/// What nobody has written in `before` may be anything in `after`. Words of L1BM that `before` touches
/// nowhere are memory that copies (`l1bmd`) of `after` may use. All other memories have the same contents on
/// both sides, since the same operations touch them at the same addresses.
namespace kodama::verify {

struct LockstepSides {
  const scheduler::MachineProgram& before;
  const scheduler::MachineProgram& after;
  /// Values of `after` live at their homes and addresses; else, as those of `before`, each at a place of its
  /// own.
  bool after_has_places = false;
};

/// InternalError naming `verifier` and the first operation that gets other data.
void run_in_lockstep(const LockstepSides& sides, const isa::Chip& chip, std::string_view verifier);

}  // namespace kodama::verify
