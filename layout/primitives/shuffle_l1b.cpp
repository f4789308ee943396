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

/// How shuffle-l1b numbers what it moves: bits of the L1BM address going up, of the L2BM address behind the
/// L1Bs, and of the L1BM address coming down.
struct ShuffleBits {
  std::vector<int> up;
  std::vector<int> rest;
  std::vector<int> down;
};
/// `order` names the bits (or -1) that follow the six lowest in L2BM, or that are lines in front, first.
ShuffleBits shuffle_bits(const BitView& view, const SlotState& before, const std::vector<int>& order) {
  const SlotShape& shape = view.shape;
  ShuffleBits bits;
  bits.up = contents(before, shape.first(Level::kPe), shape.lane_bits());
  const std::vector<int> l1b = contents(before, shape.first(Level::kL1b), shape.l1b);
  const auto is_l1b = [&](int bit) { return bit >= 0 && std::ranges::find(l1b, bit) != l1b.end(); };
  const BitMask lines = view.address_bits(before);
  for (const int bit : order) {
    if (!is_l1b(bit)) bits.up.push_back(bit);
  }
  for (const int bit : bits_of(lines & ~mask_of(order))) bits.up.push_back(bit);
  while (bits.up.size() < 6) bits.up.push_back(-1);
  const std::set<int> low(bits.up.begin(), bits.up.begin() + 6);
  for (const int bit : order) {
    if (is_l1b(bit) || bit < 0 || !low.contains(bit)) bits.rest.push_back(bit);
  }
  for (const int bit : l1b) {
    if (bit < 0 || std::ranges::find(bits.rest, bit) == bits.rest.end()) bits.rest.push_back(bit);
  }
  for (size_t k = 6; k < bits.up.size(); ++k) {
    if (std::ranges::find(bits.rest, bits.up[k]) == bits.rest.end()) bits.rest.push_back(bits.up[k]);
  }
  bits.down.assign(bits.up.begin(), bits.up.begin() + 3);
  bits.down.insert(bits.down.end(), bits.up.begin() + 3 + shape.l1b, bits.up.begin() + 6);
  bits.down.insert(bits.down.end(), bits.rest.begin(), bits.rest.end());
  while (static_cast<int>(bits.down.size()) < shape.lane_bits()) bits.down.push_back(-1);
  return bits;
}

void propose_shuffle_l1b(MoveProposals& here) {
  const int nb = here.shape.l1b;
  if (nb == 0 || nb > 3 || here.shape.lane_bits() > 6 || here.shape.lane_bits() < 3 + nb) return;
  const int k = here.shape.lane_bits();
  const int lane = here.shape.first(Level::kPe);
  const std::vector<int> l1b = contents(here.state, here.shape.first(Level::kL1b), nb);
  // The new upper lanes: some come from the lines in front (few lanes), the others are free.
  std::vector<int> order;
  BitMask used = 0;
  const auto pick = [&](int slot, bool from_lines) {
    const int bit = here.goal[static_cast<size_t>(slot)];
    const bool there = here.is_line(bit) || (!from_lines && std::ranges::find(l1b, bit) != l1b.end());
    if (bit >= 0 && there && (used >> bit & 1) == 0) {
      used |= mask_of(bit);
      return bit;
    }
    if (!from_lines) {
      // What was the L1B fills up; it belongs to the lanes or has to pass them.
      for (const int other : l1b) {
        if (other >= 0 && (used >> other & 1) == 0) {
          used |= mask_of(other);
          return other;
        }
      }
    }
    for (const bool elsewhere : {false, true}) {
      for (const int other : bits_of(here.lines & ~used)) {
        if (here.is_wanted(other) != elsewhere) continue;
        used |= mask_of(other);
        return other;
      }
    }
    return -1;
  };
  // Lanes 3 … of the result are: lanes 3 + nb … and lines in front, up to six bits in all, then free ones.
  const int kept_lanes = std::max(0, std::min(k, 6) - 3 - nb);
  int slot = lane + 3 + kept_lanes;
  for (int position = k; position < 6; ++position, ++slot)
    order.push_back(pick(std::min(slot, lane + k - 1), true));
  for (; slot < lane + k; ++slot) order.push_back(pick(slot, false));
  const ShuffleBits bits = shuffle_bits(here.view, here.state, order);
  SlotState after = here.state;
  for (int j = 0; j < nb; ++j) {
    const int bit = bits.up[static_cast<size_t>(3 + j)];
    after[static_cast<size_t>(here.shape.first(Level::kL1b) + j)] =
        static_cast<int8_t>(bit >= 0 ? bit : kNothing);
  }
  for (int j = 0; j < k; ++j) {
    const int bit = bits.down[static_cast<size_t>(j)];
    after[static_cast<size_t>(lane + j)] = static_cast<int8_t>(bit >= 0 ? bit : kNothing);
  }
  const double n = here.larger(after);
  double full = 1;
  for (const int bit : l1b) full *= bit >= 0 ? 2 : 1;
  here.add(after,
           here.n / 4 + here.values(after) / 4 + std::max(1.0, here.lanes * here.n / kBlockLw) * full +
               std::max(1.0, here.lanes * n / kDealLw),
           0, 0, order);
}

