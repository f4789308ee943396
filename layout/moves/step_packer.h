#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "isa/chip.h"
#include "isa/instruction.h"
#include "isa/program.h"

/// Packs a list of instructions into as few steps as their dependences allow, in one pass.
///
/// Code generation of conversions writes one instruction after the other, as if each took a step and
/// everything were visible at once. The packer puts every instruction into the first step in which its
/// operands are there (distances of isa/costs.h), what it overwrites has been read, its issue group is free,
/// and the ports of LM0 and LM1 are. That step may be before others that are taken already. So the two matrix
/// registers work in turns, setting up T hides behind transfers, a chunk's way up the tree overlaps the way
/// down of the one before, and while transfers are under way the chunks that have come are worked on. What
/// was written first has the better place.
///
/// Example: `dmwrite $lm0v $lx0`, `dmread $lx0 $ln0v`, `dmwrite $lm8v $ly0`, `dmread $ly0 $ln8v` become three
/// steps: the second reads x and writes y.
///
/// A wait holds the whole chip, so in a program that runs alone it stands where its transfer will be over
/// (isa/transfer_timeline.h), and the steps before it are there for what is written later. Where
/// somebody else says when transfers start, it stands behind everything written before.
namespace kodama::layout {

/// Long words that T, or the base register of LM1, may add to an address. Nothing: any number of them.
using AddressOffsets = std::shared_ptr<const std::vector<int64_t>>;

struct PackedInstruction {
  // NOLINTNEXTLINE(google-explicit-constructor): most instructions are all there is to say
  PackedInstruction(isa::Instruction all) : instruction(std::move(all)) {}
  isa::Instruction instruction;
  AddressOffsets t;  ///< of operands through T
  bool has_base1 = false;
  AddressOffsets base1;  ///< of operands in LM1, if has_base1
};
/// Waits for the transfers of a tag.
struct WaitFor {
  int8_t tag = 0;
};
/// An instruction of a step, an MV, or a wait.
using PackedItem = std::variant<PackedInstruction, WaitFor>;

enum class WaitPlace : uint8_t { kWhereOver, kBehindAll };

/// InternalError if an instruction touches what a transfer touches that nobody has waited for.
isa::Program pack_steps(const std::vector<PackedItem>& items, const isa::Chip& chip,
                        WaitPlace waits = WaitPlace::kWhereOver);

}  // namespace kodama::layout
