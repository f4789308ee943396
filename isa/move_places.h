#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "isa/chip.h"
#include "isa/instruction.h"

/// Where the data are that a Movement moves: the formulas of section 6 of the ISA page, for costs and engine.
namespace kodama::isa {

// ---- L1BM and L2BM -------------------------------------------------------------------------------------

/// LW in L1BM of one step of an L1BM instruction, from its address on. They are in blocks of four: for the
/// PEs of a MAB, or, where all PEs have the same, for the cycles. With double long words a second block
/// follows each.
struct L1bmLayout {
  int halves = 1;  ///< 2: v.h and v.l
  int blocks = 1;  ///< of different MABs, in one cycle
  int mabs_per_block = 1;
  bool one_for_all_pes = false;

  int64_t lw() const { return int64_t{kPePerMab} * halves * blocks * (one_for_all_pes ? 1 : kCyclesPerStep); }
  /// The block of a MAB is `mab / mabs_per_block`. `half`: 0 = v.h, 1 = v.l.
  int64_t offset(int cycle, int half, int block, int pe) const {
    const int row = block + (one_for_all_pes ? 0 : blocks * cycle);
    return int64_t{kPePerMab} * (halves * row + half) + (one_for_all_pes ? cycle : pe);
  }
};
inline L1bmLayout l1bm_layout(const Movement& movement, Width width, const Chip& chip) {
  const bool shared_by_all = movement.shared_by == kAllUnits;
  const int mabs = shared_by_all ? chip.mab_per_l1b : movement.shared_by;
  return {.halves = movement.double_long && width == Width::kDoubleLong ? 2 : 1,
          .blocks = chip.mab_per_l1b / mabs,
          .mabs_per_block = mabs,
          .one_for_all_pes = movement.lw_per_cycle == 1};
}

/// LW of one step of an L2BM instruction, from its addresses on: in each L1BM, and in the L2BM.
struct L2bmLayout {
  int lw_per_cycle = 0;  ///< in an L1BM
  int parts = 1;         ///< of different L1Bs, in the L2BM
  int l1bs_per_part = 1;

  int64_t l1bm_lw() const { return int64_t{kCyclesPerStep} * lw_per_cycle; }
  int64_t l2bm_lw() const { return l1bm_lw() * parts; }
  /// In the L2BM, of the first of the LW of an L1B in one cycle.
  int64_t offset(int cycle, int part) const { return int64_t{lw_per_cycle} * (parts * cycle + part); }
};
inline L2bmLayout l2bm_layout(const Movement& movement, const Chip& chip) {
  const int l1bs = movement.shared_by == kAllUnits ? chip.l1b_per_l2b : movement.shared_by;
  return {.lw_per_cycle = movement.lw_per_cycle, .parts = chip.l1b_per_l2b / l1bs, .l1bs_per_part = l1bs};
}
/// How many MABs or L1Bs `@<k>` chooses from.
inline int choices(const Movement& movement, const Chip& chip) {
  if (movement.shared_by != kAllUnits) return movement.shared_by;
  return movement.way == Movement::Way::kPeToL1bm ? chip.mab_per_l1b : chip.l1b_per_l2b;
}

// ---- MV ------------------------------------------------------------------------------------------------

/// LW in which MVs deal out data.
inline constexpr int64_t kSpreadUnit = 16;

/// One side of an MV: which memories, and which of its LW are where.
class MvSide {
 public:
  MvSide(MoveSide side, const Operand& operand, bool in_each_group, const Chip& chip);

  /// Calls visit(group, L2B of the group, LW in that memory) for every memory that has LW `i` of the MV, the
  /// first of a unit. `group`: that of the transfer, where groups move for themselves.
  template <typename Visit>
  void for_each_place(int group, int64_t i, Visit&& visit) const {
    if (side_ == MoveSide::kDealt) {
      const int64_t unit = i / kSpreadUnit;
      const auto part = static_cast<int>(unit % parts());
      const int per_group = parts_per_group();
      visit(part / per_group, part % per_group, unit / parts() * kSpreadUnit + i % kSpreadUnit);
      return;
    }
    for_each_whole(group, [&](int g, int l) { visit(g, l, i); });
  }
  /// Calls visit(group, L2B of the group, LW) for every memory that takes part in an MV of `lw`.
  template <typename Visit>
  void for_each_memory(int group, int64_t lw, Visit&& visit) const {
    if (side_ != MoveSide::kDealt) {
      for_each_whole(group, [&](int g, int l) { visit(g, l, lw); });
      return;
    }
    for (int part = 0; part < parts(); ++part) {
      const int64_t rest = lw % (kSpreadUnit * parts()) - kSpreadUnit * part;
      const int64_t own =
          lw / (kSpreadUnit * parts()) * kSpreadUnit + std::clamp<int64_t>(rest, 0, kSpreadUnit);
      if (own > 0) visit(part / parts_per_group(), part % parts_per_group(), own);
    }
  }
  /// Different LW of the MV in the memories of a group.
  int64_t group_lw(int transfer_group, int64_t lw, int group) const;
  /// Whether a memory holds the LW of the MV in their order.
  bool is_linear() const { return side_ != MoveSide::kDealt; }
  /// Memories whose values a reduction joins first: the L2Bs of a group, or the groups.
  int reduced_first() const { return side_ == MoveSide::kFirstOfGroup ? groups_ : l2b_per_group_; }

 private:
  int parts() const { return groups_ * parts_per_group(); }
  int parts_per_group() const { return is_l2bm_ ? l2b_per_group_ : 1; }
  template <typename Visit>
  void for_each_whole(int group, Visit&& visit) const {
    switch (side_) {
      case MoveSide::kNamed:
      case MoveSide::kNamedOrFirst:
        visit(in_each_group_ ? group : group_, l2b_);
        return;
      case MoveSide::kEachGroup:
        visit(group, 0);
        return;
      case MoveSide::kFirstOfGroup:
        for (int g = 0; g < groups_; ++g) visit(g, 0);
        return;
      case MoveSide::kEvery:
        for (int g = in_each_group_ ? group : 0; g < (in_each_group_ ? group + 1 : groups_); ++g) {
          for (int l = 0; l < l2b_per_group_; ++l) visit(g, l);
        }
        return;
      case MoveSide::kDealt:
        return;
    }
  }

  MoveSide side_;
  bool in_each_group_;
  bool is_l2bm_;
  int group_;
  int l2b_;
  int groups_;
  int l2b_per_group_;
};

/// The sides of an MV that moves something, and how many transfers side by side it is.
struct MvPlaces {
  MvPlaces(const Instruction& mv, const Chip& chip);

  bool in_each_group;  ///< one transfer in each group, with its number
  int transfers;
  MvSide source;
  MvSide destination;
};

/// One end of an MV: `length` LW from `begin` in one DRAM, PDM or L2BM.
struct Endpoint {
  Space space;
  int place;  ///< group, or L2B over the chip
  int64_t begin;
  int64_t length;
  bool write;
  bool indirect = false;
};

struct TransferShape {
  std::vector<Endpoint> endpoints;
  std::map<std::pair<int, int>, int64_t> paths;  ///< LW from group to group
};
/// InternalError for an instruction that isn't an MV.
TransferShape transfer_shape(const Instruction& mv, const Chip& chip);

}  // namespace kodama::isa
