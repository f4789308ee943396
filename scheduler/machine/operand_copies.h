#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "isa/instruction.h"
#include "scheduler/machine/machine_program.h"

/// What the passes that move operands to other places share: which places are legal beside each other, the
/// copies, and the forwarding register that copies overwrite. Internal to scheduler/.
namespace kodama::scheduler {

/// `lpassa` (or another precision) from one operand to another.
Operation copy_operation(const isa::Operand& from, const isa::Operand& to, isa::Precision precision,
                         const std::string& origin);
/// The operand that names words [base, base + 4 * width) of a value; stride 0: the first of the cycles only.
isa::Operand value_operand(int value, int64_t base, isa::Width width, int stride);

/// Whether two operands of one memory name identical addresses in all cycles.
bool same_address(const isa::Operand& a, const isa::Operand& b);

/// An operand of an operation, and where it would be.
struct PlacedOperand {
  const isa::Operand* operand = nullptr;
  bool written = false;
  isa::SpaceSet allowed = 0;  ///< spaces that the operation accepts here
  isa::Space space = isa::Space::kNone;
  bool moved = false;  ///< to a place of its own, which no other operand names
};
/// The operands of an instruction, each where it is now.
std::vector<PlacedOperand> placed_operands(const isa::Instruction& instruction,
                                           const MachineProgram& program);
/// Whether the operation may issue with its operands there: nothing where it can't be, no port used twice.
bool is_legal(std::span<const PlacedOperand> operands, isa::Opcode opcode);

/// Where a program still needs what the ALU's forwarding register holds. A block that reads $aluf before it
/// writes it takes it from some other block; then it counts as needed at the ends of all blocks.
class ForwardNeeds {
 public:
  explicit ForwardNeeds(const MachineProgram& program);
  bool between_blocks() const { return between_blocks_; }
  /// Element k: before the operation k of the block; the last one: at its end.
  std::vector<bool> within(const Block& block) const;

 private:
  bool between_blocks_ = false;
};

/// Appends copies to `result`. `saved`: 16 words that nobody else uses, in which $aluf survives them.
void append_copies(std::vector<Operation> copies, const std::optional<isa::Operand>& saved,
                   const std::string& origin, std::vector<Operation>& result);

}  // namespace kodama::scheduler
