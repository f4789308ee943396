#pragma once

#include <cstdint>
#include <vector>

#include "compiler/tile/tile_program.h"
#include "isa/chip.h"

/// Constants that come early. A layer whose matrices take longer to come than its operations last would wait
/// for them, while DRAM had nothing to do under the layers before. So the loads of constant operands are cut
/// into pieces that stand in the tile programs of earlier stages, between their operations; the buffer that
/// they fill gets an address in LM0, and everything in between stays away from it.
///
///     before                                   after
///     stage 7   rows, products, store          rows, load b[0, 64), products, load b[64, 128), store
///     stage 8   load b[0, 160), rows, ...      load b[128, 160), rows, ...
///
/// A piece stands as late as the time that DRAM has left allows, so that LM0 is free for others until then.
namespace kodama::compiler {

/// A stage of a segment.
struct AheadStage {
  TileProgram* tiles = nullptr;               ///< null for programs that are as they are (relayouts)
  std::vector<bool> constant_streams;         ///< of `tiles`: in DRAM before the segment begins
  int64_t cycles = 0;                         ///< predicted
  std::vector<TileProgram::Kept> taken = {};  ///< by somebody else or by the program
  bool is_alone = false;                      ///< nobody else's buffers are in LM0 during this stage
};

/// Moves loads. Programs stay right one after the other, in any case; whether the own buffers of each have
/// room beside what is kept is an estimate: a stage that turns out to have none must be alone.
void fetch_ahead(std::vector<AheadStage>& stages, const isa::Chip& chip);

/// InternalError unless every word of a buffer with an address that a stage reads is what the stage's own
/// stream had there in `before`, and nobody has written to it since.
void verify_fetch_ahead(const std::vector<const TileProgram*>& before,
                        const std::vector<const TileProgram*>& after);

}  // namespace kodama::compiler
