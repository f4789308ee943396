#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "isa/arithmetic.h"
#include "layout/moves/masked_writes.h"
#include "layout/moves/move_emission.h"

namespace kodama::layout {
namespace {

using isa::FixedConstant;
using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

/// Primitives between the PEs of an L1B.
class ByL1bm : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  /// Round d: PE s sends to PE s + d. Sending reads address s + d + R * o for all o, without a look at the
  /// wrap: PEs that it carries beyond R send the element of the next o, which is what the ones that read
  /// the line before theirs need.
  void skew() {
    const int low = move_.slot - shape_.first(Level::kPe);
    const int count = shape_.lane_bits() - low;
    const std::vector<int> in = contents(move_.after, move_.slot, count);
    const std::vector<int> out = contents(move_.before, move_.slot, count);
    const int64_t rounds = int64_t{1} << count;
    // The others, in the order of their strides: number o is at address base + R * o.
    std::vector<int> outer_bits = bits_of(before_bits() & ~mask_of(in));
    std::ranges::sort(outer_bits, {}, [&](int bit) { return at_.before.stride[static_cast<size_t>(bit)]; });
    std::vector<std::pair<int64_t, BitMask>> outers;
    int64_t outer_count = 1;
    for (const BitMask value : view_.values(mask_of(outer_bits))) {
      const int64_t o = (address(at_.before, value) - at_.before.base) / rounds;
      outers.emplace_back(o, value);
      outer_count = std::max(outer_count, o + 1);
    }

    std::vector<int64_t> sender_offsets;
    std::vector<int64_t> receiver_offsets;
    for (int64_t number = 0; number < rounds; ++number) {
      sender_offsets.push_back(number);
      receiver_offsets.push_back(number * at_.run_stride);
    }
    const int shift = std::countr_zero(static_cast<uint64_t>(2 * at_.run_stride));
    // When the targets wrap around the whole memory, T is the same in all rounds.
    const bool wraps =
        at_.after.memory == Memory::kLm0 && at_.run_stride * rounds == memory_size_lw(Memory::kLm0, chip_);
    const std::vector<Code::Field> sender{{FixedConstant::kPeid, low, count, 1}};
    const std::vector<Code::Field> receiver_fields{{FixedConstant::kPeid, low, count, shift}};
    // What is needed first is set first.
    const bool from_lm0 = at_.before.memory == Memory::kLm0;
    const bool to_lm0 = at_.after.memory == Memory::kLm0;
    Operand base_register;
    base_register.space = Space::kBar1;
    Operand sender_value;
    // One buffer if everything fits; else two, with some rounds in each, or parts of one.
    const int64_t room = code_.scratch().largest_free(Memory::kL1bm) / lanes() - 2 * kLineGroup;
    const bool twice = rounds * (outer_count + 1) > room;
    const int64_t room_each = twice ? room / 2 : room;
    const int64_t outers_at_once = std::clamp<int64_t>(room_each - 1, 1, outer_count);
    const int64_t lines_per_round = outers_at_once + 1;
    const int64_t rounds_at_once = std::clamp<int64_t>(room_each / lines_per_round, 1, rounds);
    if (!from_lm0) {
      // LM1 has no addresses through T; its base register does as well.
      code_.field_sum_to(sender, base_register);
    } else if (to_lm0 && twice) {
      sender_value = code_.field_sum(sender);
      set_t(sender_value);
    } else {
      code_.field_sum_to(sender, Code::t());
    }
    if (from_lm0) {
      code_.t_holds(sender_offsets);
    } else {
      code_.base1_holds(sender_offsets);
    }
    bool t_is_sender = from_lm0;

    // Of even and of odd rounds: each is two rounds old when it is needed again.
    std::array<Operand, 2> receivers;
    Operand wrap;
    Operand two;
    if (!wraps) {
      receivers[0] = code_.field_sum(receiver_fields);
      wrap = code_.new_register(Memory::kGrf1);
      code_.load(static_cast<uint32_t>((rounds - 1) << shift), wrap);
      const Operand one = code_.new_register(Memory::kGrf1);
      code_.load(uint32_t{1} << shift, one);
      two = code_.new_register(Memory::kGrf1);
      code_.load(uint32_t{2} << shift, two);
      receivers[1] = code_.new_register(Memory::kGrf0);
      code_.alu(Opcode::kSub, receivers[0], one, receivers[1]);
    }
    int64_t all_rounds = 0;

    // Rounds per buffer, and if one is too many, a part of it; two buffers, so that one is read while the
    // other is written.
    std::array<LineBuffer, 2> buffers{line_buffer(rounds_at_once * lines_per_round),
                                      twice ? line_buffer(rounds_at_once * lines_per_round) : LineBuffer{}};
    size_t turn = 0;
    bool t_is_receiver = false;
    for (int64_t begin = 0; begin < outer_count; begin += outers_at_once) {
      const int64_t end = std::min(begin + outers_at_once, outer_count);
      for (int64_t first = 0; first < rounds; first += rounds_at_once) {
        const int64_t last = std::min(first + rounds_at_once, rounds);
        const LineBuffer& buffer = buffers[twice ? turn++ % 2 : 0];
        // T is the sender's and then the receiver's, unless one of them goes by the base register.
        if (from_lm0 && !t_is_sender) {
          set_t(sender_value);
          code_.t_holds(sender_offsets);
        }
        std::vector<LineCopy> up;
        for (int64_t d = first; d < last; ++d) {
          for (int64_t o = begin - 1; o < end; ++o) {
            up.push_back({(d - first) * lines_per_round + o - begin + 1, at_.before.base + d + rounds * o});
          }
        }
        // Where T serves one side only, the lines of later rounds go up while earlier ones come down.
        const bool apart = !from_lm0 || !to_lm0;
        size_t next_up = 0;
        const auto bring_up = [&](int64_t lines) {
          std::vector<LineCopy> some;
          while (next_up < up.size() && up[next_up].line < isa::round_up(lines, kLineGroup))
            some.push_back(up[next_up++]);
          code_.lines_up(std::move(some), at_.before.memory, buffer.base, from_lm0);
        };
        if (!apart) bring_up(static_cast<int64_t>(up.size()));
        if (wraps && (from_lm0 || !t_is_receiver)) {
          code_.field_sum_to(receiver_fields, Code::t());
          code_.t_holds(receiver_offsets);
        }
        t_is_receiver = true;
        t_is_sender = !to_lm0;
        for (int64_t d = first; d < last; ++d) {
          bring_up((d - first + 1) * lines_per_round);
          if (wraps) {
            // The address of the round below takes care of the difference.
          } else {
            const Operand& receiver = receivers[static_cast<size_t>(all_rounds % 2)];
            if (all_rounds >= 2) code_.alu(Opcode::kSub, receiver, two, receiver);
            code_.alu(Opcode::kAnd, receiver, wrap, to_lm0 ? Code::t() : base_register);
            if (to_lm0) {
              code_.t_holds(receiver_offsets);
            } else {
              code_.base1_holds(receiver_offsets);
            }
          }
          ++all_rounds;
          std::vector<LineCopy> down;
          for (const auto& [o, value] : outers) {
            if (o < begin || o >= end) continue;
            down.push_back({(d - first) * lines_per_round + o - begin + 1,
                            address(at_.after, value) - (wraps ? d * at_.run_stride : 0)});
          }
          code_.lines_down(std::move(down), at_.after.memory, buffer.base, -(d << low), 0, to_lm0);
        }
      }
    }
    if (!from_lm0 || !to_lm0) {
      Instruction reset;
      reset.opcode = Opcode::kZero;
      reset.destinations = {base_register};
      code_.add(std::move(reset));
    }
    for (const LineBuffer& buffer : buffers) give_back(buffer);
  }