/// Move::order: the first bits behind the lanes and L1Bs; see shuffle_bits.
class ShuffleL1b : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  /// Sends lines up with l1bmd, L1B after L1B to L2BM with l2bm, and down with l2bmd. In L1BM the address
  /// is written in the bits `up`: lanes, then lines. L2BM has the six lowest of them, then `rest`: what was
  /// the L1B, and the other lines. l2bmd gives bits 3 and up to the L1Bs; what is left, `down`, is the
  /// address in L1BM.
  void write() {
    const std::vector<int> lane_bits = contents(move_.before, shape_.first(Level::kPe), shape_.lane_bits());
    const std::vector<int> l1b_before = contents(move_.before, shape_.first(Level::kL1b), shape_.l1b);
    const ShuffleBits bits = shuffle_bits(view_, move_.before, move_.order);
    // Lines behind those that the order names are chunks when there are too many.
    const int64_t most = std::min(most_lines(4), chip_.memory.l2bm_lw / lanes() / chip_.l1b_per_l2b / 4);
    const auto lane_count = static_cast<size_t>(shape_.lane_bits());
    // Inner bits: those of the named order that are no L1B, and as many others as fit.
    std::vector<int> inner_lines(bits.up.begin() + static_cast<int64_t>(lane_count), bits.up.end());
    BitMask outer_mask = 0;
    const auto named = [&](int bit) { return std::ranges::find(move_.order, bit) != move_.order.end(); };
    while (int64_t{1} << inner_lines.size() > most && !inner_lines.empty() && inner_lines.back() >= 0 &&
           !named(inner_lines.back())) {
      outer_mask |= mask_of(inner_lines.back());
      inner_lines.pop_back();
    }
    const auto without_outer = [&](std::vector<int> list) {
      std::erase_if(list, [&](int bit) { return bit >= 0 && (outer_mask >> bit & 1) != 0; });
      return list;
    };
    const std::vector<int> up_bits = without_outer(bits.up);
    const std::vector<int> l2_rest = without_outer(bits.rest);
    const std::vector<int> down_bits = without_outer(bits.down);
    const int64_t up_lines = int64_t{1} << (up_bits.size() - lane_count);
    const int64_t down_lines = int64_t{1} << (down_bits.size() - lane_count);
    const int64_t l2_size = kBlockLw << l2_rest.size();

    const std::vector<BitMask> outers = view_.values(outer_mask);
    const auto buffers = take_chunk_buffers(
        outers.size() > 1 ? 2 : 1,
        {.up_lines = up_lines, .down_lines = down_lines, .up_l2_lw = std::max(l2_size, l2bmd_lw(chip_))});
    size_t turn = 0;
    const BitMask line_before = before_bits() & ~outer_mask;
    const BitMask after_bits = view_.address_bits(move_.after);
    for (const BitMask outer : outers) {
      const ChunkBuffer& own = buffers[turn++ % buffers.size()];
      std::vector<LineCopy> lines;
      std::set<int64_t> chunk_numbers;
      const std::vector<int> line_bits(up_bits.begin() + static_cast<int64_t>(lane_count), up_bits.end());
      for (const BitMask inner : view_.values(line_before)) {
        if (!is_valid(inner | outer, before_bits())) continue;
        lines.push_back({extract_bits(inner, line_bits), address(at_.before, inner | outer)});
        chunk_numbers.insert(lines.back().line * lanes() / kBlockLw);
      }
      code_.lines_up(lines, at_.before.memory, own.up.base);
      // The bits of an L1BM address above the chunk of 64, and of the L1B, in L2BM.
      const std::vector<int> above(
          up_bits.begin() + std::min<int64_t>(6, static_cast<int64_t>(up_bits.size())), up_bits.end());
      std::set<int64_t> filled;
      for (int l1b = 0; l1b < chip_.l1b_per_l2b; ++l1b) {
        const auto l1b_value = spread_bits(l1b, l1b_before);
        if (!l1b_value) continue;
        for (const int64_t chunk : chunk_numbers) {
          const auto chunk_value = spread_bits(chunk, above);
          if (!chunk_value) continue;
          const int64_t to = extract_bits(*l1b_value | *chunk_value, l2_rest);
          filled.insert(to);
          Instruction pass =
              make_instruction(Opcode::kL2bm, Precision::kNone, Code::l1bm(own.up.base + chunk * kBlockLw),
                               Code::l2bm(own.up_l2.base + to * kBlockLw));
          pass.unit = static_cast<int8_t>(l1b);
          code_.add(std::move(pass));
        }
      }
      std::set<int64_t> groups;
      for (const int64_t chunk : filled) groups.insert(chunk * kBlockLw / l2bmd_lw(chip_));
      for (const int64_t group : groups) {
        code_.add(make_instruction(Opcode::kL2bmd, Precision::kNone,
                                   Code::l2bm(own.up_l2.base + group * l2bmd_lw(chip_)),
                                   Code::l1bm(own.down.base + group * kDealLw)));
      }
      std::vector<LineCopy> down;
      const std::vector<int> down_line_bits(down_bits.begin() + static_cast<int64_t>(lane_count),
                                            down_bits.end());
      for (const BitMask inner : view_.values(after_bits & ~outer_mask)) {
        if (!is_valid(inner | outer, after_bits)) continue;
        down.push_back({extract_bits(inner, down_line_bits), address(at_.after, inner | outer)});
      }
      code_.lines_down(down, at_.after.memory, own.down.base);
    }
    give_back(buffers);
  }
};

}  // namespace

MovePrimitive shuffle_l1b_primitive() {
  return {.name = "shuffle-l1b",
          .description = "upper lane bits -> L1B bits; L1B bits and address bits -> upper lane bits, address",
          .precondition = "lanes and L1Bs as in mncore2 or fewer",
          .cost = "n/2 + lanes * n / 64 * (L1Bs + 2)",
          .overlap = {.uses_t = false},
          .propose = propose_shuffle_l1b,
          .emit = emit_with<ShuffleL1b>};
}

}  // namespace kodama::layout
