#include "simulator/debug/equivalence.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>

#include "isa/costs.h"
#include "isa/error.h"
#include "simulator/debug_text.h"
#include "simulator/machine.h"
#include "simulator/memory_contents.h"

namespace kodama::simulator {
namespace {

using isa::Space;

/// LW of a DRAM or PDM above which only what the programs touch is filled and compared.
constexpr int64_t kSmallMemory = 1 << 14;
/// Words of all LMs of the chip above which only a part of the L1Bs is looked at.
constexpr int64_t kSmallChipWords = 1 << 23;
constexpr int64_t kTableTargetLw = 1 << 12;  ///< DRAM that addresses from the DAR reach

/// What the programs touch.
struct ProgramReach {
  std::map<Space, int64_t> end;                                      ///< largest address + 1
  std::map<Space, std::vector<std::pair<int64_t, int64_t>>> ranges;  ///< of DRAM and PDM
  bool any_lm0 = false;                                              ///< addresses known at run time only
  bool any_lm1 = false;
  bool indirect_dram = false;
  bool above_l1b = false;

  void add(Space space, int64_t begin, int64_t length) {
    int64_t& last = end[space];
    last = std::max(last, begin + length);
    if (space == Space::kDram || space == Space::kPdm) ranges[space].emplace_back(begin, begin + length);
  }
};

std::optional<Space> space_of(isa::HazardResource resource) {
  switch (resource) {
    case isa::HazardResource::kLm0:
      return Space::kLm0;
    case isa::HazardResource::kLm1:
      return Space::kLm1;
    case isa::HazardResource::kGrf0:
      return Space::kGrf0;
    case isa::HazardResource::kGrf1:
      return Space::kGrf1;
    case isa::HazardResource::kL1bm:
      return Space::kL1bm;
    case isa::HazardResource::kL2bm:
      return Space::kL2bm;
    case isa::HazardResource::kDram:
      return Space::kDram;
    case isa::HazardResource::kPdm:
      return Space::kPdm;
    default:
      return std::nullopt;
  }
}

class ReachFinder {
 public:
  explicit ReachFinder(const isa::Chip& chip) : chip_(chip) {}

  void look_at(const isa::Program& program) {
    std::vector<int64_t> counters;
    isa::for_each_executed(
        program.statements, counters, [&](const isa::Statement& statement, const auto& at) {
          const isa::Statement one = isa::resolved(statement, at);
          if (const auto* step = std::get_if<isa::Step>(&one.kind)) {
            for (const isa::Instruction& instruction : step->instructions) add(instruction);
          } else if (const auto* mv = std::get_if<isa::Mv>(&one.kind)) {
            reach_.above_l1b = true;
            add(mv->instruction);
          } else if (const auto* get = std::get_if<isa::DebugGet>(&one.kind)) {
            add_debug(get->space, get->address, get->count);
          } else if (const auto* set = std::get_if<isa::DebugSet>(&one.kind)) {
            add_debug(set->space, set->address, static_cast<int64_t>(set->payload.size()));
          } else if (const auto* preload = std::get_if<isa::DramPreload>(&one.kind)) {
            add_debug(Space::kDram, preload->address, static_cast<int64_t>(preload->payload.size()));
          }
          return !std::holds_alternative<isa::Quit>(statement.kind);
        });
  }
  ProgramReach take() { return std::move(reach_); }

 private:
  /// Debug statements name places in the whole tree.
  void add_debug(Space space, int64_t address, int64_t count) {
    reach_.above_l1b = true;
    const bool words =
        space == Space::kLm0 || space == Space::kLm1 || space == Space::kGrf0 || space == Space::kGrf1;
    reach_.add(space, address, words ? 2 * count : count);
  }
  void add(const isa::Instruction& instruction) {
    const isa::IssueGroup group = isa::issue_group(instruction);
    if (group == isa::IssueGroup::kWait || group == isa::IssueGroup::kNoForward) return;
    if (group == isa::IssueGroup::kL2bm || group == isa::IssueGroup::kL2bmDarw) reach_.above_l1b = true;
    for (const isa::Access& access : isa::accesses(instruction, chip_)) {
      if (access.write && access.resource == isa::HazardResource::kBar0) reach_.any_lm0 = true;
      if (access.write && access.resource == isa::HazardResource::kBar1) reach_.any_lm1 = true;
      const auto space = space_of(access.resource);
      if (!space) continue;
      if (access.whole) {
        if (*space == Space::kLm0) reach_.any_lm0 = true;
        if (*space == Space::kDram) reach_.indirect_dram = true;
        continue;
      }
      const int used = std::clamp(access.cycles, 1, isa::kCyclesPerStep);
      for (int c = 0; c < used; ++c) reach_.add(*space, access.begin[static_cast<size_t>(c)], access.length);
    }
  }

