#include "simulator/golden/differential.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "assembler/assembler.h"
#include "assembler/machine_words.h"
#include "assembler/program_file.h"
#include "assembler/random_program.h"
#include "isa/error.h"
#include "simulator/debug_text.h"
#include "simulator/memory_contents.h"
#include "simulator/thread_pool.h"

namespace kodama::simulator::golden {
namespace {

using isa::Space;

/// Statements of a round. All follow from one seed and one filling of the memories.
constexpr int kRoundLength = 16;
constexpr size_t kMaxFailures = 10;

/// How the engine comes by a program of several statements, and runs it. The golden model runs what was made.
enum class Way : uint8_t {
  kPlain,
  kText,     ///< printed, which unrolls loops, and assembled
  kBinary,   ///< saved and loaded
  kWords,    ///< machine words, without the statements that they can't say
  kThreads,  ///< several
  kTimed,    ///< with the timing model beside it
  kStepped,  ///< statement by statement, as the debugger does
};
constexpr std::array kWays{Way::kPlain, Way::kText,    Way::kBinary, Way::kWords,
                           Way::kPlain, Way::kThreads, Way::kTimed,  Way::kStepped};

/// What a machine did with one program.
struct Reaction {
  std::vector<std::string> lines;
  bool refused = false;
};
template <typename AnyMachine>
Reaction react(AnyMachine& machine, const isa::Program& program, Way way = Way::kPlain) {
  Reaction reaction;
  RunOptions options;
  options.timing = way == Way::kTimed;
  if (way == Way::kStepped) options.before_statement = [](const isa::Statement&) { return true; };
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
  Pair(const isa::Chip& chip, uint64_t seed, bool several_threads)
      : chip_(chip), machine_(chip, MachineOptions{.threads = several_threads ? 3 : 1}), golden_(chip) {
    fill_with_edge_values(chip_, seed, machine_, golden_);
  }

  /// Runs a program on both, or on the engine what it became; says what differs afterwards.
  std::string compare(const isa::Program& program) { return compare(program, program, Way::kPlain); }
  std::string compare(const isa::Program& program, const isa::Program& of_engine, Way way) {
    const Reaction engine = react(machine_, of_engine, way);
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
  const isa::Chip& chip_;
  Machine machine_;
  GoldenMachine golden_;
  bool refused_ = false;
};

std::string words_of(const isa::Program& program) {
  return assembler::to_words(program, {.allow_inferred = true});
}
/// Whether there are machine words for it.
bool has_words(const isa::Statement& statement) {
  try {
    words_of({.source_name = "random", .statements = {statement}});
    return true;
  } catch (const isa::UnsupportedError&) {
    return false;
  }
}

/// One round: a few programs of one statement, or, one time in four, a single program of several, in which
/// block masks, forwarding and stretches of steps matter, memories are compared at the end, and the engine
/// has another way to it than the golden model. Returns the description of what went wrong, empty when
/// nothing did; `steps` is the number of steps run.
std::string run_round(const isa::Chip& chip, uint64_t seed, int64_t& steps) {
  const bool stepwise = seed % 4 != 0;
  assembler::RandomOptions options;
  options.address_window = 32;
  options.mask_statements = !stepwise;
  options.even_opcodes = true;
  options.loops = seed % 2 == 0 || seed % 16 == 1;  // the latter on several threads
  const Way way = stepwise ? Way::kPlain : kWays[seed / 4 % kWays.size()];
  if (way == Way::kWords) {
    options.transfers = options.mask_statements = false;
    options.accept = [](const isa::Instruction& one) { return has_words({isa::Step{{one}}}); };
  }
  assembler::RandomProgram random(chip, seed, options);
  isa::Program program = random.program(kRoundLength);
  if (way == Way::kWords) std::erase_if(program.statements, std::not_fn(has_words));
  const isa::ProgramCounts counts = isa::count(program);
  steps = counts.steps - counts.nops + counts.mvs;
  if (stepwise) return program_difference(chip, seed, program);
  isa::Program of_engine = program;
  if (way == Way::kText) of_engine = assembler::assemble(assembler::print(program), "random", chip);
  if (way == Way::kBinary) {
    of_engine = assembler::load_program(assembler::save_program(program, chip), "random", chip);
    if (of_engine != program) return assembler::print(program) + "is another program when it is loaded\n";
  }
  if (way == Way::kWords) {
    of_engine = assembler::from_words(words_of(program), "random", chip);
  }
  const std::string found = Pair(chip, seed, way == Way::kThreads).compare(program, of_engine, way);
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
  // Every fourth time blocks of one width, else plain numbers or any.
  const bool blocks = seed % 4 == 2, plain = seed % 4 == 0;
  const int width = std::array{32, 16, 64}[seed / 4 % 3];
  for (const Space space : kAllMemories) {
    // Nonzero base addresses would scatter all other accesses; instructions set them.
    if (space == Space::kBar0 || space == Space::kBar1) continue;
    std::vector<uint64_t> contents(static_cast<size_t>(space_size(space, chip) / address_step(space)));
    const uint64_t exponent = blocks ? values.block_exponent(width) : 0;
    for_each_place(space, kEverywhere, chip, [&](const Place& place) {
      for (uint64_t& value : contents) {
        value = blocks ? values.next_block(width, exponent) : plain ? values.next_plain() : values.next();
        if (space == Space::kDar) value %= static_cast<uint64_t>(chip.memory.dram_lw) / 16;
      }
      machine.write(space, place, 0, contents);
      golden.write(space, place, 0, contents);
    });
  }
}

std::string memory_difference(const isa::Chip& chip, const Machine& machine, const GoldenMachine& golden) {
  std::string found;
  for (const Space space : kAllMemories) {
    const int step = address_step(space);
    std::vector<uint64_t> engine(static_cast<size_t>(space_size(space, chip) / step));
    std::vector<uint64_t> expected(engine.size());
    for_each_place(space, kEverywhere, chip, [&](const Place& place) {
      if (!found.empty()) return;
      machine.read(space, place, 0, engine);
      golden.read(space, place, 0, expected);
      const auto at = std::ranges::mismatch(engine, expected);
      if (at.in1 == engine.end()) return;
      found = fmt::format("{} of n{}c{}b{}m{}p{}, address {}: engine {:016x}, golden model {:016x}\n",
                          dump_name(space), place.group, place.l2b, place.l1b, place.mab, place.pe,
                          (at.in1 - engine.begin()) * step, *at.in1, *at.in2);
    });
    if (!found.empty()) break;
  }
  return found;
}

std::string program_difference(const isa::Chip& chip, uint64_t seed, const isa::Program& program) {
  Pair pair(chip, seed, seed % 8 == 1);
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
