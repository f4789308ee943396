#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
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
using isa::Operand;

/// Starts of transfers that nothing hides: there and, for the last blocks, back.
constexpr double kExchangeStarts = 2.5;

void propose_exchange_l2b(MoveProposals& here) {
  const int first = here.shape.first(Level::kL2b);
  if (here.shape.l2b == 0) return;
  const TransferSteps& transfer = here.view.transfer;
  // All slots that aren't right, and each alone.
  std::vector<std::vector<int>> choices;
  std::vector<int> wrong;
  for (int k = 0; k < here.shape.l2b; ++k) {
    const auto slot = static_cast<size_t>(first + k);
    if (here.state[slot] != here.goal[slot]) wrong.push_back(k);
  }
  if (!wrong.empty()) choices.push_back(wrong);
  // Bit by bit: few transfers, each with its start-up.
  if (wrong.size() > 1 && here.n <= 64) {
    for (const int k : wrong) choices.push_back({k});
  }
  for (const auto& slots : choices) {
    SlotState after = here.state;
    BitMask used = 0;
    std::vector<int> open;
    for (const int k : slots) {
      const auto slot = static_cast<size_t>(first + k);
      const int bit = here.goal[slot];
      if (here.is_line(bit)) {
        after[slot] = static_cast<int8_t>(bit);
        used |= mask_of(bit);
      } else {
        open.push_back(k);
      }
    }
    const std::vector<int> fill = here.fillers(used);
    size_t next = 0;
    int changed = static_cast<int>(slots.size() - open.size());
    for (const int k : open) {
      const auto slot = static_cast<size_t>(first + k);
      if (here.state[slot] < 0 && here.goal[slot] < 0) continue;
      const bool leave_empty = here.goal[slot] == kNothing || next >= fill.size();
      after[slot] = static_cast<int8_t>(leave_empty ? kNothing : fill[next++]);
      ++changed;
    }
    if (changed == 0) continue;
    const double n = here.larger(after);
    const double line_lw = here.lanes * here.l1bs;
    const double transfers = std::exp2(changed) * here.l2bs;
    const double rounds = 1 - 1 / std::exp2(changed);
    here.add(after, n / 4 +
                        std::max({rounds * line_lw * n / transfer.lw_per_step, 2 * here.lanes * n / kDealLw,
                                  transfer.issue * rounds * transfers}) +
                        kExchangeStarts * transfer.start);
  }
}

/// exchange-l2b: L2B bits <-> as many address bits, in rounds.
///
/// In a round L2B q sends what is for the L2B whose number differs from q in `even`, or in `odd` if q is odd,
/// and gets as much from one: every port of every L2BM has one transfer in and one out. Even and odd L2Bs of
/// a group send to different groups, since a path between groups is as wide as one port.
///
/// Example (mncore2, all L2B bits; L2B = 2 * group + unit), groups that differ by 1, 2, 3 in the rounds:
///
///     round        1   2   3   4   5   6   7
///     unit 0 to    0  1   1   2   2   3   3     group differs by this; 1, 3, 5, 7: the unit differs, too
///     unit 1 to    0  2   2   3   3   1   1
///
/// The PEs read through T, which has the number of the L2B that they send to in the strides of the bits that
/// go, and write what has come through T again, so a block of L2BM belongs to one round, in all L2Bs. While
/// the transfers of some blocks are under way, others go up and down.
class ExchangeL2b : public MoveEmission {
 public:
  ExchangeL2b(const BitView& view, const Move& move, const MoveAddresses& at, Code& code)
      : MoveEmission(view, move, at, code), sends_(in_, at.before), receives_(out_, at.after) {
    for (int k = 0; k < shape_.l2b; ++k) {
      const auto slot = static_cast<size_t>(shape_.first(Level::kL2b) + k);
      if (move_.before[slot] == move_.after[slot]) continue;
      slots_.push_back(k);
      in_.push_back(std::max<int>(move_.after[slot], -1));
      out_.push_back(std::max<int>(move_.before[slot], -1));
    }
    stay_ = before_bits() & ~mask_of(in_);
    line_lw_ = line_lw(Memory::kL2bm, chip_);
  }

