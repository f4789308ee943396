#pragma once

#include <vector>

#include "compiler/tile/tile_program.h"
#include "isa/chip.h"

/// Windows that stay. Stages one behind the other that read the same tensor in the same way (queries, keys
/// and values, branches of a network) load the same windows into their PEs. The buffer of these gets one
/// address in LM1 in all of them, the first one fills it, and the others' loads fall away.
///
///     before                                        after
///     stage 7   load windows <- a, use windows      load windows <- a, use windows at 1152
///     stage 8   load windows <- a, use windows      use windows at 1152
///
/// That is so where a stage loads every part of the buffer once, in no loop, and nothing else writes there.
namespace kodama::compiler {

/// Rewrites programs of stages that run one after the other; null: one that is as it is (a relayout), or that
/// may keep nothing. What a program keeps already stays where it is. Returns for which of them something
/// changed.
std::vector<bool> keep_windows(const std::vector<TileProgram*>& stages, const isa::Chip& chip);

/// InternalError unless the stages do in `after` what they do in `before`, but for loads that are gone, of
/// what an earlier stage has loaded to the same place of a buffer that all stages since have kept, and unless
/// what they loaded from is the same.
void verify_keep_windows(const std::vector<const TileProgram*>& before,
                         const std::vector<const TileProgram*>& after);

}  // namespace kodama::compiler
