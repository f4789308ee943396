#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "isa/chip.h"
#include "scheduler/machine/machine_program.h"

/// What the passes (not the verifiers) share: the linear order of a machine program, lifetimes of values,
/// and the step from virtual to real operands. Internal to scheduler/.
namespace kodama::scheduler {

/// A counted loop of the program; [begin, end) are the positions of the operations inside.
struct LoopSite {
  int64_t count = 0;
  int parent = -1;
  int depth = 0;  ///< index of its counter in loop_strides
  int64_t begin = 0;
  int64_t end = 0;
};

struct OperationSite {
  const Operation* operation = nullptr;
  int loop = -1;      ///< innermost loop, -1 = none
  double weight = 1;  ///< how often it runs
};

/// Operations in sequential order; an operation's position is its index in `sites`.
struct ProgramIndex {
  std::vector<OperationSite> sites;
  std::vector<LoopSite> loops;
  std::vector<KeptWords> kept;
};
ProgramIndex index_program(const MachineProgram& program);
/// The loop directly inside `loop` (-1: the program) that holds the position, or `loop` itself.
int child_loop(const ProgramIndex& index, int64_t position, int loop);

/// Calls `visit(operand, written)` for all operands that name values, in the order in which the operation
/// reads and writes, with masks that are values as operands.
template <typename Visit>
void for_each_value_use(const isa::Instruction& instruction, Visit&& visit) {
  const auto mask = [&](const isa::Mask& named) {
    if (named.kind != isa::Mask::Kind::kVirtual) return;
    isa::Operand operand;
    operand.space = isa::Space::kVirtual;
    operand.width = isa::Width::kWord;
    operand.value = named.virtual_value;
    visit(operand, false);
  };
  mask(instruction.zero_flush);
  for (const isa::Operand& operand : instruction.destinations) mask(operand.mask);
  for (const bool written : {false, true}) {
    for (const isa::Operand& operand : written ? instruction.destinations : instruction.sources) {
      if (operand.space == isa::Space::kVirtual) visit(operand, written);
    }
  }
}

/// Half-open interval of moments; the operation at position p reads at moment 2p and writes at 2p + 1.
/// Empty (begin == end) for values that nothing touches.
struct Lifetime {
  int64_t begin = 0;
  int64_t end = 0;
  bool empty() const { return begin == end; }
  bool overlaps(const Lifetime& other) const { return begin < other.end && other.begin < end; }
};

/// An operation's operand that names a value, or a mask that is one (then `operand` has no address).
struct ValueUse {
  int64_t position = 0;
  const isa::Operand* operand = nullptr;  ///< of the program, which must stay where it is
  bool written = false;
};
/// By value, in the order of positions; at one position, what is read comes first.
std::vector<std::vector<ValueUse>> value_uses(const MachineProgram& program, const ProgramIndex& index);

/// A value that is fully written, unmasked, before it is read in every iteration of the innermost loop that
/// holds all its accesses lives inside the body only; in all other cases a loop that touches a value keeps
/// it for the whole loop.
Lifetime lifetime_of(const std::vector<ValueUse>& uses, int64_t size_words, const ProgramIndex& index);
/// By value.
std::vector<Lifetime> compute_lifetimes(const MachineProgram& program, const ProgramIndex& index);

/// Alignment of a value: its own, and that of the widest operand on it.
std::vector<int64_t> compute_alignments(const MachineProgram& program, const ProgramIndex& index);

/// Words of a PE memory, or mask entries, that operations name directly, or that are kept; values stay away
/// from them.
std::vector<bool> reserved_words(const ProgramIndex& index, isa::Space space, int64_t size);

/// Homes of values that are no masks.
inline constexpr std::array<isa::Space, 5> kPeHomes = {isa::Space::kGrf0, isa::Space::kGrf1, isa::Space::kLm0,
                                                       isa::Space::kLm1, isa::Space::kT};
/// The first of them, which have addresses.
inline constexpr size_t kAddressedHomes = 4;
/// The number of a home in kPeHomes; their count for other spaces.
inline size_t home_index(isa::Space space) {
  return static_cast<size_t>(std::find(kPeHomes.begin(), kPeHomes.end(), space) - kPeHomes.begin());
}

/// Size in words of a memory that may be a home (16 for T: 2LW in each of 4 cycles; of mask entries, those
/// that are registers), 0 for other spaces.
int64_t home_size(isa::Space space, const isa::Chip& chip);
std::string_view home_name(isa::Space space);

/// Loop strides without zeros at the end.
std::vector<int64_t> trimmed(std::vector<int64_t> strides);

/// `operand` with the value's home and address put in; real operands are returned unchanged.
isa::Operand resolve(isa::Operand operand, const MachineProgram& program);
isa::Instruction resolve(isa::Instruction instruction, const MachineProgram& program);

/// One line, virtual operands as %name.
std::string to_string(const Operation& operation, const MachineProgram& program);

}  // namespace kodama::scheduler
