#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "isa/arithmetic.h"
#include "isa/error.h"
#include "layout/moves/move_emission.h"

namespace kodama::layout {

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

namespace {

using isa::FixedConstant;
using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

/// Primitives between the L1Bs of an L2B.
class ByL2bm : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  int l1b_bits() const { return shape_.l1b; }

  /// What is at 1 of the address bit goes from the L1Bs with a 0 to those with a 1, what is at 0 the other
  /// way; the rest stays, and is copied in the PEs meanwhile.
  void swap_l1b() {
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
          const int64_t line = gather_bits(inner, parts.inner);
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

  /// A block of L1BM from the L1Bs with `value` in a bit of their number to those with the other one.
  void pass_across(int power, int value, int64_t from, int64_t to) {
    Instruction pass = make_instruction(Opcode::kL2bmi, Precision::kNone, Code::l1bm(from), Code::l1bm(to));
    const int ignored = (chip_.l1b_per_l2b - 1) & ~(1 << power);
    pass.l1b_set.kind = ignored == 0 ? isa::L1bSet::Kind::kOne : isa::L1bSet::Kind::kMasked;
    pass.l1b_set.k = static_cast<uint8_t>(value << power);
    pass.l1b_set.ignore_mask = static_cast<uint8_t>(ignored);
    code_.add(std::move(pass));
  }

  /// Sends lines up with l1bmd, L1B after L1B to L2BM with l2bm, and down with l2bmd. In L1BM the address
  /// is written in the bits `up`: lanes, then lines. L2BM has the six lowest of them, then `rest`: what was
  /// the L1B, and the other lines. l2bmd gives bits 3 and up to the L1Bs; what is left, `down`, is the
  /// address in L1BM.
  void shuffle_l1b() {
    const std::vector<int> lane_bits = contents(move_.before, shape_.first(Level::kPe), shape_.lane_bits());
    const std::vector<int> l1b_before = contents(move_.before, shape_.first(Level::kL1b), l1b_bits());
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
        lines.push_back({gather_bits(inner, line_bits), address(at_.before, inner | outer)});
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
          const int64_t to = gather_bits(*l1b_value | *chunk_value, l2_rest);
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
        down.push_back({gather_bits(inner, down_line_bits), address(at_.after, inner | outer)});
      }
      code_.lines_down(down, at_.after.memory, own.down.base);
    }
    give_back(buffers);
  }

  /// The bits of an L2BM address behind l2bmd: three of the L1BM address, the L1B, the others.
  std::vector<int> dealt(const std::vector<int>& l1bm_bits) const {
    const std::vector<int> l1b = contents(move_.before, shape_.first(Level::kL1b), l1b_bits());
    std::vector<int> result(l1bm_bits.begin(), l1bm_bits.begin() + 3);
    result.insert(result.end(), l1b.begin(), l1b.end());
    result.insert(result.end(), l1bm_bits.begin() + 3, l1bm_bits.end());
    return result;
  }

  void gather_l1b() {
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
        down.push_back({gather_bits(inner, down_line_bits), address(at_.after, inner | outer)});
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

  /// l2bmi sends what an L1B has to all.
  void broadcast_l1b() {
    const std::vector<int> l1b = contents(move_.before, shape_.first(Level::kL1b), l1b_bits());
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

  void spread_l1b() {
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

const EmitMove emit_swap_l1b = emit_with<ByL2bm, &ByL2bm::swap_l1b>;
const EmitMove emit_shuffle_l1b = emit_with<ByL2bm, &ByL2bm::shuffle_l1b>;
const EmitMove emit_gather_l1b = emit_with<ByL2bm, &ByL2bm::gather_l1b>;
const EmitMove emit_broadcast_l1b = emit_with<ByL2bm, &ByL2bm::broadcast_l1b>;
const EmitMove emit_spread_l1b = emit_with<ByL2bm, &ByL2bm::spread_l1b>;

}  // namespace kodama::layout
