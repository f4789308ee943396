#include "layout/gather/gather.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "isa/arithmetic.h"
#include "isa/hazards.h"
#include "isa/rounds_test_util.h"
#include "scheduler/verify/verify.h"
#include "simulator/machine.h"

namespace kodama::checks {
namespace {

using layout::Gather;
using layout::GatherCode;
using layout::GatherProblem;
using layout::GatherSource;

constexpr int64_t kSourceAt = 256;

struct Case {
  GatherProblem problem;
  int64_t source_lw = 0;
};

/// A random image: runs of consecutive words, words from anywhere, and constants.
Case random_case(std::mt19937_64& engine, const isa::Chip& chip, int64_t most_lw, bool everywhere) {
  const auto below = [&](int64_t limit) {
    return static_cast<int64_t>(engine() % static_cast<uint64_t>(limit));
  };
  Case result;
  result.source_lw = 64 * (1 + below(most_lw / 64));
  GatherProblem& problem = result.problem;
  problem.address = kSourceAt + result.source_lw + 64 * below(3);
  problem.parts = below(2) == 0 ? 1 : chip.l2b_per_group;
  problem.size_lw = isa::round_up(64 * (1 + below(most_lw / 64)), 64 * problem.parts);
  problem.constants = {0, 0x3f800000, 0xff800000, 0x7f800000};
  problem.words.resize(static_cast<size_t>(chip.groups));
  const int64_t first = everywhere ? 0 : below(chip.groups);
  for (int64_t g = first; g < (everywhere ? chip.groups : first + 1); ++g) {
    std::vector<GatherSource>& words = problem.words[static_cast<size_t>(g)];
    while (static_cast<int64_t>(words.size()) < 2 * problem.size_lw) {
      const int64_t length = 1 + below(40);
      int64_t word = 2 * kSourceAt + below(2 * result.source_lw);
      const auto group = static_cast<int>(below(chip.groups));
      const bool constant = below(8) == 0;
      const int64_t which = below(4);
      for (int64_t k = 0; k < length && static_cast<int64_t>(words.size()) < 2 * problem.size_lw; ++k) {
        words.push_back(constant ? GatherSource::constant(which) : GatherSource::dram(group, word));
        word = std::min(word + 1, 2 * (kSourceAt + result.source_lw) - 1);
      }
    }
  }
  return result;
}

/// Runs the gather and compares every word of the image; "" when all are right.
std::string difference(const Case& each, const isa::Chip& chip, uint64_t seed) {
  const GatherProblem& problem = each.problem;
  const Gather gather(problem, chip);
  const int64_t tables_at = problem.address + problem.size_lw;
  const GatherCode code = gather.emit(tables_at);
  verify::verify_rules(code.program, chip);
  simulator::Machine machine(chip);
  std::mt19937_64 engine(seed);
  std::vector<std::vector<uint64_t>> before(static_cast<size_t>(chip.groups));
  const int64_t all = tables_at + gather.tables_lw() + 256;
  for (int g = 0; g < chip.groups; ++g) {
    std::vector<uint64_t>& dram = before[static_cast<size_t>(g)];
    for (int64_t k = 0; k < all; ++k) dram.push_back(engine());
    std::ranges::copy(code.tables[static_cast<size_t>(g)], dram.begin() + tables_at);
    machine.write_dram(g, 0, dram);
  }
  const auto word_of = [&](int group, int64_t word) {
    return static_cast<uint32_t>(before[static_cast<size_t>(group)][static_cast<size_t>(word / 2)] >>
                                 (word % 2 == 0 ? 32 : 0));
  };
  simulator::RunOptions options;
  options.timing = true;
  const simulator::RunStats stats = machine.run(code.program, options);
  if (stats.cycles() != code.cycles)
    return fmt::format("{} cycles, {} predicted", stats.cycles(), code.cycles);
  if (stats.cycles() < gather.dram_cycles())
    return fmt::format("{} cycles, {} of DRAM alone", stats.cycles(), gather.dram_cycles());
  for (int g = 0; g < chip.groups; ++g) {
    std::vector<uint64_t> after(static_cast<size_t>(all));
    machine.read_dram(g, 0, after);
    const std::vector<GatherSource>& words = problem.words[static_cast<size_t>(g)];
    std::vector<uint64_t> wanted = before[static_cast<size_t>(g)];
    for (size_t k = 0; k < words.size(); ++k) {
      const uint32_t bits = words[k].is_constant()
                                ? problem.constants[static_cast<size_t>(words[k].constant_index())]
                                : word_of(words[k].group(), words[k].word());
      uint64_t& lw = wanted[static_cast<size_t>(problem.address) + k / 2];
      lw = k % 2 == 0 ? (lw & 0xffffffff) | uint64_t{bits} << 32 : (lw & ~uint64_t{0xffffffff}) | bits;
    }
    for (int64_t k = 0; k < all; ++k) {
      if (after[static_cast<size_t>(k)] != wanted[static_cast<size_t>(k)]) {
        return fmt::format("group {} LW {}: found {:016x}, wanted {:016x}", g, k,
                           after[static_cast<size_t>(k)], wanted[static_cast<size_t>(k)]);
      }
    }
  }
  return "";
}

/// Every row of every group backwards.
Case rows_backwards(int64_t size_lw, int64_t parts, const isa::Chip& chip) {
  Case each;
  GatherProblem& problem = each.problem;
  problem.parts = parts;
  problem.size_lw = each.source_lw = size_lw;
  problem.address = kSourceAt + each.source_lw;
  for (int g = 0; g < chip.groups; ++g) {
    problem.words.emplace_back();
    for (int64_t k = 0; k < 2 * problem.size_lw; ++k)
      problem.words.back().push_back(GatherSource::dram(g, 2 * kSourceAt + (k ^ 63)));
  }
  return each;
}

isa::Chip small_dram(const char* name) {
  isa::Chip chip = isa::find_chip(name);
  chip.memory.dram_lw = 1 << 20;
  return chip;
}

TEST(Gather, RandomImagesOnTiny) {
  const isa::Chip chip = small_dram("tiny");
  for (uint64_t seed = 1; seed <= isa::rounds<uint64_t>(16, 40); ++seed) {
    std::mt19937_64 engine(seed);
    // The large ones need more windows than one round has.
    const Case each = random_case(engine, chip, seed % 8 == 0 ? 60000 : 2000, seed % 3 != 0);
    ASSERT_EQ(difference(each, chip, seed), "") << "seed " << seed;
  }
}

TEST(Gather, RandomImagesOnMncore2) {
  const isa::Chip chip = small_dram("mncore2");
  for (uint64_t seed = 1; seed <= isa::rounds<uint64_t>(2, 4); ++seed) {
    std::mt19937_64 engine(seed);
    const Case each = random_case(engine, chip, 40000, seed % 3 != 0);
    ASSERT_EQ(difference(each, chip, seed), "") << "seed " << seed;
  }
}

TEST(Gather, NoEstimateIsLessThanTheLeast) {
  for (const char* name : {"tiny", "mncore2"}) {
    const isa::Chip chip = small_dram(name);
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      std::mt19937_64 engine(seed);
      const Case each = random_case(engine, chip, seed % 10 == 0 ? 40000 : 3000, seed % 3 != 0);
      std::set<std::pair<int, int64_t>> words;
      int64_t groups = 0;
      for (const std::vector<GatherSource>& group : each.problem.words) {
        groups += group.empty() ? 0 : 1;
        for (const GatherSource& source : group) {
          if (!source.is_constant()) words.emplace(source.group(), source.word());
        }
      }
      const int64_t least = layout::least_gather_cycles(each.problem.size_lw, each.problem.parts, groups,
                                                        static_cast<int64_t>(words.size()), chip);
      EXPECT_LE(least, Gather(each.problem, chip).estimated_cycles()) << name << " seed " << seed;
      EXPECT_GT(least, 0);
    }
  }
}

TEST(Gather, NoHazardsAndTheEstimateIsNear) {
  const isa::Chip chip = small_dram("mncore2");
  for (const int64_t size : {64, 2048, 20000}) {
    const Case each = rows_backwards(size / 64 * 64, 1, chip);
    const Gather gather(each.problem, chip);
    const GatherCode code = gather.emit(each.problem.address + each.problem.size_lw);
    EXPECT_TRUE(isa::find_hazards(code.program, chip).empty());
    EXPECT_GT(gather.estimated_cycles(), code.cycles * 2 / 3);
    EXPECT_LT(gather.estimated_cycles(), code.cycles * 3 / 2);
  }
}

/// An image that the first L2Bs of a group could make alone is made by all that read it.
TEST(Gather, PartsAreMadeWhereTheyAreRead) {
  const isa::Chip chip = small_dram("tiny");
  const Case each = rows_backwards(64 * chip.l2b_per_group, chip.l2b_per_group, chip);
  const GatherProblem& problem = each.problem;
  EXPECT_EQ(difference(each, chip, 1), "");
  std::set<int> makers;
  std::vector<int64_t> counters;
  const isa::Program program = Gather(problem, chip).emit(problem.address + problem.size_lw).program;
  isa::for_each_executed(program.statements, counters, [&](const isa::Statement& statement, const auto&) {
    const auto* mv = std::get_if<isa::Mv>(&statement.kind);
    if (mv == nullptr || mv->instruction.sources[0].space != isa::Space::kL2bm) return true;
    const int maker = mv->instruction.sources[0].unit;
    makers.insert(maker);
    const int64_t begin = mv->instruction.destinations[0].base - problem.address;
    EXPECT_GE(begin, 64 * maker);
    EXPECT_LE(begin + mv->instruction.size_lw, 64 * (maker + 1));
    return true;
  });
  EXPECT_EQ(makers.size(), static_cast<size_t>(chip.l2b_per_group));
}

/// Images of one row have tables of the lines that they fill.
TEST(Gather, ShortImagesHaveShortTables) {
  const isa::Chip chip = small_dram("mncore2");
  const auto tables_lw = [&](int64_t size_lw) {
    GatherProblem problem;
    problem.address = 4096;
    problem.size_lw = size_lw;
    problem.words.assign(1, std::vector<GatherSource>(static_cast<size_t>(2 * size_lw)));
    for (size_t k = 0; k < problem.words[0].size(); ++k)
      problem.words[0][k] = GatherSource::dram(0, static_cast<int64_t>(k ^ 1));
    problem.words.resize(static_cast<size_t>(chip.groups));
    return Gather(problem, chip).tables_lw();
  };
  const int64_t line = chip.pe_per_l1b() * chip.l1b_per_l2b;
  EXPECT_EQ(tables_lw(64), tables_lw(line));
  EXPECT_EQ(tables_lw(2 * line) - tables_lw(line), line * chip.l2b_per_group);
  EXPECT_EQ(tables_lw(4 * line), tables_lw(3 * line + 64));
}

/// How often a gather's program has an opcode.
int64_t count(const isa::Program& program, isa::Opcode opcode) {
  int64_t found = 0;
  std::vector<int64_t> counters;
  isa::for_each_executed(program.statements, counters, [&](const isa::Statement& statement, const auto&) {
    if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) found += mv->instruction.opcode == opcode;
    if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
      for (const isa::Instruction& each : step->instructions) found += each.opcode == opcode;
    }
    return true;
  });
  return found;
}

