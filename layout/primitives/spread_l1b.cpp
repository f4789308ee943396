#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "layout/moves/move_emission.h"
#include "layout/moves/move_proposals.h"
#include "layout/primitives/primitive_list.h"

namespace kodama::layout {
namespace {

using isa::Instruction;
using isa::Opcode;
using isa::Precision;

void propose_spread_l1b(MoveProposals& here) {
  const SlotState after = here.spread(Level::kL1b);
  if (!after.empty()) here.add(after, here.n / 2 + here.lanes * here.n / kDealLw);
}

class SpreadL1b : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  void write() {
    const Chunks parts = chunks({}, before_bits(), most_lines(4));
    const int64_t lines_at_once = int64_t{1} << parts.inner.size();
    const auto buffers = take_chunk_buffers(parts.outer.size() > 1 ? 2 : 1,
                                            {.up_lines = lines_at_once,
                                             .down_lines = lines_at_once,
                                             .up_l2_lw = std::max(lines_at_once * lanes(), kBlockLw)});
    size_t turn = 0;
    for (const BitMask outer : parts.outer) {
      const ChunkBuffer& own = buffers[turn++ % buffers.size()];
      std::vector<LineCopy> up;
      std::vector<LineCopy> down;
      std::set<int64_t> blocks;
      for (const BitMask inner : view_.values(mask_of(parts.inner))) {
        if (!is_valid(inner | outer, before_bits())) continue;
        const int64_t line = gather_bits(inner, parts.inner);
        up.push_back({line, address(at_.before, inner | outer)});
        down.push_back({line, address(at_.after, inner | outer)});
        blocks.insert(line * lanes() / kBlockLw);
      }
      code_.lines_up(std::move(up), at_.before.memory, own.up.base);
      for (const int64_t block : blocks) {
        Instruction pass =
            make_instruction(Opcode::kL2bm, Precision::kNone, Code::l1bm(own.up.base + block * kBlockLw),
                             Code::l2bm(own.up_l2.base + block * kBlockLw));
        pass.unit = 0;
        code_.add(std::move(pass));
        code_.add(make_instruction(Opcode::kL2bmb, Precision::kNone,
                                   Code::l2bm(own.up_l2.base + block * kBlockLw),
                                   Code::l1bm(own.down.base + block * kBlockLw)));
      }
      code_.lines_down(std::move(down), at_.after.memory, own.down.base);
    }
    give_back(buffers);
  }
};

}  // namespace

MovePrimitive spread_l1b_primitive() {
  return {.name = "spread-l1b",
          .description = "what L1B 0 has goes to every L1B",
          .precondition = "nothing in the other L1Bs",
          .cost = "n/2 + lanes * n / 32",
          .overlap = {.uses_t = false},
          .propose = propose_spread_l1b,
          .emit = emit_with<SpreadL1b>};
}

}  // namespace kodama::layout
