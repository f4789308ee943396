#include "layout/moves/move_primitives.h"

#include <algorithm>
#include <bit>

#include "layout/moves/move_emission.h"

namespace kodama::layout {

const std::vector<MovePrimitive>& move_primitives() {
  static const std::vector<MovePrimitive> kTable{
      {MoveKind::kCopy, "copy", "addresses in any order; LM0, LM1, GRF0, GRF1", "two different memories",
       "n/4; n/8 where neighbours stay neighbours", emit_copy},
      {MoveKind::kMatrix, "matrix", "PE bits <-> two address bits, through the matrix registers", "", "n/4",
       emit_matrix},
      {MoveKind::kMatrixWords, "matrix-words", "word and PE bits <-> as many address bits",
       "elements of 16 or 32 bits", "n/4 (16 bits: 3n/8)", emit_matrix},
      {MoveKind::kSkew, "skew",
       "the upper k lane bits (PE, then MAB bits) <-> k address bits, in 2^k rotations",
       "source in LM0 or LM1, target in LM0 (or LM1 where a round has work for its base register); these "
       "bits at the lowest strides",
       "n/4 + (n + 2^k)/4 + setting T, 2 steps a round at least", emit_skew},
      {MoveKind::kWords, "words", "the word bit <-> an address bit, word by word",
       "elements of 32 bits; two different memories", "n/2", emit_words},
      {MoveKind::kDealMab, "deal-mab", "address bits -> all MAB bits, from MAB 0 by l1bmm and l1bmd",
       "nothing in the other MABs", "n/4 + n / 4 MABs", emit_deal_mab},
      {MoveKind::kGatherMab, "gather-mab", "MAB bits -> address; every MAB gets all", "",
       "n/4 + lanes * n / 32", emit_gather_lanes},
      {MoveKind::kGatherPe, "gather-pe", "PE and MAB bits -> address; every PE gets all", "",
       "n/4 + lanes * n / 8", emit_gather_lanes},
      {MoveKind::kSelect, "select", "address bits -> slots whose coordinates hold the same", "LM0, through T",
       "n/4", emit_select},
      {MoveKind::kSwapL1b, "swap-l1b", "an L1B bit <-> an address bit, by l2bmi between pairs of L1Bs",
       "two different memories", "lanes * n / 64 of l2bmi; beside them n/2 of l1bmd and n/4 of the ALU",
       emit_swap_l1b},
      {MoveKind::kShuffleL1b, "shuffle-l1b",
       "upper lane bits -> L1B bits; L1B bits and address bits -> upper lane bits, address",
       "lanes and L1Bs as in mncore2 or fewer", "n/2 + lanes * n / 64 * (L1Bs + 2)", emit_shuffle_l1b},
      {MoveKind::kGatherL1b, "gather-l1b", "L1B bits -> lanes, lanes -> address; every L1B gets all", "",
       "n/4 + lanes * n / 32 + L1Bs * (lanes * n / 64 + n / 4)", emit_gather_l1b},
      {MoveKind::kSpreadL1b, "spread-l1b", "what L1B 0 has goes to every L1B", "nothing in the other L1Bs",
       "n/2 + lanes * n / 32", emit_spread_l1b},
      {MoveKind::kExchangeL2b, "exchange-l2b",
       "any L2B bits <-> as many address bits, in rounds of transfers between pairs of L2Bs",
       "LM0, through T on both sides", "n/2 + lanes * n / 16 of l2bmd, or the transfers", emit_exchange_l2b},
      {MoveKind::kGatherL2b, "gather-l2b", "L2B bits -> address; every L2B gets all", "", "the transfers",
       emit_to_every_l2b},
      {MoveKind::kSpreadL2b, "spread-l2b", "what L2B 0 has goes to every L2B", "nothing in the other L2Bs",
       "the transfers", emit_to_every_l2b},
      {MoveKind::kTransposeL2b, "transpose-l2b",
       "all L2B bits <-> upper lane and address bits, L1B bits and lanes between them, through the PDMs",
       "few long words; two transfers one after the other",
       "n/2 + lanes * n / 16 of l2bmd, and the transfers", emit_transpose_l2b},
      {MoveKind::kCollectLanes, "collect", "any lane bits -> address, in rotations", "",
       "n/4 + n/4 of what is then in the address", emit_collect_lanes},
      {MoveKind::kBroadcastL1b, "broadcast-l1b", "L1B bits -> address; every L1B gets all, by l2bmi", "",
       "n/4 + L1Bs * (lanes * n / 64 + n/4)", emit_broadcast_l1b},
      {MoveKind::kDealLanes, "deal", "address bits -> lane bits, in rotations under masks",
       "nothing in these lanes; up to 16 rotations", "n/2 + setting masks", emit_deal_lanes},
  };
  return kTable;
}

std::string_view move_name(MoveKind kind) {
  return move_primitives()[static_cast<size_t>(kind)].name;
}

void emit_move(const BitView& view, const Move& move, const MoveAddresses& at, Code& code) {
  move_primitives()[static_cast<size_t>(move.kind)].emit(view, move, at, code);
}

MoveNeeds needs_of(const BitView& view, const Move& move) {
  const SlotShape& shape = view.shape;
  MoveNeeds needs;
  switch (move.kind) {
    case MoveKind::kCopy:
      needs.other_memory = true;
      break;
    case MoveKind::kWords:
    case MoveKind::kMatrix:
      needs.other_memory = true;
      break;
    case MoveKind::kMatrixWords:
      needs.other_memory = true;
      if (shape.word == 2) {
        needs.target_has_one = needs.target_one_required = true;
        needs.target_one = std::max<int>(move.before[0], -1);
      }
      break;
    case MoveKind::kSkew: {
      const int count = shape.first(Level::kPe) + shape.lane_bits() - move.slot;
      needs.source_lm = needs.target_lm0 = needs.target_lm1 = true;
      needs.source_low = contents(move.after, move.slot, count);
      needs.target_run = contents(move.before, move.slot, count);
      break;
    }
    case MoveKind::kGatherMab:
    case MoveKind::kGatherPe: {
      const int m0 = move.before[static_cast<size_t>(shape.first(Level::kMab))];
      if (m0 >= 0) {
        needs.target_has_one = true;
        needs.target_one = m0;
      }
      break;
    }
    case MoveKind::kSelect:
      needs.source_lm0 = true;
      needs.other_memory = true;
      needs.powers = true;
      for (size_t slot = 0; slot < move.after.size(); ++slot) {
        if (move.before[slot] == kEverywhere && move.after[slot] >= 0)
          needs.source_low.push_back(move.after[slot]);
      }
      break;
    case MoveKind::kSwapL1b:
      needs.other_memory = true;
      break;
    case MoveKind::kExchangeL2b:
      needs.source_lm0 = needs.target_lm0 = true;
      needs.powers = needs.target_powers = true;
      for (int k = 0; k < shape.l2b; ++k) {
        const auto slot = static_cast<size_t>(shape.first(Level::kL2b) + k);
        if (move.before[slot] == move.after[slot]) continue;
        if (move.after[slot] >= 0) needs.source_low.push_back(move.after[slot]);
        if (move.before[slot] >= 0) needs.target_powers_of.push_back(move.before[slot]);
      }
      break;
    default:
      break;
  }
  return needs;
}

}  // namespace kodama::layout
