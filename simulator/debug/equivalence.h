#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"

/// Whether two programs do the same, by running both on the same contents.
///
/// All memories are filled with numbers that arithmetic stumbles over (memory_contents.h), both programs run,
/// and the lines that `d get` prints and all memories are compared bit for bit. Forwarding registers are no
/// memories.
///
/// The machines have the chip's instructions, but memories no larger than the programs' addresses ask for,
/// and for programs that stay inside L1Bs only one of these; so the check takes seconds on any chip. DRAM and
/// PDM that no instruction touches are left out where they are large.
namespace kodama::simulator {

struct EquivalenceOptions {
  int seeds = 4;  ///< fillings
  uint64_t first_seed = 1;
  /// Which places of a memory count after the programs; empty = all.
  std::function<bool(isa::Space, int64_t address)> counts;
  /// BARs begin as 0, so that addresses mean what they say; otherwise as multiples of 4 words, with every
  /// other filling.
  bool zero_bases = false;
  int threads = 1;
};
struct EquivalenceResult {
  std::string difference;  ///< empty when there is none; with the seed
  int compared = 0;        ///< fillings with which both programs ran to their end
  /// Why not with all: both programs were refused at run time, with this message.
  std::string refused;
};
EquivalenceResult compare_programs(const isa::Program& first, const isa::Program& second,
                                   const isa::Chip& chip, const EquivalenceOptions& options = {});

/// The chip that the programs are compared on.
isa::Chip comparison_chip(const isa::Chip& chip, const std::vector<const isa::Program*>& programs);

}  // namespace kodama::simulator