  /// In every round all PEs read some lanes further on: as many as bits of the slots that become empty make,
  /// so that PEs that have 0 in these slots get what has those bits.
  void collect_lanes() {
    std::vector<int> powers;
    std::vector<int> out;
    for (int lane = 0; lane < shape_.lane_bits(); ++lane) {
      const auto slot = static_cast<size_t>(shape_.first(Level::kPe) + lane);
      if (move_.before[slot] == move_.after[slot]) continue;
      powers.push_back(lane);
      out.push_back(move_.before[slot]);
    }
    const Chunks parts = chunks({}, before_bits(), most_lines(2));
    const std::array<LineBuffer, 2> buffers{line_buffer(int64_t{1} << parts.inner.size()),
                                            line_buffer(int64_t{1} << parts.inner.size())};
    const BitMask of_after = view_.address_bits(move_.after);
    size_t turn = 0;
    for (const BitMask outer : parts.outer) {
      const LineBuffer& buffer = buffers[turn++ % 2];
      std::vector<std::pair<int64_t, BitMask>> lines;
      std::vector<LineCopy> up;
      for (const BitMask inner : view_.values(mask_of(parts.inner))) {
        if (!is_valid(inner | outer, before_bits())) continue;
        // Without the numbers of lines that hold nothing.
        lines.emplace_back(static_cast<int64_t>(lines.size()), inner | outer);
        up.push_back({lines.back().first, address(at_.before, inner | outer)});
      }
      code_.lines_up(std::move(up), at_.before.memory, buffer.base);
      for (int64_t round = 0; round < int64_t{1} << out.size(); ++round) {
        const BitMask there = spread_bits(round, out).value();
        const auto lane = static_cast<int64_t>(spread_bits(round, powers).value());
        std::vector<LineCopy> down;
        for (const auto& [line, value] : lines) {
          if (is_valid(value | there, of_after)) down.push_back({line, address(at_.after, value | there)});
        }
        code_.lines_down(std::move(down), at_.after.memory, buffer.base, lane);
      }
    }
    for (const LineBuffer& buffer : buffers) give_back(buffer);
  }

