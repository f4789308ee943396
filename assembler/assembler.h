#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "isa/chip.h"
#include "isa/error.h"
#include "isa/program.h"

/// VSM text to programs and back.
///
///     isa::Program program = assemble(text, "a.vsm", chip);   // UserError with file:line:column
///     std::string again = print(program);                      // loops unrolled
///
/// assemble(print(p)) == p for every program without loops that passes the checks and is canonical: a field
/// that its operand or instruction has no use for is at its default (`width` of $aluf, `stride` of a flat
/// address, …), `base` of a flat address is 0, and DebugGet::text is debug_get_text() or the statement as
/// the user wrote it.
namespace kodama::assembler {

struct AssembleOptions {
  /// Check parallel issue rules, alignment and ranges (always on for users; off only to build tests).
  bool check = true;
  /// Number of the text's first line, for texts that are part of a file.
  int32_t first_line = 1;
};

/// Parses and checks a whole file. Throws UserError for a violation, UserErrors for several, of which each
/// line can have one; UnsupportedError for a legal statement whose instruction is not implemented.
isa::Program assemble(std::string_view text, const std::string& file_name, const isa::Chip& chip,
                      const AssembleOptions& options = {});
/// Reads the file and assembles it.
isa::Program assemble_file(const std::string& path, const isa::Chip& chip,
                           const AssembleOptions& options = {});

/// One operand, instruction or statement as VSM text, in the normal form that the assembler reads.
/// Operands must have no loop strides and no virtual space (InternalError).
std::string print_operand(const isa::Operand& operand, bool destination = false);
std::string print_instruction(const isa::Instruction& instruction);
std::string print_statement(const isa::Statement& statement);

/// The program as text, loops unrolled, piece by piece (programs can be long).
void print(const isa::Program& program, const std::function<void(std::string_view)>& sink);
std::string print(const isa::Program& program);

/// The text of a `d get` statement in normal form, which is what DebugGet::text holds for it.
std::string debug_get_text(const isa::DebugGet& get);

/// The static checks of one statement with concrete operands; throws UserError at `where`.
void check_statement(const isa::Statement& statement, const isa::Chip& chip,
                     const isa::SourceLocation& where);

}  // namespace kodama::assembler
