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
using isa::Operand;
using isa::Precision;

void propose_all_gather_l2b(MoveProposals& here) {
  const int first = here.shape.first(Level::kL2b);
  if (here.shape.l2b == 0) return;
  const TransferSteps& transfer = here.view.transfer;
  SlotState all = here.state;
  double copies = 1;
  bool any = false;
  for (int k = 0; k < here.shape.l2b; ++k) {
    int8_t& slot = all[static_cast<size_t>(first + k)];
    if (slot >= 0) copies *= 2;
    any = any || slot != kEverywhere;
    slot = kEverywhere;
  }
  const double n = here.values(all);
  if (any && n <= kMostCopies && copies > 1) {
    here.add(all, here.n / 4 + n / 4 + here.lanes * (here.n + n) / kDealLw +
                      here.lanes * here.l1bs * n / transfer.lw_per_step + kPdmStarts * transfer.start);
  }
}

void propose_spread_l2b(MoveProposals& here) {
  const SlotState after = here.spread(Level::kL2b);
  if (here.shape.l2b == 0 || after.empty()) return;
  const TransferSteps& transfer = here.view.transfer;
  here.add(after, here.n / 2 + 2 * here.lanes * here.n / kDealLw +
                      2 * here.lanes * here.l1bs * here.n / transfer.lw_per_step +
                      kPdmStarts * transfer.start);
}

/// What all L2Bs have, or L2B 0, goes to all.
template <bool kGathers>
class ToEveryL2b : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  /// Up to L2BM, through the PDMs to all L2Bs, and down. In L2BM what was the L2B is above the lines that go
  /// together, so that a transfer is one run.
  void write() {
    std::vector<int> slots;
    std::vector<int> out;
    for (int k = 0; k < shape_.l2b; ++k) {
      const auto slot = static_cast<size_t>(shape_.first(Level::kL2b) + k);
      if (move_.before[slot] == move_.after[slot]) continue;
      slots.push_back(k);
      out.push_back(std::max<int>(move_.before[slot], -1));
    }
    const int64_t l2_line_lw = line_lw(Memory::kL2bm, chip_);
    // Room: what goes up, and the same of every L2B that comes down.
    const int64_t copies = kGathers ? int64_t{1} << slots.size() : 1;
    const int64_t most = std::max<int64_t>(
        std::min(chip_.memory.l2bm_lw / l2_line_lw / (1 + copies), most_lines(2) / copies), 1);
    std::vector<int> first;
    while (l2_line_lw << first.size() < kBlockLw) first.push_back(-1);
    const Chunks parts = chunks(first, before_bits(), std::max(most, int64_t{1} << first.size()));
    const int64_t run = l2_line_lw << parts.inner.size();
    std::vector<int> numbered_after = parts.inner;
    if (kGathers) numbered_after.insert(numbered_after.end(), out.begin(), out.end());

    // A second set when there is room and something to do meanwhile.
    const size_t turns = parts.outer.size() > 1 && 2 * run * (1 + copies) <= chip_.memory.l2bm_lw ? 2 : 1;
    const auto buffers = take_chunk_buffers(turns, {.up_lines = run / l2_line_lw,
                                                    .down_lines = run * copies / l2_line_lw,
                                                    .up_l2_lw = std::max(run, l2bmd_lw(chip_)),
                                                    .down_l2_lw = std::max(run * copies, l2bmd_lw(chip_)),
                                                    .pdm_lw = run * chip_.l2b_per_group});
    struct Pending {
      size_t turn = 0;
      BitMask outer = 0;
      std::vector<int8_t> tags;
    };
    std::vector<Pending> pending;
    const BitMask after_bits = view_.address_bits(move_.after);
    BitMask outer_mask = 0;
    for (const BitMask each : parts.outer) outer_mask |= each;
    const auto bring_down = [&] {
      const Pending each = std::move(pending.front());
      pending.erase(pending.begin());
      for (const int8_t tag : each.tags) code_.wait(tag);
      std::vector<LineCopy> lines;
      for (const BitMask inner : view_.values(after_bits & ~outer_mask)) {
        if (!is_valid(inner | each.outer, after_bits)) continue;
        lines.push_back({extract_bits(inner, numbered_after), address(at_.after, inner | each.outer)});
      }
      code_.deal_down(lines, buffers[each.turn].down_l2.base, buffers[each.turn].down.base);
      code_.lines_down(std::move(lines), at_.after.memory, buffers[each.turn].down.base);
    };
    size_t turn = 0;
    for (const BitMask outer : parts.outer) {
      while (pending.size() >= turns) bring_down();
      const ChunkBuffer& own = buffers[turn % turns];
      up_to_l2bm(parts, outer, own.up, own.up_l2);
      pending.push_back(
          {turn++ % turns, outer,
           collect_everywhere(slots, out, run, own.up_l2.base, own.down_l2.base, own.pdm.base)});
    }
    while (!pending.empty()) bring_down();
    give_back(buffers);
  }

 private:
  /// Everything to a PDM, and from there to all L2Bs; the tags of the last transfers.
  std::vector<int8_t> collect_everywhere(const std::vector<int>& slots, const std::vector<int>& out,
                                         int64_t run, int64_t up, int64_t down, int64_t pdm) {
    struct Collected {
      int64_t source = 0;
      Operand place;
      int8_t tag = 0;
    };
    std::vector<Collected> collected;
    for (int64_t source = 0; source < chip_.l2b_count(); ++source) {
      // One of those that hold the same.
      bool first = holds(source);
      for (int k = 0; k < shape_.l2b; ++k) {
        if (move_.before[static_cast<size_t>(shape_.first(Level::kL2b) + k)] == kEverywhere)
          first = first && (source >> k & 1) == 0;
      }
      if (!first) continue;
      const Operand place =
          Code::outside(Memory::kPdm, pdm + source % chip_.l2b_per_group * run, source / chip_.l2b_per_group);
      collected.push_back({source, place, code_.transfer(make_mvp(run, l2bm_of(up, source), place))});
    }
    std::vector<int8_t> tags;
    for (const Collected& each : collected) {
      code_.wait(each.tag);
      int64_t place = slots_of(each.source, slots);
      for (size_t k = 0; k < out.size(); ++k) {
        if (out[k] < 0) place &= ~(int64_t{1} << k);
      }
      Instruction mv =
          make_instruction(Opcode::kMvb, Precision::kNone, each.place, Code::l2bm(down + place * run));
      mv.size_lw = run;
      tags.push_back(code_.transfer(std::move(mv)));
    }
    return tags;
  }
};

}  // namespace

MovePrimitive all_gather_l2b_primitive() {
  return {.name = "all-gather-l2b",
          .description = "L2B bits -> address; every L2B gets all",
          .precondition = "",
          .cost = "the transfers",
          .overlap = {.uses_t = false},
          .propose = propose_all_gather_l2b,
          .emit = emit_with<ToEveryL2b<true>>};
}

MovePrimitive spread_l2b_primitive() {
  return {.name = "spread-l2b",
          .description = "what L2B 0 has goes to every L2B",
          .precondition = "nothing in the other L2Bs",
          .cost = "the transfers",
          .overlap = {.uses_t = false},
          .propose = propose_spread_l2b,
          .emit = emit_with<ToEveryL2b<false>>};
}

}  // namespace kodama::layout
