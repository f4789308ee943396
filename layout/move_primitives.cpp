#include "layout/move_primitives.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "isa/error.h"

namespace kodama::layout {
namespace {

using isa::FixedConstant;
using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Precision;
using isa::Space;
using isa::Width;

constexpr int kLineGroup = 4;  ///< lines that one step moves

BitMask mask_of(int bit) {
  return bit >= 0 ? BitMask{1} << bit : 0;
}
BitMask mask_of(const std::vector<int>& bits) {
  BitMask mask = 0;
  for (const int bit : bits) mask |= mask_of(bit);
  return mask;
}

/// The value whose k-th binary digit is bit bits[k] of `value`.
int64_t gather_bits(BitMask value, const std::vector<int>& bits) {
  int64_t number = 0;
  for (size_t k = 0; k < bits.size(); ++k) {
    if (bits[k] >= 0 && (value >> bits[k] & 1) != 0) number |= int64_t{1} << k;
  }
  return number;
}
/// The inverse; nothing when a place that holds no bit would have to be 1.
std::optional<BitMask> spread_bits(int64_t number, const std::vector<int>& bits) {
  BitMask value = 0;
  for (size_t k = 0; k < bits.size(); ++k) {
    if ((number >> k & 1) == 0) continue;
    if (bits[k] < 0) return std::nullopt;
    value |= BitMask{1} << bits[k];
  }
  return value;
}

/// What the slots of a range hold; -1 for what is no bit.
std::vector<int> contents(const SlotState& slots, int first, int count) {
  std::vector<int> result;
  for (int slot = first; slot < first + count; ++slot)
    result.push_back(std::max<int>(slots[static_cast<size_t>(slot)], -1));
  return result;
}

std::vector<int> bits_of(BitMask mask) {
  std::vector<int> bits;
  for (; mask != 0; mask &= mask - 1) bits.push_back(std::countr_zero(mask));
  return bits;
}

/// Emission of one move.
class Emitter {
 public:
  Emitter(const BitView& view, const Move& move, const MoveAddresses& at, Code& code)
      : view_(view), move_(move), at_(at), code_(code), chip_(code.chip()), shape_(view.shape) {}

  void run() {
    switch (move_.kind) {
      case MoveKind::kCopy:
        return copy();
      case MoveKind::kMatrix:
      case MoveKind::kMatrixWords:
        return matrix();
      case MoveKind::kSkew:
        return skew();
      case MoveKind::kGatherMab:
      case MoveKind::kGatherPe:
        return gather_lanes();
      case MoveKind::kSpreadMab:
        return spread_mab();
      case MoveKind::kWords:
        return words();
      case MoveKind::kDealMab:
        return deal_mab();
      case MoveKind::kSelect:
        return select();
      case MoveKind::kSwapL1b:
        return swap_l1b();
      case MoveKind::kShuffleL1b:
        return shuffle_l1b();
      case MoveKind::kGatherL1b:
        return gather_l1b();
      case MoveKind::kSpreadL1b:
        return spread_l1b();
      case MoveKind::kExchangeL2b:
        return exchange_l2b();
      case MoveKind::kGatherL2b:
      case MoveKind::kSpreadL2b:
        return to_every_l2b();
    }
  }

 private:
  int64_t lanes() const { return code_.lanes(); }
  BitMask before_bits() const { return view_.address_bits(move_.before); }
  bool is_valid(BitMask value, BitMask of) const { return view_.is_valid(value, of); }

  // ---- inside the PEs

  void copy() {
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (const BitMask value : view_.values(before_bits()))
      pairs.emplace_back(address(at_.after, value), address(at_.before, value));
    code_.copies(std::move(pairs), at_.before.memory, at_.after.memory);
  }

  void matrix() {
    const bool with_words = move_.kind == MoveKind::kMatrixWords;
    const int word_bits = with_words ? shape_.word : 0;
    const int first = with_words ? 0 : shape_.first(Level::kPe);
    const int count = word_bits + SlotShape::kPeBits;
    const std::vector<int> out = contents(move_.before, first, count);
    const std::vector<int> in = contents(move_.after, first, count);
    const int rows = 1 << count;
    const Precision precision = word_bits == 0   ? Precision::kDouble
                                : word_bits == 1 ? Precision::kGFloat
                                                 : Precision::kHalf;
    bool use_y = false;
    for (const BitMask outer : view_.values(before_bits() & ~mask_of(in))) {
      Operand matrix_register;
      matrix_register.space = use_y ? Space::kMatY : Space::kMatX;
      use_y = !use_y;
      for (int row = 0; row < rows; row += isa::kCyclesPerStep) {
        std::array<int64_t, 4> addresses{};
        for (int c = 0; c < isa::kCyclesPerStep; ++c) {
          // A row that holds nothing can be any.
          const BitMask value = spread_bits(row + c, in).value_or(0);
          addresses[static_cast<size_t>(c)] = address(at_.before, outer | value);
        }
        matrix_register.base = row;
        code_.add(make_instruction(Opcode::kMwrite, precision,
                                   Code::pe(at_.before.memory, addresses, Width::kLong, chip_),
                                   matrix_register));
      }
      // Halves are read two columns at a time.
      const int columns = word_bits == 2 ? 2 * isa::kCyclesPerStep : isa::kCyclesPerStep;
      for (int column = 0; column < rows; column += columns) {
        std::array<int64_t, 4> addresses{};
        uint8_t cycles = 0;
        for (int c = 0; c < isa::kCyclesPerStep; ++c) {
          const auto value = spread_bits(column + c * (columns / isa::kCyclesPerStep), out);
          if (!value || !is_valid(outer | *value, (before_bits() & ~mask_of(in)) | mask_of(out))) continue;
          addresses[static_cast<size_t>(c)] = address(at_.after, outer | *value);
          cycles |= static_cast<uint8_t>(8 >> c);
        }
        if (cycles == 0) continue;
        matrix_register.base = column;
        matrix_register.width = word_bits == 2 ? Width::kDoubleLong : Width::kLong;
        code_.add(make_instruction(
            Opcode::kMread, precision == Precision::kGFloat ? Precision::kFloat : precision, matrix_register,
            written(at_.after.memory, addresses, cycles,
                    word_bits == 2 ? Width::kDoubleLong : Width::kLong)));
        matrix_register.width = Width::kLong;
      }
    }
  }