/// An image of which every LW is a LW of the source in the same group.
template <typename SourceLw>
Case lw_by_lw(int64_t size_lw, const isa::Chip& chip, SourceLw&& source_lw) {
  Case each;
  each.source_lw = each.problem.size_lw = size_lw;
  each.problem.address = kSourceAt + size_lw;
  for (int g = 0; g < chip.groups; ++g) {
    each.problem.words.emplace_back();
    for (int64_t lw = 0; lw < size_lw; ++lw) {
      for (int64_t half = 0; half < 2; ++half)
        each.problem.words.back().push_back(GatherSource::dram(g, 2 * (kSourceAt + source_lw(lw)) + half));
    }
  }
  return each;
}

/// L1Bs that want other parts of the source share broadcasts, and groups that want the same of their own DRAM
/// share transfers.
TEST(Gather, L1bsWithPartsOfTheirOwnShareBroadcasts) {
  const isa::Chip chip = small_dram("mncore2");
  const int64_t size = 16384, line = isa::kL2bmdRunLw * chip.l1b_per_l2b;
  const Case each = lw_by_lw(size, chip, [&](int64_t lw) {
    const int64_t l1b = lw / isa::kL2bmdRunLw % chip.l1b_per_l2b;
    return l1b * (size / chip.l1b_per_l2b) + lw / line * isa::kL2bmdRunLw + lw % isa::kL2bmdRunLw;
  });
  EXPECT_EQ(difference(each, chip, 1), "");
  const isa::Program program =
      Gather(each.problem, chip).emit(each.problem.address + each.problem.size_lw).program;
  const int64_t octets = size / chip.l2b_per_group / chip.l1b_per_l2b / 8;
  EXPECT_EQ(count(program, isa::Opcode::kL1bmp), octets + 1);  // and the constant
  EXPECT_EQ(count(program, isa::Opcode::kL2bmb), size / chip.l2b_per_group / 64 + 1);
  int64_t of_one_group = 0;
  std::vector<int64_t> counters;
  isa::for_each_executed(program.statements, counters, [&](const isa::Statement& statement, const auto&) {
    const auto* mv = std::get_if<isa::Mv>(&statement.kind);
    if (mv != nullptr && mv->instruction.opcode == isa::Opcode::kMvp)
      of_one_group += mv->instruction.sources[0].group >= 0;
    return true;
  });
  EXPECT_EQ(of_one_group, 0);
}

