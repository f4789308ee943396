#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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
/// Inside, integers are LEB128 (zigzag where they may be negative), and a statement is the number of its kind
/// and its fields in the order of isa/program.h.
namespace kodama::assembler {

inline constexpr std::string_view kProgramMagic = "KODAMAP\n";
inline constexpr uint32_t kProgramVersion = 1;

bool looks_like_program_file(std::string_view bytes);

std::string save_program(const isa::Program& program, const isa::Chip& chip);

/// UserError when the bytes are no program, cut off, changed, of another version or for another chip, or when
/// a statement breaks the static checks. Takes memory in proportion to the size of `bytes`.
isa::Program load_program(std::string_view bytes, const std::string& file_name, const isa::Chip& chip);

/// A program file in any form: binary, machine words, or VSM text, told apart by how it begins. UserError
/// when it can't be read.
isa::Program read_program(const std::string& path, const isa::Chip& chip);

}  // namespace kodama::assembler
