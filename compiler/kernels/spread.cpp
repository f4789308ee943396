#include "compiler/kernels/spread.h"

#include <algorithm>

namespace kodama::compiler {

using layout::Factor;
using layout::L1bMode;
using layout::L2bMode;
using layout::Level;
using layout::MabMode;
using layout::Transport;

std::vector<Factor> Spread::axis(const std::vector<Factor>& addresses) const {
  std::vector<Factor> factors = places;
  factors.insert(factors.end(), addresses.begin(), addresses.end());
  factors.push_back({2, Level::kWord, 1});
  return factors;
}

Spread choose_spread(int64_t floats, const isa::Chip& chip) {
  const std::vector<Factor> tree = {{chip.l2b_count(), Level::kL2b, 1},
                                    {chip.l1b_per_l2b, Level::kL1b, 1},
                                    {chip.mab_per_l1b, Level::kMab, 1},
                                    {isa::kPePerMab, Level::kPe, 1}};
  size_t first = tree.size() - 1;
  int64_t count = tree[first].size;
  while (first > 0 && count * kFloatsPerVector < floats) count *= tree[--first].size;

  Spread spread;
  spread.places.assign(tree.begin() + static_cast<std::ptrdiff_t>(first), tree.end());
  spread.place_count = count;
  spread.load = Transport(chip, first == 0 ? L2bMode::kDistribute : L2bMode::kBroadcast,
                          first <= 1 ? L1bMode::kDistribute : L1bMode::kBroadcast,
                          first <= 2 ? MabMode::kDistribute : MabMode::kBroadcastMab);
  spread.store = Transport(chip, L2bMode::kDistribute, L1bMode::kDistribute, MabMode::kDistribute);
  return spread;
}

std::optional<Candidate> with_channels_last(const Candidate& candidate) {
  Candidate turned = candidate;
  for (StreamPlacement& placement : turned.placements) {
    std::vector<int>& results = placement.axis_dims.front();
    if (results.size() < 3) return std::nullopt;
    std::rotate(results.begin() + 1, results.begin() + 2, results.end());
  }
  turned.description += ", channels last";
  return turned;
}

int64_t tile_capacity_lw(int64_t buffers, int64_t granule, const isa::Chip& chip) {
  // A quarter of each local memory is left for values that don't fit the register files.
  const int64_t budget = chip.memory.lm_words / 2 * 3 / 4;
  const int64_t capacity = budget / ((buffers + 1) / 2);
  return std::max(capacity / granule * granule, granule);
}

isa::SpaceSet alternate_home(size_t buffer) {
  return isa::space_bit(buffer % 2 == 0 ? isa::Space::kLm0 : isa::Space::kLm1);
}

}  // namespace kodama::compiler
