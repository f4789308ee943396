#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/kernels/kernel.h"
#include "isa/chip.h"
#include "isa/instruction.h"
#include "layout/algebra/layout.h"
#include "layout/algebra/transport.h"

/// How a flat range of results is spread over the PEs, for kernels whose PEs work independently.
namespace kodama::compiler {

/// Floats that one step computes in one PE: 4 LW of two.
inline constexpr int64_t kFloatsPerVector = 8;

/// The levels of the tree that a range is spread over: the PEs of a MAB, and any of the levels above. What a
/// level that is left out would tell apart, computes the same: operands are broadcast to it, and the first
/// stores the result. So images hold no padding for idle PEs.
///
/// Example, 10 floats on the PEs alone: places {4_PE:1}, one vector each, images of 64 LW in group 0, the
/// least that a transfer moves. On all levels they would be 2048 LW for each L2B.
struct Spread {
  std::string name;  ///< "L2B, MAB, PE"
  /// Factors over L2B, L1B, MAB, PE, outermost first, of the levels in use.
  std::vector<layout::Factor> places;
  int64_t place_count = 1;
  layout::Transport transport;  ///< of operands and results

  /// Layout factors of a range whose consecutive elements fill a place: places, then `addresses`, then the
  /// word.
  std::vector<layout::Factor> axis(const std::vector<layout::Factor>& addresses) const;
};

/// All spreads, those over few levels first. Over L2Bs there may be one place per group, too.
std::vector<Spread> all_spreads(const isa::Chip& chip);

/// Candidates of a kernel whose PEs work independently: `make` says what it does on a spread, and may
/// decline. Of all spreads those are offered that take least
///
///   - by themselves,
///   - when the host fetches the result,
///   - when the host sends the operands, too;
///
/// one to three. The first is offered in several orders of its elements:
///
///   as made         every PE takes a range of the flattened results
///   channels last   dim 1 is the fastest of the flattened results, as in the images that matrix products
///                   make; for three dims or more
///   dealt           an L1B takes a range, and deals it to its PEs: what they want at a time is close
///                   together
std::vector<Candidate> spread_candidates(const isa::Chip& chip,
                                         const std::function<std::optional<Candidate>(const Spread&)>& make);

/// LW that one tile of a buffer may have when `buffers` tiles share LM0 and LM1 in turn; a multiple of
/// `granule`, at least one granule.
int64_t tile_capacity_lw(int64_t buffers, int64_t granule, const isa::Chip& chip);
/// LM0 for even, LM1 for odd buffers.
isa::SpaceSet alternate_home(size_t buffer);

}  // namespace kodama::compiler