  /// A destination in some cycles only; the addresses of the others are replaced.
  Operand written(Memory memory, std::array<int64_t, 4> addresses, uint8_t cycles, Width width) const {
    int64_t valid = 0;
    for (size_t c = 0; c < 4; ++c) {
      if ((cycles >> (3 - c) & 1) != 0) valid = addresses[c];
    }
    for (size_t c = 0; c < 4; ++c) {
      if ((cycles >> (3 - c) & 1) == 0) addresses[c] = valid;
    }
    Operand destination = Code::pe(memory, addresses, width, chip_);
    if (cycles != 0b1111) {
      destination.mask.kind = isa::Mask::Kind::kPattern;
      destination.mask.value = cycles;
      destination.mask.double_long = width == Width::kDoubleLong;
    }
    return destination;
  }

  void select() {
    std::vector<Code::Field> fields;
    BitMask chosen = 0;
    for (int slot = 0; slot < shape_.count(); ++slot) {
      const int bit = move_.after[static_cast<size_t>(slot)];
      if (bit < 0 || move_.before[static_cast<size_t>(slot)] != kEverywhere) continue;
      chosen |= mask_of(bit);
      const int64_t words = 2 * at_.before.stride[static_cast<size_t>(bit)];
      const int shift = std::countr_zero(static_cast<uint64_t>(words));
      const Level level = shape_.level(slot);
      const FixedConstant constant = level == Level::kL1b   ? FixedConstant::kL1bid
                                     : level == Level::kL2b ? FixedConstant::kL2bid
                                                            : FixedConstant::kPeid;
      const int low = shape_.power(slot) + (level == Level::kMab ? SlotShape::kPeBits : 0);
      if (!fields.empty() && fields.back().constant == constant &&
          fields.back().low + fields.back().count == low &&
          fields.back().shift + fields.back().count == shift) {
        ++fields.back().count;
      } else {
        fields.push_back({constant, low, 1, shift});
      }
    }
    code_.field_sum_to_t(fields);
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (const BitMask value : view_.values(before_bits() & ~chosen))
      pairs.emplace_back(address(at_.after, value), address(at_.before, value));
    code_.copies(std::move(pairs), at_.before.memory, at_.after.memory, true);
  }

  void set_t(const Operand& value) {
    code_.add(make_instruction(Opcode::kPassa, Precision::kInt, value, Code::t()));
  }

  // ---- L1BM

  LineBuffer line_buffer(int64_t lines) { return code_.line_buffer(lines); }
  void give_back(const LineBuffer& buffer) { code_.give_back(buffer); }
  /// Lines that fit, when `parts` buffers of them are wanted at a time.
  int64_t most_lines(int parts) const {
    const int64_t all = code_.scratch().largest_free(Memory::kL1bm) / lanes();
    return std::max<int64_t>(std::bit_floor(static_cast<uint64_t>(all / parts - 2 * kLineGroup)), 1);
  }

  /// Parts of the address bits: the inner ones are numbered by lines, the outer ones are done one after the
  /// other. `first` must be inner ones, as bits or -1.
  struct Chunks {
    std::vector<int> inner;
    std::vector<BitMask> outer;
  };
  Chunks chunks(const std::vector<int>& first, BitMask rest, int64_t most) const {
    Chunks result;
    result.inner = first;
    BitMask outer = 0;
    for (const int bit : bits_of(rest)) {
      if (int64_t{1} << (result.inner.size() + 1) <= most) {
        result.inner.push_back(bit);
      } else {
        outer |= mask_of(bit);
      }
    }
    result.outer = view_.values(outer);
    // Digits that are cut between inner and outer ones have values that neither half excludes.
    return result;
  }

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

    const int shift = std::countr_zero(static_cast<uint64_t>(2 * at_.run_stride));
    // When the targets wrap around the whole memory, T is the same in all rounds.
    const bool wraps = at_.run_stride * rounds == memory_size_lw(at_.after.memory, chip_);
    const std::vector<Code::Field> sender{{FixedConstant::kPeid, low, count, 1}};
    const std::vector<Code::Field> receiver_fields{{FixedConstant::kPeid, low, count, shift}};
    Operand receiver;
    Operand wrap;
    Operand one;
    if (!wraps) {
      receiver = code_.field_sum(receiver_fields);
      wrap = code_.new_register(Memory::kGrf1);
      code_.load(static_cast<uint32_t>((rounds - 1) << shift), wrap);
      one = code_.new_register(Memory::kGrf1);
      code_.load(uint32_t{1} << shift, one);
    }

    // LM1 has no addresses through T; its base register does as well.
    const bool from_lm0 = at_.before.memory == Memory::kLm0;
    const bool to_lm0 = at_.after.memory == Memory::kLm0;
    Operand base_register;
    base_register.space = Space::kBar1;
    if (!from_lm0)
      code_.add(make_instruction(Opcode::kPassa, Precision::kInt, code_.field_sum(sender), base_register));

