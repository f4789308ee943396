#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "isa/chip.h"
#include "isa/costs.h"
#include "isa/program.h"
#include "passes/pass_options.h"

/// The optimizer of finished programs: VSM in, an equivalent program in fewer cycles or steps out.
///
///     isa::Program shorter = optimize(program, chip).program;
///
/// It rebuilds the dependences of the program from what its instructions touch (isa::accesses) and issues the
/// operations anew: several in a step, independent ones in another order, no more nops than the distances of
/// section 9 of the ISA page ask for. Reads of a register that an operation has just written become reads of
/// the unit's forwarding register where that gives the same bits; writes that nobody can see go away.
///
/// `d get`, `d set`, `r`, mask statements and region marks keep their places; operations stay between the
/// same two of them (a *segment*). Two operations tied by a forwarding register are issued together: the
/// reader in the step after the writer.
///
/// Example (mncore2), 6 steps become 3; the immediate and the sum go by $aluf:
///
///     imm i"1" $ls0                        imm i"1" $ls0
///     nop/2                                iadd $lm0v $aluf $lr0v
///     iadd $lm0v $ls0 $lr0v          ->    fvadd $aluf $aluf $ln0v
///     nop
///     fvadd $lr0v $lr0v $ln0v
namespace kodama::scheduler {

/// What somebody reads after the program: a range of a memory, in its unit (words of PE memories, LW,
/// entries, cycles of T, rows of matrix registers), of every PE, L1B, L2B or group.
struct LiveOut {
  isa::HazardResource memory = isa::HazardResource::kLm0;
  int64_t begin = 0;
  int64_t end = INT64_MAX;
  bool operator==(const LiveOut&) const = default;
};
/// Reads `NAME[:FROM-TO],…`, both ends included (a range of LM supposes that its BAR begins as 0), as
/// `dram,lm1:0-7`. Names: lm0 lm1 grf0 grf1 t masks bar0 bar1 matx maty l1bm turnaround l2bm dar dram pdm.
/// DRAM and PDM are live in any case. UserError for anything else.
std::vector<LiveOut> parse_live_outs(std::string_view text);

/// What is to be less. A step takes four cycles, and a wait for a transfer what the transfer takes
/// (isa::predict_cycles): with fewer steps, waits may become longer by as much, or more. By kCycles, segments
/// with transfers are compared by predicted cycles, and the result never takes more of them than that by
/// kSteps.
enum class Objective : uint8_t { kCycles, kSteps };

struct OptimizeOptions {
  /// Between programs equal by it, the other one decides.
  Objective objective = Objective::kCycles;
  /// Name of an instruction scheduler (scheduler/machine/passes.h) that takes the place of the optimizer's
  /// own search where it can: segments without forwarding, block masks and steps that must stay together.
  /// Empty: the search.
  std::string scheduler = {};
  /// Values may go through other registers than those written in the program.
  bool allow_rename = false;
  /// Memories whose contents after the program matter. Nothing given: all of them do.
  std::optional<std::vector<LiveOut>> live_outs = {};
  /// Every change that the operations allow is made, whether it helps or not: for tests of the changes. The
  /// result may be longer than the input.
  bool eager = false;
  /// Bounds the search: larger finds shorter programs in more time.
  int64_t effort = 100;
  /// Of the changes (stream_changes.h) and of the scheduler.
  passes::PassOptions passes = {};
  /// Kinds of changes that aren't tried.
  std::set<std::string> left_out = {};
};

/// What no order of the operations of the optimized program can beat, added up over its segments but for
/// those that are left as they are.
struct StepBounds {
  int64_t critical_path = 0;
  int64_t unit = 0;       ///< operations of the busiest unit
  std::string unit_name;  ///< "alu"
  int64_t port = 0;       ///< accesses through the busiest port that can't share a step
  std::string port_name;  ///< "write of GRF0"
  int64_t steps = 0;      ///< the largest of the three in each segment, added up
};

struct Optimized {
  isa::Program program;
  bool is_better = false;  ///< by the objective; otherwise `program` is the input
  int64_t steps_before = 0;
  int64_t steps_after = 0;
  int64_t cycles_before = 0;  ///< predicted
  int64_t cycles_after = 0;
  StepBounds bounds;
  int64_t removed = 0;  ///< operations whose results nobody reads
  /// By the name of their kind (stream_changes.h): "forward", reads of a register that became reads of a
  /// forwarding register; "rename", values in another register.
  std::map<std::string, int64_t> changes;
  int64_t untouched = 0;  ///< segments that were left as they are (noforward, forwarding over a statement)
  int64_t untouched_steps = 0;  ///< theirs, of which nothing is known: no bound counts them
};

/// UserError naming the lines when the program has hazards (isa/hazards.h): what it computes then is nobody's
/// guess. Loops are unrolled. Deterministic.
Optimized optimize(const isa::Program& program, const isa::Chip& chip, const OptimizeOptions& options = {});

/// The plain form: one operation per step, in an order that keeps the meaning, with the nops that the
/// distances need. What can't be taken apart stays together: operations that read what each other write,
/// readers of one forwarded result. Errors as optimize().
isa::Program plain_form(const isa::Program& program, const isa::Chip& chip);

}  // namespace kodama::scheduler
