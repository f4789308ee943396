#pragma once

#include <cstdint>
#include <vector>

#include "compiler/kernels/kernel.h"
#include "isa/chip.h"
#include "isa/instruction.h"
#include "layout/layout.h"
#include "layout/transport.h"

/// How a flat range of results is spread over the PEs, for kernels whose PEs work independently.
namespace kodama::compiler {

/// Floats that one step computes in one PE: 4 LW of two.
inline constexpr int64_t kFloatsPerVector = 8;

/// The levels of the tree that a range is spread over. A small range uses few levels; the others are
/// reached by broadcast (every PE of them computes the same), so that no padding for idle PEs crosses
/// the host link.
struct Spread {
  /// Factors over L2B, L1B, MAB, PE, outermost first, of the levels in use.
  std::vector<layout::Factor> places;
  int64_t place_count = 1;
  layout::Transport load;   ///< distributes over the used levels, broadcasts over the others
  layout::Transport store;  ///< always distributes: replica 0 is the result

  /// Layout factors of a range whose consecutive elements fill a place: places, then `per_place` factors,
  /// then the word.
  std::vector<layout::Factor> axis(const std::vector<layout::Factor>& addresses) const;
};

/// The spread for `floats` results: the fewest levels on which one vector per PE is enough, else all.
Spread choose_spread(int64_t floats, const isa::Chip& chip);

/// A kernel whose PEs work independently may give them any of the flattened results. The candidate, whose PEs
/// take ranges, and others that differ in their layouts only:
///
///   channels last   dim 1 is the fastest of the flattened results, as in the images that matrix products
///   make;
///                   for three dims or more
///   dealt           an L2B takes a range, and deals it to its PEs: what they want at a time is close
///   together
std::vector<Candidate> with_other_orders(const Candidate& candidate);

/// LW that one tile of a buffer may have when `buffers` tiles share LM0 and LM1 in turn; a multiple of
/// `granule`, at least one granule.
int64_t tile_capacity_lw(int64_t buffers, int64_t granule, const isa::Chip& chip);
/// LM0 for even, LM1 for odd buffers.
isa::SpaceSet alternate_home(size_t buffer);

}  // namespace kodama::compiler
