#include "compiler/driver/layout_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "isa/hazards.h"
#include "simulator/machine.h"

namespace kodama::compiler {
namespace {

using isa::Space;
using layout::Coordinates;
using layout::Layout;
using layout::Level;
using layout::Memory;
using simulator::Machine;
using simulator::Place;

constexpr std::array<Memory, 4> kPeMemories{Memory::kLm0, Memory::kLm1, Memory::kGrf0, Memory::kGrf1};

Space space_of(Memory memory) {
  constexpr std::array<Space, 4> kSpaces{Space::kLm0, Space::kLm1, Space::kGrf0, Space::kGrf1};
  return kSpaces[static_cast<size_t>(memory)];
}
Place place_of(const Coordinates& at, const isa::Chip& chip) {
  return {static_cast<int>(at[Level::kL2b]) / chip.l2b_per_group,
          static_cast<int>(at[Level::kL2b]) % chip.l2b_per_group, static_cast<int>(at[Level::kL1b]),
          static_cast<int>(at[Level::kMab]), static_cast<int>(at[Level::kPe])};
}

/// A number with no structure, different for different arguments.
uint64_t noise(uint64_t seed, uint64_t number) {
  uint64_t x = seed * 0x9e3779b97f4a7c15 + number;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t padding_bits(layout::Padding padding, int bits) {
  const uint64_t one = bits == 64 ? 0x3ff0000000000000 : bits == 32 ? 0x3f800000 : 0x3e00;
  const uint64_t infinity = bits == 64 ? 0x7ff0000000000000 : bits == 32 ? 0x7f800000 : 0x7e00;
  switch (padding) {
    case layout::Padding::kOne:
      return one;
    case layout::Padding::kPlusInfinity:
      return infinity;
    case layout::Padding::kMinusInfinity:
      return infinity | uint64_t{1} << (bits - 1);
    default:
      return 0;
  }
}

class Check {
 public:
  Check(const layout::ConversionProblem& problem, const isa::Chip& chip, uint64_t seed)
      : problem_(problem), chip_(chip), seed_(seed), machine_(chip, options(seed)) {}

  std::string run(const layout::Conversion& conversion, int64_t* cycles) {
    const auto hazards = isa::find_hazards(conversion.program, chip_);
    if (!hazards.empty()) return "hazard: " + hazards[0].text;
    for_each(problem_.from, [&](const std::vector<int64_t>& index, bool padding, const Coordinates& at) {
      // Undefined padding stays noise.
      if (!padding || problem_.from.padding() != layout::Padding::kUndefined)
        put(problem_.from.memory(), at, expected(problem_.from, index, padding));
    });
    const auto before = snapshot();
    const simulator::RunStats stats = machine_.run(conversion.program);
    if (cycles != nullptr) *cycles = stats.cycles();
    std::string found;
    for_each(problem_.to, [&](const std::vector<int64_t>& index, bool padding, const Coordinates& at) {
      if (!found.empty()) return;
      if (padding && problem_.to.padding() == layout::Padding::kUndefined) return;
      const uint64_t value = get(problem_.to.memory(), at);
      const uint64_t wanted = expected(problem_.to, index, padding);
      if (value == wanted) return;
      found = fmt::format("{} ({}) at L2B {} L1B {} MAB {} PE {}, address {}, word {}: {:x}, expected {:x}",
                          padding ? "padding" : "element", fmt::join(index, ", "), at[Level::kL2b],
                          at[Level::kL1b], at[Level::kMab], at[Level::kPe], at[Level::kAddress],
                          at[Level::kWord], value, wanted);
    });
    if (!found.empty()) return found;
    return unexpected_change(conversion, before, snapshot());
  }

 private:
  static simulator::MachineOptions options(uint64_t seed) {
    simulator::MachineOptions options;
    options.memory = simulator::MachineOptions::Memory::kDirty;
    options.seed = seed;
    return options;
  }

  template <typename Visit>
  void for_each(const Layout& layout, Visit&& visit) const {
    const std::vector<Coordinates> copies = layout.replica_offsets();
    std::vector<int64_t> index(problem_.lengths.size(), 0);
    for (;;) {
      bool padding = false;
      for (size_t axis = 0; axis < index.size(); ++axis)
        padding = padding || index[axis] >= problem_.lengths[axis];
      const Coordinates first = layout.place(index);
      for (const Coordinates& copy : copies) {
        Coordinates at = first;
        for (size_t level = 0; level < layout::kLevelCount; ++level) at.at[level] += copy.at[level];
        visit(index, padding, at);
      }
      size_t axis = index.size();
      while (axis > 0 && ++index[axis - 1] == layout.extent(axis - 1)) index[--axis] = 0;
      if (axis == 0) return;
    }
  }

  uint64_t expected(const Layout& layout, const std::vector<int64_t>& index, bool padding) const {
    if (padding) return padding_bits(layout.padding(), problem_.element_bits);
    uint64_t number = 0;
    for (size_t axis = 0; axis < index.size(); ++axis)
      number = number * static_cast<uint64_t>(problem_.lengths[axis]) + static_cast<uint64_t>(index[axis]);
    const uint64_t value = noise(seed_, number);
    return problem_.element_bits == 64 ? value : value & ((uint64_t{1} << problem_.element_bits) - 1);
  }

  int shift(const Coordinates& at) const {
    return 64 - problem_.element_bits * static_cast<int>(at[Level::kWord] + 1);
  }
  uint64_t mask() const {
    return problem_.element_bits == 64 ? ~uint64_t{0} : (uint64_t{1} << problem_.element_bits) - 1;
  }
  void put(Memory memory, const Coordinates& at, uint64_t value) {
    const uint64_t old = machine_.read(space_of(memory), place_of(at, chip_), 2 * at[Level::kAddress]);
    machine_.write(space_of(memory), place_of(at, chip_), 2 * at[Level::kAddress],
                   (old & ~(mask() << shift(at))) | value << shift(at));
  }
  uint64_t get(Memory memory, const Coordinates& at) const {
    return machine_.read(space_of(memory), place_of(at, chip_), 2 * at[Level::kAddress]) >> shift(at) &
           mask();
  }

  int64_t size_lw(Memory memory) const {
    return (memory == Memory::kLm0 || memory == Memory::kLm1 ? chip_.memory.lm_words
                                                             : chip_.memory.grf_words) /
           2;
  }

  /// Calls visit(place, memory, address) for every long word of every PE.
  template <typename Visit>
  void for_each_long_word(Visit&& visit) const {
    for (int pe = 0; pe < chip_.pe_count(); ++pe) {
      Place place;
      int rest = pe;
      place.pe = rest % isa::kPePerMab;
      rest /= isa::kPePerMab;
      place.mab = rest % chip_.mab_per_l1b;
      rest /= chip_.mab_per_l1b;
      place.l1b = rest % chip_.l1b_per_l2b;
      rest /= chip_.l1b_per_l2b;
      place.l2b = rest % chip_.l2b_per_group;
      place.group = rest / chip_.l2b_per_group;
      for (const Memory memory : kPeMemories) {
        for (int64_t address = 0; address < size_lw(memory); ++address) visit(place, memory, address);
      }
    }
  }

  std::vector<uint64_t> snapshot() const {
    std::vector<uint64_t> all;
    for_each_long_word([&](const Place& place, Memory memory, int64_t address) {
      all.push_back(machine_.read(space_of(memory), place, 2 * address));
    });
    return all;
  }

  std::string unexpected_change(const layout::Conversion& conversion, const std::vector<uint64_t>& before,
                                const std::vector<uint64_t>& after) const {
    std::string found;
    size_t at = 0;
    for_each_long_word([&](const Place& place, Memory memory, int64_t address) {
      const bool changed = before[at] != after[at];
      ++at;
      if (!changed || !found.empty()) return;
      for (const layout::ScratchRange& range : conversion.scratch) {
        if (range.memory == memory && address >= range.begin && address < range.end) return;
      }
      found =
          fmt::format("{} of group {} L2B {} L1B {} MAB {} PE {}, address {}, has changed",
                      memory_name(memory), place.group, place.l2b, place.l1b, place.mab, place.pe, address);
    });
    return found;
  }

  const layout::ConversionProblem& problem_;
  const isa::Chip& chip_;
  uint64_t seed_;
  Machine machine_;
};

}  // namespace

std::string conversion_difference(const layout::ConversionProblem& problem,
                                  const layout::Conversion& conversion, const isa::Chip& chip, uint64_t seed,
                                  int64_t* cycles) {
  return Check(problem, chip, seed).run(conversion, cycles);
}

}  // namespace kodama::compiler
