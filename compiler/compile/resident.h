#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/tile/tile_program.h"
#include "isa/chip.h"

/// Constants that stay. A buffer that a stage fills with constants alone gets words of LM0 or LM1 that no
/// stage writes, and is filled once, by a program that runs before the first inference (the *preparation*).
/// The stage's own loads fall away.
///
///     before                                       after
///     preparation  -                               load w0 at 1900, load w1 at 1800
///     stage 3      load m <- w[0, 100), use m      use w0
///                  load m <- w[100, 200), use m    use w1
///
/// What has room only in a memory that its buffer may not be in stays there, and is copied to the buffer
/// where it would be loaded: a step for four LW. What doesn't fit is loaded as before. Per LW of the PEs'
/// memory, loads that cost most are taken first: matrices that differ from L1B to L1B take 16 times as much
/// of DRAM's time as those that all of them get.
namespace kodama::compiler {

/// The name of the preparation.
inline constexpr const char* kPreparationName = "preparation";

/// A stage of the network.
struct ResidentStage {
  TileProgram* tiles = nullptr;               ///< null for programs that are as they are (relayouts)
  std::vector<bool> constant_streams;         ///< of `tiles`: in DRAM before the network begins
  std::vector<TileProgram::Kept> taken = {};  ///< what such a program writes
  int64_t needs_lw = 0;    ///< LW of each memory that are left to it in addition to what it declares
  int64_t results_lw = 0;  ///< LW of LM0 that results have meanwhile (keep_results.h)
};

/// Rewrites the stages' programs; each stays away from what is kept. Returns the preparation, or nothing
/// where no constant stays.
std::optional<TileProgram> keep_constants(std::vector<ResidentStage>& stages, const isa::Chip& chip);

/// Predicted cycles of the loads that would fall away.
int64_t cycles_of_kept_constants(std::vector<ResidentStage> stages, const isa::Chip& chip);

/// By stream of `before`, the share of its numbers that `before` loads from it to whole buffers, and `after`
/// doesn't; 0 of streams that it doesn't load so.
std::vector<double> shares_kept(const TileProgram& before, const TileProgram& after);

/// InternalError unless the stages do in `after` what they do in `before`, but for loads that are gone, and
/// every word that one reads of what the preparation brings is what its own load brought; and unless all keep
/// those words, and no relayout writes there.
void verify_resident(const std::vector<const TileProgram*>& before,
                     const std::vector<const TileProgram*>& after, const TileProgram& preparation,
                     const std::vector<ResidentStage>& stages);

}  // namespace kodama::compiler
