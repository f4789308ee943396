#pragma once

#include <vector>

#include "layout/algebra/bits.h"
#include "layout/moves/move_primitive.h"

/// What a primitive sees of a state of the search when it is asked for its uses.
namespace kodama::layout {

/// Steps before anything else can happen in a move: setting up T and masks, distances.
inline constexpr double kMoveSetUp = 8;
/// Long words per PE beyond which no LM has room for a region and anything else.
inline constexpr double kMostRegion = 1536;
/// Long words per PE beyond which copies of everything are not made.
inline constexpr double kMostCopies = 2048;
/// Starts of transfers that nothing hides on a way through a PDM.
inline constexpr double kPdmStarts = 3.75;

class MoveProposals {
 public:
  MoveProposals(const BitView& view, const SlotState& state, const SlotState& goal);

  const BitView& view;
  const SlotState& state;  ///< what every slot holds now
  const SlotState& goal;   ///< and at the end
  const SlotShape& shape;
  const BitMask lines;  ///< bits in the address
  const double n;       ///< long words per PE
  const double lanes;   ///< PEs of an L1B
  const double l1bs;    ///< of an L2B
  const double l2bs;    ///< of the chip

  /// A use after which the slots hold `after`, in about `steps` steps and kMoveSetUp more; the others are
  /// kept for its code. One that brings nothing nearer to the goal is left out.
  /// A bit is in one slot at most. What brings anything into another L2B takes two transfers' start-up at
  /// least, which the search builds on.
  void add(SlotState after, double steps, int slot = 0, int slot_count = 0, std::vector<int> order = {});

  bool is_line(int bit) const { return bit >= 0 && (lines >> bit & 1) != 0; }
  /// Long words per PE in another state, and the larger number of now and then.
  double values(const SlotState& of) const;
  double larger(const SlotState& after) const { return std::max(n, values(after)); }
  /// The state with other contents of the slots from `first` on; negative: nothing.
  SlotState with(int first, const std::vector<int>& bits) const;
  /// The state with the same in all coordinates of a level, from coordinate 0, where all of it is now. Empty
  /// if it isn't.
  SlotState spread(Level level) const;

  /// Address bits that may fill up slots: those that belong into the address before those that belong
  /// elsewhere, and last those of digits that have fewer values than their bits.
  std::vector<int> fillers(BitMask used) const;
  /// What may come into these slots: the bit that belongs there, if it is in the address; then bits that
  /// belong into the address anyhow (they have to make room, and nothing is lost by it); then bits that
  /// belong elsewhere; then nothing. With `ahead`, bits that belong into the slots of another level and
  /// get there from here come first. With `empty`, slots that should hold nothing are left empty.
  std::vector<int> incoming(int first, int count, const std::vector<int>& ahead = {},
                            bool empty = false) const;
  /// Whether a slot of the range holds a bit and should hold nothing.
  bool must_empty(int first, int count) const;
  /// Whether the goal has a bit in a slot.
  bool is_wanted(int bit) const { return wanted_at_[static_cast<size_t>(bit)] >= 0; }

  /// The uses of a primitive.
  void ask(const MovePrimitive& primitive);
  std::vector<Move> take() { return std::move(moves_); }

 private:
  bool is_useful(const SlotState& after) const;
  /// InternalError when no primitive can do this.
  void check(const SlotState& after, double steps) const;

  std::vector<int> wanted_at_;  ///< by bit: the slot that it belongs into, -1 = the address
  const MovePrimitive* primitive_ = nullptr;
  std::vector<Move> moves_;
};

}  // namespace kodama::layout