  const isa::Chip& chip_;
  ProgramReach reach_;
};

ProgramReach reach_of(const isa::Chip& chip, const std::vector<const isa::Program*>& programs) {
  ReachFinder finder(chip);
  for (const isa::Program* program : programs) finder.look_at(*program);
  return finder.take();
}

isa::Chip shrunk(isa::Chip chip, ProgramReach reach) {
  const auto fit = [&](int64_t& size, Space space, int64_t least) {
    const auto needed = static_cast<uint64_t>(std::max(reach.end[space], least));
    size = std::min(size, static_cast<int64_t>(std::bit_ceil(needed)));
  };
  constexpr int64_t kLeastLmWords = 32;
  constexpr int64_t kLeastGrfWords = 16;
  constexpr int64_t kLeastPdmLw = 256;
  // Both LMs are of one size.
  if (!reach.any_lm0 && !reach.any_lm1) {
    reach.end[Space::kLm0] = std::max(reach.end[Space::kLm0], reach.end[Space::kLm1]);
    fit(chip.memory.lm_words, Space::kLm0, kLeastLmWords);
  }
  reach.end[Space::kGrf0] = std::max(reach.end[Space::kGrf0], reach.end[Space::kGrf1]);
  fit(chip.memory.grf_words, Space::kGrf0, kLeastGrfWords);
  fit(chip.memory.l1bm_lw, Space::kL1bm, 32 * chip.mab_per_l1b);
  fit(chip.memory.l2bm_lw, Space::kL2bm, 64 * chip.l1b_per_l2b);
  fit(chip.memory.pdm_lw, Space::kPdm, kLeastPdmLw);
  fit(chip.memory.dram_lw, Space::kDram,
      reach.indirect_dram ? kTableTargetLw : int64_t{128} * chip.l2b_count());
  if (!reach.above_l1b) chip.groups = chip.l2b_per_group = chip.l1b_per_l2b = 1;
  return chip;
}

class Comparison {
 public:
  Comparison(const isa::Chip& chip, const ProgramReach& reach, const EquivalenceOptions& options)
      : chip_(chip), reach_(reach), options_(options) {}

  EquivalenceResult run(const isa::Program& first, const isa::Program& second) {
    EquivalenceResult result;
    for (int k = 0; k < options_.seeds && result.difference.empty(); ++k) {
      const uint64_t seed = options_.first_seed + static_cast<uint64_t>(k);
      Machine a(chip_, {.threads = options_.threads});
      Machine b(chip_, {.threads = options_.threads});
      fill(seed, a, b);
      const Reaction of_a = react(a, first);
      const Reaction of_b = react(b, second);
      std::string found;
      if (of_a.refused.empty() != of_b.refused.empty()) {
        found = fmt::format("only the {} program is refused at run time: {}",
                            of_a.refused.empty() ? "second" : "first", of_a.refused + of_b.refused);
      } else if (!of_a.refused.empty()) {
        result.refused = of_a.refused;
        continue;
      } else if (of_a.lines != of_b.lines) {
        size_t line = 0;
        while (line < std::min(of_a.lines.size(), of_b.lines.size()) && of_a.lines[line] == of_b.lines[line])
          ++line;
        const auto text = [&](const Reaction& reaction) {
          return line < reaction.lines.size() ? reaction.lines[line] : std::string("nothing");
        };
        found = fmt::format("line {} of the output: '{}' and '{}'", line + 1, text(of_a), text(of_b));
      } else {
        found = memory_difference(a, b);
      }
      if (!found.empty()) {
        result.difference = fmt::format("with the memory contents of seed {}: {}", seed, found);
      } else {
        ++result.compared;
      }
    }
    return result;
  }