  void write() {
    choose_rounds();
    choose_runs();
    take_buffers();
    size_t sent = 0;
    for (const BitMask outer : parts_.outer) {
      for (const Round& round : rounds_) {
        if (send(outer, round, sent)) ++sent;
      }
      keep(outer, sent);
    }
    while (!under_way_.empty()) bring_down_first();
    give_back_buffers();
  }

 private:
  /// What the numbers of L2Bs that exchange differ in, written in the slots that change.
  struct Round {
    int64_t even = 0;
    int64_t odd = 0;
    Round from_odd_side() const { return {odd, even}; }
  };
  struct Item {
    BitMask outer = 0;
    Round round;
    size_t number = 0;
    std::vector<int8_t> tags;
  };
  /// The number of the L2B, or of one that it differs from in some slots, in the strides of bits.
  struct Number {
    Number(const std::vector<int>& all, const Placement& where) : bits(all), placement(where) {}
    const std::vector<int>& bits;
    const Placement& placement;
    bool is_known = false;
    Operand own;                        ///< nothing if no bit is there
    std::map<int64_t, Operand> turned;  ///< by even ^ odd: with it where the L2B is odd
    std::vector<int64_t> offsets{0};    ///< all that it can be, in LW
  };

  bool is_filled() const {
    return std::ranges::none_of(in_, [](int bit) { return bit < 0; }) &&
           std::ranges::none_of(out_, [](int bit) { return bit < 0; });
  }

  void choose_rounds() {
    int units = 0;  // slots inside the group
    for (const int slot : slots_) units += (int64_t{1} << slot) < chip_.l2b_per_group ? 1 : 0;
    const int64_t groups = (int64_t{1} << slots_.size()) >> units;
    // With places that hold nothing some L2Bs have nothing to do in a round, which is then short.
    const bool turns = is_filled() && chip_.l2b_per_group > 1;
    for (int64_t difference = 1; difference < int64_t{1} << slots_.size(); ++difference) {
      const int64_t group = difference >> units;
      const int64_t next = group == 0 ? 0 : group % (groups - 1) + 1;
      const int64_t other = difference - (group << units) + (next << units);
      rounds_.push_back({difference, turns ? other : difference});
    }
  }

  /// A transfer of an L2B takes as long as those of all L2Bs take to be issued: four lines on mncore2.
  void choose_runs() {
    std::vector<int> first;
    while (line_lw_ << first.size() < kBlockLw) first.push_back(-1);
    const auto issue_cycles =
        static_cast<double>(chip_.l2b_count() * chip_.transfer.issue_interval_steps * isa::kCyclesPerStep);
    const auto run_lw = static_cast<int64_t>(issue_cycles * chip_.transfer.l2bm_mv_lw_per_cycle);
    parts_ = chunks(first, stay_, std::max<int64_t>(run_lw / line_lw_, int64_t{1} << first.size()));
    run_ = std::max(line_lw_ << parts_.inner.size(), l2bmd_lw(chip_));
  }

  void take_buffers() {
    const auto items = static_cast<int64_t>(parts_.outer.size() * rounds_.size());
    const int64_t lines = std::max<int64_t>(run_ / line_lw_, 1);
    const auto count_of = [&](int64_t room, int64_t most) {
      return static_cast<size_t>(std::clamp<int64_t>(std::min(room, items), 1, most));
    };
    const int64_t free_runs = code_.scratch().largest_free(Memory::kL2bm) / run_;
    const int64_t free_lines = code_.scratch().largest_free(Memory::kL1bm) / lanes();
    const int64_t most = std::max<int64_t>(chip_.memory.l2bm_lw * 3 / 4 / (2 * run_), 1);
    const size_t runs = count_of(free_runs / 2, most);
    const size_t stages = count_of(free_lines / (4 * (lines + kLineGroup)), 2);
    for (size_t k = 0; k < runs; ++k) {
      up_l2_.push_back(code_.scratch().take(Memory::kL2bm, run_, kBlockLw));
      down_l2_.push_back(code_.scratch().take(Memory::kL2bm, run_, kBlockLw));
    }
    for (size_t k = 0; k < stages; ++k) {
      up_.push_back(line_buffer(lines));
      down_.push_back(line_buffer(lines));
    }
  }
  void give_back_buffers() {
    for (const auto* regions : {&up_l2_, &down_l2_}) {
      for (const Region& region : *regions) code_.scratch().give_back(region);
    }
    for (const auto* buffers : {&up_, &down_}) {
      for (const LineBuffer& buffer : *buffers) give_back(buffer);
    }
  }

