#include "simulator/golden/differential.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "assembler/assembler.h"
#include "assembler/random_program.h"
#include "isa/error.h"
#include "simulator/debug_text.h"
#include "simulator/thread_pool.h"

namespace kodama::simulator::golden {
namespace {

using isa::Space;

constexpr std::array<Space, 15> kSpaces{Space::kLm0,  Space::kLm1,  Space::kGrf0, Space::kGrf1, Space::kT,
                                        Space::kOmr,  Space::kBar0, Space::kBar1, Space::kMatX, Space::kMatY,
                                        Space::kL1bm, Space::kL2bm, Space::kDram, Space::kPdm,  Space::kDar};

/// Statements of a round. All follow from one seed and one filling of the memories.
constexpr int kRoundLength = 16;
constexpr size_t kMaxFailures = 10;

/// Calls visit(place, address) for every LW of a memory until it returns false.
template <typename Visit>
bool for_each_location(const isa::Chip& chip, Space space, Visit&& visit) {
  const std::array<int, 5> counts{chip.groups, chip.l2b_per_group, chip.l1b_per_l2b, chip.mab_per_l1b,
                                  isa::kPePerMab};
  const int levels = space_levels(space);
  const auto count = [&](int level) { return level < levels ? counts[static_cast<size_t>(level)] : 1; };
  const bool words =
      space == Space::kLm0 || space == Space::kLm1 || space == Space::kGrf0 || space == Space::kGrf1;
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
  /// SplitMix64 (Steele, Lea, Flood 2014): filling all memories of a chip takes many numbers.
  uint64_t random() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint64_t lane(int width) {
    const int mantissa = width == 64 ? 52 : width == 32 ? 23 : 9;
    const uint64_t max_exponent = width == 64 ? 2047 : width == 32 ? 255 : 63;
    const uint64_t bias = max_exponent / 2;
    const uint64_t mask = (uint64_t{1} << mantissa) - 1;
    // Fields of one number decide: which kind of exponent and of mantissa, the sign, an exponent.
    const uint64_t choice = random();
    const uint64_t wanted = choice >> 32;
    uint64_t exponent = bias - 4 + wanted % 8;
    switch (choice % 8) {
      case 0:
        exponent = 0;
        break;
      case 1:
        exponent = max_exponent;
        break;
      case 2:
        exponent = std::array<uint64_t, 4>{1, 2, max_exponent - 1, max_exponent - 2}[wanted % 4];
        break;
      case 3:
        exponent = wanted & max_exponent;
        break;
      default:
        break;
    }
    uint64_t bits = random() & mask;
    switch (choice >> 3 & 7) {
      case 0:
        bits = 0;
        break;
      case 1:
        bits = mask;
        break;
      case 2:
        bits = uint64_t{1} << ((choice >> 8 & 0xff) % static_cast<uint64_t>(mantissa));
        break;
      case 3:
        bits = mask ^ (choice >> 8 & 7);
        break;
      default:
        break;
    }
    return (choice >> 6 & 1) << (width - 1) | exponent << mantissa | bits;
  }
  uint64_t state_;
};

/// What a machine did with one program.
struct Reaction {
  std::vector<std::string> lines;
  bool refused = false;
};
template <typename AnyMachine>
Reaction react(AnyMachine& machine, const isa::Program& program) {
  Reaction reaction;
  RunOptions options;
  options.timing = false;
  options.dump = [&](const std::string& line) { reaction.lines.push_back(line); };
  try {
    machine.run(program, options);
  } catch (const isa::UserError&) {
    reaction.refused = true;
  }
  return reaction;
}

/// Both machines, with the same contents.
class Pair {
 public:
  Pair(const isa::Chip& chip, uint64_t seed)
      : chip_(chip), machine_(chip, machine_options(seed)), golden_(chip) {
    fill_with_edge_values(chip_, seed, machine_, golden_);
  }

  /// Runs a program on both; says what differs afterwards.
  std::string compare(const isa::Program& program) {
    const Reaction engine = react(machine_, program);
    const Reaction expected = react(golden_, program);
    refused_ = expected.refused;
    if (engine.refused != expected.refused) {
      return fmt::format("refused by {}\n", engine.refused ? "the engine only" : "the golden model only");
    }
    if (engine.lines != expected.lines) {
      return fmt::format("engine prints:\n{}\ngolden model prints:\n{}\n", fmt::join(engine.lines, "\n"),
                         fmt::join(expected.lines, "\n"));
    }
    return refused_ ? "" : memory_difference(chip_, machine_, golden_);
  }
  /// Both refused the latest program, which may have done a part before.
  bool refused() const { return refused_; }

