#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "isa/arithmetic.h"
#include "layout/moves/move_emission.h"
#include "layout/moves/move_proposals.h"
#include "layout/primitives/primitive_list.h"

namespace kodama::layout {
namespace {

using isa::FixedConstant;
using isa::Instruction;
using isa::Opcode;
using isa::Operand;
using isa::Space;

void propose_lanes_from(MoveProposals& here, int first, int count) {
  for (const bool ahead : {false, true}) {
    std::vector<int> early;
    if (ahead) {
      // shuffle-l1b sends lanes 3 and up to the L1Bs.
      early.assign(static_cast<size_t>(count), -1);
      const int lane = here.shape.first(Level::kPe) + 3;
      for (int k = 0; k < here.shape.l1b; ++k) {
        if (lane + k >= first && lane + k < first + count)
          early[static_cast<size_t>(lane + k - first)] =
              std::max<int>(here.goal[static_cast<size_t>(here.shape.first(Level::kL1b) + k)], -1);
      }
      if (std::ranges::none_of(early, [&](int bit) { return here.is_line(bit); })) continue;
    }
    for (const bool empty : {false, true}) {
      if (empty && !here.must_empty(first, count)) continue;
      const std::vector<int> in = here.incoming(first, count, early, empty);
      const double rounds = std::exp2(count);
      // Places that hold nothing take part in the rounds, too.
      const double outer = static_cast<double>(here.view.value_count(here.lines & ~mask_of(in)));
      if (rounds * outer > kMostRegion) continue;
      here.add(here.with(first, in), rounds * (outer + 1) / 4 + rounds * std::ceil(outer / 4), first);
    }
  }
}

void propose_skew(MoveProposals& here) {
  const int end = here.shape.first(Level::kPe) + here.shape.lane_bits();
  for (int low = here.shape.first(Level::kPe); low < end; ++low) propose_lanes_from(here, low, end - low);
}

/// Move::slot: the lowest lane that changes.
class Skew : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  /// Round d: PE s sends to PE s + d. Sending reads address s + d + R * o for all o, without a look at the
  /// wrap: PEs that it carries beyond R send the element of the next o, which is what the ones that read
  /// the line before theirs need.
  void write() {
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
};

MoveNeeds skew_needs(const BitView& view, const Move& move) {
  const SlotShape& shape = view.shape;
  MoveNeeds needs;
  const int count = shape.first(Level::kPe) + shape.lane_bits() - move.slot;
  needs.source_lm = needs.target_lm0 = needs.target_lm1 = true;
  needs.source_low = contents(move.after, move.slot, count);
  needs.target_run = contents(move.before, move.slot, count);
  return needs;
}

}  // namespace

MovePrimitive skew_primitive() {
  return {.name = "skew",
          .description = "the upper k lane bits (PE, then MAB bits) <-> k address bits, in 2^k rotations",
          .precondition =
              "source in LM0 or LM1, target in LM0 (or LM1 where a round has work for its base register); "
              "these bits at the lowest strides",
          .cost = "n/4 + (n + 2^k)/4 + setting T, 2 steps a round at least",
          .overlap = {.all_at_end = true},
          .propose = propose_skew,
          .needs = skew_needs,
          .emit = emit_with<Skew>};
}

}  // namespace kodama::layout
