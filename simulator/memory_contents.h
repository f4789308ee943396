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

/// The indices of a debug statement that select every place.
inline constexpr std::array<int16_t, 5> kEverywhere{-1, -1, -1, -1, -1};

/// Calls visit(place, address) for every LW of a memory until it returns false.
template <typename Visit>
bool for_each_location(const isa::Chip& chip, isa::Space space, Visit&& visit) {
  const int64_t size = space_size(space, chip);
  const int step = address_step(space);
  bool go_on = true;
  for_each_place(space, kEverywhere, chip, [&](const Place& place) {
    for (int64_t address = 0; go_on && address < size; address += step) go_on = visit(place, address);
  });
  return go_on;
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
  /// Lanes of the width that all have one exponent, or are zeros, as normalized blocks do: what the matrix
  /// unit's kernels are made for.
  uint64_t next_block(int width, uint64_t exponent);
  /// An exponent for such lanes: of numbers near one, or seldom any that numbers have.
  uint64_t block_exponent(int width);

 private:
  uint64_t random();
  uint64_t lane(int width);
  uint64_t state_;
};

}  // namespace kodama::simulator
