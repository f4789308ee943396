#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <random>

#include "assembler/assembler.h"
#include "assembler/random_program.h"
#include "simulator/debug_text.h"
#include "simulator/golden/golden_machine.h"
#include "simulator/kernels.h"
#include "simulator/machine.h"
#include "simulator/test_chip.h"

/// Engine against golden model: random legal statements on a small chip, every memory compared after each.
namespace kodama::simulator {
namespace {

using golden::GoldenMachine;
using isa::Space;

constexpr std::array<Space, 15> kSpaces{Space::kLm0,  Space::kLm1,  Space::kGrf0, Space::kGrf1, Space::kT,
                                        Space::kOmr,  Space::kBar0, Space::kBar1, Space::kMatX, Space::kMatY,
                                        Space::kL1bm, Space::kL2bm, Space::kDram, Space::kPdm,  Space::kDar};

isa::Chip fuzz_chip() {
  isa::Chip chip = small_chip();
  chip.memory.dram_lw = 512;
  chip.memory.pdm_lw = 256;
  chip.memory.dar_entries = 128;
  chip.memory.l2bm_lw = 128;
  chip.memory.l1bm_lw = 128;
  chip.memory.lm_words = 32;
  chip.memory.grf_words = 16;
  return chip;
}

template <typename Visit>
void for_each_location(const isa::Chip& chip, Space space, Visit&& visit) {
  const std::array<int, 5> counts{chip.groups, chip.l2b_per_group, chip.l1b_per_l2b, chip.mab_per_l1b,
                                  isa::kPePerMab};
  const int levels = space_levels(space);
  auto count = [&](int level) { return level < levels ? counts[static_cast<size_t>(level)] : 1; };
  const bool words =
      space == Space::kLm0 || space == Space::kLm1 || space == Space::kGrf0 || space == Space::kGrf1;
  Place place;
  for (place.group = 0; place.group < count(0); ++place.group) {
    for (place.l2b = 0; place.l2b < count(1); ++place.l2b) {
      for (place.l1b = 0; place.l1b < count(2); ++place.l1b) {
        for (place.mab = 0; place.mab < count(3); ++place.mab) {
          for (place.pe = 0; place.pe < count(4); ++place.pe) {
            for (int64_t address = 0; address < space_size(space, chip); address += words ? 2 : 1) {
              visit(place, address);
            }
          }
        }
      }
    }
  }
}

/// Numbers that arithmetic stumbles over, in lanes of one width.
class OperandSource {
 public:
  explicit OperandSource(uint64_t seed) : engine_(seed) {}

  uint64_t next() {
    const int width = std::array{16, 32, 64}[engine_() % 3];
    uint64_t value = 0;
    for (int i = 0; i < 64 / width; ++i) value = width == 64 ? lane(64) : value << width | lane(width);
    return value;
  }
  std::mt19937_64& engine() { return engine_; }

