#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "isa/chip.h"
#include "layout/algebra/layout.h"

/// The road between a group's DRAM and the PEs, through L2BM and L1BM, as one move primitive.
///
/// Each PE sees a *stream* of long words, numbered 0, 1, 2, …; a tile of the stream is a range of it. On
/// each level of the tree the road either distributes (every child gets its own data) or broadcasts
/// (all children get the same data, which is stored once). The stream's element (L2B q, L1B b, MAB m,
/// PE p, number a) is kept in DRAM at
///
///     u = a * fan_in + rank       L1BM order: distribute  fan_in = 4 * MABs, rank = 4m + p   (l1bmd)
///                                             broadcast MABs  fan_in = 4, rank = p            (l1bmm)
///                                             broadcast PEs   fan_in = 1, rank = 0            (l1bmp)
///     C = 8 * L1Bs * (u / 8) + 8b + u % 8     L2BM order, distribute (l2bmd)
///     C = u                                   broadcast (l2bmb)
///     C = 2 * 64 * (u / 64) + 64 (b % 2) + u % 64     parity: L1Bs of even number one thing, the others
///                                                     another (l2bmb to one half, then the other)
///     DRAM = C, in the part of L2B q of its group's DRAM (mvp), once per group (mvb2), once in group 0
///            (mvb), or dealt over the groups' DRAMs in runs of 16 LW (mvb4)
///     exchanged: L2Bs of the same number in all groups get the same, of which every group's DRAM has a
///     share,
///            dealt in runs of run_lw(). Each of them loads its group's (mvp), and has the others' from L2BMs
///            of other groups: of a range of whole granules, L2BM has the groups' shares one after the other
///
/// so a tile of consecutive stream numbers is a contiguous range of DRAM on every level, and no index
/// arithmetic is left for the chip.
namespace kodama::layout {

enum class L2bMode : uint8_t { kDistribute, kBroadcastInGroup, kBroadcast, kBroadcastDealt, kExchanged };
inline constexpr std::array<const char*, 5> kL2bModeNames = {"distribute", "broadcast in group", "broadcast",
                                                             "broadcast from all groups", "exchanged"};
enum class L1bMode : uint8_t { kDistribute, kBroadcast, kParity };
enum class MabMode : uint8_t { kDistribute, kBroadcastMab, kBroadcastPe };

class Transport {
 public:
  Transport() = default;
  /// kParity goes with MABs that distribute.
  Transport(const isa::Chip& chip, L2bMode l2b, L1bMode l1b, MabMode mab);

  L2bMode l2b_mode() const { return l2b_; }
  L1bMode l1b_mode() const { return l1b_; }
  MabMode mab_mode() const { return mab_; }

  /// LW of the L1BM (L2BM, one L2B's part of DRAM) that hold one stream number.
  int64_t l1bm_lw_per_number() const { return fan_in_; }
  int64_t l2bm_lw_per_number() const {
    return fan_in_ * (l1b_ == L1bMode::kDistribute ? l1b_count_ : l1b_ == L1bMode::kParity ? 2 : 1);
  }
  /// Stream numbers that one instruction sequence moves at least (so that every level is aligned):
  /// tiles and streams are padded to a multiple of it.
  int64_t granule() const { return granule_; }
  /// Groups that a part is dealt over: of what an L2BM gets, each group's DRAM has this share.
  int64_t dealt_over() const {
    return l2b_ == L2bMode::kBroadcastDealt || l2b_ == L2bMode::kExchanged ? groups_ : 1;
  }
  /// LW of such a part in one group before the next LW of it are in another.
  int64_t run_lw() const;
  /// Of what L2Bs exchange: the place of a group's share among those of all groups, in L2BMs with this number
  /// in their groups, and the group whose share has a place. Those of odd number have groups in the order of
  /// their bits from the other end, so that paths between groups are used alike.
  int share_place(int group, int64_t l2b_in_group) const;
  /// Where L2BM has LW `at` of a range of `lw` that begins and ends with a granule.
  int64_t l2bm_place(int64_t at, int64_t lw) const;
  /// LW of DRAM, per part and group, of a stream of `numbers` (rounded up to the granule).
  int64_t part_lw(int64_t numbers) const;
  /// LW of a part in a group's DRAM before stream number `number`, the first of a granule.
  int64_t part_offset(int64_t number) const { return number * l2bm_lw_per_number() / dealt_over(); }
  /// Stream numbers, a multiple of the granule, with at least `lw` LW of a part in a group's DRAM.
  int64_t numbers_over(int64_t lw) const;
  /// Parts per group's DRAM: one per L2B when distributing, else 1.
  int parts_per_group() const;
  /// Groups whose DRAM holds parts: all, or 1 when broadcasting from group 0.
  int groups_used() const;

  /// Where a stream element lives. `place` uses the levels L2B, L1B, MAB, PE and address (= number);
  /// levels that broadcast are ignored. `stream_numbers` is the stream's length.
  struct DramPlace {
    int group = 0;
    int64_t address = 0;  ///< LW relative to the stream's base address
    bool operator==(const DramPlace&) const = default;
  };
  DramPlace dram_place(const Coordinates& place, int64_t stream_numbers) const;

  /// "L2B distribute, L1B broadcast, MAB distribute".
  std::string to_string() const;
  bool operator==(const Transport&) const = default;

 private:
  L2bMode l2b_ = L2bMode::kDistribute;
  L1bMode l1b_ = L1bMode::kDistribute;
  MabMode mab_ = MabMode::kDistribute;
  int groups_ = 1;
  int l2b_per_group_ = 1;
  int l1b_count_ = 1;
  int mab_count_ = 1;
  int64_t fan_in_ = 1;
  int64_t granule_ = 1;
};

}  // namespace kodama::layout
