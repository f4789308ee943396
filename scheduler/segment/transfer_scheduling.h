#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"
#include "passes/pass_options.h"
#include "scheduler/problem/transfer_problem.h"

/// Transfers of several programs that run one after the other: what one of them loads comes while those
/// before it still compute.
///
/// Each part is a program of its own, which hands data on to later parts through DRAM and PDM only: L2BM and
/// the PEs hold nothing of use when it begins. The parts' steps stay as they are and in their order. What
/// changes is
///
///   - when a load (an MV into L2BM) is issued, and where a transfer is waited for: where somebody needs its
///     data, or its place, and not before;
///   - the addresses in L2BM: contents that are written once and read by some are a *buffer*, which may lie
///     anywhere, so that the next buffer fills while this one is read;
///   - tags, which go to transfers as they are free;
///   - loads of what a part before has stored from L2BM, or loaded, and which is still there: they fall away,
///     or copy it inside L2BM;
///   - stores of what nobody loads from DRAM then.
///
/// Loops with transfers inside keep their addresses, tags and waits; so do transfers that belong to them.
///
/// Example: two parts `mvp/n64i01 $d0 $lc0@.0; nop; wait i01; l2bmd $lc0 $lb0; …` with `mvp/n64i01 $d64
/// $lc0@.0` in the second: its load gets $lc64 and tag 2, and is issued beside the first.
namespace kodama::scheduler {

struct ProgramPart {
  std::string name;
  isa::Program program;
  /// LW of every group's DRAM, [begin, end), that this part writes and nobody but these parts reads.
  std::vector<std::pair<int64_t, int64_t>> scratch = {};
};

/// The parts as one program, each between `# region NAME` and `# endregion`.
struct ScheduledParts {
  isa::Program program;
  /// The first statement of each part, and the end: `size of parts + 1` numbers. Loads for a part may be in
  /// those before it.
  std::vector<size_t> begin;
};

struct TransferChoice {
  std::string scheduler = {};  ///< empty = default
  passes::PassOptions options = {};
  /// Receives the problem and its solution; may be empty.
  std::function<void(const TransferProblem&, const TransferSchedule&)> observe = {};
  /// What a plan has to learn, and the time that takes, grow with its length: the halves of a longer segment
  /// are planned by themselves.
  size_t most_tasks = size_t{1} << 17;
};

/// Every schedule is checked against its problem. The result is never predicted to take longer than the parts
/// one after the other; where nothing is gained, the halves of the parts are scheduled by themselves, at last
/// each part as it is. UnsupportedError for statements that only hand-written programs have (mask, d get, …).
ScheduledParts schedule_transfers(const std::vector<ProgramPart>& parts, const isa::Chip& chip,
                                  const TransferChoice& choice = {});

}  // namespace kodama::scheduler
