#pragma once

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

/// L2BM as a ring of regions for a row each: those of all slots, asked for one after the other, are one
/// piece where there is room for that.
class RowRegions {
 public:
  /// What is read before a row's first lane.
  static constexpr int64_t kAheadLw = kUnitLw;

  /// For rows of at most `row_lw` LW.
  RowRegions(int64_t row_lw, const isa::Chip& chip);
  int64_t lw() const { return lw_; }        ///< of a region
  int64_t count() const { return count_; }  ///< may be less than 1
  /// Where the next row goes.
  int64_t next() { return kAheadLw + next_++ % count_ * lw_; }

 private:
  int64_t lw_, count_, next_ = 0;
};

/// An image and a row of it, if an L2B's slot has one.
using SlotRow = std::function<std::optional<std::pair<int64_t, int64_t>>(int l2b, int64_t slot)>;
/// Makes a load bring the rows of `image` that the slots of its MABs want: of an L2B's channels `channels`,
/// or with -1 the L2B's own. Where a slot has none, `zeros` come.
void bring_slot_rows(LoadColumns& load, RowRegions& regions, const RowsImage& image, int64_t channels,
                     const SlotRow& wanted, const RowsTransfer& zeros, const isa::Chip& chip);
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