  /// The inverse: in round d those that have d in the slots take what the others have for them.
  void deal_lanes() {
    const int low = move_.slot - shape_.first(Level::kPe);
    const std::vector<int> in = contents(move_.after, move_.slot, move_.slot_count);
    const BitMask stay = before_bits() & ~mask_of(in);
    const int64_t rounds = int64_t{1} << in.size();
    MaskedWrites writes(code_, 64);
    writes.tell_apart({0, 1});
    std::vector<int> masks{0};
    for (int64_t round = 1; round < rounds; ++round)
      masks.push_back(spread_bits(round, in) ? writes.mask(round << low, (rounds - 1) << low, 1) : 0);
    // Chunks of what stays in the address, with everything that goes to lanes.
    const Chunks parts = chunks({}, stay, std::max<int64_t>(most_lines(2) / rounds, 1));
    const int64_t part = int64_t{1} << parts.inner.size();
    const std::array<LineBuffer, 2> buffers{line_buffer(part * rounds), line_buffer(part * rounds)};
    size_t turn = 0;
    for (const BitMask outer : parts.outer) {
      const LineBuffer& buffer = buffers[turn++ % 2];
      std::vector<LineCopy> up;
      std::vector<std::vector<LineCopy>> down(static_cast<size_t>(rounds));
      for (int64_t round = 0; round < rounds; ++round) {
        const auto here = spread_bits(round, in);
        if (!here) continue;
        for (const BitMask inner : view_.values(mask_of(parts.inner))) {
          const BitMask value = inner | outer;
          if (!is_valid(value | *here, before_bits()) || !is_valid(value, stay)) continue;
          const auto line = static_cast<int64_t>(up.size());
          up.push_back({line, address(at_.before, value | *here)});
          down[static_cast<size_t>(round)].push_back({line, address(at_.after, value)});
        }
      }
      code_.lines_up(std::move(up), at_.before.memory, buffer.base);
      for (int64_t round = 0; round < rounds; ++round) {
        code_.lines_down(std::move(down[static_cast<size_t>(round)]), at_.after.memory, buffer.base,
                         -(round << low), masks[static_cast<size_t>(round)]);
      }
    }
    for (const LineBuffer& buffer : buffers) give_back(buffer);
  }