    // Rounds per buffer, and if one is too many, a part of it; two buffers, so that one is read while the
    // other is written.
    const int64_t outers_at_once = std::min(outer_count, most_lines(2) - 1);
    const int64_t lines_per_round = outers_at_once + 1;
    const int64_t rounds_at_once = std::clamp<int64_t>(most_lines(2) / lines_per_round, 1, rounds);
    const bool twice = rounds_at_once < rounds || outers_at_once < outer_count;
    std::array<LineBuffer, 2> buffers{line_buffer(rounds_at_once * lines_per_round),
                                      twice ? line_buffer(rounds_at_once * lines_per_round) : LineBuffer{}};
    size_t turn = 0;
    bool t_is_set = false;
    for (int64_t begin = 0; begin < outer_count; begin += outers_at_once) {
      const int64_t end = std::min(begin + outers_at_once, outer_count);
      for (int64_t first = 0; first < rounds; first += rounds_at_once) {
        const int64_t last = std::min(first + rounds_at_once, rounds);
        const LineBuffer& buffer = buffers[twice ? turn++ % 2 : 0];
        // T is the sender's and then the receiver's, unless one of them goes by the base register.
        if (from_lm0 && (to_lm0 || !t_is_set)) code_.field_sum_to_t(sender);
        std::vector<LineCopy> up;
        for (int64_t d = first; d < last; ++d) {
          for (int64_t o = begin - 1; o < end; ++o) {
            up.push_back({(d - first) * lines_per_round + o - begin + 1, at_.before.base + d + rounds * o});
          }
        }
        code_.lines_up(std::move(up), at_.before.memory, buffer.base, from_lm0);
        if (wraps && (from_lm0 || !t_is_set)) code_.field_sum_to_t(receiver_fields);
        t_is_set = true;
        for (int64_t d = first; d < last; ++d) {
          if (wraps) {
            // The address of the round below takes care of the difference.
          } else if (d == 0 && begin == 0) {
            code_.add(make_instruction(Opcode::kPassa, Precision::kInt, receiver,
                                       to_lm0 ? Code::t() : base_register));
          } else {
            code_.alu(Opcode::kSub, receiver, one, receiver);
            code_.alu(Opcode::kAnd, receiver, wrap, to_lm0 ? Code::t() : base_register);
          }
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

  void gather_lanes() {
    const bool all = move_.kind == MoveKind::kGatherPe;
    const std::vector<int> lane_bits = contents(move_.before, shape_.first(Level::kPe), shape_.lane_bits());
    const BitMask kept = all ? 0 : mask_of(lane_bits[0]) | mask_of(lane_bits[1]);
    const int m0 = lane_bits[SlotShape::kPeBits];
    const bool wide = m0 >= 0 && at_.after.stride[static_cast<size_t>(m0)] == 1 && at_.after.base % 2 == 0 &&
                      (!view_.has_gaps(m0) || at_.after.base > 0);  // a layout of the user has base 0
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

  void spread_mab() {
    const LineBuffer buffer = line_buffer(most_lines(2));
    const int64_t room = most_lines(2) * lanes() / (isa::kPePerMab * isa::kCyclesPerStep);
    int64_t next = 0;
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (const BitMask value : view_.values(before_bits()))
      pairs.emplace_back(address(at_.before, value), address(at_.after, value));
    for (size_t k = 0; k < pairs.size(); k += isa::kCyclesPerStep) {
      std::array<int64_t, 4> sources{};
      std::array<int64_t, 4> targets{};
      for (size_t c = 0; c < 4; ++c)
        std::tie(sources[c], targets[c]) = pairs[std::min(k + c, pairs.size() - 1)];
      const Operand place = Code::l1bm(buffer.base + next % room * isa::kPePerMab * isa::kCyclesPerStep);
      ++next;
      Instruction up = make_instruction(Opcode::kL1bmm, Precision::kNone,
                                        Code::pe(at_.before.memory, sources, Width::kLong, chip_), place);
      up.unit = 0;
      code_.add(std::move(up));
      code_.add(make_instruction(Opcode::kL1bmm, Precision::kNone, place,
                                 Code::pe(at_.after.memory, targets, Width::kLong, chip_)));
    }
    give_back(buffer);
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
      for (const auto& [number, addresses] : fours) {
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

  // ---- L2BM

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
    const Chunks parts = chunks({}, rest, std::min<int64_t>(most_lines(8), 8));
    std::array<std::array<LineBuffer, 4>, 2> sets;
    const size_t turns = parts.outer.size() > 1 ? 2 : 1;
    for (size_t turn = 0; turn < turns; ++turn) {
      for (LineBuffer& buffer : sets[turn]) buffer = line_buffer(int64_t{1} << parts.inner.size());
    }
    size_t turn = 0;
    for (const BitMask outer : parts.outer) {
      const std::array<LineBuffer, 4>& set = sets[turn++ % turns];
      for (const int value : {0, 1}) {
        // L1Bs with `value` send; the others take it, to the address of `value`.
        const LineBuffer& sent = set[static_cast<size_t>(value)];
        const LineBuffer& received = set[static_cast<size_t>(2 + value)];
        if (value == 1 && out < 0) continue;  // L1Bs with a 1 have nothing
        const BitMask at_in = value == 0 ? mask_of(in) : 0;
        const BitMask at_out = value == 1 ? mask_of(out) : 0;
        std::vector<LineCopy> up;
        std::vector<LineCopy> down;
        std::set<int64_t> blocks;
        for (const BitMask inner : view_.values(mask_of(parts.inner))) {
          const BitMask each = inner | outer;
          if (!is_valid(each | at_in, before_bits()) || !is_valid(each | at_out, after_bits)) continue;
          const int64_t line = gather_bits(inner, parts.inner);
          up.push_back({line, address(at_.before, each | at_in)});
          down.push_back({line, address(at_.after, each | at_out)});
          blocks.insert(line * lanes() / kBlockLw);
        }
        code_.lines_up(std::move(up), at_.before.memory, sent.base);
        for (const int64_t block : blocks) {
          Instruction pass =
              make_instruction(Opcode::kL2bmi, Precision::kNone, Code::l1bm(sent.base + block * kBlockLw),
                               Code::l1bm(received.base + block * kBlockLw));
          const int ignored = (chip_.l1b_per_l2b - 1) & ~(1 << power);
          pass.l1b_set.kind = ignored == 0 ? isa::L1bSet::Kind::kOne : isa::L1bSet::Kind::kMasked;
          pass.l1b_set.k = static_cast<uint8_t>(value << power);
          pass.l1b_set.ignore_mask = static_cast<uint8_t>(ignored);
          code_.add(std::move(pass));
        }
        code_.lines_down(std::move(down), at_.after.memory, received.base, 0,
                         value == 0 ? mask_of_one : mask_of_zero);
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
    }
    for (size_t k = 0; k < turns; ++k) {
      for (const LineBuffer& buffer : sets[k]) give_back(buffer);
    }
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
    const size_t turns = outers.size() > 1 ? 2 : 1;
    std::array<LineBuffer, 2> ups;
    std::array<LineBuffer, 2> downs;
    std::array<Region, 2> l2s;
    for (size_t k = 0; k < turns; ++k) {
      ups[k] = line_buffer(up_lines);
      downs[k] = line_buffer(down_lines);
      l2s[k] = code_.scratch().take(Memory::kL2bm, std::max(l2_size, l2bmd_lw(chip_)), kBlockLw);
    }
    size_t turn = 0;
    const BitMask line_before = before_bits() & ~outer_mask;
    const BitMask after_bits = view_.address_bits(move_.after);
    for (const BitMask outer : outers) {
      const size_t k = turn++ % turns;
      std::vector<LineCopy> lines;
      std::set<int64_t> chunk_numbers;
      const std::vector<int> line_bits(up_bits.begin() + static_cast<int64_t>(lane_count), up_bits.end());
      for (const BitMask inner : view_.values(line_before)) {
        if (!is_valid(inner | outer, before_bits())) continue;
        lines.push_back({gather_bits(inner, line_bits), address(at_.before, inner | outer)});
        chunk_numbers.insert(lines.back().line * lanes() / kBlockLw);
      }
      code_.lines_up(lines, at_.before.memory, ups[k].base);
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
              make_instruction(Opcode::kL2bm, Precision::kNone, Code::l1bm(ups[k].base + chunk * kBlockLw),
                               Code::l2bm(l2s[k].base + to * kBlockLw));
          pass.unit = static_cast<int8_t>(l1b);
          code_.add(std::move(pass));
        }
      }
      std::set<int64_t> groups;
      for (const int64_t chunk : filled) groups.insert(chunk * kBlockLw / l2bmd_lw(chip_));
      for (const int64_t group : groups) {
        code_.add(make_instruction(Opcode::kL2bmd, Precision::kNone,
                                   Code::l2bm(l2s[k].base + group * l2bmd_lw(chip_)),
                                   Code::l1bm(downs[k].base + group * kDealLw)));
      }
      std::vector<LineCopy> down;
      const std::vector<int> down_line_bits(down_bits.begin() + static_cast<int64_t>(lane_count),
                                            down_bits.end());
      for (const BitMask inner : view_.values(after_bits & ~outer_mask)) {
        if (!is_valid(inner | outer, after_bits)) continue;
        down.push_back({gather_bits(inner, down_line_bits), address(at_.after, inner | outer)});
      }
      code_.lines_down(down, at_.after.memory, downs[k].base);
    }
    for (size_t k = 0; k < turns; ++k) {
      give_back(ups[k]);
      give_back(downs[k]);
      code_.scratch().give_back(l2s[k]);
    }
  }

 public:
  struct ShuffleBits {
    std::vector<int> up;
    std::vector<int> rest;
    std::vector<int> down;
  };
  /// `order` names the bits (or -1) that follow the six lowest in L2BM, or that are lines in front, first.
  static ShuffleBits shuffle_bits(const BitView& view, const SlotState& before,
                                  const std::vector<int>& order) {
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

 private:
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
    const size_t turns = parts.outer.size() > 1 ? 2 : 1;
    std::array<LineBuffer, 2> ups;
    std::array<LineBuffer, 2> downs;
    std::array<Region, 2> l2s;
    const int64_t l2_size = (up_lines * lanes() + kDealLw - 1) / kDealLw * l2bmd_lw(chip_);
    for (size_t k = 0; k < turns; ++k) {
      ups[k] = line_buffer(up_lines);
      downs[k] = line_buffer((l2_size + lanes() - 1) / lanes());
      l2s[k] = code_.scratch().take(Memory::kL2bm, l2_size, kBlockLw);
    }
    size_t turn = 0;
    const BitMask after_bits = view_.address_bits(move_.after);
    const std::vector<int> down_line_bits(down_bits.begin() + lane_count, down_bits.end());
    for (const BitMask outer : parts.outer) {
      const size_t k = turn++ % turns;
      up_to_l2bm(parts, outer, ups[k], l2s[k]);
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
                                   Code::l2bm(l2s[k].base + block * kBlockLw),
                                   Code::l1bm(downs[k].base + block * kBlockLw)));
      }
      code_.lines_down(std::move(down), at_.after.memory, downs[k].base);
    }
    for (size_t k = 0; k < turns; ++k) {
      give_back(ups[k]);
      give_back(downs[k]);
      code_.scratch().give_back(l2s[k]);
    }
  }

  /// Lines of one chunk to L1BM and, dealt over the L1Bs, to L2BM.
  void up_to_l2bm(const Chunks& parts, BitMask outer, const LineBuffer& up, const Region& l2) {
    std::vector<LineCopy> lines;
    for (const BitMask inner : view_.values(mask_of(parts.inner))) {
      if (!is_valid(inner | outer, before_bits())) continue;
      lines.push_back({gather_bits(inner, parts.inner), address(at_.before, inner | outer)});
    }
    code_.lines_up(lines, at_.before.memory, up.base);
    code_.deal_up(lines, up.base, l2.base);
  }

  void spread_l1b() {
    const Chunks parts = chunks({}, before_bits(), most_lines(4));
    const int64_t lines_at_once = int64_t{1} << parts.inner.size();
    const size_t turns = parts.outer.size() > 1 ? 2 : 1;
    std::array<LineBuffer, 2> ups;
    std::array<LineBuffer, 2> downs;
    std::array<Region, 2> l2s;
    for (size_t k = 0; k < turns; ++k) {
      ups[k] = line_buffer(lines_at_once);
      downs[k] = line_buffer(lines_at_once);
      l2s[k] = code_.scratch().take(Memory::kL2bm, std::max(lines_at_once * lanes(), kBlockLw), kBlockLw);
    }
    size_t turn = 0;
    for (const BitMask outer : parts.outer) {
      const size_t k = turn++ % turns;
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
      code_.lines_up(std::move(up), at_.before.memory, ups[k].base);
      for (const int64_t block : blocks) {
        Instruction pass =
            make_instruction(Opcode::kL2bm, Precision::kNone, Code::l1bm(ups[k].base + block * kBlockLw),
                             Code::l2bm(l2s[k].base + block * kBlockLw));
        pass.unit = 0;
        code_.add(std::move(pass));
        code_.add(make_instruction(Opcode::kL2bmb, Precision::kNone,
                                   Code::l2bm(l2s[k].base + block * kBlockLw),
                                   Code::l1bm(downs[k].base + block * kBlockLw)));
      }
      code_.lines_down(std::move(down), at_.after.memory, downs[k].base);
    }
    for (size_t k = 0; k < turns; ++k) {
      give_back(ups[k]);
      give_back(downs[k]);
      code_.scratch().give_back(l2s[k]);
    }
  }

  // ---- transfers

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
    struct Buffers {
      LineBuffer up;
      LineBuffer down;
      Region up_l2;
      Region down_l2;
    };
    const int64_t rounds = int64_t{1} << slots.size();
    const int64_t items = static_cast<int64_t>(parts.outer.size()) * rounds;
    const int64_t room = std::min(chip_.memory.l2bm_lw / (2 * run),
                                  (chip_.memory.l1bm_lw / lanes()) / (2 * (run_lines + 3 * kLineGroup)));
    std::vector<Buffers> buffers(
        static_cast<size_t>(std::clamp<int64_t>(std::min<int64_t>(room, 6), 1, std::max<int64_t>(items, 1))));
    for (Buffers& each : buffers) {
      each.up = line_buffer(run_lines);
      each.down = line_buffer(run_lines);
      each.up_l2 = code_.scratch().take(Memory::kL2bm, run, kBlockLw);
      each.down_l2 = code_.scratch().take(Memory::kL2bm, run, kBlockLw);
    }

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
      const Buffers& own = buffers[item.buffer];
      std::vector<LineCopy> lines = lines_of(at_.after, item.outer);
      code_.deal_down(lines, own.down_l2.base, own.down.base);
      set_round(receives, turned_difference(item.round, slots), out, at_.after);
      code_.lines_down(std::move(lines), at_.after.memory, own.down.base, 0, receivers(slots, item.round),
                       true);
    };