/// Of blocks that every L1B wants another octet of, no PE gets more than two octets: copies begin at even
/// ones.
TEST(Gather, L1bsTakeTheirOctetsOfABlock) {
  const isa::Chip chip = small_dram("mncore2");
  const int64_t size = 16384;
  const Case each = lw_by_lw(size, chip, [](int64_t lw) { return lw; });
  EXPECT_EQ(difference(each, chip, 1), "");
  const isa::Program program =
      Gather(each.problem, chip).emit(each.problem.address + each.problem.size_lw).program;
  EXPECT_EQ(count(program, isa::Opcode::kL1bmp), 2 * size / chip.l2b_per_group / 64 + 1);
}

/// Both L2Bs of each group want the same: one transfer for all of them.
TEST(Gather, L2bsOfEachGroupShareTransfers) {
  const isa::Chip chip = small_dram("mncore2");
  const int64_t size = 16384;
  const Case each = lw_by_lw(size, chip, [&](int64_t lw) { return lw % (size / chip.l2b_per_group); });
  EXPECT_EQ(difference(each, chip, 1), "");
  const isa::Program program =
      Gather(each.problem, chip).emit(each.problem.address + each.problem.size_lw).program;
  EXPECT_GT(count(program, isa::Opcode::kMvb2), 0);
}

