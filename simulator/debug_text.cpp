#include "simulator/debug_text.h"

#include <cmath>

#include "isa/error.h"
#include "isa/number_formats.h"

namespace kodama::simulator {
namespace {

using isa::FloatFormat;
using isa::Space;

std::string number(double value) {
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return fmt::format("{:g}", value);
}

std::string lanes_text(uint64_t value, FloatFormat format, bool block_float, bool pad) {
  const int count = 64 / format.width();
  std::string numbers;
  std::string patterns;
  for (int i = 0; i < count; ++i) {
    const uint64_t mask = format.width() == 64 ? ~uint64_t{0} : (uint64_t{1} << format.width()) - 1;
    const uint64_t lane = (value >> (64 - format.width() * (i + 1))) & mask;
    const double x = block_float ? isa::block_float_to_double(lane, format) : isa::to_double(lane, format);
    if (i > 0) {
      numbers += ", ";
      patterns += ", ";
    }
    numbers += number(x);
    patterns += pad ? fmt::format("0x{:0{}x}", lane, format.width() / 4) : fmt::format("0x{:x}", lane);
  }
  return fmt::format("({}) ({})", numbers, patterns);
}

}  // namespace

const char* dump_name(Space space) {
  switch (space) {
    case Space::kLm0:
      return "LM0";
    case Space::kLm1:
      return "LM1";
    case Space::kGrf0:
      return "GREG0";
    case Space::kGrf1:
      return "GREG1";
    case Space::kT:
      return "TREG";
    case Space::kOmr:
      return "OMR";
    case Space::kMatX:
      return "MATX";
    case Space::kMatY:
      return "MATY";
    case Space::kL1bm:
      return "L1BM";
    case Space::kL2bm:
      return "L2BM";
    case Space::kDram:
      return "DRAM";
    case Space::kPdm:
      return "PDM";
    case Space::kDar:
      return "DAR";
    case Space::kBar0:
      return "BAR0";
    case Space::kBar1:
      return "BAR1";
    case Space::kAluf:
      return "ALUF";
    case Space::kMauf:
      return "MAUF";
    case Space::kLbf:
      return "LBF";
    case Space::kMreadf:
      return "MREADF";
    case Space::kTurnaround:
      return "LBI";
    default:
      throw isa::UserError("d get / d set: a memory was expected");
  }
}

void for_each_place(Space space, const std::array<int16_t, 5>& wanted, const isa::Chip& chip,
                    const std::function<void(const Place&)>& visit) {
  const std::array<int, 5> counts{chip.groups, chip.l2b_per_group, chip.l1b_per_l2b, chip.mab_per_l1b,
                                  isa::kPePerMab};
  const int levels = space_levels(space);
  std::array<int, 5> begin{};
  std::array<int, 5> end{1, 1, 1, 1, 1};
  for (int level = 0; level < levels; ++level) {
    if (wanted[level] >= counts[level]) {
      throw isa::UserError(fmt::format("d get / d set of {}: {}{} does not exist; allowed are 0 to {}",
                                       dump_name(space), "ncbmp"[level], wanted[level], counts[level] - 1));
    }
    begin[level] = wanted[level] < 0 ? 0 : wanted[level];
    end[level] = wanted[level] < 0 ? counts[level] : wanted[level] + 1;
  }
  Place place;
  for (place.group = begin[0]; place.group < end[0]; ++place.group) {
    for (place.l2b = begin[1]; place.l2b < end[1]; ++place.l2b) {
      for (place.l1b = begin[2]; place.l1b < end[2]; ++place.l1b) {
        for (place.mab = begin[3]; place.mab < end[3]; ++place.mab) {
          for (place.pe = begin[4]; place.pe < end[4]; ++place.pe) visit(place);
        }
      }
    }
  }
}

std::string place_text(Space space, const Place& place) {
  const std::array<int, 5> at{place.group, place.l2b, place.l1b, place.mab, place.pe};
  std::string text;
  for (int level = 0; level < space_levels(space); ++level)
    text += fmt::format("{}{}", "ncbmp"[level], at[level]);
  return text;
}

int64_t space_size(Space space, const isa::Chip& chip) {
  switch (space) {
    case Space::kLm0:
    case Space::kLm1:
      return chip.memory.lm_words;
    case Space::kGrf0:
    case Space::kGrf1:
      return chip.memory.grf_words;
    case Space::kT:
    case Space::kAluf:
    case Space::kMauf:
    case Space::kLbf:
    case Space::kMreadf:
      return 8;
    case Space::kTurnaround:
      return int64_t{isa::kCyclesPerStep} * chip.pe_per_l1b();
    case Space::kOmr:
      return chip.memory.mask_entries * 4;
    case Space::kMatX:
    case Space::kMatY:
      return 64;
    case Space::kL1bm:
      return chip.memory.l1bm_lw;
    case Space::kL2bm:
      return chip.memory.l2bm_lw;
    case Space::kDram:
      return chip.memory.dram_lw;
    case Space::kPdm:
      return chip.memory.pdm_lw;
    case Space::kDar:
      return chip.memory.dar_entries;
    case Space::kBar0:
    case Space::kBar1:
      return 1;
    default:
      throw isa::UserError("not a memory");
  }
}

int space_levels(Space space) {
  switch (space) {
    case Space::kDram:
    case Space::kPdm:
    case Space::kDar:
      return 1;
    case Space::kL2bm:
      return 2;
    case Space::kL1bm:
    case Space::kTurnaround:
      return 3;
    case Space::kMatX:
    case Space::kMatY:
      return 4;
    default:
      return 5;
  }
}

int address_step(Space space) {
  return space == Space::kLm0 || space == Space::kLm1 || space == Space::kGrf0 || space == Space::kGrf1 ? 2
                                                                                                        : 1;
}

void check_place(Space space, const Place& place, int64_t address, const isa::Chip& chip) {
  const std::array<int, 5> counts{chip.groups, chip.l2b_per_group, chip.l1b_per_l2b, chip.mab_per_l1b,
                                  isa::kPePerMab};
  const std::array<int, 5> at{place.group, place.l2b, place.l1b, place.mab, place.pe};
  const int levels = space_levels(space);
  for (int level = 0; level < levels; ++level) {
    if (at[level] < 0 || at[level] >= counts[level]) {
      throw isa::UserError(fmt::format("{}: {}{} does not exist; allowed are 0 to {}", dump_name(space),
                                       "ncbmp"[level], at[level], counts[level] - 1));
    }
  }
  const int64_t size = space_size(space, chip);
  if (address < 0 || address >= size) {
    throw isa::UserError(
        fmt::format("{}: address {}; allowed are 0 to {}", dump_name(space), address, size - 1));
  }
  if (address % address_step(space) != 0) {
    throw isa::UserError(
        fmt::format("{}: address {} of a long word; allowed are even addresses", dump_name(space), address));
  }
}

void check_range(Space space, const Place& place, int64_t address, size_t count, const isa::Chip& chip) {
  if (count == 0) return;
  check_place(space, place, address, chip);
  check_place(space, place, address + static_cast<int64_t>(count - 1) * address_step(space), chip);
}

std::string debug_value(uint64_t value, char type) {
  switch (type) {
    case 0:
      return fmt::format("(f:{}, i:{{{{0x{:X},0x{:X}}},{{0x{:X},0x{:X}}}}}, v:0x{:X})",
                         number(isa::to_double(value, isa::kDoubleFormat)), value >> 48,
                         (value >> 32) & 0xffff, (value >> 16) & 0xffff, value & 0xffff, value);
    case 'd':
    case 'D':
      return lanes_text(value, isa::kDoubleFormat, type == 'D', true);
    case 'f':
    case 'F':
    case 'G':
      return lanes_text(value, isa::kFloatFormat, type != 'f', true);
    case 'h':
    case 'H':
      return lanes_text(value, isa::kHalfFormat, type == 'H', true);
    default:
      throw isa::UserError(fmt::format("d get: type '{}'; allowed are d, f, h, bd, bf, bg, bh", type));
  }
}

void debug_get(const isa::DebugGet& get, const isa::Chip& chip, const ReadLong& read,
               const std::function<void(const std::string&)>& line) {
  for_each_place(get.space, get.place, chip, [&](const Place& place) {
    for (int64_t i = 0; i < get.count; ++i) {
      if (get.space == Space::kOmr) {
        for (int c = 0; c < isa::kCyclesPerStep; ++c) {
          const uint64_t mask = read(get.space, place, (get.address + i) * 4 + c);
          line(fmt::format("DEBUG-OMR({},{}):Mask{{{}}} #{}", place_text(get.space, place), get.address + i,
                           mask, get.text));
        }
        continue;
      }
      int64_t address = get.address + i * address_step(get.space);
      if (get.space == Space::kT) address %= space_size(get.space, chip);
      line(fmt::format("DEBUG-{}({},{}):{} #{}", dump_name(get.space), place_text(get.space, place), address,
                       debug_value(read(get.space, place, address), get.type), get.text));
    }
  });
}

void debug_set(const isa::DebugSet& set, const isa::Chip& chip, const WriteLong& write) {
  for_each_place(set.space, set.place, chip, [&](const Place& place) {
    for (size_t i = 0; i < set.payload.size(); ++i) {
      const int64_t address = set.address + static_cast<int64_t>(i) * address_step(set.space);
      write(set.space, place, address, set.payload[i]);
    }
  });
}

}  // namespace kodama::simulator