    // What stays where it is only changes its addresses, by way of L1BM. With turns it is of several rounds.
    for (size_t k = 0; turns_.empty() && k < parts.outer.size(); ++k) {
      const Buffers& own = buffers[k % buffers.size()];
      set_round(sends, 0, in, at_.before);
      code_.lines_up(lines_of(at_.before, parts.outer[k]), at_.before.memory, own.up.base, true);
      set_round(receives, 0, out, at_.after);
      code_.lines_down(lines_of(at_.after, parts.outer[k]), at_.after.memory, own.up.base, 0,
                       receivers(slots, 0), true);
    }
    std::vector<Item> pending;
    size_t next_buffer = 0;
    constexpr size_t kUnderWay = 3;
    for (const BitMask outer : parts.outer) {
      for (int64_t round = turns_.empty() ? 1 : 0; round < rounds; ++round) {
        const std::vector<Instruction> mvs = round_transfers(
            slots, in, out, round, run, buffers[next_buffer].up_l2.base, buffers[next_buffer].down_l2.base);
        if (mvs.empty()) continue;
        while (pending.size() >= std::min(buffers.size(), kUnderWay)) {
          bring_down(pending.front());
          pending.erase(pending.begin());
        }
        const Buffers& own = buffers[next_buffer];
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
    for (const Buffers& each : buffers) {
      give_back(each.up);
      give_back(each.down);
      code_.scratch().give_back(each.up_l2);
      code_.scratch().give_back(each.down_l2);
    }
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

    struct Buffers {
      LineBuffer up;
      LineBuffer down;
      Region up_l2;
      Region down_l2;
      Region pdm;
    };
    // A second set when there is room and something to do meanwhile.
    const size_t turns = parts.outer.size() > 1 && 2 * run * (1 + copies) <= chip_.memory.l2bm_lw ? 2 : 1;
    std::vector<Buffers> buffers(turns);
    for (Buffers& each : buffers) {
      each.up = line_buffer(run / line_lw);
      each.down = line_buffer(run * copies / line_lw);
      each.up_l2 = code_.scratch().take(Memory::kL2bm, std::max(run, l2bmd_lw(chip_)), kBlockLw);
      each.down_l2 = code_.scratch().take(Memory::kL2bm, std::max(run * copies, l2bmd_lw(chip_)), kBlockLw);
      each.pdm = code_.scratch().take(Memory::kPdm, run * chip_.l2b_per_group, kBlockLw);
    }
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
      const Buffers& own = buffers[turn % turns];
      up_to_l2bm(parts, outer, own.up, own.up_l2);
      pending.push_back(
          {turn++ % turns, outer,
           collect_everywhere(slots, out, run, own.up_l2.base, own.down_l2.base, own.pdm.base)});
    }
    while (!pending.empty()) bring_down();
    for (const Buffers& each : buffers) {
      give_back(each.up);
      give_back(each.down);
      for (const Region& region : {each.up_l2, each.down_l2, each.pdm}) code_.scratch().give_back(region);
    }
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

  const BitView& view_;
  const Move& move_;
  const MoveAddresses& at_;
  Code& code_;
  const isa::Chip& chip_;
  const SlotShape& shape_;
  std::map<int64_t, Operand> round_constants_;
  std::vector<Operand> receiver_registers_;
  /// Of an exchange between L2Bs: which bit of the L2B's number turns which of the slots that change.
  std::vector<std::pair<int, size_t>> turns_;
};

}  // namespace

// ---- the table -----------------------------------------------------------------------------------------

const std::vector<MovePrimitive>& move_primitives() {
  static const std::vector<MovePrimitive> kTable{
      {MoveKind::kCopy, "copy", "addresses in any order; LM0, LM1, GRF0, GRF1", "two different memories",
       "n/4; n/8 where neighbours stay neighbours"},
      {MoveKind::kMatrix, "matrix", "PE bits <-> two address bits, through the matrix registers", "", "n/4"},
      {MoveKind::kMatrixWords, "matrix-words", "word and PE bits <-> as many address bits",
       "elements of 16 or 32 bits", "n/4 (16 bits: 3n/8)"},
      {MoveKind::kSkew, "skew",
       "the upper k lane bits (PE, then MAB bits) <-> k address bits, in 2^k rotations",
       "source in LM0 or LM1, target in LM0 (or LM1 where a round has work for its base register); these "
       "bits at the lowest strides",
       "n/4 + (n + 2^k)/4 + setting T, 2 steps a round at least"},
      {MoveKind::kWords, "words", "the word bit <-> an address bit, word by word",
       "elements of 32 bits; two different memories", "n/2"},
      {MoveKind::kDealMab, "deal-mab", "address bits -> all MAB bits, from MAB 0 by l1bmm and l1bmd",
       "nothing in the other MABs", "n/4 + n / 4 MABs"},
      {MoveKind::kGatherMab, "gather-mab", "MAB bits -> address; every MAB gets all", "",
       "n/4 + lanes * n / 32"},
      {MoveKind::kGatherPe, "gather-pe", "PE and MAB bits -> address; every PE gets all", "",
       "n/4 + lanes * n / 8"},
      {MoveKind::kSpreadMab, "spread-mab", "what MAB 0 has goes to every MAB", "nothing in the other MABs",
       "n/2"},
      {MoveKind::kSelect, "select", "address bits -> slots whose coordinates hold the same", "LM0, through T",
       "n/4"},
      {MoveKind::kSwapL1b, "swap-l1b", "an L1B bit <-> an address bit, by l2bmi between pairs of L1Bs",
       "two different memories", "lanes * n / 64 of l2bmi; beside them n/2 of l1bmd and n/4 of the ALU"},
      {MoveKind::kShuffleL1b, "shuffle-l1b",
       "upper lane bits -> L1B bits; L1B bits and address bits -> upper lane bits, address",
       "lanes and L1Bs as in mncore2 or fewer", "n/2 + lanes * n / 64 * (L1Bs + 2)"},
      {MoveKind::kGatherL1b, "gather-l1b", "L1B bits -> lanes, lanes -> address; every L1B gets all", "",
       "n/4 + lanes * n / 32 + L1Bs * (lanes * n / 64 + n / 4)"},
      {MoveKind::kSpreadL1b, "spread-l1b", "what L1B 0 has goes to every L1B", "nothing in the other L1Bs",
       "n/2 + lanes * n / 32"},
      {MoveKind::kExchangeL2b, "exchange-l2b",
       "any L2B bits <-> as many address bits, in rounds of transfers between pairs of L2Bs",
       "LM0, through T on both sides", "n/2 + lanes * n / 16 of l2bmd, or the transfers"},
      {MoveKind::kGatherL2b, "gather-l2b", "L2B bits -> address; every L2B gets all", "", "the transfers"},
      {MoveKind::kSpreadL2b, "spread-l2b", "what L2B 0 has goes to every L2B", "nothing in the other L2Bs",
       "the transfers"},
  };
  return kTable;
}

std::string_view move_name(MoveKind kind) {
  return move_primitives()[static_cast<size_t>(kind)].name;
}

void emit_move(const BitView& view, const Move& move, const MoveAddresses& at, Code& code) {
  Emitter(view, move, at, code).run();
}

MoveNeeds needs_of(const BitView& view, const Move& move) {
  const SlotShape& shape = view.shape;
  MoveNeeds needs;
  switch (move.kind) {
    case MoveKind::kCopy:
      needs.other_memory = true;
      break;
    case MoveKind::kWords:
    case MoveKind::kMatrix:
      needs.other_memory = true;
      break;
    case MoveKind::kMatrixWords:
      needs.other_memory = true;
      if (shape.word == 2) {
        needs.target_has_one = needs.target_one_required = true;
        needs.target_one = std::max<int>(move.before[0], -1);
      }
      break;
    case MoveKind::kSkew: {
      const int count = shape.first(Level::kPe) + shape.lane_bits() - move.slot;
      needs.source_lm = needs.target_lm0 = needs.target_lm1 = true;
      needs.source_low = contents(move.after, move.slot, count);
      needs.target_run = contents(move.before, move.slot, count);
      break;
    }
    case MoveKind::kGatherMab:
    case MoveKind::kGatherPe: {
      const int m0 = move.before[static_cast<size_t>(shape.first(Level::kMab))];
      if (m0 >= 0) {
        needs.target_has_one = true;
        needs.target_one = m0;
      }
      break;
    }
    case MoveKind::kSelect:
      needs.source_lm0 = true;
      needs.other_memory = true;
      needs.powers = true;
      for (size_t slot = 0; slot < move.after.size(); ++slot) {
        if (move.before[slot] == kEverywhere && move.after[slot] >= 0)
          needs.source_low.push_back(move.after[slot]);
      }
      break;
    case MoveKind::kSwapL1b:
      needs.other_memory = true;
      break;
    case MoveKind::kExchangeL2b:
      needs.source_lm0 = needs.target_lm0 = true;
      needs.powers = needs.target_powers = true;
      for (int k = 0; k < shape.l2b; ++k) {
        const auto slot = static_cast<size_t>(shape.first(Level::kL2b) + k);
        if (move.before[slot] == move.after[slot]) continue;
        if (move.after[slot] >= 0) needs.source_low.push_back(move.after[slot]);
        if (move.before[slot] >= 0) needs.target_powers_of.push_back(move.before[slot]);
      }
      break;
    default:
      break;
  }
  return needs;
}

// ---- what can be done next -----------------------------------------------------------------------------

namespace {

/// Long words of a region beyond which no LM has room for it and anything else.
constexpr double kMostRegion = 1536;

/// Steps before anything else can happen: setting up T and masks, distances.
constexpr double kSetUp = 8;

class Generator {
 public:
  Generator(const BitView& view, const SlotState& state, const SlotState& goal)
      : view_(view),
        state_(state),
        goal_(goal),
        shape_(view.shape),
        lines_(view.address_bits(state)),
        n_(static_cast<double>(view.value_count(lines_))) {
    wanted_at_.assign(view.bits.size(), -1);
    for (size_t slot = 0; slot < goal.size(); ++slot) {
      if (goal[slot] >= 0) wanted_at_[static_cast<size_t>(goal[slot])] = static_cast<int>(slot);
    }
    lanes_ = static_cast<double>(int64_t{1} << shape_.lane_bits());
    l1bs_ = static_cast<double>(int64_t{1} << shape_.l1b);
    l2bs_ = static_cast<double>(int64_t{1} << shape_.l2b);
  }

