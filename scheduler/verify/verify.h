#pragma once

#include <cstdint>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"
#include "scheduler/machine/machine_program.h"
#include "scheduler/segment/transfer_scheduling.h"

/// The verifiers of what the passes make. They share no code with the passes, which cannot link them: they
/// see the public structures and the tables of the ISA, and throw InternalError with the rule that is broken.
///
/// A model's program is right when each step on the way from the kernels' operations to it is:
///
///     machine program      coalesced, loops copied, spilled           verify_copies, verify_expansion
///       │                  every operation legal with homes           verify_repairs, verify_homes
///     machine program with addresses                                  verify_allocation
///       │                  blocks and loops in steps                  verify_schedule
///     program of a stage
///       │                  stages as one segment                      verify_segment
///     program that runs
///
/// Nothing is sampled. Verifiers of machine programs run both programs side by side, all iterations, with
/// marks for data (lockstep.h); those of programs look at every pair of instructions that could be too close
/// or in the wrong order, for all counters of the loops around them at once, so that their time grows with
/// the text of the program and not with its iterations.
namespace kodama::verify {

/// `after` is `before`, but for homes and for operands that a copy (`passa`) right in front of their
/// operation brings to a temporary, or one right behind it takes from there; where $aluf is read later, it is
/// saved around the copies.
void verify_repairs(const scheduler::MachineProgram& before, const scheduler::MachineProgram& after);

/// Every operation is legal with the homes of its values.
void verify_homes(const scheduler::MachineProgram& program, const isa::Chip& chip);

/// `after` does what `before` does, with its data in other places: every operation but copies (unmasked
/// `lpassa` of whole long words, `l1bmd` to and from words of L1BM that `before` touches nowhere) gets the
/// same data, in the same order, and is the same in every field.
void verify_copies(const scheduler::MachineProgram& before, const scheduler::MachineProgram& after,
                   const isa::Chip& chip);

/// The same, where loops have become shorter ones with several copies of their body; copies may use the
/// other matrix register, and values of their own.
void verify_expansion(const scheduler::MachineProgram& before, const scheduler::MachineProgram& after,
                      const isa::Chip& chip);

/// All addresses are in range and aligned, no value lies on words that operations name directly, and every
/// operation gets the same data as with each value at a place of its own.
void verify_allocation(const scheduler::MachineProgram& program, const isa::Chip& chip);

/// The schedule consists of the program's operations, equal in every field, in an order that keeps every
/// dependence of the sequential one; distances and issue rules as verify_rules.
void verify_schedule(const scheduler::MachineProgram& program, const isa::Program& schedule,
                     const isa::Chip& chip);

/// What the hardware asks of a program: the distances between accesses, the rules of what may issue together,
/// addresses of L1BM and L2BM that are aligned where data moves between the two, and that nobody touches what
/// a transfer under way reads or writes, nor takes its tag, before a wait for it. `Forwards` says what a
/// forwarding register holds behind a step without its unit: the result from before (section 3.4 of the ISA
/// page: our choice, grade A), or nothing that one may read.
enum class Forwards : uint8_t { kKept, kUndefined };
void verify_rules(const isa::Program& program, const isa::Chip& chip,
                  Forwards forwards = Forwards::kUndefined);

/// A segment does what its parts do one after the other. Its steps are those of the parts, in their order and
/// equal in every field but the addresses in L2BM; run with marks for data, every step reads the same
/// from L2BM, and DRAM and PDM hold the same at the end, but for the parts' scratch. Rules as verify_rules;
/// no transfer is under way at the end.
void verify_segment(const std::vector<scheduler::ProgramPart>& parts,
                    const scheduler::ScheduledParts& segment, const isa::Chip& chip);

}  // namespace kodama::verify