  // ---- numbers of L2Bs in T

  int64_t words_of(const Number& number, size_t k) const {
    return isa::kWordsPerLong * number.placement.stride[static_cast<size_t>(number.bits[k])];
  }
  /// A difference in the slots as what it changes in T.
  int64_t words_of_difference(const Number& number, int64_t difference) const {
    int64_t words = 0;
    for (size_t k = 0; k < number.bits.size(); ++k) {
      if (number.bits[k] >= 0 && (difference >> k & 1) != 0) words |= words_of(number, k);
    }
    return words;
  }

  void find_own(Number& number) {
    number.is_known = true;
    std::vector<Code::Field> fields;
    for (size_t k = 0; k < number.bits.size(); ++k) {
      if (number.bits[k] < 0) continue;
      const int64_t words = words_of(number, k);
      const size_t size = number.offsets.size();
      for (size_t j = 0; j < size; ++j) number.offsets.push_back(number.offsets[j] + words / 2);
      const int shift = std::countr_zero(static_cast<uint64_t>(words));
      if (!fields.empty() && fields.back().low + fields.back().count == slots_[k] &&
          fields.back().shift + fields.back().count == shift) {
        ++fields.back().count;
      } else {
        fields.push_back({FixedConstant::kL2bid, slots_[k], 1, shift});
      }
    }
    if (!fields.empty()) number.own = code_.field_sum(fields);
  }
  const Operand& turned(Number& number, int64_t turn) {
    const auto known = number.turned.find(turn);
    if (known != number.turned.end()) return known->second;
    if (!odd_) {
      // All ones in odd L2Bs.
      const Operand bit = code_.new_register(Memory::kGrf1);
      code_.alu(Opcode::kAnd, Code::constant(FixedConstant::kL2bid), constant(1), bit);
      const Operand zero = code_.new_register(Memory::kGrf0);
      code_.load(0, zero);
      odd_ = code_.new_register(Memory::kGrf0);
      code_.alu(Opcode::kSub, zero, bit, *odd_);
    }
    const Operand where_odd = code_.new_register(Memory::kGrf1);
    code_.alu(Opcode::kAnd, *odd_, constant(words_of_difference(number, turn)), where_odd);
    const Operand result = code_.new_register(Memory::kGrf0);
    code_.alu(Opcode::kXor, number.own, where_odd, result);
    return number.turned[turn] = result;
  }

  /// T = the number of the L2B that this one differs from by a round.
  void set_round(Number& number, const Round& round) {
    if (!number.is_known) find_own(number);
    if (number.own.space == isa::Space::kNone) {
      code_.load(0, Code::t());
    } else {
      const int64_t turn = round.even ^ round.odd;
      const Operand& own = turn == 0 ? number.own : turned(number, turn);
      const int64_t words = words_of_difference(number, round.even);
      if (words == 0) {
        set_t(own);
      } else {
        code_.alu(Opcode::kXor, own, constant(words), Code::t());
      }
    }
    code_.t_holds(number.offsets);
  }
  /// A register that holds a number, made once.
  const Operand& constant(int64_t number) {
    const auto known = constants_.find(number);
    if (known != constants_.end()) return known->second;
    const Operand place = code_.new_register(Memory::kGrf1);
    code_.load(static_cast<uint32_t>(number), place);
    return constants_[number] = place;
  }

