#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "isa/error.h"
#include "layout/moves/move_emission.h"

namespace kodama::layout {

TransposeBits transpose_bits(const SlotShape& shape, const SlotState& before, const std::vector<int>& order) {
  constexpr int kDealt = 3;      // l2bmd gives 8 LW to an L1B
  constexpr int kCollected = 4;  // mvd takes 16 LW from an L2B
  const std::vector<int> lanes = contents(before, shape.first(Level::kPe), shape.lane_bits());
  const std::vector<int> l1b = contents(before, shape.first(Level::kL1b), shape.l1b);
  const std::vector<int> l2b = contents(before, shape.first(Level::kL2b), shape.l2b);
  TransposeBits bits;
  bits.up.assign(lanes.begin(), lanes.begin() + kDealt);
  bits.up.insert(bits.up.end(), l1b.begin(), l1b.end());
  bits.up.insert(bits.up.end(), lanes.begin() + kDealt, lanes.end());
  bits.up.insert(bits.up.end(), order.begin(), order.end());
  bits.down.assign(bits.up.begin(), bits.up.begin() + kCollected);
  bits.down.insert(bits.down.end(), l2b.begin(), l2b.end());
  bits.down.insert(bits.down.end(), bits.up.begin() + kCollected, bits.up.end() - shape.l2b);
  bits.lines_down.assign(bits.down.begin() + shape.lane_bits() + shape.l1b, bits.down.end());
  return bits;
}

namespace {

using isa::FixedConstant;
using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

/// Primitives between the L2Bs, by transfers.
class ByMv : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  /// Up to L2BM, through the PDMs to all L2Bs, and down. In L2BM what was the L2B is above the lines that go
  /// together, so that a transfer is one run.
  void to_every_l2b() {
    std::vector<int> slots;
    std::vector<int> out;
    for (int k = 0; k < shape_.l2b; ++k) {
      const auto slot = static_cast<size_t>(shape_.first(Level::kL2b) + k);
      if (move_.before[slot] == move_.after[slot]) continue;
      slots.push_back(k);
      out.push_back(std::max<int>(move_.before[slot], -1));
    }
    const int64_t line_lw = lanes() * chip_.l1b_per_l2b;
    // Room: what goes up, and the same of every L2B that comes down.
    const bool gathers = move_.kind == MoveKind::kGatherL2b;
    const int64_t copies = gathers ? int64_t{1} << slots.size() : 1;
    const int64_t most =
        std::max<int64_t>(std::min(chip_.memory.l2bm_lw / line_lw / (1 + copies), most_lines(2) / copies), 1);
    std::vector<int> first;
    while (line_lw << first.size() < kBlockLw) first.push_back(-1);
    const Chunks parts = chunks(first, before_bits(), std::max(most, int64_t{1} << first.size()));
    const int64_t run = line_lw << parts.inner.size();
    std::vector<int> numbered_after = parts.inner;
    if (gathers) numbered_after.insert(numbered_after.end(), out.begin(), out.end());

    // A second set when there is room and something to do meanwhile.
    const size_t turns = parts.outer.size() > 1 && 2 * run * (1 + copies) <= chip_.memory.l2bm_lw ? 2 : 1;
    const auto buffers = take_chunk_buffers(turns, {.up_lines = run / line_lw,
                                                    .down_lines = run * copies / line_lw,
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
        lines.push_back({gather_bits(inner, numbered_after), address(at_.after, inner | each.outer)});
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

  /// Up to L2BM, where the L2B that a long word goes to is the highest part of the address. For each group an
  /// mvd collects what is for it in its PDM; then all groups copy from PDM to L2BM inside themselves, one
  /// L2B after the other.
  void transpose_l2b() {
    const TransposeBits bits = transpose_bits(shape_, move_.before, move_.order);
    const int64_t lines = int64_t{1} << move_.order.size();
    const int64_t size = int64_t{1} << bits.up.size();
    const auto buffers = take_chunk_buffers(1, {.up_lines = lines,
                                                .down_lines = lines,
                                                .up_l2_lw = std::max(size, l2bmd_lw(chip_)),
                                                .down_l2_lw = std::max(size, l2bmd_lw(chip_)),
                                                .pdm_lw = size * chip_.l2b_per_group});
    const ChunkBuffer& own = buffers[0];
    std::vector<LineCopy> up;
    for (const BitMask value : view_.values(before_bits()))
      up.push_back({gather_bits(value, move_.order), address(at_.before, value)});
    code_.lines_up(up, at_.before.memory, own.up.base);
    code_.deal_up(up, own.up.base, own.up_l2.base);
    // Those that have the longest way first.
    std::vector<int64_t> groups(static_cast<size_t>(chip_.groups));
    std::iota(groups.begin(), groups.end(), 0);
    std::ranges::stable_sort(groups, std::greater<>{},
                             [&](int64_t group) { return std::max(group, chip_.groups - 1 - group); });
    const int64_t part = size / chip_.groups;
    std::vector<int8_t> tags;
    for (const int64_t group : groups) {
      Instruction mv =
          make_instruction(Opcode::kMvd, Precision::kNone, Code::l2bm(own.up_l2.base + group * part),
                           Code::outside(Memory::kPdm, own.pdm.base, group));
      mv.size_lw = part * chip_.l2b_count();
      tags.push_back(code_.transfer(std::move(mv)));
    }
    for (const int8_t tag : tags) code_.wait(tag);
    tags.clear();
    for (int unit = 0; unit < chip_.l2b_per_group; ++unit) {
      tags.push_back(
          code_.transfer(make_mvp(size, Code::outside(Memory::kPdm, own.pdm.base + unit * size, -1),
                                  Code::l2bm(own.down_l2.base, -1, unit))));
    }
    for (const int8_t tag : tags) code_.wait(tag);
    std::vector<LineCopy> down;
    for (const BitMask value : view_.values(view_.address_bits(move_.after)))
      down.push_back({gather_bits(value, bits.lines_down), address(at_.after, value)});
    code_.deal_down(down, own.down_l2.base, own.down.base);
    code_.lines_down(std::move(down), at_.after.memory, own.down.base);
    give_back(buffers);
  }

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

const EmitMove emit_to_every_l2b = emit_with<ByMv, &ByMv::to_every_l2b>;
const EmitMove emit_transpose_l2b = emit_with<ByMv, &ByMv::transpose_l2b>;

}  // namespace kodama::layout
