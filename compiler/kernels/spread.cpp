#include "compiler/kernels/spread.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "isa/costs.h"

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

std::vector<Spread> all_spreads(const isa::Chip& chip) {
  std::vector<Spread> spreads;
  for (const L2bMode l2b : {L2bMode::kBroadcast, L2bMode::kBroadcastInGroup, L2bMode::kDistribute}) {
    // With one L2B to the group, or one group, two of the modes mean the same.
    if (l2b == L2bMode::kDistribute && chip.l2b_count() == 1) continue;
    if (l2b == L2bMode::kBroadcastInGroup && (chip.groups == 1 || chip.l2b_per_group == 1)) continue;
    for (const L1bMode l1b : {L1bMode::kBroadcast, L1bMode::kDistribute}) {
      if (l1b == L1bMode::kDistribute && chip.l1b_per_l2b == 1) continue;
      for (const MabMode mab : {MabMode::kBroadcastMab, MabMode::kDistribute}) {
        if (mab == MabMode::kDistribute && chip.mab_per_l1b == 1) continue;
        Spread spread;
        spread.transport = Transport(chip, l2b, l1b, mab);
        const auto add = [&](const char* name, const Factor& factor) {
          spread.name += fmt::format("{}{}", spread.name.empty() ? "" : ", ", name);
          spread.places.push_back(factor);
          spread.place_count *= factor.size;
        };
        if (l2b == L2bMode::kDistribute) add("L2B", {chip.l2b_count(), Level::kL2b, 1});
        if (l2b == L2bMode::kBroadcastInGroup) add("group", {chip.groups, Level::kL2b, chip.l2b_per_group});
        if (l1b == L1bMode::kDistribute) add("L1B", {chip.l1b_per_l2b, Level::kL1b, 1});
        if (mab == MabMode::kDistribute) add("MAB", {chip.mab_per_l1b, Level::kMab, 1});
        add("PE", {isa::kPePerMab, Level::kPe, 1});
        spreads.push_back(std::move(spread));
      }
    }
  }
  std::ranges::stable_sort(spreads, {}, [](const Spread& spread) { return spread.places.size(); });
  return spreads;
}

namespace {

/// The same kernel on the same spread with the elements in other orders, itself first.
std::vector<Candidate> with_other_orders(const Candidate& candidate) {
  std::vector<Candidate> candidates{candidate};
  const StreamPlacement& first = candidate.placements.back();
  // A single element has no order.
  const auto has_order = [](const StreamPlacement& placement) {
    return element_count(placement.extents) > 1;
  };
  // Dims of one element don't make an order.
  const auto dims_of = [&](std::vector<int> dims) {
    std::erase_if(dims, [&](int dim) { return first.extents[static_cast<size_t>(dim)] == 1; });
    return dims;
  };
  std::vector<int> turned_dims = first.axis_dims.front();
  if (turned_dims.size() >= 3)
    std::rotate(turned_dims.begin() + 1, turned_dims.begin() + 2, turned_dims.end());
  if (dims_of(turned_dims) != dims_of(first.axis_dims.front())) {
    Candidate turned = candidate;
    turned.description += ", channels last";
    for (StreamPlacement& placement : turned.placements) {
      if (has_order(placement)) placement.axis_dims.front() = turned_dims;
    }
    candidates.push_back(std::move(turned));
  }
  const auto order = [](const Factor& factor) {
    constexpr std::array<Level, 3> kOutermost{Level::kL2b, Level::kL1b, Level::kAddress};
    const auto at = std::ranges::find(kOutermost, factor.level) - kOutermost.begin();
    return factor.level == Level::kWord ? at + 1 : at;
  };
  for (size_t k = 0, count = candidates.size(); k < count; ++k) {
    Candidate dealt = candidates[k];
    dealt.description += ", dealt";
    for (StreamPlacement& placement : dealt.placements) {
      if (!has_order(placement)) continue;
      std::vector<std::vector<Factor>> axes = placement.layout.axes();
      std::ranges::stable_sort(axes.front(), {}, order);
      placement.layout = layout::Layout(std::move(axes), placement.layout.memory(),
                                        placement.layout.replication(), placement.layout.padding());
    }
    candidates.push_back(std::move(dealt));
  }
  return candidates;
}

int64_t image_lw(const StreamPlacement& placement) {
  return placement.transport.part_lw(placement.length_lw) * placement.transport.parts_per_group() *
         placement.transport.groups_used();
}

}  // namespace

std::vector<Candidate> spread_candidates(const isa::Chip& chip,
                                         const std::function<std::optional<Candidate>(const Spread&)>& make) {
  struct Made {
    Candidate candidate;
    int64_t lw = 0;         ///< of all images
    int64_t fetched = 0;    ///< cycles with the link's for the result
    int64_t exchanged = 0;  ///< cycles with the link's for operands and result
  };
  std::vector<Made> all;
  for (const Spread& spread : all_spreads(chip)) {
    std::optional<Candidate> candidate = make(spread);
    if (!candidate) continue;
    Made made;
    made.fetched = made.exchanged = candidate->predicted_cycles;
    for (const StreamPlacement& placement : candidate->placements) {
      const int64_t lw = image_lw(placement);
      const int64_t link = isa::host_link_cycles(lw * static_cast<int64_t>(sizeof(uint64_t)), chip);
      made.lw += lw;
      made.exchanged += link;
      if (placement.is_output) made.fetched += link;
    }
    made.candidate = std::move(*candidate);
    all.push_back(std::move(made));
  }
  if (all.empty()) return {};
  std::vector<const Made*> kept;
  const auto keep_least = [&](const auto& cost) {
    const Made* least =
        &*std::ranges::min_element(all, {}, [&](const Made& made) { return std::pair(cost(made), made.lw); });
    if (std::ranges::find(kept, least) == kept.end()) kept.push_back(least);
  };
  keep_least([](const Made& made) { return made.candidate.predicted_cycles; });
  keep_least([](const Made& made) { return made.fetched; });
  keep_least([](const Made& made) { return made.exchanged; });
  // Candidates multiply the conversions that the planner asks for, and orders matter most to the fastest.
  std::vector<Candidate> candidates = with_other_orders(kept.front()->candidate);
  for (size_t k = 1; k < kept.size(); ++k) candidates.push_back(kept[k]->candidate);
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
