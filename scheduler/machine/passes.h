#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"
#include "passes/pass_options.h"
#include "scheduler/machine/machine_program.h"
#include "scheduler/problem/schedule_problem.h"

/// The passes from machine program to program, registered by name. pipeline/pipeline.h runs them, with the
/// verifiers of verify/verify.h behind each.
namespace kodama::scheduler {

enum class ProgramPassKind : uint8_t { kCoalescer, kHomeAssigner, kSpiller, kAllocator };
/// A pass that changes machine programs. Each kind is a type of its own, with its own registry.
template <ProgramPassKind kind>
struct ProgramPass {
  std::string name;
  std::string description;
  std::vector<passes::PassOptionInfo> options = {};
  std::function<void(MachineProgram&, const isa::Chip&, const passes::PassOptions&)> run;
  bool leaves_programs = false;  ///< does nothing: there is no dump of it
  std::string plugin = {};       ///< the file it came from; empty: Kodama's own. Filled by register_pass
};

/// Before homes: makes one value of two where one is a copy of the other and they never have to hold
/// different data; the copy goes away. Values that nobody names any more may stay in the list.
using Coalescer = ProgramPass<ProgramPassKind::kCoalescer>;
/// Chooses a home for every value and inserts copies where an operation's operands collide: several
/// reads of one space with different addresses, LM read and write with different addresses, an operand
/// position that the space can't feed. Throws InternalError if some operation can't be made legal.
using HomeAssigner = ProgramPass<ProgramPassKind::kHomeAssigner>;
/// Between homes and addresses: where the words that live in a PE memory at one time are more than it has,
/// values move to other memories, or leave theirs between uses. Adds values and copies, keeps every operation
/// as it is but for the values it names, and leaves programs that fit alone. Where it can't help, it leaves
/// the program to the allocator, which says what doesn't fit.
///
/// Example: three values of 256 words in 512 words of GRF0. `b` is not used between A and B:
///
///     A: ... -> %a, %b, %c        becomes     A: ... -> %a, %b.piece1;  lpassa %b.piece1 -> %b.spilled ...
///                                             ...  -> %c
///     B: ... %b ...                           lpassa %b.spilled -> %b.piece2 ...;  B: ... %b.piece2 ...
using Spiller = ProgramPass<ProgramPassKind::kSpiller>;
/// Gives every value an address. Values whose lifetimes don't overlap may share words. Throws
/// UnsupportedError naming memory, need and size when they don't fit.
using Allocator = ProgramPass<ProgramPassKind::kAllocator>;
/// Registries, as that of block schedulers (schedule_problem.h). The first entry is the default. Registering
/// a name twice is an InternalError, from a plugin (plugin.h) a UserError.
const std::vector<HomeAssigner>& home_assigners();
const std::vector<Coalescer>& coalescers();
const std::vector<Spiller>& spillers();
const std::vector<Allocator>& allocators();
/// Empty = default. UserError listing the names when there is none.
const HomeAssigner& find_home_assigner(const std::string& name);
const Coalescer& find_coalescer(const std::string& name);
const Spiller& find_spiller(const std::string& name);
const Allocator& find_allocator(const std::string& name);
void register_pass(HomeAssigner pass);
void register_pass(Coalescer pass);
void register_pass(Spiller pass);
void register_pass(Allocator pass);

}  // namespace kodama::scheduler
