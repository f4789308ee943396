#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "layout/moves/move_emission.h"
#include "layout/moves/move_proposals.h"
#include "layout/primitives/before_transpose.h"
#include "layout/primitives/primitive_list.h"

namespace kodama::layout {
namespace {

using isa::Instruction;
using isa::Opcode;
using isa::Precision;
using isa::Width;

void propose_bits(MoveProposals& here, std::vector<int> in) {
  const int first = here.shape.first(Level::kMab);
  // Bits that could stay in the address go along: the MABs are there.
  BitMask used = mask_of(in);
  for (int& bit : in) {
    if (bit >= 0) continue;
    for (const int other : bits_of(here.lines & ~used)) {
      bit = other;
      used |= mask_of(other);
      break;
    }
  }
  const SlotState after = here.with(first, in);
  here.add(after, here.larger(after) / 4 + here.values(after) / 4);
}

void propose_deal_mab(MoveProposals& here) {
  const int first = here.shape.first(Level::kMab);
  for (int slot = first; slot < first + here.shape.mab; ++slot) {
    if (here.state[static_cast<size_t>(slot)] != kNothing) return;
  }
  propose_bits(here, here.incoming(first, here.shape.mab));
  const std::vector<int> ahead = before_transpose(here, first, here.shape.mab);
  if (!ahead.empty()) propose_bits(here, ahead);
}

class DealMab : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  /// MAB 0 sends 16 LW a step; l1bmd gives every MAB four of them.
  void write() {
    const std::vector<int> in = contents(move_.after, shape_.first(Level::kMab), shape_.mab);
    const Chunks parts = chunks(in, before_bits() & ~mask_of(in),
                                std::max(most_lines(3) << shape_.mab, int64_t{1} << shape_.mab));
    const int64_t lines = std::max<int64_t>(int64_t{1} << parts.inner.size() >> shape_.mab, 1);
    const size_t turns = parts.outer.size() > 1 ? 2 : 1;
    std::array<LineBuffer, 2> buffers;
    for (size_t k = 0; k < turns; ++k) buffers[k] = line_buffer(lines);
    size_t turn = 0;
    for (const BitMask outer : parts.outer) {
      const LineBuffer& buffer = buffers[turn++ % turns];
      // Four numbers that follow each other go together.
      std::map<int64_t, std::array<int64_t, 4>> fours;
      for (const BitMask inner : view_.values(mask_of(parts.inner))) {
        if (!is_valid(inner | outer, before_bits())) continue;
        const int64_t number = extract_bits(inner, parts.inner);
        const int64_t at = address(at_.before, inner | outer);
        auto [four, is_new] = fours.try_emplace(number / 4);
        if (is_new) four->second.fill(at);
        four->second[static_cast<size_t>(number % 4)] = at;
      }
      for (auto four = fours.begin(); four != fours.end();) {
        const auto& [number, addresses] = *four++;
        // Eight in a step where they lie side by side: 2c and 2c + 1 of the eight in cycle c.
        if (number % 2 == 0 && four != fours.end() && four->first == number + 1) {
          const std::array<int64_t, 4>& next = four->second;
          const std::array<int64_t, 4> even{addresses[0], addresses[2], next[0], next[2]};
          const std::array<int64_t, 4> odd{addresses[1], addresses[3], next[1], next[3]};
          bool wide = true;
          for (size_t c = 0; c < 4; ++c) wide = wide && even[c] % 2 == 0 && odd[c] == even[c] + 1;
          if (wide) {
            Instruction up = make_instruction(Opcode::kL1bmm, Precision::kNone,
                                              Code::pe(at_.before.memory, even, Width::kDoubleLong, chip_),
                                              Code::l1bm(buffer.base + number * 4 * isa::kPePerMab, true));
            up.unit = 0;
            code_.add(std::move(up));
            ++four;
            continue;
          }
        }
        Instruction up = make_instruction(Opcode::kL1bmm, Precision::kNone,
                                          Code::pe(at_.before.memory, addresses, Width::kLong, chip_),
                                          Code::l1bm(buffer.base + number * 4 * isa::kPePerMab));
        up.unit = 0;
        code_.add(std::move(up));
      }
      std::vector<LineCopy> down;
      const std::vector<int> line_bits(parts.inner.begin() + shape_.mab, parts.inner.end());
      for (const BitMask inner : view_.values(mask_of(line_bits))) {
        if (!is_valid(inner | outer, view_.address_bits(move_.after))) continue;
        down.push_back({extract_bits(inner, line_bits), address(at_.after, inner | outer)});
      }
      code_.lines_down(std::move(down), at_.after.memory, buffer.base);
    }
    for (size_t k = 0; k < turns; ++k) give_back(buffers[k]);
  }
};

}  // namespace

MovePrimitive deal_mab_primitive() {
  return {.name = "deal-mab",
          .description = "address bits -> all MAB bits, from MAB 0 by l1bmm and l1bmd",
          .precondition = "nothing in the other MABs",
          .cost = "n/4 + n / 4 MABs",
          .overlap = {.uses_t = false},
          .propose = propose_deal_mab,
          .emit = emit_with<DealMab>};
}

}  // namespace kodama::layout