 private:
  uint64_t lane(int width) {
    const int mantissa = width == 64 ? 52 : width == 32 ? 23 : 9;
    const uint64_t max_exponent = width == 64 ? 2047 : width == 32 ? 255 : 63;
    const uint64_t bias = max_exponent / 2;
    const uint64_t sign = engine_() & 1;
    uint64_t exponent = bias;
    switch (engine_() % 8) {
      case 0:
        exponent = 0;
        break;
      case 1:
        exponent = max_exponent;
        break;
      case 2:
        exponent = std::array<uint64_t, 4>{1, 2, max_exponent - 1, max_exponent - 2}[engine_() % 4];
        break;
      case 3:
        exponent = engine_() % (max_exponent + 1);
        break;
      default:
        exponent = bias - 4 + engine_() % 8;
        break;
    }
    const uint64_t mask = (uint64_t{1} << mantissa) - 1;
    uint64_t bits = engine_() & mask;
    switch (engine_() % 6) {
      case 0:
        bits = 0;
        break;
      case 1:
        bits = mask;
        break;
      case 2:
        bits = uint64_t{1} << (engine_() % mantissa);
        break;
      case 3:
        bits = mask ^ (engine_() & 7);
        break;
      default:
        break;
    }
    return sign << (width - 1) | exponent << mantissa | bits;
  }
  std::mt19937_64 engine_;
};

void refill(const isa::Chip& chip, OperandSource& source, Machine& machine, GoldenMachine& golden) {
  // A plain mood lets blocks and sums stay in the range where fast paths run.
  const bool plain = source.engine()() % 2 == 0;
  for (const Space space : kSpaces) {
    if (space == Space::kBar0 || space == Space::kBar1) continue;
    for_each_location(chip, space, [&](const Place& place, int64_t address) {
      uint64_t value = source.next();
      if (plain) {
        // Floats, or halves, near one.
        value = source.engine()() % 2 == 0 ? (value & 0x80ffffff80ffffff) | 0x3e0000003e000000
                                           : (value & 0x83ff83ff83ff83ff) | 0x3c003c003c003c00;
      }
      if (space == Space::kDar) value %= static_cast<uint64_t>(chip.memory.dram_lw) / 16;
      machine.write(space, place, address, value);
      golden.write(space, place, address, value);
    });
  }
}

/// Empty when all memories agree.
std::string difference(const isa::Chip& chip, const Machine& machine, const GoldenMachine& golden) {
  std::string found;
  for (const Space space : kSpaces) {
    for_each_location(chip, space, [&](const Place& place, int64_t address) {
      const uint64_t engine = machine.read(space, place, address);
      const uint64_t expected = golden.read(space, place, address);
      if (engine == expected || !found.empty()) return;
      found = fmt::format("space {} n{}c{}b{}m{}p{} address {}: engine {:016x}, golden {:016x}",
                          static_cast<int>(space), place.group, place.l2b, place.l1b, place.mab, place.pe,
                          address, engine, expected);
    });
  }
  return found;
}

int fuzz_steps() {
  const char* wanted = std::getenv("KODAMA_FUZZ_STEPS");
  return wanted != nullptr ? std::atoi(wanted) : 1600;
}

void run_differential(uint64_t seed, int statements, int threads) {
  const isa::Chip chip = fuzz_chip();
  MachineOptions options;
  options.threads = threads;
  Machine machine(chip, options);
  GoldenMachine golden(chip);
  OperandSource source(seed);
  assembler::RandomOptions random_options;
  random_options.address_window = 32;
  random_options.mask_statements = false;  // one statement a program here; block masks have a test below
  assembler::RandomProgram random(chip, seed, random_options);
  int failures = 0;
  for (int i = 0; i < statements && failures < 10; ++i) {
    if (i % 16 == 0) refill(chip, source, machine, golden);
    isa::Program program;
    program.statements.push_back(random.statement());
    const std::string text = assembler::print(program);
    std::vector<std::string> engine_lines;
    std::vector<std::string> golden_lines;
    RunOptions engine_run;
    engine_run.dump = [&](const std::string& line) { engine_lines.push_back(line); };
    RunOptions golden_run;
    golden_run.dump = [&](const std::string& line) { golden_lines.push_back(line); };
    bool engine_refused = false;
    bool golden_refused = false;
    try {
      machine.run(program, engine_run);
    } catch (const isa::UserError&) {
      engine_refused = true;
    }
    try {
      golden.run(program, golden_run);
    } catch (const isa::UserError&) {
      golden_refused = true;
    }
    EXPECT_EQ(engine_refused, golden_refused) << "seed " << seed << " statement " << i << ": " << text;
    EXPECT_EQ(engine_lines, golden_lines) << "seed " << seed << " statement " << i << ": " << text;
    const std::string found = difference(chip, machine, golden);
    EXPECT_EQ(found, "") << "seed " << seed << " statement " << i << ": " << text;
    if (!found.empty() || engine_refused) {
      failures += !found.empty();
      refill(chip, source, machine, golden);
      // A refused transfer may have done a part; start both from the same contents.
      Machine fresh(chip, options);
      machine = std::move(fresh);
      golden = GoldenMachine(chip);
      refill(chip, source, machine, golden);
    }
  }
}

TEST(Differential, EngineEqualsGoldenModel) {
  run_differential(1, fuzz_steps(), 1);
}

TEST(Differential, EngineEqualsGoldenModelOnThreeThreads) {
  run_differential(2, fuzz_steps() / 4, 3);
}

TEST(Differential, EveryHighwayTargetEqualsGoldenModel) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(best_kernels().target);
    run_differential(3, fuzz_steps() / 8, 1);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

/// Whole programs, so that block masks, forwarding registers and stretches of steps matter.
TEST(Differential, ProgramsEqualGoldenModel) {
  const isa::Chip chip = fuzz_chip();
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(fuzz_steps()) / 40; ++seed) {
    Machine machine(chip, {.threads = 2});
    GoldenMachine golden(chip);
    OperandSource source(seed);
    refill(chip, source, machine, golden);
    assembler::RandomOptions options;
    options.address_window = 32;
    assembler::RandomProgram random(chip, seed, options);
    isa::Program program = random.program(20);
    try {
      golden.run(program);
    } catch (const isa::UserError&) {
      EXPECT_THROW(machine.run(program), isa::UserError);
      continue;
    }
    machine.run(program);
    EXPECT_EQ(difference(chip, machine, golden), "") << "seed " << seed << "\n" << assembler::print(program);
  }
}

}  // namespace
}  // namespace kodama::simulator
