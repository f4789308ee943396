#include "isa/move_places.h"

#include "isa/error.h"

namespace kodama::isa {
namespace {

/// Groups move for themselves where a side is one memory of each, or where neither side names its group.
bool moves_in_each_group(const Movement& movement, const Operand& source, const Operand& destination) {
  const auto& [from, to] = movement.sides;
  if (from == MoveSide::kEachGroup || to == MoveSide::kEachGroup) return true;
  return from == MoveSide::kNamed && to == MoveSide::kNamed && source.group < 0 && destination.group < 0;
}

}  // namespace

MvSide::MvSide(MoveSide side, const Operand& operand, bool in_each_group, const Chip& chip)
    : side_(side),
      in_each_group_(in_each_group),
      is_l2bm_(operand.space == Space::kL2bm),
      group_(std::max<int>(operand.group, 0)),
      l2b_(std::max<int>(operand.unit, 0)),
      groups_(chip.groups),
      l2b_per_group_(chip.l2b_per_group) {}

int64_t MvSide::group_lw(int transfer_group, int64_t lw, int group) const {
  int64_t sum = 0;
  for_each_memory(transfer_group, lw, [&](int g, int, int64_t own) {
    if (g == group) sum = is_linear() ? own : sum + own;
  });
  return sum;
}

MvPlaces::MvPlaces(const Instruction& mv, const Chip& chip)
    : in_each_group(moves_in_each_group(movement(mv), mv.sources.at(0), mv.destinations.at(0))),
      transfers(in_each_group ? chip.groups : 1),
      source(movement(mv).sides[0], mv.sources.at(0), in_each_group, chip),
      destination(movement(mv).sides[1], mv.destinations.at(0), in_each_group, chip) {}

TransferShape transfer_shape(const Instruction& mv, const Chip& chip) {
  check_internal(info(mv.opcode).group == IssueGroup::kMv, "transfer costs", "'{}' is not an MV",
                 mnemonic(mv));
  TransferShape shape;
  if (movement(mv).way != Movement::Way::kTransfer) return shape;
  const MvPlaces places(mv, chip);
  for (int transfer = 0; transfer < places.transfers; ++transfer) {
    const auto add = [&](const MvSide& side, const Operand& operand, bool write) {
      const bool indirect = operand.space == Space::kDramIndirect;
      const bool is_l2bm = operand.space == Space::kL2bm;
      side.for_each_memory(transfer, mv.size_lw, [&](int group, int l2b, int64_t lw) {
        if (lw <= 0) return;
        shape.endpoints.push_back({indirect ? Space::kDram : operand.space,
                                   is_l2bm ? group * chip.l2b_per_group + l2b : group, operand.base, lw,
                                   write, indirect});
      });
    };
    add(places.source, mv.sources[0], false);
    add(places.destination, mv.destinations[0], true);
    // What a group has and another one gets passes between them once, however many L2Bs have it.
    for (int from = 0; from < chip.groups; ++from) {
      const int64_t has = places.source.group_lw(transfer, mv.size_lw, from);
      if (has == 0) continue;
      for (int to = 0; to < chip.groups; ++to) {
        const int64_t lw = std::min(has, places.destination.group_lw(transfer, mv.size_lw, to));
        if (from != to && lw > 0) shape.paths[{from, to}] += lw;
      }
    }
  }
  return shape;
}

}  // namespace kodama::isa
