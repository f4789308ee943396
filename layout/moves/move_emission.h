#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "layout/moves/move_primitive.h"

/// What the code of all move primitives shares.
namespace kodama::layout {

/// One move being written.
class MoveEmission {
 public:
  MoveEmission(const BitView& view, const Move& move, const MoveAddresses& at, Code& code)
      : view_(view), move_(move), at_(at), code_(code), chip_(code.chip()), shape_(view.shape) {}

 protected:
  int64_t lanes() const { return code_.lanes(); }
  BitMask before_bits() const { return view_.address_bits(move_.before); }
  bool is_valid(BitMask value, BitMask of) const { return view_.is_valid(value, of); }

  /// A destination in some cycles only; the addresses of the others are replaced.
  isa::Operand written(Memory memory, std::array<int64_t, 4> addresses, uint8_t cycles,
                       isa::Width width) const {
    int64_t valid = 0;
    for (size_t c = 0; c < 4; ++c) {
      if ((cycles >> (3 - c) & 1) != 0) valid = addresses[c];
    }
    for (size_t c = 0; c < 4; ++c) {
      if ((cycles >> (3 - c) & 1) == 0) addresses[c] = valid;
    }
    isa::Operand destination = Code::pe(memory, addresses, width, chip_);
    if (cycles != 0b1111) {
      destination.mask.kind = isa::Mask::Kind::kPattern;
      destination.mask.value = cycles;
      destination.mask.double_long = width == isa::Width::kDoubleLong;
    }
    return destination;
  }

  void set_t(const isa::Operand& value) {
    code_.add(make_instruction(isa::Opcode::kPassa, isa::Precision::kInt, value, Code::t()));
  }

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
    std::vector<int> outer;
    // Bits of digits that would leave gaps come last.
    std::vector<int> ordered = at_pace(rest);
    std::stable_partition(ordered.begin(), ordered.end(), [&](int bit) {
      const Bit& own = view_.bits[static_cast<size_t>(bit)];
      return view_.digits[static_cast<size_t>(own.digit)].size % (int64_t{2} << own.power) == 0;
    });
    for (const int bit : ordered) {
      if (int64_t{1} << (result.inner.size() + 1) <= most) {
        result.inner.push_back(bit);
      } else {
        outer.push_back(bit);
      }
    }
    // Digits that are cut between inner and outer ones have values that neither half excludes.
    result.outer = values_at_pace(mask_of(outer));
    return result;
  }
  /// Bits, and values of bits, in the order of MoveAddresses::pace.
  std::vector<int> at_pace(BitMask bits) const {
    std::vector<int> ordered;
    for (const int bit : at_.pace) {
      if ((bits >> bit & 1) != 0) ordered.push_back(bit);
    }
    for (const int bit : bits_of(bits & ~mask_of(ordered))) ordered.push_back(bit);
    return ordered;
  }
  std::vector<BitMask> values_at_pace(BitMask bits) const {
    const std::vector<int> ordered = at_pace(bits);
    std::vector<BitMask> values = view_.values(bits);
    std::ranges::sort(values, {}, [&](BitMask value) { return extract_bits(value, ordered); });
    return values;
  }

  /// Room for chunks on their way by L1BM and L2BM, as many as are under way at a time.
  struct ChunkBuffer {
    LineBuffer up;
    LineBuffer down;
    Region up_l2;
    Region down_l2;  ///< where L2BM is a station twice
    Region pdm;
  };
  struct ChunkSizes {
    int64_t up_lines = 0;
    int64_t down_lines = 0;
    int64_t up_l2_lw = 0;
    int64_t down_l2_lw = 0;
    int64_t pdm_lw = 0;
  };
  std::vector<ChunkBuffer> take_chunk_buffers(size_t count, const ChunkSizes& sizes) {
    std::vector<ChunkBuffer> buffers(count);
    const auto take = [&](Memory memory, int64_t size) {
      return size > 0 ? code_.scratch().take(memory, size, kBlockLw) : Region{};
    };
    for (ChunkBuffer& each : buffers) {
      each.up = line_buffer(sizes.up_lines);
      each.down = line_buffer(sizes.down_lines);
      each.up_l2 = take(Memory::kL2bm, sizes.up_l2_lw);
      each.down_l2 = take(Memory::kL2bm, sizes.down_l2_lw);
      each.pdm = take(Memory::kPdm, sizes.pdm_lw);
    }
    return buffers;
  }
  void give_back(const std::vector<ChunkBuffer>& buffers) {
    for (const ChunkBuffer& each : buffers) {
      give_back(each.up);
      give_back(each.down);
      for (const Region& region : {each.up_l2, each.down_l2, each.pdm}) {
        if (region.size > 0) code_.scratch().give_back(region);
      }
    }
  }

  /// Lines of one chunk to L1BM and, dealt over the L1Bs, to L2BM.
  void up_to_l2bm(const Chunks& parts, BitMask outer, const LineBuffer& up, const Region& l2) {
    std::vector<LineCopy> lines;
    for (const BitMask inner : view_.values(mask_of(parts.inner))) {
      if (!is_valid(inner | outer, before_bits())) continue;
      lines.push_back({extract_bits(inner, parts.inner), address(at_.before, inner | outer)});
    }
    code_.lines_up(lines, at_.before.memory, up.base);
    code_.deal_up(lines, up.base, l2.base);
  }

  // ---- between L2Bs

  static isa::Instruction make_mvp(int64_t lw, isa::Operand source, isa::Operand destination) {
    isa::Instruction mv =
        make_instruction(isa::Opcode::kMvp, isa::Precision::kNone, std::move(source), std::move(destination));
    mv.size_lw = lw;
    return mv;
  }
  isa::Operand l2bm_of(int64_t at, int64_t l2b) const {
    return Code::l2bm(at, static_cast<int>(l2b / chip_.l2b_per_group),
                      static_cast<int>(l2b % chip_.l2b_per_group));
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

  const BitView& view_;
  const Move& move_;
  const MoveAddresses& at_;
  Code& code_;
  const isa::Chip& chip_;
  const SlotShape& shape_;
};

/// MovePrimitive::emit of a class derived from MoveEmission that has `void write()`.
template <typename Emission>
void emit_with(const BitView& view, const Move& move, const MoveAddresses& at, Code& code) {
  Emission(view, move, at, code).write();
}

}  // namespace kodama::layout
