#include "checks/layout_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <vector>

#include "isa/hazards.h"
#include "passes/registry.h"
#include "simulator/machine.h"

namespace kodama::checks {
namespace {

using isa::Space;
using layout::Coordinates;
using layout::Layout;
using layout::Level;
using layout::Memory;
using simulator::Machine;
using simulator::Place;

constexpr std::array<Memory, 8> kMemories{Memory::kLm0,  Memory::kLm1,  Memory::kGrf0, Memory::kGrf1,
                                          Memory::kL1bm, Memory::kL2bm, Memory::kPdm,  Memory::kDram};

Space space_of(Memory memory) {
  constexpr std::array<Space, 8> kSpaces{Space::kLm0,  Space::kLm1,  Space::kGrf0, Space::kGrf1,
                                         Space::kL1bm, Space::kL2bm, Space::kPdm,  Space::kDram};
  return kSpaces[static_cast<size_t>(memory)];
}
/// Addresses of PE memories count words.
int64_t unit_address(Memory memory, int64_t long_word) {
  return layout::is_pe_memory(memory) ? 2 * long_word : long_word;
}
/// A chip with no more DRAM than the conversion can touch: noise for 4 GiB takes a while.
isa::Chip with_little_dram(isa::Chip chip, const layout::ConversionProblem& problem,
                           const layout::Conversion& conversion) {
  int64_t end = 1 << 12;
  for (const Layout* layout : {&problem.from, &problem.to}) {
    if (layout->memory() == Memory::kDram) end = std::max(end, layout->level_extent(Level::kAddress));
  }
  for (const layout::ScratchRange& range : conversion.scratch) {
    if (range.memory == Memory::kDram) end = std::max(end, range.end);
  }
  // Rows of DRAM stay whole.
  end = (end + (1 << 16)) >> 16 << 16;
  chip.memory.dram_lw = std::min(chip.memory.dram_lw, end);
  return chip;
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
  Check(const layout::ConversionProblem& problem, const layout::Conversion& conversion, const isa::Chip& chip,
        uint64_t seed)
      : problem_(problem),
        chip_(with_little_dram(chip, problem, conversion)),
        seed_(seed),
        machine_(chip_, options(seed)) {}

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
        visit(index, padding, first + copy);
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
    const int64_t address = unit_address(memory, at[Level::kAddress]);
    const uint64_t old = machine_.read(space_of(memory), place_of(at, chip_), address);
    machine_.write(space_of(memory), place_of(at, chip_), address,
                   (old & ~(mask() << shift(at))) | value << shift(at));
  }
  uint64_t get(Memory memory, const Coordinates& at) const {
    return machine_.read(space_of(memory), place_of(at, chip_), unit_address(memory, at[Level::kAddress])) >>
               shift(at) &
           mask();
  }

  /// Calls visit(memory, place, begin, end) for every instance of every memory, LW by LW in ranges.
  template <typename Visit>
  void for_each_memory(Visit&& visit) const {
    for (const Memory memory : kMemories) {
      for (int l2b = 0; l2b < chip_.l2b_count(); ++l2b) {
        Place place{l2b / chip_.l2b_per_group, l2b % chip_.l2b_per_group, 0, 0, 0};
        if (memory == Memory::kDram || memory == Memory::kPdm) {
          if (place.l2b == 0) visit(memory, place);
          continue;
        }
        if (memory == Memory::kL2bm) {
          visit(memory, place);
          continue;
        }
        for (place.l1b = 0; place.l1b < chip_.l1b_per_l2b; ++place.l1b) {
          if (memory == Memory::kL1bm) {
            visit(memory, place);
            continue;
          }
          for (place.mab = 0; place.mab < chip_.mab_per_l1b; ++place.mab) {
            for (place.pe = 0; place.pe < isa::kPePerMab; ++place.pe) visit(memory, place);
          }
          place.mab = place.pe = 0;
        }
      }
    }
  }

  std::vector<uint64_t> snapshot() const {
    std::vector<uint64_t> all;
    for_each_memory([&](Memory memory, const Place& place) {
      const int64_t size = layout::memory_size_lw(memory, chip_);
      const size_t old = all.size();
      all.resize(old + static_cast<size_t>(size));
      const std::span<uint64_t> own(all.data() + old, static_cast<size_t>(size));
      if (memory == Memory::kDram) return machine_.read_dram(place.group, 0, own);
      if (memory == Memory::kPdm) return machine_.read_pdm(place.group, 0, own);
      for (int64_t k = 0; k < size; ++k)
        own[static_cast<size_t>(k)] = machine_.read(space_of(memory), place, unit_address(memory, k));
    });
    return all;
  }

  std::string unexpected_change(const layout::Conversion& conversion, const std::vector<uint64_t>& before,
                                const std::vector<uint64_t>& after) const {
    std::string found;
    size_t at = 0;
    for_each_memory([&](Memory memory, const Place& place) {
      const int64_t size = layout::memory_size_lw(memory, chip_);
      for (int64_t address = 0; address < size; ++address, ++at) {
        if (before[at] == after[at] || !found.empty()) continue;
        const bool may = std::ranges::any_of(conversion.scratch, [&](const layout::ScratchRange& range) {
          return range.memory == memory && address >= range.begin && address < range.end;
        });
        if (may) continue;
        found =
            fmt::format("{} of group {} L2B {} L1B {} MAB {} PE {}, address {}, has changed",
                        memory_name(memory), place.group, place.l2b, place.l1b, place.mab, place.pe, address);
      }
    });
    return found;
  }

  const layout::ConversionProblem& problem_;
  isa::Chip chip_;
  uint64_t seed_;
  Machine machine_;
};

}  // namespace

std::string conversion_difference(const layout::ConversionProblem& problem,
                                  const layout::Conversion& conversion, const isa::Chip& chip, uint64_t seed,
                                  int64_t* cycles) {
  std::string difference = Check(problem, conversion, chip, seed).run(conversion, cycles);
  if (!difference.empty() && !conversion.from_plugins.empty())
    passes::blame("move primitive", *conversion.from_plugins.front(), difference);
  return difference;
}

}  // namespace kodama::checks
