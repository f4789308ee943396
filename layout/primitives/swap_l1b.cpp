#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "layout/moves/move_emission.h"
#include "layout/moves/move_proposals.h"
#include "layout/primitives/primitive_list.h"

namespace kodama::layout {
namespace {

using isa::FixedConstant;
using isa::Instruction;
using isa::Opcode;
using isa::Precision;

void propose_slot(MoveProposals& here, int slot) {
  const int first = slot;
  const std::vector<int> in = here.incoming(first, 1);
  const SlotState after = here.with(first, in);
  const double n = here.larger(after);
  here.add(after, std::max(n / 2, here.lanes * n / kBlockLw) + kMoveSetUp / 2, slot);
}

void propose_swap_l1b(MoveProposals& here) {
  for (int slot = here.shape.first(Level::kL1b); slot < here.shape.first(Level::kL2b); ++slot)
    propose_slot(here, slot);
}

/// Move::slot: of the bit.
class SwapL1b : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  /// What is at 1 of the address bit goes from the L1Bs with a 0 to those with a 1, what is at 0 the other
  /// way; the rest stays, and is copied in the PEs meanwhile.
  void write() {
    const int power = shape_.power(move_.slot);
    const int in = move_.after[static_cast<size_t>(move_.slot)];
    const int out = std::max<int>(move_.before[static_cast<size_t>(move_.slot)], -1);
    const int mask_of_one = code_.mask_of_bit(FixedConstant::kL1bid, power, true);
    const int mask_of_zero = code_.mask_of_bit(FixedConstant::kL1bid, power, false);
    const BitMask rest = before_bits() & ~mask_of(in);
    const BitMask after_bits = view_.address_bits(move_.after);
    const Chunks parts = chunks({}, rest, std::min<int64_t>(most_lines(8), 4));
    std::array<std::array<LineBuffer, 4>, 2> sets;
    const size_t turns = parts.outer.size() > 1 ? 2 : 1;
    for (size_t turn = 0; turn < turns; ++turn) {
      for (LineBuffer& buffer : sets[turn]) buffer = line_buffer(int64_t{1} << parts.inner.size());
    }
    size_t turn = 0;
    for (const BitMask outer : parts.outer) {
      const std::array<LineBuffer, 4>& set = sets[turn++ % turns];
      std::array<std::vector<LineCopy>, 2> down;
      for (const int value : {0, 1}) {
        // L1Bs with `value` send; the others take it, to the address of `value`.
        const LineBuffer& sent = set[static_cast<size_t>(value)];
        const LineBuffer& received = set[static_cast<size_t>(2 + value)];
        if (value == 1 && out < 0) continue;  // L1Bs with a 1 have nothing
        const BitMask at_in = value == 0 ? mask_of(in) : 0;
        const BitMask at_out = value == 1 ? mask_of(out) : 0;
        std::vector<LineCopy> up;
        std::set<int64_t> blocks;
        for (const BitMask inner : view_.values(mask_of(parts.inner))) {
          const BitMask each = inner | outer;
          if (!is_valid(each | at_in, before_bits()) || !is_valid(each | at_out, after_bits)) continue;
          const int64_t line = extract_bits(inner, parts.inner);
          up.push_back({line, address(at_.before, each | at_in)});
          down[static_cast<size_t>(value)].push_back({line, address(at_.after, each | at_out)});
          blocks.insert(line * lanes() / kBlockLw);
        }
        code_.lines_up(std::move(up), at_.before.memory, sent.base);
        for (const int64_t block : blocks)
          pass_across(power, value, sent.base + block * kBlockLw, received.base + block * kBlockLw);
      }
      for (const int value : {0, 1}) {
        if (value == 1 && out < 0) continue;
        const BitMask at_in = value == 1 ? mask_of(in) : 0;
        const BitMask at_out = value == 1 ? mask_of(out) : 0;
        std::vector<std::pair<int64_t, int64_t>> kept;
        for (const BitMask inner : view_.values(mask_of(parts.inner))) {
          const BitMask each = inner | outer;
          if (!is_valid(each | at_in, before_bits()) || !is_valid(each | at_out, after_bits)) continue;
          kept.emplace_back(address(at_.after, each | at_out), address(at_.before, each | at_in));
        }
        code_.copies(std::move(kept), at_.before.memory, at_.after.memory, false,
                     value == 0 ? mask_of_zero : mask_of_one);
      }
      for (const int value : {0, 1}) {
        code_.lines_down(std::move(down[static_cast<size_t>(value)]), at_.after.memory,
                         set[static_cast<size_t>(2 + value)].base, 0,
                         value == 0 ? mask_of_one : mask_of_zero);
      }
    }
    for (size_t k = 0; k < turns; ++k) {
      for (const LineBuffer& buffer : sets[k]) give_back(buffer);
    }
  }

 private:
  /// A block of L1BM from the L1Bs with `value` in a bit of their number to those with the other one.
  void pass_across(int power, int value, int64_t from, int64_t to) {
    Instruction pass = make_instruction(Opcode::kL2bmi, Precision::kNone, Code::l1bm(from), Code::l1bm(to));
    const int ignored = (chip_.l1b_per_l2b - 1) & ~(1 << power);
    pass.l1b_set.kind = ignored == 0 ? isa::L1bSet::Kind::kOne : isa::L1bSet::Kind::kMasked;
    pass.l1b_set.k = static_cast<uint8_t>(value << power);
    pass.l1b_set.ignore_mask = static_cast<uint8_t>(ignored);
    code_.add(std::move(pass));
  }
};

}  // namespace

MovePrimitive swap_l1b_primitive() {
  return {.name = "swap-l1b",
          .description = "an L1B bit <-> an address bit, by l2bmi between pairs of L1Bs",
          .precondition = "two different memories",
          .cost = "lanes * n / 64 of l2bmi; beside them n/2 of l1bmd and n/4 of the ALU",
          .overlap = {.uses_t = false},
          .propose = propose_swap_l1b,
          .needs = needs_other_memory,
          .emit = emit_with<SwapL1b>};
}

}  // namespace kodama::layout
