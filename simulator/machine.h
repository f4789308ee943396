#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/host_work.h"
#include "isa/program.h"
#include "isa/sequencer.h"
#include "simulator/profile.h"
#include "simulator/timeline.h"

/// The simulated chip: all its memories at their real size, and an engine that runs programs on them.
///
///     Machine machine(chip);
///     machine.write_dram(0, 0, image);
///     RunResult result = machine.run(program);
///     machine.read_dram(0, 4096, result_image);
///
/// Functional rule (ISA page 1.4): within a step all operands of all cycles are read first, then
/// everything is written; an MV completes when issued; results are visible to the next statement.
/// (Hazards::kStale shows what hardware does to programs that break the rules of section 9.) Cycles are
/// counted beside it by the timing model, simulator/timing/chip_timing.h. Results and cycles depend on
/// program, chip and memory contents alone, never on the number of threads or the host's vector width.
namespace kodama::simulator {

/// Coordinates inside the tree; fields beyond the memory's level are ignored.
struct Place {
  int group = 0;
  int l2b = 0;  ///< inside the group
  int l1b = 0;  ///< inside the L2B
  int mab = 0;  ///< inside the L1B
  int pe = 0;   ///< inside the MAB
};

struct MachineOptions {
  int threads = 0;                                             ///< 0 = all cores
  enum class Memory { kZero, kDirty } memory = Memory::kZero;  ///< kDirty: pseudo-random from `seed`
  uint64_t seed = 1;
  /// How much DRAM transfers may write, in blocks of 1 MiB, before a program is refused (UserError); 0 = all.
  int64_t most_dram_bytes = 0;
};

/// What one run did.
struct RunStats {
  int64_t steps = 0;
  int64_t nops = 0;
  int64_t mvs = 0;
  int64_t mv_lw = 0;        ///< LW moved on the wide side
  isa::CycleCauses causes;  ///< all zero without timing
  isa::HostTimes host;      ///< of one run; sums have none
  int64_t alu_ops = 0;      ///< steps whose slot was used
  int64_t mau_ops = 0;
  int64_t l1bm_ops = 0;
  int64_t l2bm_ops = 0;
  int64_t cycles() const { return causes.total(); }
  /// Adds to mv_lw; a sum too large for it is the largest number.
  void add_moved(int64_t lw);
  RunStats& operator+=(const RunStats& other);
};

/// What to do about programs that break the rules of section 9 of the ISA page (isa/hazards.h).
enum class Hazards : uint8_t {
  kIgnore,  ///< as the vendor's emulator: every write is visible to the next statement, an MV completes at
            ///< once
  kError,   ///< refuse the program: UserError
  /// As the hardware: who reads too early gets what was there before (StaleView). What a transfer writes
  /// appears when a `wait` for its tag is passed, or at the end: before, its time is nobody's business. Slow.
  kStale,
  /// As a chip that holds a step until its operands are there: results as with kIgnore, the stalls are
  /// counted. Needs timing, not with before_statement.
  kStall,
};

struct RunOptions {
  /// Receives each line that `d get` prints, without newline.
  std::function<void(const std::string&)> dump;
  /// Called now and then with the number of steps done. What it throws ends the run.
  std::function<void(int64_t)> progress;
  /// Called before each executed statement, loops unrolled and the counters in the addresses; false ends the
  /// run. Memories may be read and written in it. Statements then run one at a time, which is slow.
  std::function<bool(const isa::Statement&)> before_statement;
  Hazards hazards = Hazards::kIgnore;
  /// Count cycles. Runs of a process wait for each other only while the timing model answers (see
  /// ChipTiming).
  bool timing = true;
  isa::HostWork host;            ///< around the program; its time alone is counted
  Profile* profile = nullptr;    ///< filled in; needs timing, not with before_statement
  Timeline* timeline = nullptr;  ///< the same
  std::string name;              ///< of the program in the timeline
};

/// Machines made from now on compute with the vector code of this target ("AVX2", …), for tests; empty: with
/// the host's best. UserError naming those that there are.
void choose_vector_target(const std::string& name);

class Machine {
 public:
  explicit Machine(const isa::Chip& chip, const MachineOptions& options = {});
  ~Machine();
  Machine(Machine&&) noexcept;
  Machine& operator=(Machine&&) noexcept;

  const isa::Chip& chip() const;

  /// Runs a program to its end. UserError (with the program's source line) for an access that only shows
  /// at run time, such as an MV beyond the end of DRAM; UnsupportedError for an instruction the engine
  /// does not implement.
  RunStats run(const isa::Program& program, const RunOptions& options = {});

  /// Host access, in LW; `group` selects the DRAM or PDM. UserError outside the memory.
  void write_dram(int group, int64_t address, std::span<const uint64_t> data);
  /// Most of `count` LW of a DRAM will be written: the simulator takes the memory for them in larger pages.
  void expect_dram(int group, int64_t address, int64_t count);
  void read_dram(int group, int64_t address, std::span<uint64_t> data) const;
  void write_pdm(int group, int64_t address, std::span<const uint64_t> data);
  void read_pdm(int group, int64_t address, std::span<uint64_t> data) const;

  /// One LW of any memory, for debug statements and tests. `address` in the memory's own unit (words for
  /// LM and GRF, even; LW for the others; kT: cycle c's upper LW is c, lower LW 4 + c; matrix registers:
  /// 4 * row + LW of the PE; kOmr: entry * 4 + cycle, four bits in the low end). The forwarding registers
  /// (as kT) and the turnaround register can be read only.
  uint64_t read(isa::Space space, const Place& place, int64_t address) const;
  void write(isa::Space space, const Place& place, int64_t address, uint64_t value);
  /// The same for LWs one after the other, from `address` on: for whole memories.
  void read(isa::Space space, const Place& place, int64_t address, std::span<uint64_t> data) const;
  void write(isa::Space space, const Place& place, int64_t address, std::span<const uint64_t> data);

  /// The word address of an operand in a PE memory (without loop strides) in one cycle, with the present
  /// contents of BAR and T.
  int64_t operand_address(const isa::Operand& operand, const Place& place, int cycle) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kodama::simulator
