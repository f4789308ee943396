#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "layout/moves/move_emission.h"
#include "layout/moves/move_proposals.h"
#include "layout/primitives/before_transpose.h"
#include "layout/primitives/primitive_list.h"

namespace kodama::layout {
namespace {

using isa::FixedConstant;

void propose_select(MoveProposals& here) {
  for (const bool for_transpose : {false, true}) {
    const int lane = here.shape.first(Level::kPe);
    const std::vector<int> ahead =
        for_transpose ? before_transpose(here, lane, here.shape.lane_bits()) : std::vector<int>{};
    if (for_transpose && ahead.empty()) return;
    SlotState after = here.state;
    bool any = false;
    BitMask used = mask_of(ahead);
    for (int slot = here.shape.word; slot < here.shape.count(); ++slot) {
      const auto at = static_cast<size_t>(slot);
      if (here.state[at] != kEverywhere) continue;
      int bit = here.goal[at];
      if (for_transpose && slot >= lane && slot < lane + here.shape.lane_bits()) {
        bit = ahead[static_cast<size_t>(slot - lane)];
      } else if (here.is_line(bit) && (used >> bit & 1) != 0) {
        continue;
      }
      if (!here.is_line(bit)) continue;
      after[at] = static_cast<int8_t>(bit);
      any = true;
    }
    if (any) here.add(after, here.values(after) / 4);
  }
}

class Select : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  void write() {
    std::vector<Code::Field> fields;
    BitMask chosen = 0;
    for (int slot = 0; slot < shape_.count(); ++slot) {
      const int bit = move_.after[static_cast<size_t>(slot)];
      if (bit < 0 || move_.before[static_cast<size_t>(slot)] != kEverywhere) continue;
      chosen |= mask_of(bit);
      const int64_t words = isa::kWordsPerLong * at_.before.stride[static_cast<size_t>(bit)];
      const int shift = std::countr_zero(static_cast<uint64_t>(words));
      const Level level = shape_.level(slot);
      const FixedConstant constant = level == Level::kL1b   ? FixedConstant::kL1bid
                                     : level == Level::kL2b ? FixedConstant::kL2bid
                                                            : FixedConstant::kPeid;
      const int low = shape_.power(slot) + (level == Level::kMab ? SlotShape::kPeBits : 0);
      if (!fields.empty() && fields.back().constant == constant &&
          fields.back().low + fields.back().count == low &&
          fields.back().shift + fields.back().count == shift) {
        ++fields.back().count;
      } else {
        fields.push_back({constant, low, 1, shift});
      }
    }
    code_.field_sum_to(fields, Code::t());
    std::vector<int64_t> offsets;
    for (const BitMask value : view_.values(chosen))
      offsets.push_back(address(at_.before, value) - at_.before.base);
    code_.t_holds(std::move(offsets));
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (const BitMask value : view_.values(before_bits() & ~chosen))
      pairs.emplace_back(address(at_.after, value), address(at_.before, value));
    code_.copies(std::move(pairs), at_.before.memory, at_.after.memory, true);
  }
};

MoveNeeds select_needs(const BitView& /*view*/, const Move& move) {
  MoveNeeds needs;
  needs.source_lm0 = true;
  needs.other_memory = true;
  needs.powers = true;
  for (size_t slot = 0; slot < move.after.size(); ++slot) {
    if (move.before[slot] == kEverywhere && move.after[slot] >= 0)
      needs.source_low.push_back(move.after[slot]);
  }
  return needs;
}

}  // namespace

MovePrimitive select_primitive() {
  return {.name = "select",
          .description = "address bits -> slots whose coordinates hold the same",
          .precondition = "LM0, through T",
          .cost = "n/4",
          .propose = propose_select,
          .needs = select_needs,
          .emit = emit_with<Select>};
}

}  // namespace kodama::layout
