#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"
#include "layout/algebra/algebra.h"
#include "layout/algebra/layout.h"
#include "layout/bound/bound.h"
#include "layout/moves/move_code.h"
#include "layout/moves/move_primitive.h"
#include "layout/search/solution_cache.h"

/// Programs that bring a tensor from one layout into another, without leaving the chip.
///
/// Three ways, of which the first that applies is taken:
///
///   1. Both layouts are the same mapping: nothing to do.
///   2. Both can be written in the bits of the indices (layout/algebra/bits.h). A search over the move
///      primitives (layout/primitives/move_primitives.h) finds the sequence that is cheapest by estimate and
///      the next best; the one whose program has the fewest cycles is taken. Memories above the PEs are
///      entered and left through gateways (layout/moves/gateway.h).
///   3. Digits cross: element by element (layout/moves/element_router.h).
///
/// Code generation writes one instruction after the other; the step packer (layout/moves/step_packer.h)
/// overlaps them. Padding that the source doesn't have is written at the end (layout/moves/masked_writes.h).
///
/// Example: a (64, 64) tensor of doubles, rows over the L1Bs to columns over the L1Bs; see
/// layout/algebra/bits.h for its bits and `kodama layout convert` for the path.
///
/// All PEs execute a program, so those that hold nothing of the tensor are written, too: the target's
/// addresses, from 0 to the last (in memories above the PEs to the end of a line of all PEs), are scratch
/// wherever no element is. The source is left as it is where the target doesn't overlap it, unless there is
/// no other room to work in.
namespace kodama::layout {

struct ConversionProblem {
  Layout from;
  Layout to;
  Lengths lengths;
  int element_bits = 32;
};

struct Conversion {
  std::vector<std::string> path;  ///< the primitives, in order; empty when nothing has to be done
  isa::Program program;           ///< runs by itself
  std::vector<ScratchRange> scratch;
  int64_t steps = 0;
  int64_t cycles = 0;  ///< predicted, which is what the simulator counts
  ConversionBound bound;
  bool keeps_source =
      true;              ///< the source is still there afterwards; else there was no other room to work in
  int64_t states = 0;    ///< that the search looked at
  int64_t compared = 0;  ///< programs of different paths that were written; this one has the fewest cycles
  /// The search looked at all sequences of primitives that could have a smaller sum of estimates than the
  /// cheapest it found (Path::proven). The path that was taken is that one or one of the next best, by
  /// cycles.
  bool proven = false;
  std::vector<const MovePrimitive*> from_plugins;  ///< primitives on the path that are a plugin's
  double search_seconds = 0;                       ///< that the search for a path took, on this machine
  std::string why_by_elements;                     ///< why it isn't done by primitives; empty when it is
  double ratio() const { return bound.cycles() > 0 ? static_cast<double>(cycles) / bound.cycles() : 1; }
};

/// UserError for layouts that don't fit the shape or the chip; UnsupportedError when the memories have no
/// room to work in. `cache` keeps the paths that were found.
Conversion convert(const ConversionProblem& problem, const isa::Chip& chip, SolutionCache* cache = nullptr);

}  // namespace kodama::layout
