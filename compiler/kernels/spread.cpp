#include "compiler/kernels/spread.h"

#include <algorithm>
#include <array>

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

std::vector<Candidate> with_other_orders(const Candidate& candidate) {
  std::vector<Candidate> candidates{candidate};
  Candidate turned = candidate;
  turned.description += ", channels last";
  const size_t dims = candidate.placements.front().axis_dims.front().size();
  for (StreamPlacement& placement : turned.placements) {
    std::vector<int>& results = placement.axis_dims.front();
    if (dims >= 3) std::rotate(results.begin() + 1, results.begin() + 2, results.end());
  }
  if (dims >= 3) candidates.push_back(std::move(turned));
  const auto order = [](const Factor& factor) {
    constexpr std::array<Level, 3> kOutermost{Level::kL2b, Level::kL1b, Level::kAddress};
    const auto at = std::ranges::find(kOutermost, factor.level) - kOutermost.begin();
    return factor.level == Level::kWord ? at + 1 : at;
  };
  for (size_t k = 0, count = candidates.size(); k < count; ++k) {
    Candidate dealt = candidates[k];
    dealt.description += ", dealt";
    for (StreamPlacement& placement : dealt.placements) {
      std::vector<std::vector<Factor>> axes = placement.layout.axes();
      std::ranges::stable_sort(axes.front(), {}, order);
      placement.layout = layout::Layout(std::move(axes), placement.layout.memory(),
                                        placement.layout.replication(), placement.layout.padding());
    }
    candidates.push_back(std::move(dealt));
  }
  return candidates;
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
