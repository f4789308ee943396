#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/instruction.h"
#include "isa/program.h"

/// The cost tables: every question about time that can be answered without simulating. Scheduler,
/// planner, checker and simulator ask here, so that there is one model of time.
namespace kodama::isa {

/// A resource that a hazard is about. PE memories are addressed; others are one thing each.
enum class HazardResource : uint8_t {
  kLm0,
  kLm1,
  kGrf0,
  kGrf1,
  kT,
  kMask,
  kMatX,
  kMatY,
  kBar0,
  kBar1,
  kL1bm,
  kTurnaround,
  kL2bm,
  kDar,
  kDram,
  kPdm,
  kAluForward,
  kMauForward,
  kLbForward,
  kMreadForward,
};
/// Who touches it: the distance depends on the pair (section 9 of the ISA page).
enum class Agent : uint8_t { kPe, kL1bmToPe, kPeToL1bm, kL1bmToL2bm, kL2bmToL1bm, kMv };

/// One access of an instruction. [begin, end) are words of PE memories, LW of L1BM/L2BM/DRAM/PDM, rows
/// or columns of matrix registers, entries of masks, and empty where the address is not known before
/// run time (T-indirect): `whole` is then true and the access may be anywhere.
struct Access {
  HazardResource resource;
  Agent agent;
  bool write = false;
  bool whole = false;
  /// Word ranges per cycle for PE memories (4 entries: begin of cycle c, all of `length` words); for
  /// others only [0] is used.
  std::array<int64_t, 4> begin{};
  int64_t length = 0;
  int cycles = 4;                     ///< how many entries of `begin` are used
  std::vector<int64_t> loop_strides;  ///< of the operand
  int32_t value = -1;                 ///< kVirtual operands: the value (resource is then meaningless)
  bool may_not_write = false;         ///< under a run-time mask
};

/// All accesses of an instruction, forwarding registers included (a MAU calc writes kMauForward, …).
std::vector<Access> accesses(const Instruction& instruction, const Chip& chip);

/// Number of other steps that must stand between `first` and `second` (accesses to the same resource
/// whose addresses overlap, or that conflict whatever the address), -1 when they may issue in the same
/// step in any order, i.e. there is no dependence. A write after a read returns 0 where both may share a
/// step without changing what is read (-1 is "no constraint", kSameStep is "same step or later").
inline constexpr int64_t kNoConstraint = -2;
inline constexpr int64_t kSameStep = -1;
int64_t required_gap(const Access& first, const Access& second, const Chip& chip);

/// Whether instructions may issue in one step (section 4); empty when yes, otherwise the rule broken,
/// in words that name both.
std::string issue_conflict(const std::vector<Instruction>& step, const Chip& chip);

/// Cycles from issue to completion of an MV transfer on an otherwise idle chip.
int64_t transfer_cycles(const Instruction& mv, const Chip& chip);
/// Cycles of moving `bytes` over the host link, one way, latency included.
int64_t host_link_cycles(int64_t bytes, const Chip& chip);
/// Peak multiply-adds per cycle of the whole chip for matrix (`matrix`) or vector operations.
double peak_macs_per_cycle(Precision precision, bool matrix, const Chip& chip);

}  // namespace kodama::isa