 private:
  struct Reaction {
    std::vector<std::string> lines;
    std::string refused;
  };
  static Reaction react(Machine& machine, const isa::Program& program) {
    Reaction reaction;
    RunOptions options;
    options.timing = false;
    options.dump = [&](const std::string& line) { reaction.lines.push_back(line); };
    try {
      machine.run(program, options);
    } catch (const isa::UserError& error) {
      reaction.refused = error.what();
    }
    return reaction;
  }

  template <typename Visit>
  void for_each(Space space, Visit&& visit) const {
    const bool large = space_size(space, chip_) > kSmallMemory;
    const auto ranges = reach_.ranges.find(space);
    if (space_levels(space) == 5 && chip_.memory.lm_words * chip_.pe_count() > kSmallChipWords) {
      for_each_location(chip_, space, [&](const Place& place, int64_t address) {
        const bool skipped = place.l1b != 0 && place.l1b != chip_.l1b_per_l2b - 1;
        return skipped || visit(place, address);
      });
    } else if (!large || (space != Space::kDram && space != Space::kPdm)) {
      for_each_location(chip_, space, visit);
    } else if (ranges != reach_.ranges.end()) {
      std::set<std::pair<int64_t, int64_t>> distinct(ranges->second.begin(), ranges->second.end());
      if (reach_.indirect_dram) distinct.emplace(0, kTableTargetLw);
      for (Place place; place.group < chip_.groups; ++place.group) {
        int64_t done = 0;
        for (const auto& [begin, end] : distinct) {
          for (int64_t address = std::max(begin, done); address < std::min(end, space_size(space, chip_));
               ++address) {
            if (!visit(place, address)) return;
          }
          done = std::max(done, end);
        }
      }
    }
  }

  void fill(uint64_t seed, Machine& a, Machine& b) const {
    EdgeValues values(seed);
    const bool plain = seed % 2 == 0;
    for (const Space space : kAllMemories) {
      const bool is_bar = space == Space::kBar0 || space == Space::kBar1;
      for_each(space, [&](const Place& place, int64_t address) {
        uint64_t value = plain ? values.next_plain() : values.next();
        // Rows of DRAM that there are, and tables of such rows.
        const auto rows = static_cast<uint64_t>(
            std::max<int64_t>(std::min(chip_.memory.dram_lw, kTableTargetLw) / 16 - 16, 1));
        if (space == Space::kDar) value %= rows;
        if (space == Space::kL2bm && reach_.indirect_dram)
          value = (value >> 32) % rows << 32 | (value & 0xffffffff) % rows;
        // A base address moves all accesses of its LM; one that is no multiple of 2LW would let accesses of
        // different widths meet otherwise than they say.
        if (is_bar)
          value = plain && !options_.zero_bases ? value % static_cast<uint64_t>(chip_.memory.lm_words) / 4 * 4
                                                : 0;
        a.write(space, place, address, value);
        b.write(space, place, address, value);
        return true;
      });
    }
  }

  std::string memory_difference(const Machine& a, const Machine& b) const {
    std::string found;
    const auto compare = [&](Space space) {
      for_each(space, [&](const Place& place, int64_t address) {
        if (options_.counts && !options_.counts(space, address)) return true;
        const uint64_t x = a.read(space, place, address);
        const uint64_t y = b.read(space, place, address);
        if (x == y) return true;
        found = fmt::format("{}({}, address {}) is {:016x} after the first program, {:016x} after the second",
                            dump_name(space), place_text(space, place), address, x, y);
        return false;
      });
      return found.empty();
    };
    for (const Space space : kAllMemories) {
      if (!compare(space)) return found;
    }
    return found;
  }

  const isa::Chip& chip_;
  const ProgramReach& reach_;
  const EquivalenceOptions& options_;
};

}  // namespace

isa::Chip comparison_chip(const isa::Chip& chip, const std::vector<const isa::Program*>& programs) {
  return shrunk(chip, reach_of(chip, programs));
}

EquivalenceResult compare_programs(const isa::Program& first, const isa::Program& second,
                                   const isa::Chip& chip, const EquivalenceOptions& options) {
  const ProgramReach reach = reach_of(chip, {&first, &second});
  const isa::Chip small = shrunk(chip, reach);
  return Comparison(small, reach, options).run(first, second);
}

}  // namespace kodama::simulator
