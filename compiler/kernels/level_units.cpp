#include "compiler/kernels/level_units.h"

#include <fmt/format.h>

#include <algorithm>

namespace kodama::compiler {

using layout::Factor;
using layout::Level;

std::vector<UnitKinds> all_unit_kinds(std::span<const int64_t> extents) {
  std::vector<size_t> kinds;
  for (size_t kind = 0; kind < extents.size(); ++kind) {
    if (extents[kind] > 1) kinds.push_back(kind);
  }
  std::vector<size_t> of_pes = kinds;
  if (of_pes.empty()) of_pes = {kIdleUnit};
  kinds.push_back(kIdleUnit);
  std::vector<UnitKinds> all;
  for (const size_t l2bs : kinds) {
    for (const size_t l1bs : kinds) {
      for (const size_t pes : of_pes) {
        all.push_back({l2bs, l1bs, kIdleUnit, pes});
        if (pes != kIdleUnit) all.push_back({l2bs, l1bs, pes, pes});
      }
    }
  }
  return all;
}

std::vector<Factor> levels_of(const UnitKinds& units, size_t kind, const isa::Chip& chip) {
  std::vector<Factor> factors;
  if (units[kL2bUnit] == kind) factors.push_back({chip.l2b_count(), Level::kL2b, 1});
  if (units[kL1bUnit] == kind) factors.push_back({chip.l1b_per_l2b, Level::kL1b, 1});
  if (units[kMabUnit] == kind) factors.push_back({chip.mab_per_l1b, Level::kMab, 1});
  if (units[kPeUnit] == kind) factors.push_back({isa::kPePerMab, Level::kPe, 1});
  return factors;
}

int64_t size_of(const std::vector<Factor>& factors) {
  int64_t size = 1;
  for (const Factor& factor : factors) size *= factor.size;
  return size;
}

layout::Transport transport_of(const UnitKinds& units, std::initializer_list<size_t> kinds,
                               const isa::Chip& chip, bool is_result) {
  const auto distributes = [&](LevelUnit unit) { return std::ranges::count(kinds, units[unit]) > 0; };
  return {chip,
          distributes(kL2bUnit) && chip.l2b_count() > 1 ? layout::L2bMode::kDistribute
                                                        : layout::L2bMode::kBroadcast,
          distributes(kL1bUnit) ? layout::L1bMode::kDistribute : layout::L1bMode::kBroadcast,
          distributes(kMabUnit)               ? layout::MabMode::kDistribute
          : distributes(kPeUnit) || is_result ? layout::MabMode::kBroadcastMab
                                              : layout::MabMode::kBroadcastPe};
}

std::string describe(const UnitKinds& units, std::span<const char* const> names) {
  constexpr std::array<const char*, kLevelUnits> kNames = {"L2B", "L1B", "MAB", "PE"};
  std::string text;
  for (size_t unit = 0; unit < kLevelUnits; ++unit) {
    if (units[unit] == kIdleUnit) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kNames.at(unit), names[units[unit]]);
  }
  return text.empty() ? "one PE" : text;
}

}  // namespace kodama::compiler