/// What only one L2B of each group needs isn't brought to all.
TEST(Gather, OneL2bsDataComesToItAlone) {
  const isa::Chip chip = small_dram("tiny");
  const Case each = rows_backwards(1024 * chip.l2b_per_group, chip.l2b_per_group, chip);
  const GatherProblem& problem = each.problem;
  EXPECT_EQ(difference(each, chip, 1), "");
  const isa::Program program = Gather(problem, chip).emit(problem.address + problem.size_lw).program;
  int64_t broadcasts = 0;
  std::vector<int64_t> counters;
  isa::for_each_executed(program.statements, counters, [&](const isa::Statement& statement, const auto&) {
    const auto* mv = std::get_if<isa::Mv>(&statement.kind);
    broadcasts += mv != nullptr && mv->instruction.opcode == isa::Opcode::kMvb;
    return true;
  });
  EXPECT_EQ(broadcasts, 1);  // of the constant
}

/// Loads of a program, and stores, that cross from one group to another.
std::pair<int64_t, int64_t> crossings(const isa::Program& program) {
  std::pair<int64_t, int64_t> found;
  std::vector<int64_t> counters;
  isa::for_each_executed(program.statements, counters, [&](const isa::Statement& statement, const auto&) {
    const auto* mv = std::get_if<isa::Mv>(&statement.kind);
    if (mv == nullptr || mv->instruction.opcode != isa::Opcode::kMvp) return true;
    const isa::Operand& from = mv->instruction.sources[0];
    if (from.group != mv->instruction.destinations[0].group)
      ++(from.space == isa::Space::kL2bm ? found.second : found.first);
    return true;
  });
  return found;
}

