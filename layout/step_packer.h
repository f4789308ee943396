#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "isa/chip.h"
#include "isa/instruction.h"
#include "isa/program.h"

/// Packs a list of instructions into as few steps as their dependences allow, in one pass.
///
/// Code generation of conversions writes one instruction after the other, as if each took a step and
/// everything were visible at once. The packer puts every instruction into the first step in which its
/// operands are there (distances of isa/costs.h), what it overwrites has been read, and its issue group is
/// free. So the two matrix registers work in turns, setting up T hides behind transfers, and a chunk's way
/// up the tree overlaps the way down of the one before.
///
/// Example: `dmwrite $lm0v $lx0`, `dmread $lx0 $ln0v`, `dmwrite $lm8v $ly0`, `dmread $ly0 $ln8v` become three
/// steps: the second reads x and writes y.
///
/// What keeps its order whatever the addresses: accesses of LM0, and of LM1, that aren't both reads (one
/// port); waits, behind everything that was written before them, since a wait holds the whole chip.
namespace kodama::layout {

/// Waits for the transfers of a tag.
struct WaitFor {
  int8_t tag = 0;
};
/// An instruction of a step, an MV, or a wait.
using PackedItem = std::variant<isa::Instruction, WaitFor>;

/// InternalError if an instruction touches what a transfer touches that nobody has waited for.
isa::Program pack_steps(const std::vector<PackedItem>& items, const isa::Chip& chip);

}  // namespace kodama::layout
