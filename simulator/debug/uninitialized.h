#pragma once

#include <memory>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"
#include "simulator/machine.h"

/// Finds reads of memory that nothing has written.
///
///     InitializationTracker tracker(machine);
///     RunOptions options;
///     options.before_statement = [&](const isa::Statement& s) { tracker.before(s); return true; };
///     machine.run(program, options);
///     for (const std::string& report : tracker.reports()) …
///
/// A word counts as written when an instruction, an MV, `d set` or `r` wrote any part of it; under a mask,
/// only where the mask lets a part through. Addresses are those that each PE really uses (BAR, T, j). `d get`
/// reads, too. Matrix registers count by rows, mask registers by entries, forwarding and turnaround registers
/// as a whole. What a transfer copies is read by it, and its target counts as written even if its source was
/// not, so that each fault is reported once: where unwritten memory was read first. One report for each
/// operand of each line, with the first place and the number of places.
namespace kodama::simulator {

class InitializationTracker {
 public:
  /// `machine` must stay; its contents at this moment count as never written.
  explicit InitializationTracker(const Machine& machine);
  ~InitializationTracker();
  InitializationTracker(const InitializationTracker&) = delete;
  InitializationTracker& operator=(const InitializationTracker&) = delete;

  /// Looks at a statement that is about to run.
  void before(const isa::Statement& statement);
  /// "line 12: lpassa $lm4v $lr0v reads $lm4v, which nothing has written: LM0(n0c0b0m0p0,4) and 4095 more"
  std::vector<std::string> reports() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kodama::simulator