 private:
  static MachineOptions machine_options(uint64_t seed) {
    MachineOptions options;
    options.threads = seed % 8 == 1 ? 3 : 1;
    return options;
  }

  const isa::Chip& chip_;
  Machine machine_;
  GoldenMachine golden_;
  bool refused_ = false;
};

/// One round: a few programs of one statement, or, one time in four, a single program of several, in which
/// block masks, forwarding and stretches of steps matter and memories are compared at the end. Returns the
/// description of what went wrong, empty when nothing did; `steps` is the number of steps run.
std::string run_round(const isa::Chip& chip, uint64_t seed, int64_t& steps) {
  const bool stepwise = seed % 4 != 0;
  assembler::RandomOptions options;
  options.address_window = 32;
  options.mask_statements = !stepwise;
  assembler::RandomProgram random(chip, seed, options);
  const isa::Program program = random.program(kRoundLength);
  steps = std::ranges::count_if(program.statements, [](const isa::Statement& statement) {
    return std::holds_alternative<isa::Step>(statement.kind) ||
           std::holds_alternative<isa::Mv>(statement.kind);
  });
  if (stepwise) return program_difference(chip, seed, program);
  const std::string found = Pair(chip, seed).compare(program);
  return found.empty() ? "" : assembler::print(program) + found;
}

}  // namespace

isa::Chip small_memories(isa::Chip chip) {
  chip.memory.dram_lw = 128 * chip.l2b_count();
  chip.memory.pdm_lw = 256;
  chip.memory.dar_entries = 128;
  chip.memory.l2bm_lw = 64 * chip.l1b_per_l2b;
  chip.memory.l1bm_lw = 32 * chip.mab_per_l1b;
  chip.memory.lm_words = 32;
  chip.memory.grf_words = 16;
  return chip;
}

void fill_with_edge_values(const isa::Chip& chip, uint64_t seed, Machine& machine, GoldenMachine& golden) {
  EdgeValues values(seed);
  const bool plain = seed % 2 == 0;
  for (const Space space : kSpaces) {
    // Nonzero base addresses would scatter all other accesses; instructions set them.
    if (space == Space::kBar0 || space == Space::kBar1) continue;
    for_each_location(chip, space, [&](const Place& place, int64_t address) {
      uint64_t value = plain ? values.next_plain() : values.next();
      if (space == Space::kDar) value %= static_cast<uint64_t>(chip.memory.dram_lw) / 16;
      machine.write(space, place, address, value);
      golden.write(space, place, address, value);
      return true;
    });
  }
}

std::string memory_difference(const isa::Chip& chip, const Machine& machine, const GoldenMachine& golden) {
  std::string found;
  for (const Space space : kSpaces) {
    const bool equal = for_each_location(chip, space, [&](const Place& place, int64_t address) {
      const uint64_t engine = machine.read(space, place, address);
      const uint64_t expected = golden.read(space, place, address);
      if (engine == expected) return true;
      found = fmt::format("{} of n{}c{}b{}m{}p{}, address {}: engine {:016x}, golden model {:016x}\n",
                          dump_name(space), place.group, place.l2b, place.l1b, place.mab, place.pe, address,
                          engine, expected);
      return false;
    });
    if (!equal) break;
  }
  return found;
}

std::string program_difference(const isa::Chip& chip, uint64_t seed, const isa::Program& program) {
  Pair pair(chip, seed);
  isa::Program so_far;
  for (const isa::Statement& statement : program.statements) {
    const std::string found = pair.compare({.source_name = program.source_name, .statements = {statement}});
    so_far.statements.push_back(statement);
    if (!found.empty()) return assembler::print(so_far) + found;
    if (pair.refused()) break;
  }
  return "";
}

FuzzResult fuzz(const FuzzOptions& options) {
  FuzzResult result;
  std::mutex mutex;
  std::atomic<uint64_t> next{0};
  std::atomic<bool> stop{false};
  const auto start = std::chrono::steady_clock::now();
  ThreadPool pool(std::max(options.threads, 1));
  pool.run(pool.threads(), [&](int, int) {
    while (!stop) {
      const uint64_t seed = options.seed + next++;
      int64_t steps = 0;
      std::string found = run_round(options.chip, seed, steps);
      const std::lock_guard lock(mutex);
      result.steps += steps;
      if (!found.empty()) result.failures.push_back({seed, std::move(found)});
      if (options.progress) options.progress(result.steps);
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
      if (result.steps >= options.steps || result.failures.size() >= kMaxFailures ||
          (options.seconds > 0 && passed.count() >= options.seconds)) {
        stop = true;
      }
    }
  });
  std::ranges::sort(result.failures, {}, &FuzzFailure::seed);
  return result;
}

}  // namespace kodama::simulator::golden
