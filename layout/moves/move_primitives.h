#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isa/chip.h"
#include "layout/algebra/bits.h"
#include "layout/moves/move_code.h"

/// What the hardware can do to a layout, as moves of bits between slots and address (layout/algebra/bits.h).
///
/// Every primitive takes a tensor in the PEs and leaves it in the PEs. A row of the table says what it does
/// to the slots, when, and what it costs; `moves_from` lists its uses in a state, `emit_move` writes the
/// code.
///
/// Worked example, `skew` of the 4 MAB bits of mncore2, 16 MABs and 16 long words per PE: in round d = 0..15
/// PE q of MAB s sends the element at address s + d, read through T = s, to L1BM with `l1bmd`; all PEs
/// read L1BM 4 * d long words further on, so that MAB s gets what MAB s - d has sent, and put it at address
/// s - d, through T again. What was at address r of MAB s is then at address s of MAB r. No PE is ever
/// masked off, and both ports of L1BM run at their full width.
namespace kodama::layout {

enum class MoveKind : uint8_t {
  kCopy,
  kMatrix,
  kMatrixWords,
  kSkew,
  kWords,
  kDealMab,
  kGatherMab,
  kGatherPe,
  kSelect,
  kSwapL1b,
  kShuffleL1b,
  kGatherL1b,
  kSpreadL1b,
  kExchangeL2b,
  kGatherL2b,
  kSpreadL2b,
  kTransposeL2b,
  kCollectLanes,
  kBroadcastL1b,
  kDealLanes,
};

struct Move;
struct MoveAddresses;
using EmitMove = void (*)(const BitView& view, const Move& move, const MoveAddresses& at, Code& code);

struct MovePrimitive {
  MoveKind kind;
  std::string_view name;
  std::string_view effect;
  std::string_view precondition;
  std::string_view cost;  ///< steps; n = long words per PE
  EmitMove emit;
};
/// By MoveKind.
const std::vector<MovePrimitive>& move_primitives();
std::string_view move_name(MoveKind kind);

/// One use of a primitive.
struct Move {
  MoveKind kind = MoveKind::kCopy;
  SlotState before;
  SlotState after;
  int slot = 0;  ///< kSwapL1b: of the bit; kSkew, kDealLanes: the lowest lane that changes
  /// kShuffleL1b: the first bits behind the lanes and L1Bs; see shuffle_bits. kTransposeL2b: the address bits
  /// from the lowest line up.
  std::vector<int> order;
  double steps = 0;    ///< about
  int slot_count = 0;  ///< kDealLanes
};

/// What a search can do next on its way to `goal`: the bits that belong into a slot are brought there, others
/// fill up.
std::vector<Move> moves_from(const BitView& view, const SlotState& state, const SlotState& goal);

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
MoveNeeds needs_of(const BitView& view, const Move& move);

struct MoveAddresses {
  Placement before;
  Placement after;
  int64_t run_stride = 1;  ///< of the first of target_run
  /// Address bits, first those that vary fastest while chunks are worked on one after the other. Moves that
  /// follow each other have them in the same order, so that one can start before the other is over.
  std::vector<int> pace = {};
};
void emit_move(const BitView& view, const Move& move, const MoveAddresses& at, Code& code);

}  // namespace kodama::layout
