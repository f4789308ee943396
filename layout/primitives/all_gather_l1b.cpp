#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "isa/arithmetic.h"
#include "layout/moves/move_emission.h"
#include "layout/moves/move_proposals.h"
#include "layout/primitives/primitive_list.h"

namespace kodama::layout {
namespace {

using isa::Opcode;
using isa::Precision;

void propose_all_gather_l1b(MoveProposals& here) {
  const int nb = here.shape.l1b;
  const int k = here.shape.lane_bits();
  if (nb == 0 || k < 3) return;
  SlotState after = here.state;
  const std::vector<int> l1b = contents(here.state, here.shape.first(Level::kL1b), nb);
  const std::vector<int> lane_bits = contents(here.state, here.shape.first(Level::kPe), k);
  std::vector<int> dealt(lane_bits.begin(), lane_bits.begin() + 3);
  dealt.insert(dealt.end(), l1b.begin(), l1b.end());
  dealt.insert(dealt.end(), lane_bits.begin() + 3, lane_bits.end());
  bool any = false;
  for (int j = 0; j < nb; ++j) {
    int8_t& slot = after[static_cast<size_t>(here.shape.first(Level::kL1b) + j)];
    any = any || slot >= 0;
    slot = kEverywhere;
  }
  if (!any) return;
  for (int j = 0; j < k; ++j) {
    const int bit = dealt[static_cast<size_t>(j)];
    after[static_cast<size_t>(here.shape.first(Level::kPe) + j)] =
        static_cast<int8_t>(bit >= 0 ? bit : kNothing);
  }
  const double n = here.values(after);
  if (n <= kMostCopies)
    here.add(after,
             here.n / 4 + here.lanes * here.n / kDealLw + here.l1bs * here.lanes * here.n / kBlockLw + n / 4);
}

class GatherL1b : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  void write() {
    const auto lane_count = static_cast<int64_t>(shape_.lane_bits());
    std::vector<int> lane_bits = contents(move_.before, shape_.first(Level::kPe), shape_.lane_bits());
    const int64_t l1bs = chip_.l1b_per_l2b;
    const int64_t most = std::min(most_lines(2) / (l1bs + 1), chip_.memory.l2bm_lw / lanes() / l1bs / 2);
    const Chunks parts = chunks({}, before_bits(), std::max<int64_t>(most, 1));
    std::vector<int> up_bits = lane_bits;
    up_bits.insert(up_bits.end(), parts.inner.begin(), parts.inner.end());
    const std::vector<int> down_bits = dealt(up_bits);
    const int64_t up_lines = int64_t{1} << parts.inner.size();
    const int64_t l2_size = isa::ceil_div(up_lines * lanes(), kDealLw) * l2bmd_lw(chip_);
    const auto buffers = take_chunk_buffers(
        parts.outer.size() > 1 ? 2 : 1,
        {.up_lines = up_lines, .down_lines = isa::ceil_div(l2_size, lanes()), .up_l2_lw = l2_size});
    size_t turn = 0;
    const BitMask after_bits = view_.address_bits(move_.after);
    const std::vector<int> down_line_bits(down_bits.begin() + lane_count, down_bits.end());
    for (const BitMask outer : parts.outer) {
      const ChunkBuffer& own = buffers[turn++ % buffers.size()];
      up_to_l2bm(parts, outer, own.up, own.up_l2);
      std::vector<LineCopy> down;
      std::set<int64_t> blocks;
      BitMask outer_mask = 0;
      for (const BitMask each : parts.outer) outer_mask |= each;
      for (const BitMask inner : view_.values(after_bits & ~outer_mask)) {
        if (!is_valid(inner | outer, after_bits)) continue;
        down.push_back({extract_bits(inner, down_line_bits), address(at_.after, inner | outer)});
        blocks.insert(down.back().line * lanes() / kBlockLw);
      }
      for (const int64_t block : blocks) {
        code_.add(make_instruction(Opcode::kL2bmb, Precision::kNone,
                                   Code::l2bm(own.up_l2.base + block * kBlockLw),
                                   Code::l1bm(own.down.base + block * kBlockLw)));
      }
      code_.lines_down(std::move(down), at_.after.memory, own.down.base);
    }
    give_back(buffers);
  }

 private:
  /// The bits of an L2BM address behind l2bmd: three of the L1BM address, the L1B, the others.
  std::vector<int> dealt(const std::vector<int>& l1bm_bits) const {
    const std::vector<int> l1b = contents(move_.before, shape_.first(Level::kL1b), shape_.l1b);
    std::vector<int> result(l1bm_bits.begin(), l1bm_bits.begin() + 3);
    result.insert(result.end(), l1b.begin(), l1b.end());
    result.insert(result.end(), l1bm_bits.begin() + 3, l1bm_bits.end());
    return result;
  }
};

}  // namespace

MovePrimitive all_gather_l1b_primitive() {
  return {.name = "all-gather-l1b",
          .description = "L1B bits -> lanes, lanes -> address; every L1B gets all",
          .precondition = "",
          .cost = "n/4 + lanes * n / 32 + L1Bs * (lanes * n / 64 + n / 4)",
          .overlap = {.uses_t = false},
          .propose = propose_all_gather_l1b,
          .emit = emit_with<GatherL1b>};
}

}  // namespace kodama::layout
