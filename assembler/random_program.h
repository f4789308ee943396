#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"

/// Random legal programs, for fuzzing: whatever the instruction table allows, and nothing that the
/// assembler would refuse.
///
///     RandomProgram random(chip, 42);
///     isa::Program program = random.program(1000);
///
/// The same seed, chip and options give the same program.
namespace kodama::assembler {

struct RandomOptions {
  /// Instructions for which this returns false don't occur; empty = all may. Asked with all operands set.
  std::function<bool(const isa::Instruction&)> accept;
  /// Statements other than steps and nops.
  bool transfers = true;
  bool mask_statements = true;
  bool debug_statements = true;
  /// `r` lines and region marks.
  bool other_statements = true;
  /// Counted loops, some inside others and some that run not once. Addresses in them depend on the counters.
  bool loops = false;
  /// Opcodes with few mnemonics are not rare: half of the steps, and all transfers, choose the opcode first.
  bool even_opcodes = false;
  /// Addresses are mostly below this (in the unit of the memory), so that statements meet each other's data;
  /// one in eight ignores it.
  int64_t address_window = 64;
};

class RandomProgram {
 public:
  RandomProgram(const isa::Chip& chip, uint64_t seed, RandomOptions options = {});

  /// A legal instruction of this mnemonic (an element of isa::all_mnemonics(), or any instruction whose
  /// mnemonic fields are wanted) with random operands, masks and units.
  isa::Instruction instruction(const isa::Instruction& form);
  /// A random mnemonic that may stand in a step (or, for `transfer`, as an MV), with operands.
  isa::Instruction instruction(bool transfer = false);
  /// One to four instructions that may issue together, sometimes with wait.
  isa::Step step();
  /// Any statement but a loop and quit.
  isa::Statement statement();
  /// A loop, legal in every iteration, whose statements are at most so many loops deep.
  isa::Statement loop(int depth);
  isa::Program program(int statements);

 private:
  uint64_t below(uint64_t limit);
  bool one_in(uint64_t n) { return below(n) == 0; }
  int64_t address(int64_t size, int64_t alignment);
  isa::Space pick_space(isa::SpaceSet set);
  isa::Operand operand(isa::SpaceSet set, const isa::Instruction& instruction, bool destination);
  isa::Mask mask();
  /// The unit behind @ of an instruction that needs one; false where it doesn't.
  bool choose_unit(const isa::Movement& movement, isa::Instruction& instruction);
  bool draw(isa::Instruction& instruction);
  isa::Statement debug_statement();
  isa::Statement loop_body(int depth, int64_t times);
  int64_t stride_unit(isa::Space space);
  void add_strides(isa::Statement& loop, std::vector<int64_t>& counts);

  const isa::Chip& chip_;
  RandomOptions options_;
  std::mt19937_64 engine_;
  /// By opcode.
  using Forms = std::vector<std::vector<isa::Instruction>>;
  const isa::Instruction& pick_form(const Forms& forms);
  Forms step_forms_;
  Forms transfer_forms_;
  /// Operands and mask already in the step being made; reused often, since the instructions of a step
  /// share read ports and mask entry.
  std::vector<isa::Operand> step_operands_;
  isa::Mask step_mask_;
};

}  // namespace kodama::assembler