  std::vector<Move> run() {
    matrix(shape_.first(Level::kPe), SlotShape::kPeBits, MoveKind::kMatrix);
    if (shape_.word > 0) matrix(0, shape_.word + SlotShape::kPeBits, MoveKind::kMatrixWords);
    const int end = shape_.first(Level::kPe) + shape_.lane_bits();
    for (int low = shape_.first(Level::kPe); low < end; ++low) skew(low, end - low);
    if (shape_.word == 1) {
      const std::vector<int> in = incoming(0, 1);
      if (in[0] >= 0) add(MoveKind::kWords, with(0, in), larger(with(0, in)) / 2);
    }
    deal_mab();
    gather(MoveKind::kGatherMab, shape_.first(Level::kMab), shape_.mab);
    gather(MoveKind::kGatherPe, shape_.first(Level::kPe), shape_.lane_bits());
    spread(MoveKind::kSpreadMab, Level::kMab, n_ / 2);
    select();
    for (int slot = shape_.first(Level::kL1b); slot < shape_.first(Level::kL2b); ++slot) swap_l1b(slot);
    shuffle_l1b();
    gather_l1b();
    spread(MoveKind::kSpreadL1b, Level::kL1b, n_ / 2 + lanes_ * n_ / 32);
    l2bs();
    return std::move(moves_);
  }

