#include <array>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "layout/moves/move_emission.h"
#include "layout/moves/move_proposals.h"
#include "layout/primitives/primitive_list.h"

namespace kodama::layout {
namespace {

/// Runs of lanes that are to hold nothing, all of them, and all upper lanes.
void propose_collect(MoveProposals& here) {
  const int first = here.shape.first(Level::kPe);
  const int end = first + here.shape.lane_bits();
  std::set<SlotState> results;
  SlotState all = here.state;
  for (int low = first; low < end; ++low) {
    const auto lowest = static_cast<size_t>(low);
    if (here.state[lowest] >= 0 && here.goal[lowest] == kNothing) all[lowest] = kNothing;
    SlotState after = here.state;
    bool to_empty = true;
    for (int high = low; high < end; ++high) {
      const auto slot = static_cast<size_t>(high);
      if (here.state[slot] == kEverywhere) break;
      to_empty = to_empty && here.goal[slot] == kNothing;
      after[slot] = kNothing;
      if (here.state[slot] >= 0 && (to_empty || high + 1 == end)) results.insert(after);
    }
  }
  results.insert(all);
  for (const SlotState& after : results) {
    const double n = here.values(after);
    if (n <= kMostRegion) here.add(after, here.n / 4 + n / 4);
  }
}

class Collect : public MoveEmission {
 public:
  using MoveEmission::MoveEmission;

  /// In every round all PEs read some lanes further on: as many as bits of the slots that become empty make,
  /// so that PEs that have 0 in these slots get what has those bits.
  void write() {
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
};

}  // namespace

MovePrimitive collect_primitive() {
  return {.name = "collect",
          .description = "any lane bits -> address, in rotations",
          .precondition = "",
          .cost = "n/4 + n/4 of what is then in the address",
          .overlap = {.uses_t = false},
          .propose = propose_collect,
          .emit = emit_with<Collect>};
}

}  // namespace kodama::layout
