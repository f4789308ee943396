#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/kernels/rows.h"
#include "compiler/tile/tile_program.h"
#include "isa/chip.h"

/// What kernels share that sum over the places of pictures (LoadColumns): pairs of an L2B's L1Bs have lanes
/// of columns, and even and odd L1Bs, and the four MABs of their quads, rows of their own: eight *slots*.
namespace kodama::compiler {

inline constexpr int64_t kColumnSlots = 2 * kBlocksPerChunk;

/// A lane for every pair of L1Bs, a slot for every MAB of a quad.
bool has_column_lanes(const isa::Chip& chip);

/// L2BM, or a part of it, as a ring of regions for a row each: those of all slots, asked for one after the
/// other, are one piece where there is room for that.
class RowRegions {
 public:
  /// Before the first region, for what is read before its row.
  static constexpr int64_t kAheadLw = kUnitLw;
  /// LW around a row that are read with it: with `lanes`, those before the first lane and behind the last,
  /// and where a row has less, the rest of a step's units. They must be of no other row, which would have to
  /// be there, too (scheduler/segment/transfer_parts.h).
  static int64_t beside_lw(const RowOrder& order, bool lanes);
  /// LW of L2BM that rows may have.
  static int64_t room(const isa::Chip& chip);

  /// For rows of at most `row_lw` LW, with what is beside them.
  RowRegions(int64_t row_lw, const isa::Chip& chip) : RowRegions(row_lw, 0, room(chip)) {}
  /// From LW `first` of that room on, `room` of them.
  RowRegions(int64_t row_lw, int64_t first, int64_t room);
  int64_t lw() const { return lw_; }        ///< of a region
  int64_t count() const { return count_; }  ///< may be less than 1

  /// What tells a row from others.
  using Key = std::array<int64_t, 4>;
  struct Place {
    int64_t l2bm = 0;
    bool is_new = true;  ///< the row isn't there yet
  };
  /// Where the next row goes.
  Place next() { return {at(next_++), true}; }
  /// Where a row is that was the next one with this key, or else where it goes.
  Place find(const Key& key);

 private:
  int64_t at(int64_t number) const { return kAheadLw + first_ + number % count_ * lw_; }

  int64_t first_, lw_, count_, next_ = 0;
  std::vector<Key> keys_;  ///< of regions that have one
};

/// An image and a row of it, if an L2B's slot has one.
using SlotRow = std::function<std::optional<std::pair<int64_t, int64_t>>(int l2b, int64_t slot)>;
/// Makes a load bring the rows of `image` that the even or odd (`odd`) slots of its MABs want to `place`,
/// unless they are there: of an L2B's channels `channels`, or with -1 the L2B's own. Where a slot has none,
/// `zeros` come.
void bring_slot_row(LoadColumns& load, int64_t odd, const RowRegions::Place& place, const RowsImage& image,
                    int64_t channels, const SlotRow& wanted, const RowsTransfer& zeros,
                    const isa::Chip& chip);
/// A tile program that is made operation by operation.
class SlotProgram {
 protected:
  void begin(const std::string& name, const std::vector<StreamPlacement>& placements,
             const std::vector<int64_t>& dram_addresses);
  int buffer(std::string name, int64_t lw, scheduler::HomeSet homes);
  template <typename Op>
  void add(Op op) {
    program_.body.push_back({std::move(op)});
  }
  /// Makes a buffer zeros.
  void fill(int number);

  TileProgram program_;
};
/// Makes one transfer of those that follow one another in DRAM and in L2BM.
std::vector<RowsTransfer> joined_transfers(std::vector<RowsTransfer> list);

}  // namespace kodama::compiler
