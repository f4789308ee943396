#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/costs.h"
#include "scheduler/problem/schedule_problem.h"

/// From operations of the chip to a ScheduleProblem: which depend on each other, and what they take of a
/// step. Everything comes from the tables of isa/costs.h. Internal to scheduler/.
///
/// MVs are statements between steps and keep their order. Since they run on their own, what touches their
/// memories later waits for the `wait` on their tag; a wait stays behind all operations before it in the
/// program (it would hold them up), or if it is early, behind those that touch L2BM, PDM or DRAM; and every
/// later operation that touches these stays behind it.
namespace kodama::scheduler {

/// By HazardResource: someone reads this forwarding register, so its writers keep their order.
using ForwardOrder = std::array<bool, isa::kHazardResourceCount>;

/// An access with the range of addresses it covers over all iterations of all loops around it.
struct TimedAccess {
  isa::Access access;
  int64_t low = 0;
  int64_t high = 0;
  bool everywhere = false;  ///< the address is not known before run time

  bool ranges_meet(const TimedAccess& other) const {
    if (access.place >= 0 && other.access.place >= 0 && access.place != other.access.place) return false;
    return everywhere || other.everywhere || (low < other.high && other.low < high);
  }
};
/// Of an instruction inside loops with these counts, outermost first.
std::vector<TimedAccess> timed_accesses(const isa::Instruction& instruction, const isa::Chip& chip,
                                        const std::vector<int64_t>& loop_counts);
/// Fixes the counter of the loop of depth `depth` (the innermost that still varies) to `counter`.
TimedAccess at_iteration(TimedAccess timed, size_t depth, int64_t counter);

/// Distances between accesses. Where the ranges can't meet, only the conflict of ports is left, which does
/// not depend on the addresses.
class Distances {
 public:
  explicit Distances(const isa::Chip& chip);

  int64_t gap(const TimedAccess& first, const TimedAccess& second) const;
  int64_t longest() const { return longest_; }
  const isa::Chip& chip() const { return chip_; }

 private:
  int64_t disjoint_gap(const isa::Access& first, const isa::Access& second) const;

  const isa::Chip& chip_;
  int64_t longest_;
  mutable std::vector<int64_t> disjoint_;  ///< by pair of agents and directions
};

/// What is to be issued.
struct MachineOperation {
  isa::Instruction instruction;  ///< without virtual operands
  std::string text;
  bool is_mv = false;
  bool is_wait = false;
  bool is_early = false;  ///< a wait: as in Operation
  std::vector<TimedAccess> accesses;
};
MachineOperation make_machine_operation(isa::Instruction instruction, std::string text, const isa::Chip& chip,
                                        const std::vector<int64_t>& loop_counts);

/// The problem of a block. InternalError when an operation alone can't issue.
ScheduleProblem block_problem(std::string name, const std::vector<MachineOperation>& operations,
                              const Distances& distances, const ForwardOrder& ordered_forward);
/// The problem of a loop whose body they are; `depth` is the index of its counter. Operations must not be MVs
/// or waits.
ScheduleProblem loop_problem(std::string name, const std::vector<MachineOperation>& operations,
                             const Distances& distances, const ForwardOrder& ordered_forward, size_t depth);

}  // namespace kodama::scheduler
