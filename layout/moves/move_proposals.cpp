#include "layout/moves/move_proposals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "isa/error.h"
#include "passes/registry.h"

namespace kodama::layout {
namespace {

double number_of(int bits) {
  return static_cast<double>(int64_t{1} << bits);
}

}  // namespace

MoveProposals::MoveProposals(const BitView& view_of, const SlotState& now, const SlotState& end)
    : view(view_of),
      state(now),
      goal(end),
      shape(view_of.shape),
      lines(view_of.address_bits(now)),
      n(static_cast<double>(view_of.value_count(lines))),
      lanes(number_of(shape.lane_bits())),
      l1bs(number_of(shape.l1b)),
      l2bs(number_of(shape.l2b)),
      wanted_at_(view_of.bits.size(), -1) {
  for (size_t slot = 0; slot < goal.size(); ++slot) {
    if (goal[slot] >= 0) wanted_at_[static_cast<size_t>(goal[slot])] = static_cast<int>(slot);
  }
}

void MoveProposals::ask(const MovePrimitive& primitive) {
  primitive_ = &primitive;
  passes::run_blaming("move primitive", primitive, [&] { primitive.propose(*this); });
}

void MoveProposals::add(SlotState after, double steps, int slot, int slot_count, std::vector<int> order) {
  // What Kodama's own propose is tested; this is called millions of times.
  if (!primitive_->plugin.empty()) check(after, steps);
  if (after == state || !is_useful(after)) return;
  moves_.push_back(
      {primitive_, state, std::move(after), steps + kMoveSetUp, slot, slot_count, std::move(order)});
}

void MoveProposals::check(const SlotState& after, double steps) const {
  const auto demand = [](bool holds, const std::string& found) {
    isa::check_internal(holds, "move proposals", "{}", found);
  };
  demand(after.size() == state.size(), fmt::format("{} slots, there are {}", after.size(), state.size()));
  demand(std::isfinite(steps) && steps >= 0, fmt::format("a move of {} steps", steps));
  BitMask used = 0;
  bool between_l2bs = false;
  for (size_t slot = 0; slot < after.size(); ++slot) {
    const int content = after[slot];
    demand(content >= kEverywhere && content < view.bit_count(),
           fmt::format("slot {} is to hold {}, there are {} bits", slot, content, view.bit_count()));
    demand(content < 0 || (used >> content & 1) == 0, fmt::format("bit {} is in two slots", content));
    used |= mask_of(content);
    between_l2bs = between_l2bs || (content != state[slot] && state[slot] != kEverywhere &&
                                    shape.level(static_cast<int>(slot)) == Level::kL2b);
  }
  demand(!between_l2bs || steps >= 2 * view.transfer.start,
         fmt::format("a move between L2Bs in {} steps, two transfers take {} to start", steps,
                     2 * view.transfer.start));
}

double MoveProposals::values(const SlotState& of) const {
  return static_cast<double>(view.value_count(view.address_bits(of)));
}

SlotState MoveProposals::with(int first, const std::vector<int>& bits) const {
  SlotState after = state;
  for (size_t k = 0; k < bits.size(); ++k)
    after[static_cast<size_t>(first) + k] = static_cast<int8_t>(bits[k] >= 0 ? bits[k] : kNothing);
  return after;
}

SlotState MoveProposals::spread(Level level) const {
  SlotState after = state;
  for (int slot = shape.first(level); slot < shape.first(level) + shape.count(level); ++slot) {
    if (state[static_cast<size_t>(slot)] != kNothing) return {};
    after[static_cast<size_t>(slot)] = kEverywhere;
  }
  return after;
}

/// Whether a slot becomes right, or a bit that belongs into another slot is free to go there.
bool MoveProposals::is_useful(const SlotState& after) const {
  for (size_t slot = 0; slot < after.size(); ++slot) {
    if (after[slot] == state[slot]) continue;
    if (after[slot] == goal[slot] || after[slot] == kEverywhere) return true;
    const int left = state[slot];
    if (left >= 0 && wanted_at_[static_cast<size_t>(left)] != static_cast<int>(slot) &&
        (wanted_at_[static_cast<size_t>(left)] >= 0 || goal[slot] != kNothing || after[slot] == kNothing))
      return true;
    // Where nothing is yet: less for everything that follows.
    if (after[slot] >= 0 && state[slot] == kNothing && shape.level(static_cast<int>(slot)) == Level::kMab)
      return true;
    // On its way through the lanes to an L1B.
    if (after[slot] >= 0 && wanted_at_[static_cast<size_t>(after[slot])] >= shape.first(Level::kL1b))
      return true;
  }
  return false;
}

std::vector<int> MoveProposals::fillers(BitMask used) const {
  std::vector<int> fill;
  for (const bool uneven : {false, true}) {
    for (const bool elsewhere : {false, true}) {
      for (const int bit : bits_of(lines & ~used)) {
        const auto at = static_cast<size_t>(bit);
        const int64_t size = view.digits[static_cast<size_t>(view.bits[at].digit)].size;
        if ((wanted_at_[at] >= 0) == elsewhere && ((size & (size - 1)) != 0) == uneven) fill.push_back(bit);
      }
    }
  }
  return fill;
}

std::vector<int> MoveProposals::incoming(int first, int count, const std::vector<int>& ahead,
                                         bool empty) const {
  std::vector<int> chosen(static_cast<size_t>(count), -1);
  BitMask used = 0;
  for (int k = 0; k < count; ++k) {
    const auto at = static_cast<size_t>(k);
    int bit = at < ahead.size() ? ahead[at] : -1;
    if (!is_line(bit)) bit = goal[static_cast<size_t>(first + k)];
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
    if (goal[static_cast<size_t>(first + k)] == kNothing &&
        (empty || state[static_cast<size_t>(first + k)] < 0))
      continue;
    bit = fill[next++];
  }
  return chosen;
}

bool MoveProposals::must_empty(int first, int count) const {
  for (int slot = first; slot < first + count; ++slot) {
    if (goal[static_cast<size_t>(slot)] == kNothing && state[static_cast<size_t>(slot)] >= 0) return true;
  }
  return false;
}

}  // namespace kodama::layout
