#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "isa/chip.h"
#include "isa/instruction.h"
#include "simulator/debug_text.h"
#include "simulator/machine.h"

/// All memories of a chip, location by location, and contents to test with: for comparing machines.
namespace kodama::simulator {

inline constexpr std::array<isa::Space, 15> kAllMemories{
    isa::Space::kLm0,  isa::Space::kLm1,  isa::Space::kGrf0, isa::Space::kGrf1, isa::Space::kT,
    isa::Space::kOmr,  isa::Space::kBar0, isa::Space::kBar1, isa::Space::kMatX, isa::Space::kMatY,
    isa::Space::kL1bm, isa::Space::kL2bm, isa::Space::kDram, isa::Space::kPdm,  isa::Space::kDar};

/// Calls visit(place, address) for every LW of a memory until it returns false.
template <typename Visit>
bool for_each_location(const isa::Chip& chip, isa::Space space, Visit&& visit) {
  const std::array<int, 5> counts{chip.groups, chip.l2b_per_group, chip.l1b_per_l2b, chip.mab_per_l1b,
                                  isa::kPePerMab};
  const int levels = space_levels(space);
  const auto count = [&](int level) { return level < levels ? counts[static_cast<size_t>(level)] : 1; };
  const bool words = space == isa::Space::kLm0 || space == isa::Space::kLm1 || space == isa::Space::kGrf0 ||
                     space == isa::Space::kGrf1;
  const int64_t size = space_size(space, chip);
  Place place;
  for (place.group = 0; place.group < count(0); ++place.group) {
    for (place.l2b = 0; place.l2b < count(1); ++place.l2b) {
      for (place.l1b = 0; place.l1b < count(2); ++place.l1b) {
        for (place.mab = 0; place.mab < count(3); ++place.mab) {
          for (place.pe = 0; place.pe < count(4); ++place.pe) {
            for (int64_t address = 0; address < size; address += words ? 2 : 1) {
              if (!visit(place, address)) return false;
            }
          }
        }
      }
    }
  }
  return true;
}

/// Numbers that arithmetic stumbles over, in lanes of one width.
class EdgeValues {
 public:
  explicit EdgeValues(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    const int width = std::array{16, 32, 64, 32}[random() % 4];
    uint64_t value = 0;
    for (int i = 0; i < 64 / width; ++i) value = width == 64 ? lane(64) : value << width | lane(width);
    return value;
  }
  /// Floats, or halves, near one: blocks and sums stay in the range where fast paths run.
  uint64_t next_plain() {
    const uint64_t value = next();
    return random() % 2 == 0 ? (value & 0x80ffffff80ffffff) | 0x3e0000003e000000
                             : (value & 0x83ff83ff83ff83ff) | 0x3c003c003c003c00;
  }

 private:
  uint64_t random();
  uint64_t lane(int width);
  uint64_t state_;
};

}  // namespace kodama::simulator
