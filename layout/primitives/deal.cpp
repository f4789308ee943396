#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "layout/moves/masked_writes.h"
#include "layout/moves/move_emission.h"
#include "layout/moves/move_proposals.h"
#include "layout/primitives/primitive_list.h"

namespace kodama::layout {
namespace {

/// Lanes that hold nothing, each run of them as a whole.
void propose_deal(MoveProposals& here) {
  constexpr int kMostDealt = 4;
  const int first = here.shape.first(Level::kPe);
  const int end = first + here.shape.lane_bits();
  for (int low = first; low < end; ++low) {
    if (here.state[static_cast<size_t>(low)] != kNothing) continue;
    int high = low;
    while (high < end && high - low < kMostDealt && here.state[static_cast<size_t>(high)] == kNothing) ++high;
    const std::vector<int> in = here.incoming(low, high - low);
    if (std::ranges::any_of(in, [](int bit) { return bit < 0; })) continue;
    const SlotState after = here.with(low, in);
    const double rounds = std::exp2(high - low);
    here.add(after, here.n / 4 + rounds * std::ceil(here.values(after) / 4), low, high - low);
    low = high;
  }
}

/// Move::slot and slot_count: the lanes.
class Deal : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  /// The inverse: in round d those that have d in the slots take what the others have for them.
  void write() {
    const int low = move_.slot - shape_.first(Level::kPe);
    const std::vector<int> in = contents(move_.after, move_.slot, move_.slot_count);
    const BitMask stay = before_bits() & ~mask_of(in);
    const int64_t rounds = int64_t{1} << in.size();
    MaskedWrites writes(code_, 64);
    writes.tell_apart({0, 1});
    std::vector<int> masks{0};
    for (int64_t round = 1; round < rounds; ++round)
      masks.push_back(spread_bits(round, in) ? writes.mask(round << low, (rounds - 1) << low, 1) : 0);
    // Chunks of what stays in the address, with everything that goes to lanes.
    const Chunks parts = chunks({}, stay, std::max<int64_t>(most_lines(2) / rounds, 1));
    const int64_t part = int64_t{1} << parts.inner.size();
    const std::array<LineBuffer, 2> buffers{line_buffer(part * rounds), line_buffer(part * rounds)};
    size_t turn = 0;
    for (const BitMask outer : parts.outer) {
      const LineBuffer& buffer = buffers[turn++ % 2];
      std::vector<LineCopy> up;
      std::vector<std::vector<LineCopy>> down(static_cast<size_t>(rounds));
      for (int64_t round = 0; round < rounds; ++round) {
        const auto here = spread_bits(round, in);
        if (!here) continue;
        for (const BitMask inner : view_.values(mask_of(parts.inner))) {
          const BitMask value = inner | outer;
          if (!is_valid(value | *here, before_bits()) || !is_valid(value, stay)) continue;
          const auto line = static_cast<int64_t>(up.size());
          up.push_back({line, address(at_.before, value | *here)});
          down[static_cast<size_t>(round)].push_back({line, address(at_.after, value)});
        }
      }
      code_.lines_up(std::move(up), at_.before.memory, buffer.base);
      for (int64_t round = 0; round < rounds; ++round) {
        code_.lines_down(std::move(down[static_cast<size_t>(round)]), at_.after.memory, buffer.base,
                         -(round << low), masks[static_cast<size_t>(round)]);
      }
    }
    for (const LineBuffer& buffer : buffers) give_back(buffer);
  }
};

}  // namespace

MovePrimitive deal_primitive() {
  return {.name = "deal",
          .description = "address bits -> lane bits, in rotations under masks",
          .precondition = "nothing in these lanes; up to 16 rotations",
          .cost = "n/2 + setting masks",
          .overlap = {.uses_t = false},
          .propose = propose_deal,
          .emit = emit_with<Deal>};
}

}  // namespace kodama::layout
