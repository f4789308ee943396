#pragma once

#include <kodama/kodama.h>

#include <exception>

/// VSM programs on the simulated chip: what `kodama sim program.vsm` does.
///
///     #include <kodama/simulate.h>
///
///     const kodama::VsmProgram program = kodama::VsmProgram::read("sum.vsm", "tiny");
///     const kodama::Simulation run = kodama::simulate(program, {.memory = "dirty"});
///     run.cycles;
///     for (const std::string& line : run.dump) std::puts(line.c_str());  // of `d get`
///
/// docs/isa says what programs are made of.
namespace kodama {

namespace library {
struct VsmState;
}  // namespace library

/// A program, checked for a chip.
class VsmProgram {
 public:
  /// A file in any form that `kodama asm` writes. UserError with file, line and column.
  static VsmProgram read(const std::string& file, const std::string& chip = kDefaultChip);
  /// `name` begins messages.
  static VsmProgram from_text(const std::string& text, const std::string& chip = kDefaultChip,
                              const std::string& name = "program.vsm");

  const std::string& name() const;
  const std::string& chip() const;
  int64_t steps() const;      ///< loops unrolled
  int64_t transfers() const;  ///< the same
  /// Reads too soon after a write, transfers that nobody waits for, wrong tags: "3: ...".
  std::vector<std::string> hazards() const;

 private:
  friend struct library::VsmState;
  std::shared_ptr<const library::VsmState> state_;
};

struct SimulationSettings {
  int threads = 0;              ///< of the simulator; 0: all cores
  std::string memory = "zero";  ///< or dirty: pseudo-random, from the seed
  uint64_t seed = 1;
  bool timing = true;                ///< count cycles
  std::string hazards = "ignore";    ///< error, stale, stall: as `kodama sim --hazards`
  bool check_uninitialized = false;  ///< slow; not with files, statistics, and stall
  RunFiles files = {};               ///< trace, vcd, statistics; no others
  bool statistics = false;           ///< in Simulation::statistics, as text; not beside a file of them
  Progress progress = {};
  /// Gets each line of `d get` as it comes; else they are in Simulation::dump.
  std::function<void(const std::string&)> dump = {};
};

/// What one run did.
struct Simulation {
  int64_t steps = 0, nops = 0, transfers = 0;
  bool is_timed = true;  ///< else there are no cycles
  int64_t cycles = 0;
  int64_t waiting = 0;                     ///< of these, for transfers
  std::vector<std::string> dump;           ///< lines of `d get`
  std::vector<std::string> uninitialized;  ///< reads of memory that the program has not written
  std::string statistics;
  /// "12 steps (3 nop), 2 MV transfers, 60 cycles (8 waiting)"; no cycles if there are none.
  std::string summary() const;
};

/// UserError for an access that shows at run time only. `ready` gets the result before files are written.
Simulation simulate(const VsmProgram& program, const SimulationSettings& settings = {},
                    const std::function<void(const Simulation&)>& ready = {});

/// One of several programs: what it did, or how it failed.
struct SimulationOfMany {
  std::string file;
  Simulation simulation;
  std::exception_ptr error;
};
/// Reads and runs each on a chip of its own, `jobs` at a time. Not with files, statistics and
/// a function for dumps.
std::vector<SimulationOfMany> simulate_many(const std::vector<std::string>& files, const std::string& chip,
                                            int jobs = 1, const SimulationSettings& settings = {});

struct DebugSettings {
  bool stop_at_start = true;
  std::vector<int> breakpoints = {};      ///< lines
  std::vector<std::string> watches = {};  ///< places: "$lm0n0c0b0m0p0"
  bool prompt = false;                    ///< print "> " before each command
  int threads = 0;
  std::string memory = "zero";  ///< or dirty
  uint64_t seed = 1;
};
/// Runs the program statement by statement, as commands from `in` say (`help` lists them); everything goes to
/// `out`. UserError for a breakpoint or watch that can't be.
void debug(const VsmProgram& program, std::istream& in, std::ostream& out,
           const DebugSettings& settings = {});

}  // namespace kodama