  // ---- blocks

  /// The lines of one block; the bits that move are in T.
  std::vector<LineCopy> lines_of(const Placement& placement, BitMask outer) const {
    std::vector<LineCopy> lines;
    for (const BitMask inner : view_.values(mask_of(parts_.inner))) {
      if (!is_valid(inner | outer, stay_)) continue;
      lines.push_back({extract_bits(inner, parts_.inner), address(placement, inner | outer)});
    }
    return lines;
  }

  /// Whether there is anything to send.
  bool send(BitMask outer, const Round& round, size_t number) {
    const size_t runs = up_l2_.size();
    const std::vector<Instruction> mvs =
        transfers(round, up_l2_[number % runs].base, down_l2_[number % runs].base);
    if (mvs.empty()) return false;
    // The first one is over then, and another may go up in its place before it comes down.
    if (under_way_.size() == runs) wait_for(under_way_.front());
    const std::vector<LineCopy> lines = lines_of(at_.before, outer);
    const LineBuffer& up = up_[number % up_.size()];
    set_round(sends_, round);
    code_.lines_up(lines, at_.before.memory, up.base, true);
    code_.deal_up(lines, up.base, up_l2_[number % runs].base);
    if (under_way_.size() == runs) bring_down_first();
    Item& item = under_way_.emplace_back(Item{outer, round, number, {}});
    for (const Instruction& mv : mvs) item.tags.push_back(code_.transfer(mv));
    return true;
  }
  void wait_for(const Item& item) {
    for (const int8_t tag : item.tags) code_.wait(tag);
  }
  void bring_down_first() {
    const Item item = std::move(under_way_.front());
    under_way_.erase(under_way_.begin());
    wait_for(item);
    const LineBuffer& down = down_[item.number % down_.size()];
    std::vector<LineCopy> lines = lines_of(at_.after, item.outer);
    code_.deal_down(lines, down_l2_[item.number % down_l2_.size()].base, down.base);
    // If the units differ, an even L2B gets what an odd one sends.
    const bool crosses = slots_[0] == 0 && (item.round.even & 1) != 0;
    set_round(receives_, crosses ? item.round.from_odd_side() : item.round);
    code_.lines_down(std::move(lines), at_.after.memory, down.base, 0, receivers(item.round.even), true);
  }

  /// What stays where it is only changes its addresses, by way of L1BM.
  void keep(BitMask outer, size_t number) {
    const LineBuffer& buffer = up_[number % up_.size()];
    set_round(sends_, {});
    code_.lines_up(lines_of(at_.before, outer), at_.before.memory, buffer.base, true);
    set_round(receives_, {});
    code_.lines_down(lines_of(at_.after, outer), at_.after.memory, buffer.base, 0, receivers(0), true);
  }

  /// A mask of the L2Bs to which something comes in a round, where there are others: 0 = all.
  int receivers(int64_t difference) {
    uint32_t care = 0;
    uint32_t value = 0;
    for (size_t k = 0; k < slots_.size(); ++k) {
      const int content = move_.before[static_cast<size_t>(shape_.first(Level::kL2b) + slots_[k])];
      if (content != kNothing) continue;  // where all hold the same, all take their own
      care |= 1U << slots_[k];
      if ((difference >> k & 1) != 0) value |= 1U << slots_[k];
    }
    if (care == 0) return 0;
    if (receiver_registers_.empty()) {
      for (const Memory memory : {Memory::kGrf1, Memory::kGrf1, Memory::kGrf0})
        receiver_registers_.push_back(code_.new_register(memory));
    }
    const Operand& wanted = receiver_registers_[0];
    const Operand& bits = receiver_registers_[1];
    const Operand& difference_register = receiver_registers_[2];
    code_.load(value, wanted);
    code_.load(care, bits);
    code_.alu(Opcode::kXor, Code::constant(FixedConstant::kL2bid), wanted, difference_register);
    const int mask = code_.new_mask();
    Operand flags;
    flags.space = isa::Space::kOmr;
    flags.base = mask;
    code_.alu(Opcode::kAnd, difference_register, bits, flags);
    return mask;
  }