  void gather_lanes() {
    const bool all = move_.kind == MoveKind::kGatherPe;
    const std::vector<int> lane_bits = contents(move_.before, shape_.first(Level::kPe), shape_.lane_bits());
    const BitMask kept = all ? 0 : mask_of(lane_bits[0]) | mask_of(lane_bits[1]);
    const int m0 = lane_bits[SlotShape::kPeBits];
    const bool wide = m0 >= 0 && at_.after.stride[static_cast<size_t>(m0)] == 1 && at_.after.base % 2 == 0 &&
                      (!view_.has_gaps(m0) || at_.after.base > 0);  // a layout of the user has base 0
    if (all && !wide) {
      // Pairs of long words of a PE may lie side by side instead.
      for (const int bit : bits_of(before_bits())) {
        if (at_.after.stride[static_cast<size_t>(bit)] == 1 && at_.after.base % 2 == 0 &&
            !view_.has_gaps(bit))
          return gather_pairs(lane_bits, bit);
      }
    }
    const Chunks parts = chunks({}, before_bits(), most_lines(2));
    const std::array<LineBuffer, 2> buffers{line_buffer(int64_t{1} << parts.inner.size()),
                                            line_buffer(int64_t{1} << parts.inner.size())};
    size_t turn = 0;
    const BitMask of_after = before_bits() | (mask_of(lane_bits) & ~kept);
    for (const BitMask outer : parts.outer) {
      const LineBuffer& buffer = buffers[turn++ % 2];
      std::vector<std::pair<int64_t, BitMask>> lines;
      std::vector<LineCopy> up;
      for (const BitMask inner : view_.values(mask_of(parts.inner))) {
        const BitMask value = inner | outer;
        if (!is_valid(value, before_bits())) continue;
        lines.emplace_back(gather_bits(inner, parts.inner), value);
        up.push_back({lines.back().first, address(at_.before, value)});
      }
      code_.lines_up(std::move(up), at_.before.memory, buffer.base);
      for (const auto& [line, value] : lines) {
        // Lanes that a step reads: with l1bmm PE p reads those that are p mod 4.
        const int64_t unit = all ? 1 : isa::kPePerMab;
        const int64_t step = unit * isa::kCyclesPerStep * (wide ? 2 : 1);
        for (int64_t lane = 0; lane < lanes(); lane += step) {
          std::array<int64_t, 4> addresses{};
          uint8_t cycles = 0;
          for (int64_t c = 0; c < isa::kCyclesPerStep; ++c) {
            // h of cycle c; l is four lanes further on.
            const int64_t at = lane + (all ? c : (wide ? 8 : 4) * c);
            if (at >= lanes()) continue;  // of an L1B with few MABs
            const auto lane_value = spread_bits(all ? at : at & ~int64_t{3}, lane_bits);
            if (!lane_value || !is_valid(value | *lane_value, of_after)) continue;
            addresses[static_cast<size_t>(c)] = address(at_.after, value | *lane_value);
            cycles |= static_cast<uint8_t>(8 >> c);
          }
          if (cycles == 0) continue;
          code_.add(make_instruction(
              all ? Opcode::kL1bmp : Opcode::kL1bmm, Precision::kNone,
              Code::l1bm(buffer.base + line * lanes() + lane, wide),
              written(at_.after.memory, addresses, cycles, wide ? Width::kDoubleLong : Width::kLong)));
        }
      }
    }
    for (const LineBuffer& buffer : buffers) give_back(buffer);
  }

  /// What a MAB has goes up by itself, `pair` being the lowest bit of its number, so that l1bmp brings both
  /// long words of a pair in a cycle.
  void gather_pairs(const std::vector<int>& lane_bits, int pair) {
    constexpr int64_t kEight = 2 * isa::kCyclesPerStep;
    const Chunks parts =
        chunks({pair}, before_bits() & ~mask_of(pair), std::max<int64_t>(most_lines(2), kEight));
    const int64_t count = std::max(int64_t{1} << parts.inner.size(), kEight);
    const std::array<LineBuffer, 2> buffers{line_buffer(count), line_buffer(count)};
    const BitMask of_after = before_bits() | mask_of(lane_bits);
    size_t turn = 0;
    for (const BitMask outer : parts.outer) {
      const LineBuffer& buffer = buffers[turn++ % 2];
      std::map<int64_t, BitMask> values;
      for (const BitMask inner : view_.values(mask_of(parts.inner))) {
        if (is_valid(inner | outer, before_bits())) values[gather_bits(inner, parts.inner)] = inner | outer;
      }
      const auto source = [&](int64_t number) {
        const auto known = values.find(number);
        return known == values.end() ? int64_t{-1} : address(at_.before, known->second);
      };
      for (int64_t mab = 0; mab < chip_.mab_per_l1b; ++mab) {
        if (!spread_bits(mab * isa::kPePerMab, lane_bits)) continue;
        const int64_t base = buffer.base + mab * count * isa::kPePerMab;
        for (int64_t first = 0; first < count; first += kEight) send_eight(mab, base, first, source);
        for (const auto& [number, value] : values) {
          if (number % 2 != 0) continue;
          std::array<int64_t, 4> addresses{};
          uint8_t cycles = 0;
          for (int64_t pe = 0; pe < isa::kPePerMab; ++pe) {
            const auto lane = spread_bits(mab * isa::kPePerMab + pe, lane_bits);
            if (!lane || !is_valid(value | *lane, of_after)) continue;
            addresses[static_cast<size_t>(pe)] = address(at_.after, value | *lane);
            cycles |= static_cast<uint8_t>(8 >> pe);
          }
          if (cycles == 0) continue;
          code_.add(make_instruction(Opcode::kL1bmp, Precision::kNone,
                                     Code::l1bm(base + number * isa::kPePerMab, true),
                                     written(at_.after.memory, addresses, cycles, Width::kDoubleLong)));
        }
      }
    }
    for (const LineBuffer& buffer : buffers) give_back(buffer);
  }
  /// Eight numbers of a MAB, in one step if they are pairs in its memory, too; source(number) < 0: any.
  template <typename Source>
  void send_eight(int64_t mab, int64_t base, int64_t first, const Source& source) {
    std::array<int64_t, 8> from{};
    bool wide = true;
    int64_t some = -1;
    for (int64_t k = 0; k < 8; ++k) {
      from[static_cast<size_t>(k)] = source(first + k);
      some = std::max(some, from[static_cast<size_t>(k)]);
    }
    if (some < 0) return;
    for (size_t k = 0; k < 8; k += 2) {
      if (from[k] < 0 && from[k + 1] < 0) {
        from[k] = some / 2 * 2;
        from[k + 1] = from[k] + 1;
      }
      wide = wide && from[k] % 2 == 0 && from[k + 1] == from[k] + 1;
    }
    const auto send = [&](std::array<int64_t, 4> addresses, int64_t number) {
      Instruction up = make_instruction(
          Opcode::kL1bmm, Precision::kNone,
          Code::pe(at_.before.memory, addresses, wide ? Width::kDoubleLong : Width::kLong, chip_),
          Code::l1bm(base + number * isa::kPePerMab, wide));
      up.unit = static_cast<int8_t>(mab);
      code_.add(std::move(up));
    };
    if (wide) return send({from[0], from[2], from[4], from[6]}, first);
    for (const size_t k : {size_t{0}, size_t{4}}) {
      std::array<int64_t, 4> four{};
      for (size_t c = 0; c < 4; ++c) four[c] = from[k + c] < 0 ? some : from[k + c];
      send(four, first + static_cast<int64_t>(k));
    }
  }

