#include "compiler/kernels/columns.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "isa/arithmetic.h"
#include "isa/error.h"

namespace kodama::compiler {

bool has_column_lanes(const isa::Chip& chip) {
  return chip.mab_per_l1b == kBlocksPerChunk * kBlocksPerChunk && chip.l1b_per_l2b == 2 * isa::kCyclesPerStep;
}

int64_t RowRegions::beside_lw(const RowOrder& order, bool lanes) {
  const int64_t missing = isa::kCyclesPerStep - order.groups * order.width();
  return (lanes ? 2 * kColumnLw : 0) + std::max<int64_t>(0, missing) * kUnitLw;
}

int64_t RowRegions::room(const isa::Chip& chip) {
  return chip.memory.l2bm_lw - kAheadLw - isa::kCyclesPerStep * kUnitLw;
}

RowRegions::RowRegions(int64_t row_lw, int64_t first, int64_t room)
    : first_(first), lw_(isa::round_up(row_lw, int64_t{isa::kMvUnitLw})), count_(room / lw_) {
  if (count_ > kColumnSlots) count_ -= count_ % kColumnSlots;
}

RowRegions::Place RowRegions::find(const Key& key) {
  // The oldest goes first: of two that always come one behind the other, as a load's rows do, the second is
  // there if the first one is, and what is found isn't overwritten by the other.
  const auto known = std::ranges::find(keys_, key);
  if (known != keys_.end()) return {at(known - keys_.begin()), false};
  const auto region = static_cast<size_t>(next_ % count_);
  if (region < keys_.size()) {
    keys_[region] = key;
  } else {
    keys_.push_back(key);
  }
  return next();
}

void bring_slot_row(LoadColumns& load, int64_t odd, const RowRegions::Place& place, const RowsImage& image,
                    int64_t channels, const SlotRow& wanted, const RowsTransfer& zeros,
                    const isa::Chip& chip) {
  load.l2bm.at(static_cast<size_t>(odd)) = place.l2bm;
  if (!place.is_new) return;
  const int64_t slot = 2 * load.mab + odd;
  const std::vector<RowsTransfer> list = row_transfers(
      image, channels, place.l2bm, [&](int l2b) { return wanted(l2b, slot); }, zeros, chip);
  load.transfers.insert(load.transfers.end(), list.begin(), list.end());
}

void SlotProgram::begin(const std::string& name, const std::vector<StreamPlacement>& placements,
                        const std::vector<int64_t>& dram_addresses) {
  isa::check_internal(placements.size() == dram_addresses.size(), name, "{} addresses for {} streams",
                      dram_addresses.size(), placements.size());
  program_.name = name;
  for (size_t k = 0; k < placements.size(); ++k) {
    program_.streams.push_back(
        {placements[k].name, placements[k].transport, placements[k].length_lw, dram_addresses[k]});
  }
}

int SlotProgram::buffer(std::string name, int64_t lw, scheduler::HomeSet homes) {
  program_.buffers.push_back({std::move(name), isa::round_up(lw, int64_t{isa::kCyclesPerStep}), homes});
  return static_cast<int>(program_.buffers.size()) - 1;
}

void SlotProgram::fill(int number) {
  add(FillTile{number, {}, program_.buffers[static_cast<size_t>(number)].size_lw, 0});
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