  /// The transfers of a round: one per L2B, or one per L2B of a group where all groups do the same.
  std::vector<Instruction> transfers(const Round& round, int64_t up, int64_t down) const {
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (int64_t source = 0; source < chip_.l2b_count(); ++source) {
      if (!holds(source)) continue;
      const int64_t own = slots_of(source, slots_);
      const int64_t value = own ^ (source % 2 == 0 ? round.even : round.odd);
      const auto wanted = spread_bits(value, in_);
      if (!wanted || !is_valid(*wanted, mask_of(in_))) continue;
      // Where all hold the same, everyone has his own.
      bool leaves = true;
      BitMask held = 0;
      for (size_t k = 0; k < slots_.size(); ++k) {
        const auto slot = static_cast<size_t>(shape_.first(Level::kL2b) + slots_[k]);
        if (move_.before[slot] == kEverywhere) leaves = leaves && ((value ^ own) >> k & 1) == 0;
        if (out_[k] >= 0 && (own >> k & 1) != 0) held |= mask_of(out_[k]);
      }
      if (!leaves || !is_valid(held, mask_of(out_))) continue;
      pairs.emplace_back(source, with_slots(source, slots_, value));
    }
    bool in_groups = static_cast<int64_t>(pairs.size()) == chip_.l2b_count();
    for (const auto& [source, target] : pairs)
      in_groups = in_groups && source / chip_.l2b_per_group == target / chip_.l2b_per_group;
    std::vector<Instruction> mvs;
    for (const auto& [source, target] : pairs) {
      if (!in_groups) {
        mvs.push_back(make_mvp(run_, l2bm_of(up, source), l2bm_of(down, target)));
      } else if (source < chip_.l2b_per_group) {
        mvs.push_back(make_mvp(run_, Code::l2bm(up, -1, static_cast<int>(source)),
                               Code::l2bm(down, -1, static_cast<int>(target))));
      }
    }
    return mvs;
  }

  std::vector<int> slots_;  ///< L2B slots that change
  std::vector<int> in_;
  std::vector<int> out_;
  BitMask stay_ = 0;
  int64_t line_lw_ = 0;
  std::vector<Round> rounds_;
  Chunks parts_;
  int64_t run_ = 0;  ///< LW of a transfer
  Number sends_;
  Number receives_;
  std::vector<Region> up_l2_;
  std::vector<Region> down_l2_;
  std::vector<LineBuffer> up_;
  std::vector<LineBuffer> down_;
  std::vector<Item> under_way_;
  std::map<int64_t, Operand> constants_;
  std::optional<Operand> odd_;
  std::vector<Operand> receiver_registers_;
};

MoveNeeds exchange_l2b_needs(const BitView& view, const Move& move) {
  const SlotShape& shape = view.shape;
  MoveNeeds needs;
  needs.source_lm0 = needs.target_lm0 = true;
  needs.powers = needs.target_powers = true;
  for (int k = 0; k < shape.l2b; ++k) {
    const auto slot = static_cast<size_t>(shape.first(Level::kL2b) + k);
    if (move.before[slot] == move.after[slot]) continue;
    if (move.after[slot] >= 0) needs.source_low.push_back(move.after[slot]);
    if (move.before[slot] >= 0) needs.target_powers_of.push_back(move.before[slot]);
  }
  return needs;
}

}  // namespace

MovePrimitive exchange_l2b_primitive() {
  return {
      .name = "exchange-l2b",
      .description = "any L2B bits <-> as many address bits, in rounds of transfers between pairs of L2Bs",
      .precondition = "LM0, through T on both sides",
      .cost = "n/2 + lanes * n / 16 of l2bmd, or the transfers",
      .overlap = {.waits = true},
      .propose = propose_exchange_l2b,
      .needs = exchange_l2b_needs,
      .emit = emit_with<ExchangeL2b>};
}

}  // namespace kodama::layout