 private:
  bool is_line(int bit) const { return bit >= 0 && (lines_ >> bit & 1) != 0; }

  void add(MoveKind kind, SlotState after, double steps, int slot = 0, std::vector<int> order = {}) {
    if (after == state_ || !is_useful(after)) return;
    moves_.push_back({kind, state_, std::move(after), slot, std::move(order), steps + kSetUp});
  }

  /// Whether a slot becomes right, or a bit that belongs into another slot is free to go there.
  bool is_useful(const SlotState& after) const {
    for (size_t slot = 0; slot < after.size(); ++slot) {
      if (after[slot] == state_[slot]) continue;
      if (after[slot] == goal_[slot] || after[slot] == kEverywhere) return true;
      const int left = state_[slot];
      if (left >= 0 && wanted_at_[static_cast<size_t>(left)] != static_cast<int>(slot) &&
          (wanted_at_[static_cast<size_t>(left)] >= 0 || goal_[slot] != kNothing || after[slot] == kNothing))
        return true;
      // Where nothing is yet: less for everything that follows.
      if (after[slot] >= 0 && state_[slot] == kNothing && shape_.level(static_cast<int>(slot)) == Level::kMab)
        return true;
      // On its way through the lanes to an L1B.
      if (after[slot] >= 0 && wanted_at_[static_cast<size_t>(after[slot])] >= shape_.first(Level::kL1b))
        return true;
    }
    return false;
  }

  /// Address bits that may fill up slots: those that belong into the address before those that belong
  /// elsewhere, and last those of digits that have fewer values than their bits.
  std::vector<int> fillers(BitMask used) const {
    std::vector<int> fill;
    for (const bool uneven : {false, true}) {
      for (const bool elsewhere : {false, true}) {
        for (const int bit : bits_of(lines_ & ~used)) {
          const auto at = static_cast<size_t>(bit);
          const int64_t size = view_.digits[static_cast<size_t>(view_.bits[at].digit)].size;
          if ((wanted_at_[at] >= 0) == elsewhere && ((size & (size - 1)) != 0) == uneven) fill.push_back(bit);
        }
      }
    }
    return fill;
  }

