#include "compiler/kernels/columns.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "isa/arithmetic.h"

namespace kodama::compiler {

bool has_column_lanes(const isa::Chip& chip) {
  return chip.mab_per_l1b == kBlocksPerChunk * kBlocksPerChunk && chip.l1b_per_l2b == 2 * isa::kCyclesPerStep;
}

RowRegions::RowRegions(int64_t row_lw, const isa::Chip& chip)
    : lw_(isa::round_up(row_lw, int64_t{isa::kMvUnitLw})),
      count_((chip.memory.l2bm_lw - kAheadLw - isa::kCyclesPerStep * kUnitLw) / lw_) {
  if (count_ > kColumnSlots) count_ -= count_ % kColumnSlots;
}

void bring_slot_rows(LoadColumns& load, RowRegions& regions, const RowsImage& image, int64_t channels,
                     const SlotRow& wanted, const RowsTransfer& zeros, const isa::Chip& chip) {
  for (int64_t odd = 0; odd < 2; ++odd) {
    const int64_t l2bm = load.l2bm.at(static_cast<size_t>(odd)) = regions.next();
    const int64_t slot = 2 * load.mab + odd;
    const std::vector<RowsTransfer> list = row_transfers(
        image, channels, l2bm, [&](int l2b) { return wanted(l2b, slot); }, zeros, chip);
    load.transfers.insert(load.transfers.end(), list.begin(), list.end());
  }
}

std::vector<RowsTransfer> joined_transfers(std::vector<RowsTransfer> list) {
  // Of the same source and target, by address.
  const auto key = [](const RowsTransfer& transfer) {
    return std::tuple(transfer.stream, transfer.group, transfer.l2b, transfer.to_all, transfer.l2bm);
  };
  std::ranges::stable_sort(list, {}, key);
  std::vector<RowsTransfer> result;
  for (const RowsTransfer& next : list) {
    if (!result.empty()) {
      RowsTransfer following = result.back();
      following.dram += following.count;
      following.l2bm += following.count;
      following.count = next.count;
      if (following == next) {
        result.back().count += next.count;
        continue;
      }
    }
    result.push_back(next);
  }
  return result;
}

}  // namespace kodama::compiler
