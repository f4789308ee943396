#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "layout/algebra/bits.h"
#include "layout/moves/move_code.h"

/// What the hardware can do to a layout, as moves of bits between slots and address (layout/algebra/bits.h).
///
/// A primitive takes a tensor in the PEs and leaves it in the PEs. It is one object, in a file of
/// layout/primitives (or of a plugin): when it can be used and what for, what that costs, what it asks of
/// addresses, and its code. The search for a path (layout/search/path_search.h) knows no primitive by name.
///
/// Worked example, `skew` of the 4 MAB bits of mncore2, 16 MABs and 16 long words per PE: in round d = 0..15
/// PE q of MAB s sends the element at address s + d, read through T = s, to L1BM with `l1bmd`; all PEs
/// read L1BM 4 * d long words further on, so that MAB s gets what MAB s - d has sent, and put it at address
/// s - d, through T again. What was at address r of MAB s is then at address s of MAB r. No PE is ever
/// masked off, and both ports of L1BM run at their full width.
namespace kodama::layout {

struct MovePrimitive;
class MoveProposals;

/// One use of a primitive.
struct Move {
  const MovePrimitive* primitive = nullptr;
  SlotState before;
  SlotState after;
  double steps = 0;  ///< about
  /// What the primitive's own code wants to know of this use, as it was proposed. `order` holds bits, or -1.
  int slot = 0;
  int slot_count = 0;
  std::vector<int> order = {};
};

/// What a primitive asks of the addresses of its source and target. A number is a bit of the tensor; -1 is a
/// place that is left free, for what a slot holds that is no bit.
struct MoveNeeds {
  bool source_lm0 = false;  ///< addresses that differ from PE to PE, through T
  bool source_lm = false;   ///< the same, through T or the base register of LM1
  bool target_lm0 = false;
  bool target_lm1 = false;      ///< instead, if the source is in LM0
  bool powers = false;          ///< the strides of the bits that move are powers of two
  std::vector<int> source_low;  ///< these at strides 1, 2, 4, …, the others above them without gaps
  bool target_powers = false;   ///< the same of `target_powers_of` in the target
  std::vector<int> target_powers_of;
  std::vector<int> target_run;       ///< these at strides that double
  bool target_has_one = false;       ///< `target_one` has stride 1, at an even base
  bool target_one_required = false;  ///< or else it is slower
  int target_one = -1;
  bool other_memory = false;  ///< can't work inside one memory, or only slowly
};

/// MovePrimitive::needs of one that can't work inside a memory and asks for nothing else.
inline MoveNeeds needs_other_memory(const BitView& /*view*/, const Move& /*move*/) {
  MoveNeeds needs;
  needs.other_memory = true;
  return needs;
}

struct MoveAddresses {
  Placement before;
  Placement after;
  int64_t run_stride = 1;  ///< of the first of target_run
  /// Address bits, first those that vary fastest while chunks are worked on one after the other. Moves that
  /// follow each other have them in the same order, so that one can start before the other is over.
  std::vector<int> pace = {};
};

/// How the code of a primitive goes together with that of its neighbours in a path.
struct MoveOverlap {
  bool uses_t = true;       ///< its code sets T, so that others that do can't stand between its instructions
  bool waits = false;       ///< for transfers, again and again: what doesn't use T finds room beside it
  bool all_at_end = false;  ///< whatever order its source comes in, its results are there at the end only
};

struct MovePrimitive {
  std::string name;
  std::string description;   ///< what it does to the slots
  std::string precondition;  ///< in words; empty = none
  std::string cost;          ///< in words: steps; n = long words per PE
  MoveOverlap overlap = {};
  /// Adds the uses that may be good for something in a state of the search (layout/moves/move_proposals.h).
  /// Each says what every slot holds afterwards and about how many steps it takes.
  std::function<void(MoveProposals&)> propose;
  /// What a use asks of addresses; none = nothing.
  std::function<MoveNeeds(const BitView&, const Move&)> needs = {};
  /// Appends the code of a use (layout/moves/move_emission.h). Before it every element is at `at.before`;
  /// behind it, at `at.after`. UnsupportedError when there is no room to work in.
  std::function<void(const BitView&, const Move&, const MoveAddresses& at, Code&)> emit;
  std::string plugin = {};  ///< the file it came from; empty: Kodama's own. Filled by register_pass
};

}  // namespace kodama::layout