  /// What may come into these slots: the bit that belongs there, if it is in the address; then bits that
  /// belong into the address anyhow (they have to make room, and nothing is lost by it); then bits that
  /// belong elsewhere; then nothing. With `ahead`, bits that belong into the slots of another level and
  /// get there from here come first.
  std::vector<int> incoming(int first, int count, const std::vector<int>& ahead = {},
                            bool empty = false) const {
    std::vector<int> chosen(static_cast<size_t>(count), -1);
    BitMask used = 0;
    for (int k = 0; k < count; ++k) {
      const auto at = static_cast<size_t>(k);
      int bit = at < ahead.size() ? ahead[at] : -1;
      if (!is_line(bit)) bit = goal_[static_cast<size_t>(first + k)];
      if (is_line(bit) && (used >> bit & 1) == 0) {
        chosen[at] = bit;
        used |= mask_of(bit);
      }
    }
    const std::vector<int> fill = fillers(used);
    size_t next = 0;
    for (int k = 0; k < count; ++k) {
      auto& bit = chosen[static_cast<size_t>(k)];
      if (bit >= 0 || next >= fill.size()) continue;
      // What has to go away entirely makes room for nothing.
      if (goal_[static_cast<size_t>(first + k)] == kNothing &&
          (empty || state_[static_cast<size_t>(first + k)] < 0))
        continue;
      bit = fill[next++];
    }
    return chosen;
  }

  SlotState with(int first, const std::vector<int>& bits) const {
    SlotState after = state_;
    for (size_t k = 0; k < bits.size(); ++k)
      after[static_cast<size_t>(first) + k] = static_cast<int8_t>(bits[k] >= 0 ? bits[k] : kNothing);
    return after;
  }
  double values(const SlotState& state) const {
    return static_cast<double>(view_.value_count(view_.address_bits(state)));
  }
  double larger(const SlotState& after) const { return std::max(n_, values(after)); }

  /// Whether a slot of the range holds a bit and should hold nothing.
  bool must_empty(int first, int count) const {
    for (int slot = first; slot < first + count; ++slot) {
      if (goal_[static_cast<size_t>(slot)] == kNothing && state_[static_cast<size_t>(slot)] >= 0) return true;
    }
    return false;
  }

  void matrix(int first, int count, MoveKind kind) {
    for (const bool empty : {false, true}) {
      if (empty && !must_empty(first, count)) continue;
      const std::vector<int> in = incoming(first, count, {}, empty);
      const double factor = kind == MoveKind::kMatrixWords && shape_.word == 2 ? 3.0 / 8 : 1.0 / 4;
      // Blocks are read and written whole.
      const double blocks = static_cast<double>(view_.value_count(lines_ & ~mask_of(in)));
      add(kind, with(first, in), std::max(std::exp2(count) * blocks, larger(with(first, in))) * factor);
    }
  }

  void skew(int first, int count) {
    for (const bool ahead : {false, true}) {
      std::vector<int> early;
      if (ahead) {
        // shuffle-l1b sends lanes 3 and up to the L1Bs.
        early.assign(static_cast<size_t>(count), -1);
        const int lane = shape_.first(Level::kPe) + 3;
        for (int k = 0; k < shape_.l1b; ++k) {
          if (lane + k >= first && lane + k < first + count)
            early[static_cast<size_t>(lane + k - first)] =
                std::max<int>(goal_[static_cast<size_t>(shape_.first(Level::kL1b) + k)], -1);
        }
        if (std::ranges::none_of(early, [&](int bit) { return is_line(bit); })) continue;
      }
      for (const bool empty : {false, true}) {
        if (empty && !must_empty(first, count)) continue;
        const std::vector<int> in = incoming(first, count, early, empty);
        const double rounds = std::exp2(count);
        // Places that hold nothing take part in the rounds, too.
        const double outer = static_cast<double>(view_.value_count(lines_ & ~mask_of(in)));
        if (rounds * outer > kMostRegion) continue;
        add(MoveKind::kSkew, with(first, in), rounds * (outer + 1) / 4 + rounds * std::ceil(outer / 4),
            first);
      }
    }
  }

  void gather(MoveKind kind, int first, int count) {
    SlotState after = state_;
    bool any = false;
    for (int slot = first; slot < first + count; ++slot) {
      any = any || after[static_cast<size_t>(slot)] != kEverywhere;
      after[static_cast<size_t>(slot)] = kEverywhere;
    }
    if (!any) return;
    const bool pairs = state_[static_cast<size_t>(shape_.first(Level::kMab))] >= 0;
    const double n = values(after);
    const double per_step = pairs ? 8 : 4;
    const double taken = kind == MoveKind::kGatherPe ? std::max(n, n_ * 4) / per_step : n / per_step;
    if (n <= 2048) add(kind, after, n_ / 4 + taken);
  }

  void deal_mab() {
    const int first = shape_.first(Level::kMab);
    for (int slot = first; slot < first + shape_.mab; ++slot) {
      if (state_[static_cast<size_t>(slot)] != kNothing) return;
    }
    std::vector<int> in = incoming(first, shape_.mab);
    // Bits that could stay in the address go along: the MABs are there.
    BitMask used = mask_of(in);
    for (int& bit : in) {
      if (bit >= 0) continue;
      for (const int other : bits_of(lines_ & ~used)) {
        bit = other;
        used |= mask_of(other);
        break;
      }
    }
    const SlotState after = with(first, in);
    add(MoveKind::kDealMab, after, larger(after) / 4 + values(after) / 4);
  }

  void spread(MoveKind kind, Level level, double steps) {
    SlotState after = state_;
    for (int slot = shape_.first(level); slot < shape_.first(level) + shape_.count(level); ++slot) {
      if (state_[static_cast<size_t>(slot)] != kNothing) return;
      after[static_cast<size_t>(slot)] = kEverywhere;
    }
    add(kind, after, steps);
  }

  void select() {
    SlotState after = state_;
    bool any = false;
    for (size_t slot = static_cast<size_t>(shape_.word); slot < after.size(); ++slot) {
      if (state_[slot] != kEverywhere || !is_line(goal_[slot])) continue;
      after[slot] = goal_[slot];
      any = true;
    }
    if (any) add(MoveKind::kSelect, after, values(after) / 4 + kSetUp);
  }

  void swap_l1b(int slot) {
    const int first = slot;
    const std::vector<int> in = incoming(first, 1);
    const SlotState after = with(first, in);
    const double n = larger(after);
    add(MoveKind::kSwapL1b, after, std::max(n / 2, lanes_ * n / kBlockLw) + kSetUp, slot);
  }

