#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
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
using isa::Width;

template <bool kToPes>
void propose_gather(MoveProposals& here) {
  const int first = here.shape.first(kToPes ? Level::kPe : Level::kMab);
  const int count = kToPes ? here.shape.lane_bits() : here.shape.mab;
  SlotState after = here.state;
  bool any = false;
  for (int slot = first; slot < first + count; ++slot) {
    any = any || after[static_cast<size_t>(slot)] != kEverywhere;
    after[static_cast<size_t>(slot)] = kEverywhere;
  }
  if (!any) return;
  const bool pairs = here.state[static_cast<size_t>(here.shape.first(Level::kMab))] >= 0;
  const double n = here.values(after);
  const double per_step = pairs ? 8 : 4;
  const double taken = kToPes ? std::max(n, here.n * 4) / per_step : n / per_step;
  if (n <= kMostCopies) here.add(after, here.n / 4 + taken);
}

template <bool kToPes>
class GatherLanes : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  void write() {
    const std::vector<int> lane_bits = contents(move_.before, shape_.first(Level::kPe), shape_.lane_bits());
    const BitMask kept = kToPes ? 0 : mask_of(lane_bits[0]) | mask_of(lane_bits[1]);
    const int m0 = lane_bits[SlotShape::kPeBits];
    const bool wide = m0 >= 0 && at_.after.stride[static_cast<size_t>(m0)] == 1 && at_.after.base % 2 == 0 &&
                      (!view_.has_gaps(m0) || at_.after.base > 0);  // a layout of the user has base 0
    if (kToPes && !wide) {
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
        lines.emplace_back(extract_bits(inner, parts.inner), value);
        up.push_back({lines.back().first, address(at_.before, value)});
      }
      code_.lines_up(std::move(up), at_.before.memory, buffer.base);
      for (const auto& [line, value] : lines) {
        // Lanes that a step reads: with l1bmm PE p reads those that are p mod 4.
        const int64_t unit = kToPes ? 1 : isa::kPePerMab;
        const int64_t step = unit * isa::kCyclesPerStep * (wide ? 2 : 1);
        for (int64_t lane = 0; lane < lanes(); lane += step) {
          std::array<int64_t, 4> addresses{};
          uint8_t cycles = 0;
          for (int64_t c = 0; c < isa::kCyclesPerStep; ++c) {
            // h of cycle c; l is four lanes further on.
            const int64_t at = lane + (kToPes ? c : (wide ? 8 : 4) * c);
            if (at >= lanes()) continue;  // of an L1B with few MABs
            const auto lane_value = spread_bits(kToPes ? at : at & ~int64_t{3}, lane_bits);
            if (!lane_value || !is_valid(value | *lane_value, of_after)) continue;
            addresses[static_cast<size_t>(c)] = address(at_.after, value | *lane_value);
            cycles |= static_cast<uint8_t>(8 >> c);
          }
          if (cycles == 0) continue;
          code_.add(make_instruction(
              kToPes ? Opcode::kL1bmp : Opcode::kL1bmm, Precision::kNone,
              Code::l1bm(buffer.base + line * lanes() + lane, wide),
              written(at_.after.memory, addresses, cycles, wide ? Width::kDoubleLong : Width::kLong)));
        }
      }
    }
    for (const LineBuffer& buffer : buffers) give_back(buffer);
  }

 private:
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
        if (is_valid(inner | outer, before_bits())) values[extract_bits(inner, parts.inner)] = inner | outer;
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
};

MoveNeeds gather_lanes_needs(const BitView& view, const Move& move) {
  MoveNeeds needs;
  const int m0 = move.before[static_cast<size_t>(view.shape.first(Level::kMab))];
  if (m0 >= 0) {
    needs.target_has_one = true;
    needs.target_one = m0;
  }
  return needs;
}

}  // namespace

MovePrimitive all_gather_mab_primitive() {
  return {.name = "all-gather-mab",
          .description = "MAB bits -> address; every MAB gets all",
          .precondition = "",
          .cost = "n/4 + lanes * n / 32",
          .overlap = {.uses_t = false},
          .propose = propose_gather<false>,
          .needs = gather_lanes_needs,
          .emit = emit_with<GatherLanes<false>>};
}

MovePrimitive all_gather_pe_primitive() {
  return {.name = "all-gather-pe",
          .description = "PE and MAB bits -> address; every PE gets all",
          .precondition = "",
          .cost = "n/4 + lanes * n / 8",
          .overlap = {.uses_t = false},
          .propose = propose_gather<true>,
          .needs = gather_lanes_needs,
          .emit = emit_with<GatherLanes<true>>};
}

}  // namespace kodama::layout
