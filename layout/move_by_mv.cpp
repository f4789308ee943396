#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "isa/error.h"
#include "layout/move_emission.h"

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

  Instruction mvp(int64_t lw, Operand source, Operand destination) const {
    Instruction mv =
        make_instruction(Opcode::kMvp, Precision::kNone, std::move(source), std::move(destination));
    mv.size_lw = lw;
    return mv;
  }
  Operand l2bm_of(int64_t at, int64_t l2b) const {
    return Code::l2bm(at, static_cast<int>(l2b / chip_.l2b_per_group),
                      static_cast<int>(l2b % chip_.l2b_per_group));
  }

  /// Round r: L2B q sends what is for L2B turned(q) ^ r, so every port of every L2BM has one transfer in and
  /// one out. `turned` adds bits of the number in the group to those of the group, modulo 2: the L2Bs of a
  /// group send to different groups at a time, since a path between groups is as wide as one port.
  ///
  /// The PEs read through T, which is turned(q) ^ r written into the strides of the bits that go, and write
  /// what comes from L2B turned(q ^ r) through T again: a block of L2BM belongs to one round, in all L2Bs,
  /// and is free when its round is over. While the transfers of some blocks are under way, others go up and
  /// down.
  void exchange_l2b() {
    std::vector<int> slots;
    std::vector<int> in;
    std::vector<int> out;
    for (int k = 0; k < shape_.l2b; ++k) {
      const auto slot = static_cast<size_t>(shape_.first(Level::kL2b) + k);
      if (move_.before[slot] == move_.after[slot]) continue;
      slots.push_back(k);
      in.push_back(std::max<int>(move_.after[slot], -1));
      out.push_back(std::max<int>(move_.before[slot], -1));
    }
    const BitMask stay = before_bits() & ~mask_of(in);
    const int64_t line_lw = lanes() * chip_.l1b_per_l2b;
    std::vector<int> first;
    while (line_lw << first.size() < kBlockLw) first.push_back(-1);
    // A transfer of an L2B takes as long as those of all L2Bs take to be issued: four lines on mncore2.
    const auto issue_cycles =
        static_cast<double>(chip_.l2b_count() * chip_.transfer.issue_interval_steps * isa::kCyclesPerStep);
    const auto run_lw = static_cast<int64_t>(issue_cycles * chip_.transfer.l2bm_mv_lw_per_cycle);
    const Chunks parts = chunks(first, stay, std::max<int64_t>(run_lw / line_lw, int64_t{1} << first.size()));
    const int64_t run = std::max(line_lw << parts.inner.size(), l2bmd_lw(chip_));
    const int64_t run_lines = std::max<int64_t>(run / line_lw, 1);

    turns_.clear();
    const bool all_move = std::ranges::none_of(in, [](int bit) { return bit < 0; }) &&
                          std::ranges::none_of(out, [](int bit) { return bit < 0; });
    // Short runs are over before the next round's transfers have started: then fewer transfers are better.
    const double path_cycles = 2 * static_cast<double>(run) / chip_.transfer.group_link_lw_per_cycle;
    const bool turns_pay = all_move && path_cycles > issue_cycles;
    for (size_t k = 0, unit = 0; turns_pay && k < slots.size(); ++k) {
      if ((int64_t{1} << slots[k]) < chip_.l2b_per_group) continue;
      if ((int64_t{1} << unit) >= chip_.l2b_per_group) break;
      turns_.push_back({static_cast<int>(unit++), k});
    }
    const auto t_of = [&](const std::vector<int>& bits, const Placement& placement) {
      std::vector<Code::Field> fields;
      for (size_t k = 0; k < bits.size(); ++k) {
        if (bits[k] < 0) continue;
        const int64_t words = 2 * placement.stride[static_cast<size_t>(bits[k])];
        const int shift = std::countr_zero(static_cast<uint64_t>(words));
        if (!fields.empty() && fields.back().low + fields.back().count == slots[k] &&
            fields.back().shift + fields.back().count == shift) {
          ++fields.back().count;
        } else {
          fields.push_back({FixedConstant::kL2bid, slots[k], 1, shift});
        }
      }
      if (fields.empty()) return Operand{};
      Operand sum = code_.field_sum(fields);
      for (const auto& [unit, k] : turns_) {
        if (bits[k] < 0) continue;
        const int64_t words = 2 * placement.stride[static_cast<size_t>(bits[k])];
        const Operand turn = code_.field_sum(
            {{FixedConstant::kL2bid, unit, 1, std::countr_zero(static_cast<uint64_t>(words))}});
        // Two registers of GRF0 can't be read in one step.
        const Operand other = code_.new_register(Memory::kGrf1);
        code_.add(make_instruction(Opcode::kPassa, Precision::kInt, turn, other));
        const Operand turned = code_.new_register(Memory::kGrf0);
        code_.alu(Opcode::kXor, sum, other, turned);
        sum = turned;
      }
      return sum;
    };
    const Operand sends = t_of(in, at_.before);
    const Operand receives = t_of(out, at_.after);
    const auto set_round = [&](const Operand& own, int64_t round, const std::vector<int>& bits,
                               const Placement& placement) {
      int64_t turned = 0;
      for (size_t k = 0; k < bits.size(); ++k) {
        if (bits[k] >= 0 && (round >> k & 1) != 0)
          turned |= 2 * placement.stride[static_cast<size_t>(bits[k])];
      }
      if (own.space == Space::kNone) {
        code_.load(0, Code::t());
      } else if (turned == 0) {
        set_t(own);
      } else {
        const Operand& constant = round_constant(turned);
        code_.alu(Opcode::kXor, own, constant, Code::t());
      }
    };

    struct Item {
      BitMask outer = 0;
      int64_t round = 0;
      size_t buffer = 0;
      std::vector<int8_t> tags;
    };
    const int64_t rounds = int64_t{1} << slots.size();
    const int64_t items = static_cast<int64_t>(parts.outer.size()) * rounds;
    const int64_t room = std::min(chip_.memory.l2bm_lw / (2 * run),
                                  (chip_.memory.l1bm_lw / lanes()) / (2 * (run_lines + 3 * kLineGroup)));
    const auto buffers = take_chunk_buffers(
        static_cast<size_t>(std::clamp<int64_t>(std::min<int64_t>(room, 6), 1, std::max<int64_t>(items, 1))),
        {.up_lines = run_lines, .down_lines = run_lines, .up_l2_lw = run, .down_l2_lw = run});

    // The lines of one block; `value` of the bits that move is in T.
    const auto lines_of = [&](const Placement& placement, BitMask outer) {
      std::vector<LineCopy> lines;
      for (const BitMask inner : view_.values(mask_of(parts.inner))) {
        if (!is_valid(inner | outer, stay)) continue;
        lines.push_back({gather_bits(inner, parts.inner), address(placement, inner | outer)});
      }
      return lines;
    };
    const auto bring_down = [&](const Item& item) {
      for (const int8_t tag : item.tags) code_.wait(tag);
      const ChunkBuffer& own = buffers[item.buffer];
      std::vector<LineCopy> lines = lines_of(at_.after, item.outer);
      code_.deal_down(lines, own.down_l2.base, own.down.base);
      set_round(receives, turned_difference(item.round, slots), out, at_.after);
      code_.lines_down(std::move(lines), at_.after.memory, own.down.base, 0, receivers(slots, item.round),
                       true);
    };

    // What stays where it is only changes its addresses, by way of L1BM. With turns it is of several rounds.
    for (size_t k = 0; turns_.empty() && k < parts.outer.size(); ++k) {
      const ChunkBuffer& own = buffers[k % buffers.size()];
      set_round(sends, 0, in, at_.before);
      code_.lines_up(lines_of(at_.before, parts.outer[k]), at_.before.memory, own.up.base, true);
      set_round(receives, 0, out, at_.after);
      code_.lines_down(lines_of(at_.after, parts.outer[k]), at_.after.memory, own.up.base, 0,
                       receivers(slots, 0), true);
    }
    std::vector<Item> pending;
    size_t next_buffer = 0;
    constexpr size_t kUnderWay = 4;
    for (const BitMask outer : parts.outer) {
      for (int64_t round = turns_.empty() ? 1 : 0; round < rounds; ++round) {
        const std::vector<Instruction> mvs = round_transfers(
            slots, in, out, round, run, buffers[next_buffer].up_l2.base, buffers[next_buffer].down_l2.base);
        if (mvs.empty()) continue;
        while (pending.size() >= std::min(buffers.size(), kUnderWay)) {
          bring_down(pending.front());
          pending.erase(pending.begin());
        }
        const ChunkBuffer& own = buffers[next_buffer];
        const std::vector<LineCopy> lines = lines_of(at_.before, outer);
        set_round(sends, round, in, at_.before);
        code_.lines_up(lines, at_.before.memory, own.up.base, true);
        code_.deal_up(lines, own.up.base, own.up_l2.base);
        Item item{outer, round, next_buffer, {}};
        for (const Instruction& mv : mvs) item.tags.push_back(code_.transfer(mv));
        pending.push_back(std::move(item));
        next_buffer = (next_buffer + 1) % buffers.size();
      }
    }
    for (const Item& item : pending) bring_down(item);
    give_back(buffers);
  }

  /// A mask of the L2Bs to which something comes in a round, where there are others: 0 = all.
  int receivers(const std::vector<int>& slots, int64_t round) {
    uint32_t care = 0;
    uint32_t value = 0;
    for (size_t k = 0; k < slots.size(); ++k) {
      const int content = move_.before[static_cast<size_t>(shape_.first(Level::kL2b) + slots[k])];
      if (content != kNothing) continue;  // where all hold the same, all take their own
      care |= 1U << slots[k];
      if ((round >> k & 1) != 0) value |= 1U << slots[k];
    }
    if (care == 0) return 0;
    if (receiver_registers_.empty()) {
      for (const Memory memory : {Memory::kGrf1, Memory::kGrf1, Memory::kGrf0})
        receiver_registers_.push_back(code_.new_register(memory));
    }
    const Operand& wanted = receiver_registers_[0];
    const Operand& bits = receiver_registers_[1];
    const Operand& difference = receiver_registers_[2];
    code_.load(value, wanted);
    code_.load(care, bits);
    code_.alu(Opcode::kXor, Code::constant(FixedConstant::kL2bid), wanted, difference);
    const int mask = code_.new_mask();
    Operand flags;
    flags.space = Space::kOmr;
    flags.base = mask;
    code_.alu(Opcode::kAnd, difference, bits, flags);
    return mask;
  }

  /// The slots of an L2B, turned.
  int64_t turned_slots(int64_t l2b, const std::vector<int>& slots) const {
    int64_t value = slots_of(l2b, slots);
    for (const auto& [unit, k] : turns_) value ^= (l2b >> unit & 1) << k;
    return value;
  }
  /// The same of a difference between L2Bs that differ in the slots alone.
  int64_t turned_difference(int64_t difference, const std::vector<int>& slots) const {
    return turned_slots(with_slots(0, slots, difference), slots);
  }

  /// A register that holds a number, made once.
  const Operand& round_constant(int64_t number) {
    const auto known = round_constants_.find(number);
    if (known != round_constants_.end()) return known->second;
    const Operand place = code_.new_register(Memory::kGrf1);
    code_.load(static_cast<uint32_t>(number), place);
    return round_constants_[number] = place;
  }

  /// The transfers of a round: one per L2B, or one per L2B of a group where all groups do the same.
  std::vector<Instruction> round_transfers(const std::vector<int>& slots, const std::vector<int>& in,
                                           const std::vector<int>& out, int64_t round, int64_t run,
                                           int64_t up, int64_t down) const {
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (int64_t source = 0; source < chip_.l2b_count(); ++source) {
      if (!holds(source)) continue;
      const int64_t own = slots_of(source, slots);
      const int64_t value = turned_slots(source, slots) ^ round;
      const auto wanted = spread_bits(value, in);
      if (!wanted || !is_valid(*wanted, mask_of(in))) continue;
      // Where all hold the same, everyone has his own.
      bool leaves = true;
      BitMask held = 0;
      for (size_t k = 0; k < slots.size(); ++k) {
        const auto slot = static_cast<size_t>(shape_.first(Level::kL2b) + slots[k]);
        if (move_.before[slot] == kEverywhere) leaves = leaves && ((value ^ own) >> k & 1) == 0;
        if (out[k] >= 0 && (own >> k & 1) != 0) held |= mask_of(out[k]);
      }
      if (!leaves || !is_valid(held, mask_of(out))) continue;
      pairs.emplace_back(source, with_slots(source, slots, value));
    }
    bool in_groups = static_cast<int64_t>(pairs.size()) == chip_.l2b_count();
    for (const auto& [source, target] : pairs)
      in_groups = in_groups && source / chip_.l2b_per_group == target / chip_.l2b_per_group;
    std::vector<Instruction> mvs;
    for (const auto& [source, target] : pairs) {
      if (!in_groups) {
        mvs.push_back(mvp(run, l2bm_of(up, source), l2bm_of(down, target)));
      } else if (source < chip_.l2b_per_group) {
        mvs.push_back(mvp(run, Code::l2bm(up, -1, static_cast<int>(source)),
                          Code::l2bm(down, -1, static_cast<int>(target))));
      }
    }
    return mvs;
  }

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
      tags.push_back(code_.transfer(mvp(size, Code::outside(Memory::kPdm, own.pdm.base + unit * size, -1),
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

  /// The L2B `l2b` with its moving bits set to those of `value`.
  static int64_t with_slots(int64_t l2b, const std::vector<int>& slots, int64_t value) {
    for (size_t k = 0; k < slots.size(); ++k) {
      l2b &= ~(int64_t{1} << slots[k]);
      l2b |= (value >> k & 1) << slots[k];
    }
    return l2b;
  }
  static int64_t slots_of(int64_t l2b, const std::vector<int>& slots) {
    int64_t value = 0;
    for (size_t k = 0; k < slots.size(); ++k) value |= (l2b >> slots[k] & 1) << k;
    return value;
  }
  /// Whether L2B `l2b` holds anything before the move.
  bool holds(int64_t l2b) const {
    for (int k = 0; k < shape_.l2b; ++k) {
      if (move_.before[static_cast<size_t>(shape_.first(Level::kL2b) + k)] == kNothing && (l2b >> k & 1) != 0)
        return false;
    }
    return true;
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
      collected.push_back({source, place, code_.transfer(mvp(run, l2bm_of(up, source), place))});
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

 private:
  std::map<int64_t, Operand> round_constants_;
  std::vector<Operand> receiver_registers_;
  /// Of an exchange between L2Bs: which bit of the L2B's number turns which of the slots that change.
  std::vector<std::pair<int, size_t>> turns_;
};

}  // namespace

const EmitMove emit_exchange_l2b = emit_with<ByMv, &ByMv::exchange_l2b>;
const EmitMove emit_to_every_l2b = emit_with<ByMv, &ByMv::to_every_l2b>;
const EmitMove emit_transpose_l2b = emit_with<ByMv, &ByMv::transpose_l2b>;

}  // namespace kodama::layout
