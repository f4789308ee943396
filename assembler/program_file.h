#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "assembler/machine_words.h"
#include "isa/chip.h"
#include "isa/program.h"

/// Complete programs in Kodama's own binary format: everything that isa::Program holds, counted loops
/// included.
///
///     std::string bytes = save_program(program, chip);
///     isa::Program again = load_program(bytes, "a.kprog", chip);    // equal to `program`, lines included
///
/// Layout, all numbers little endian:
///
///     8 bytes   magic "KODAMAP\n"
///     4 bytes   version
///     n bytes   chip name and chip hash, each a length and characters
///     n bytes   name of the source file, then the statements
///     4 bytes   CRC-32 of all before
///
/// Inside, integers are LEB128 (zigzag where they may be negative) in their shortest form, and a statement is
/// the number of its kind and its fields in the order of isa/program.h. So a program has one sequence of
/// bytes.
namespace kodama::assembler {

inline constexpr std::string_view kProgramMagic = "KODAMAP\n";
inline constexpr uint32_t kProgramVersion = 1;

bool looks_like_program_file(std::string_view bytes);

/// Control characters in the source's name become '?'.
std::string save_program(const isa::Program& program, const isa::Chip& chip);

/// UserError when the bytes are no program, cut off, changed, of another version or for another chip, when a
/// statement breaks the static checks in some iteration of its loops or holds what no text can say, or
/// when the loops make more than isa::kMaxProgramSteps. Takes memory in proportion to the size of `bytes`.
isa::Program load_program(std::string_view bytes, const std::string& file_name, const isa::Chip& chip);

/// The bytes with the last four replaced by the checksum of those before; for tools and tests that change
/// program files.
std::string sealed_program(std::string_view bytes);

/// A program file in any form: binary, machine words, or VSM text, told apart by how it begins. UserError
/// when it can't be read.
isa::Program read_program(const std::string& path, const isa::Chip& chip);
/// A program file in one of the forms that `kodama asm` makes for machines: binary or machine words.
/// UserError for anything else.
isa::Program read_assembled(const std::string& path, const isa::Chip& chip);

enum class ProgramForm : uint8_t { kText, kWords, kBinary };

/// Longest program that write_program() writes as text, in lines: loops of a small binary file may make any
/// number.
inline constexpr int64_t kMaxTextLines = int64_t{1} << 26;

/// Writes the program piece by piece. `options` are for kWords. UnsupportedError for what the form can't say
/// (machine_words.h) and for programs too long for it.
void write_program(const isa::Program& program, ProgramForm form, const isa::Chip& chip,
                   const WordOptions& options, const std::function<void(std::string_view)>& output);

}  // namespace kodama::assembler