/// Groups that want runs of 16 LW of all groups make what the others' images have of their own DRAM: rows
/// cross, not runs. Of an image that one group has, all L2Bs make some.
TEST(Gather, RowsAreMadeWhereTheirWordsAre) {
  const isa::Chip chip = small_dram("mncore2");
  const int64_t row = 4 * chip.pe_per_l1b() * chip.l1b_per_l2b, size = 8 * row, run = 16;
  Case each;
  each.source_lw = each.problem.size_lw = size;
  each.problem.address = kSourceAt + size;
  for (int g = 0; g < chip.groups; ++g) {
    each.problem.words.emplace_back();
    for (int64_t k = 0; k < 2 * size; ++k) {
      const int64_t lw = k / 2, of_group = lw % (size / chip.groups);
      const int64_t from = (of_group / run * chip.groups + g) * run + of_group % run;
      each.problem.words.back().push_back(
          GatherSource::dram(static_cast<int>(lw / (size / chip.groups)), 2 * (kSourceAt + from) + (k & 1)));
    }
  }
  EXPECT_EQ(difference(each, chip, 1), "");
  auto [loads, stores] = crossings(Gather(each.problem, chip).emit(each.problem.address + size).program);
  EXPECT_EQ(loads, 0);
  EXPECT_GT(stores, 0);

  const int64_t shared = Gather(each.problem, chip).estimated_cycles();
  for (int g = 1; g < chip.groups; ++g) each.problem.words[static_cast<size_t>(g)].clear();
  EXPECT_EQ(difference(each, chip, 1), "");
  std::tie(loads, stores) = crossings(Gather(each.problem, chip).emit(each.problem.address + size).program);
  EXPECT_EQ(loads, 0);
  EXPECT_GT(stores, 0);
  EXPECT_LT(Gather(each.problem, chip).estimated_cycles(), shared);
}

/// Of blocks one behind the other every L1B wants a quarter: one step brings that of four blocks.
TEST(Gather, QuartersOfBlocksAreDealt) {
  const isa::Chip chip = small_dram("mncore2");
  const int64_t size = 16384, line = isa::kL2bmdRunLw * chip.l1b_per_l2b;
  // L1B b has quarter b % 4 of the blocks of its half, octet by octet.
  const Case each = lw_by_lw(size, chip, [&](int64_t lw) {
    const int64_t l1b = lw / isa::kL2bmdRunLw % chip.l1b_per_l2b, octet = lw / line;
    return l1b / 4 * (size / 2) + octet / 2 * 64 + l1b % 4 * 16 + octet % 2 * 8 + lw % isa::kL2bmdRunLw;
  });
  EXPECT_EQ(difference(each, chip, 1), "");
  const isa::Program program =
      Gather(each.problem, chip).emit(each.problem.address + each.problem.size_lw).program;
  EXPECT_EQ(count(program, isa::Opcode::kL2bmb), 1);  // the constant
  // Three distances of four L1Bs, for either half, of every four blocks; no octet that nobody wants.
  const int64_t fours = size / chip.l2b_per_group / chip.l1b_per_l2b / 64;
  EXPECT_EQ(count(program, isa::Opcode::kL2bmb2), 6 * fours);
  EXPECT_EQ(count(program, isa::Opcode::kL1bmp), 8 * fours + 1);
}

