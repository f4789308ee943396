#pragma once

#include <vector>

#include "compiler/tile/tile_program.h"
#include "isa/chip.h"

/// Results that stay where they were made. What a layer adds to its own sums (the short way around a block, a
/// residual) is often what another layer of the same shape has made: each PE reads there what it once wrote.
/// So the results stay in LM0 besides going to L2BM, and the load of the one that adds them falls away.
///
///     before                                        after
///     stage 7   ..., y = finish, store y            ..., y = finish, kept at 1920, store y
///     stage 8   load windows <- y, ...              load windows <- y, ...
///     stage 9   ..., load a <- y, z = finish + a    ..., z = finish + what is at 1920
///
/// 512 channels of 28 x 28 in ResNet-50 are 200,704 LW, most of what L2BM holds: while a block's convolutions
/// work on others, they went to DRAM and came back. In the PEs they are 49 to 196 LW of 2,048, and nobody
/// reads them from DRAM any more, so they aren't stored there either.
///
/// The same places are not looked for in layouts but in what programs do: the rows that a store takes away,
/// in which L1Bs and MABs, must be those that a load would bring, piece by piece.
namespace kodama::compiler {

/// A stage of a segment.
struct ResultStage {
  TileProgram* tiles = nullptr;               ///< null for programs that are as they are (relayouts)
  std::vector<int> images;                    ///< of `tiles`, by stream: what is there; -1: nobody knows
  std::vector<TileProgram::Kept> taken = {};  ///< what a program without tiles writes
  bool may_keep = true;                       ///< has room for what others keep
};

/// Rewrites programs of stages that run one after the other. What they keep already stays where it is,
/// results have a quarter of LM0 at most beside it. Returns which of them keep something more now.
std::vector<bool> keep_results(const std::vector<ResultStage>& stages, const isa::Chip& chip);

/// InternalError unless the stages do in `after` what they do in `before`, but for results that are written
/// to LM0, too, and loads that are gone: of each, every LW that every L1B would take must be where an earlier
/// stage has left it, in LM0 that all stages since have kept, and still be what is in the image. `stages` are
/// those of `before`.
void verify_keep_results(const std::vector<ResultStage>& stages, const std::vector<const TileProgram*>& after,
                         const isa::Chip& chip);

}  // namespace kodama::compiler