  void shuffle_l1b() {
    const int nb = shape_.l1b;
    if (nb == 0 || nb > 3 || shape_.lane_bits() > 6 || shape_.lane_bits() < 3 + nb) return;
    const int k = shape_.lane_bits();
    const int lane = shape_.first(Level::kPe);
    const std::vector<int> l1b = contents(state_, shape_.first(Level::kL1b), nb);
    // The new upper lanes: some come from the lines in front (few lanes), the others are free.
    std::vector<int> order;
    BitMask used = 0;
    const auto pick = [&](int slot, bool from_lines) {
      const int bit = goal_[static_cast<size_t>(slot)];
      const bool there = is_line(bit) || (!from_lines && std::ranges::find(l1b, bit) != l1b.end());
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
        for (const int other : bits_of(lines_ & ~used)) {
          if ((wanted_at_[static_cast<size_t>(other)] >= 0) != elsewhere) continue;
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
    const Emitter::ShuffleBits bits = Emitter::shuffle_bits(view_, state_, order);
    SlotState after = state_;
    for (int j = 0; j < nb; ++j) {
      const int bit = bits.up[static_cast<size_t>(3 + j)];
      after[static_cast<size_t>(shape_.first(Level::kL1b) + j)] =
          static_cast<int8_t>(bit >= 0 ? bit : kNothing);
    }
    for (int j = 0; j < k; ++j) {
      const int bit = bits.down[static_cast<size_t>(j)];
      after[static_cast<size_t>(lane + j)] = static_cast<int8_t>(bit >= 0 ? bit : kNothing);
    }
    const double n = larger(after);
    double full = 1;
    for (const int bit : l1b) full *= bit >= 0 ? 2 : 1;
    add(MoveKind::kShuffleL1b, after,
        n_ / 4 + values(after) / 4 + std::max(1.0, lanes_ * n_ / kBlockLw) * full +
            std::max(1.0, lanes_ * n / 32),
        0, order);
  }

  void gather_l1b() {
    const int nb = shape_.l1b;
    const int k = shape_.lane_bits();
    if (nb == 0 || k < 3) return;
    SlotState after = state_;
    const std::vector<int> l1b = contents(state_, shape_.first(Level::kL1b), nb);
    const std::vector<int> lane_bits = contents(state_, shape_.first(Level::kPe), k);
    std::vector<int> dealt(lane_bits.begin(), lane_bits.begin() + 3);
    dealt.insert(dealt.end(), l1b.begin(), l1b.end());
    dealt.insert(dealt.end(), lane_bits.begin() + 3, lane_bits.end());
    bool any = false;
    for (int j = 0; j < nb; ++j) {
      int8_t& slot = after[static_cast<size_t>(shape_.first(Level::kL1b) + j)];
      any = any || slot >= 0;
      slot = kEverywhere;
    }
    if (!any) return;
    for (int j = 0; j < k; ++j) {
      const int bit = dealt[static_cast<size_t>(j)];
      after[static_cast<size_t>(shape_.first(Level::kPe) + j)] =
          static_cast<int8_t>(bit >= 0 ? bit : kNothing);
    }
    const double n = values(after);
    if (n <= 2048)
      add(MoveKind::kGatherL1b, after, n_ / 4 + lanes_ * n_ / 32 + l1bs_ * lanes_ * n_ / kBlockLw + n / 4);
  }

  void l2bs() {
    const int first = shape_.first(Level::kL2b);
    if (shape_.l2b == 0) return;
    // All slots that aren't right, and each alone.
    std::vector<std::vector<int>> choices;
    std::vector<int> wrong;
    for (int k = 0; k < shape_.l2b; ++k) {
      const auto slot = static_cast<size_t>(first + k);
      if (state_[slot] != goal_[slot]) wrong.push_back(k);
    }
    if (!wrong.empty()) choices.push_back(wrong);
    // Bit by bit: few transfers, each with its start-up.
    if (wrong.size() > 1 && n_ <= 64) {
      for (const int k : wrong) choices.push_back({k});
    }
    for (const auto& slots : choices) {
      SlotState after = state_;
      BitMask used = 0;
      std::vector<int> open;
      for (const int k : slots) {
        const auto slot = static_cast<size_t>(first + k);
        const int bit = goal_[slot];
        if (is_line(bit)) {
          after[slot] = static_cast<int8_t>(bit);
          used |= mask_of(bit);
        } else {
          open.push_back(k);
        }
      }
      const std::vector<int> fill = fillers(used);
      size_t next = 0;
      int changed = static_cast<int>(slots.size() - open.size());
      for (const int k : open) {
        const auto slot = static_cast<size_t>(first + k);
        if (state_[slot] < 0 && goal_[slot] < 0) continue;
        const bool leave_empty = goal_[slot] == kNothing || next >= fill.size();
        after[slot] = static_cast<int8_t>(leave_empty ? kNothing : fill[next++]);
        ++changed;
      }
      if (changed == 0) continue;
      const double n = larger(after);
      const double line_lw = lanes_ * l1bs_;
      const double transfers = std::exp2(changed) * l2bs_;
      const double rounds = 1 - 1 / std::exp2(changed);
      add(MoveKind::kExchangeL2b, after,
          n / 4 + std::max({rounds * line_lw * n / 16 / 4, 2 * lanes_ * n / 32, 4 * rounds * transfers}) +
              60);
    }
    SlotState all = state_;
    double copies = 1;
    bool any = false;
    for (int k = 0; k < shape_.l2b; ++k) {
      int8_t& slot = all[static_cast<size_t>(first + k)];
      if (slot >= 0) copies *= 2;
      any = any || slot != kEverywhere;
      slot = kEverywhere;
    }
    const double n = values(all);
    if (any && n <= 2048 && copies > 1) {
      add(MoveKind::kGatherL2b, all,
          n_ / 4 + n / 4 + lanes_ * (n_ + n) / 32 + lanes_ * l1bs_ * n / 16 / 4 + 90);
    }
    spread(MoveKind::kSpreadL2b, Level::kL2b, n_ / 2 + lanes_ * n_ / 16 + lanes_ * l1bs_ * n_ / 16 / 2 + 90);
  }

  const BitView& view_;
  const SlotState& state_;
  const SlotState& goal_;
  const SlotShape& shape_;
  BitMask lines_;
  double n_;
  double lanes_ = 0;
  double l1bs_ = 0;
  double l2bs_ = 0;
  std::vector<int> wanted_at_;
  std::vector<Move> moves_;
};

}  // namespace

std::vector<Move> moves_from(const BitView& view, const SlotState& state, const SlotState& goal) {
  return Generator(view, state, goal).run();
}

}  // namespace kodama::layout
