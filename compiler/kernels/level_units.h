#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "layout/algebra/layout.h"
#include "layout/algebra/transport.h"

/// How kernels give levels of the tree to kinds of dims: what doesn't depend on a kind is broadcast to the
/// levels that the kind has.
namespace kodama::compiler {

/// What is given away: MABs with their PEs, or not at all.
enum LevelUnit : size_t { kL2bUnit, kL1bUnit, kMabUnit, kPeUnit, kLevelUnits };

/// The number of a kind for every unit, or kIdleUnit.
using UnitKinds = std::array<size_t, kLevelUnits>;
inline constexpr size_t kIdleUnit = static_cast<size_t>(-1);

/// All ways to give units to kinds with these numbers of elements, of which kinds with one element get none.
/// PEs are somebody's if there is anybody.
std::vector<UnitKinds> all_unit_kinds(std::span<const int64_t> extents);
/// The factors, outermost first, of the levels that a kind has.
std::vector<layout::Factor> levels_of(const UnitKinds& units, size_t kind, const isa::Chip& chip);
/// Product of the factors' sizes.
int64_t size_of(const std::vector<layout::Factor>& factors);
/// Of what depends on these kinds. PEs don't store together: for a result, each has its own place.
layout::Transport transport_of(const UnitKinds& units, std::initializer_list<size_t> kinds,
                               const isa::Chip& chip, bool is_result = false);
/// "L1B sets, PE results"
std::string describe(const UnitKinds& units, std::span<const char* const> names);

}  // namespace kodama::compiler