/// Images whose indices are those of the source with their bits in any order, groups included.
TEST(Gather, BitsInAnyOrder) {
  const isa::Chip chip = small_dram("mncore2");
  constexpr int kBits = 15;  // of a word in a group
  int64_t crossing = 0, dealt = 0;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 engine(seed);
    std::vector<int> bits(kBits + 2);
    std::iota(bits.begin(), bits.end(), 0);
    // Long runs stay whole in some.
    std::shuffle(bits.begin() + static_cast<int64_t>(engine() % 8), bits.end(), engine);
    Case each;
    each.source_lw = each.problem.size_lw = int64_t{1} << (kBits - 1);
    each.problem.address = kSourceAt + each.source_lw;
    for (int64_t g = 0; g < chip.groups; ++g) {
      each.problem.words.emplace_back();
      for (int64_t k = 0; k < int64_t{1} << kBits; ++k) {
        int64_t from = 0;
        for (size_t b = 0; b < bits.size(); ++b) from |= ((g << kBits | k) >> b & 1) << bits[b];
        each.problem.words.back().push_back(GatherSource::dram(static_cast<int>(from >> kBits),
                                                               2 * kSourceAt + from % (int64_t{1} << kBits)));
      }
    }
    EXPECT_EQ(difference(each, chip, seed), "");
    const isa::Program program =
        Gather(each.problem, chip).emit(each.problem.address + each.problem.size_lw).program;
    EXPECT_TRUE(isa::find_hazards(program, chip).empty());
    crossing += crossings(program).second > 0 ? 1 : 0;
    dealt += count(program, isa::Opcode::kL2bmb2) > 0 ? 1 : 0;
  }
  EXPECT_GT(crossing, 0);
  EXPECT_GT(dealt, 0);
}

TEST(Gather, MoreWindowsThanATableTellsApart) {
  const isa::Chip chip = small_dram("tiny");
  Case each;
  each.source_lw = 64 * 1000;
  each.problem.address = kSourceAt + each.source_lw;
  each.problem.size_lw = 4096;
  each.problem.words.resize(static_cast<size_t>(chip.groups));
  for (int64_t k = 0; k < 2 * each.problem.size_lw; ++k) {
    each.problem.words[1].push_back(
        GatherSource::dram(static_cast<int>(k % 2), 2 * kSourceAt + k * 997 % (2 * each.source_lw)));
  }
  EXPECT_GT(Gather(each.problem, chip).window_count(), 16U);
  EXPECT_EQ(difference(each, chip, 1), "");
}

TEST(Gather, OfNothing) {
  const isa::Chip chip = small_dram("tiny");
  Case each;
  each.problem.words.resize(static_cast<size_t>(chip.groups));
  EXPECT_EQ(difference(each, chip, 1), "");
}

TEST(Gather, ConstantsAlone) {
  const isa::Chip chip = small_dram("tiny");
  Case each;
  each.source_lw = 64;
  each.problem.address = 1024;
  each.problem.size_lw = 192;
  each.problem.constants.clear();
  for (uint32_t k = 0; k < 50; ++k) each.problem.constants.push_back(k * 0x01010101);
  each.problem.words.resize(static_cast<size_t>(chip.groups));
  for (int64_t k = 0; k < 2 * each.problem.size_lw; ++k)
    each.problem.words[1].push_back(GatherSource::constant(k * 7 % 50));
  EXPECT_EQ(difference(each, chip, 1), "");
}

}  // namespace
}  // namespace kodama::checks
