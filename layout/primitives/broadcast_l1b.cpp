#include <algorithm>
#include <cstdint>
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

void propose_broadcast_l1b(MoveProposals& here) {
  SlotState after = here.state;
  double copies = 1;
  for (int slot = here.shape.first(Level::kL1b); slot < here.shape.first(Level::kL2b); ++slot) {
    if (here.state[static_cast<size_t>(slot)] >= 0) copies *= 2;
    after[static_cast<size_t>(slot)] = kEverywhere;
  }
  const double n = here.values(after);
  if (n > kMostCopies) return;
  here.add(after, here.n / 4 + copies * std::max(1.0, here.lanes * here.n / kBlockLw) + n / 4);
}

class BroadcastL1b : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  /// l2bmi sends what an L1B has to all.
  void write() {
    const std::vector<int> l1b = contents(move_.before, shape_.first(Level::kL1b), shape_.l1b);
    const int64_t l1bs = chip_.l1b_per_l2b;
    const Chunks parts = chunks({}, before_bits(), std::max<int64_t>(most_lines(2) / (l1bs + 1), 1));
    const int64_t most = int64_t{1} << parts.inner.size();
    const int64_t part_lw = std::max(most * lanes(), kBlockLw);
    const auto buffers = take_chunk_buffers(parts.outer.size() > 1 ? 2 : 1,
                                            {.up_lines = most, .down_lines = l1bs * part_lw / lanes()});
    size_t turn = 0;
    for (const BitMask outer : parts.outer) {
      const ChunkBuffer& own = buffers[turn++ % buffers.size()];
      std::vector<LineCopy> up;
      std::vector<BitMask> values;
      for (const BitMask inner : view_.values(mask_of(parts.inner))) {
        if (!is_valid(inner | outer, before_bits())) continue;
        up.push_back({static_cast<int64_t>(up.size()), address(at_.before, inner | outer)});
        values.push_back(inner | outer);
      }
      const int64_t used_lw = static_cast<int64_t>(up.size()) * lanes();
      code_.lines_up(std::move(up), at_.before.memory, own.up.base);
      std::vector<LineCopy> down;
      for (int64_t k = 0; k < l1bs; ++k) {
        const auto there = spread_bits(k, l1b);
        if (!there) continue;
        for (int64_t block = 0; block < used_lw; block += kBlockLw) {
          Instruction pass =
              make_instruction(Opcode::kL2bmi, Precision::kNone, Code::l1bm(own.up.base + block),
                               Code::l1bm(own.down.base + k * part_lw + block));
          pass.l1b_set.kind = isa::L1bSet::Kind::kOne;
          pass.l1b_set.k = static_cast<uint8_t>(k);
          code_.add(std::move(pass));
        }
        for (size_t line = 0; line < values.size(); ++line) {
          if (!is_valid(values[line] | *there, view_.address_bits(move_.after))) continue;
          down.push_back({k * part_lw / lanes() + static_cast<int64_t>(line),
                          address(at_.after, values[line] | *there)});
        }
      }
      code_.lines_down(std::move(down), at_.after.memory, own.down.base);
    }
    give_back(buffers);
  }
};

}  // namespace

MovePrimitive broadcast_l1b_primitive() {
  return {.name = "broadcast-l1b",
          .description = "L1B bits -> address; every L1B gets all, by l2bmi",
          .precondition = "",
          .cost = "n/4 + L1Bs * (lanes * n / 64 + n/4)",
          .overlap = {.uses_t = false},
          .propose = propose_broadcast_l1b,
          .emit = emit_with<BroadcastL1b>};
}

}  // namespace kodama::layout
