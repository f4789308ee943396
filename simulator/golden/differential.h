#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "simulator/golden/golden_machine.h"
#include "simulator/machine.h"

/// Differential fuzzing: the engine and the golden model run the same random legal programs on the same
/// contents, full of edge values, and every memory of both is compared after every statement. Loops and what
/// their counters do to addresses are among them, and some programs come to the engine as text, as a binary
/// file or as machine words, or are run by several threads, with the timing model, or as the debugger does.
///
///     FuzzOptions options;
///     options.chip = small_memories(isa::find_chip("tiny"));
///     options.steps = 100000;
///     FuzzResult result = fuzz(options);   // result.failures is empty, or each says how to see it again
///
/// The work is cut into rounds of a few statements. Round r depends on seed + r alone, so the round that
/// failed is reproduced by its own seed, whatever the number of threads.
namespace kodama::simulator::golden {

/// The chip with its own tree, and memories so small that comparing all of them is cheap and addresses meet.
isa::Chip small_memories(isa::Chip chip);

/// Fills all memories of both machines with the same values: pseudo-random lanes of every width, with zeros,
/// infinities, extreme exponents, all-ones mantissas and single bits among them; for some seeds, numbers of
/// one exponent in each memory.
void fill_with_edge_values(const isa::Chip& chip, uint64_t seed, Machine& machine, GoldenMachine& golden);

/// The first place where the memories differ; empty when all agree.
std::string memory_difference(const isa::Chip& chip, const Machine& machine, const GoldenMachine& golden);

/// Runs `program` on both machines from the contents that `seed` gives, statement by statement, each a
/// program of its own, and compares all memories after each. Empty when nothing differs; else the statements
/// up to the one that does, and the difference.
std::string program_difference(const isa::Chip& chip, uint64_t seed, const isa::Program& program);

struct FuzzOptions {
  isa::Chip chip;
  uint64_t seed = 1;
  int64_t steps = 1000;  ///< steps and transfers; other statements come on top
  double seconds = 0;    ///< stop after this time even if steps are left; 0 = no limit
  int threads = 1;       ///< rounds at a time
  /// Called from one thread at a time with the steps done.
  std::function<void(int64_t)> progress;
};
struct FuzzFailure {
  uint64_t seed = 0;  ///< of the round: fuzz() with it and `steps` = 1 fails at once
  std::string text;   ///< the statements up to the one that failed, and the difference
};
struct FuzzResult {
  int64_t steps = 0;
  std::vector<FuzzFailure> failures;  ///< by seed; fuzzing stops after a few
};
FuzzResult fuzz(const FuzzOptions& options);

}  // namespace kodama::simulator::golden