  /// MAB 0 sends 16 LW a step; l1bmd gives every MAB four of them.
  void deal_mab() {
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
        const int64_t number = gather_bits(inner, parts.inner);
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
        down.push_back({gather_bits(inner, line_bits), address(at_.after, inner | outer)});
      }
      code_.lines_down(std::move(down), at_.after.memory, buffer.base);
    }
    for (size_t k = 0; k < turns; ++k) give_back(buffers[k]);
  }

  /// 32-bit words one by one: the word bit and an address bit change places.
  void words() {
    const int in = move_.after[0];
    const int out = std::max<int>(move_.before[0], -1);
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (const BitMask value : view_.values(before_bits() | mask_of(out))) {
      const bool word_before = out >= 0 && (value >> out & 1) != 0;
      const bool word_after = in >= 0 && (value >> in & 1) != 0;
      const int64_t source = address(at_.before, value & before_bits());
      const int64_t target = address(at_.after, value & view_.address_bits(move_.after));
      pairs.emplace_back(2 * target + (word_after ? 1 : 0), 2 * source + (word_before ? 1 : 0));
    }
    std::ranges::sort(pairs);
    const auto operand = [&](Memory memory, const std::array<int64_t, 4>& at) {
      Operand result;
      result.space = pe_space(memory);
      result.width = Width::kWord;
      result.flat = true;
      for (size_t c = 0; c < 4; ++c) result.flat_addresses[c] = static_cast<int32_t>(at[c]);
      return result;
    };
    for (size_t k = 0; k < pairs.size(); k += isa::kCyclesPerStep) {
      std::array<int64_t, 4> targets{};
      std::array<int64_t, 4> sources{};
      for (size_t c = 0; c < 4; ++c)
        std::tie(targets[c], sources[c]) = pairs[std::min(k + c, pairs.size() - 1)];
      code_.add(make_instruction(Opcode::kPassa, Precision::kInt, operand(at_.before.memory, sources),
                                 operand(at_.after.memory, targets)));
    }
  }
};

}  // namespace

const EmitMove emit_skew = emit_with<ByL1bm, &ByL1bm::skew>;
const EmitMove emit_deal_lanes = emit_with<ByL1bm, &ByL1bm::deal_lanes>;
const EmitMove emit_collect_lanes = emit_with<ByL1bm, &ByL1bm::collect_lanes>;
const EmitMove emit_gather_lanes = emit_with<ByL1bm, &ByL1bm::gather_lanes>;
const EmitMove emit_deal_mab = emit_with<ByL1bm, &ByL1bm::deal_mab>;
const EmitMove emit_words = emit_with<ByL1bm, &ByL1bm::words>;

}  // namespace kodama::layout
