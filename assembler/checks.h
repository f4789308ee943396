#pragma once

#include <optional>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/instruction.h"
#include "isa/program.h"

/// The static checks behind check_statement(), with the place of the violation inside the statement, so
/// that the parser can point at a column. Internal to the assembler.
namespace kodama::assembler {

struct Violation {
  /// Index in Step::instructions (0 for an MV); -1 = the statement as a whole.
  int instruction = -1;
  /// Index over sources, then destinations; -1 = the instruction as a whole.
  int operand = -1;
  std::string message;
};

/// The first rule that the statement breaks on this chip. The fields that parse_mnemonic() sets are taken
/// as they are.
std::optional<Violation> find_violation(const isa::Statement& statement, const isa::Chip& chip);
/// The same for one instruction alone (issue rules of a step excluded).
std::optional<Violation> find_violation(const isa::Instruction& instruction, const isa::Chip& chip);

/// The payload of imm as written (`f"1.5"`).
std::string print_payload(const isa::Instruction& instruction, int64_t payload);
/// The inverse. `kind` is the word before the quotes, `text` what stands between them. On failure
/// `error` says why; the instruction supplies imm or immu and receives the kind.
bool parse_payload(std::string_view kind, std::string_view text, isa::Instruction& instruction,
                   int64_t& payload, std::string& error);

}  // namespace kodama::assembler
