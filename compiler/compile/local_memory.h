#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "compiler/tile/tile_program.h"
#include "isa/chip.h"
#include "isa/program.h"

/// Who has which words of LM0 and LM1, where some stay from one stage to another.
namespace kodama::compiler {

/// Words of LM0 and LM1 that a program writes; all of one where addresses aren't known before it runs.
std::vector<TileProgram::Kept> written_local_memory(const isa::Program& program, const isa::Chip& chip);

/// LW of LM0 (or LM1) that the buffers of a program take at most, and what its operations need besides, as
/// far as that is known before they have addresses: of those that may be in either, LM0 has what LM1 has no
/// room for. Without buffers that have an address, that nobody uses, or that are in `without`.
int64_t own_local_memory_lw(const TileProgram& program, isa::Space memory, const std::set<int>& without,
                            const isa::Chip& chip);

}  // namespace kodama::compiler
