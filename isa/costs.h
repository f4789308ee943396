#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isa/chip.h"
#include "isa/instruction.h"
#include "isa/program.h"

/// The cost tables: every question about time that can be answered without simulating. Scheduler,
/// planner, checker and simulator ask here, so that there is one model of time.
namespace kodama::isa {

/// A resource that a hazard is about. Memories are addressed; others are one thing each.
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
inline constexpr int kHazardResourceCount = static_cast<int>(HazardResource::kMreadForward) + 1;
bool is_forwarding_register(HazardResource resource);
/// Memories that MVs, too, read and write: L2BM, DAR, DRAM, PDM.
bool is_transfer_memory(HazardResource resource);
/// The memory or register that operands of a space name; nothing for constants, immediates and kVirtual.
std::optional<HazardResource> hazard_resource(Space space);
/// Addresses wrap at this size; 0: they don't.
int64_t wrap_size(HazardResource resource, const Chip& chip);
std::string_view hazard_resource_name(HazardResource resource);  ///< "LM0", "mask register", "$aluf", …
/// Who touches it: the distance depends on the pair (section 9 of the ISA page). l2bmi reads L1BM as
/// kL1bmToL2bm and writes it as kL2bmToL1bm.
enum class Agent : uint8_t { kPe, kL1bmToPe, kPeToL1bm, kL1bmToL2bm, kL2bmToL1bm, kMv };

/// One access of an instruction. Addresses are words of PE memories, LW of L1BM/L2BM/DRAM/PDM, cycles of T,
/// entries of masks, rows of matrix registers. They leave out BAR, and count loop counters as 0.
struct Access {
  HazardResource resource;
  Agent agent;
  bool write = false;
  /// The address isn't known before run time (T-indirect, DAR) or covers everything (a matrix product
  /// reads the whole register): the access may be anywhere in the resource.
  bool whole = false;
  /// Starts of ranges of `length` units. PE memories and T have one per cycle of the step (`cycles` = 4),
  /// others use only [0] (`cycles` = 1).
  std::array<int64_t, 4> begin{};
  int64_t length = 1;
  int cycles = 1;
  /// Bit c: the access happens in cycle c. Cycles that a constant write mask excludes are 0; a write excluded
  /// in all four isn't listed at all. A mask of length l doesn't reach the lower LW of 2LW, so that these are
  /// written in every cycle.
  uint8_t active_cycles = 0b1111;
  /// DRAM, PDM, DAR: group; L2BM: L2B, counted over the chip. -1 = all.
  int32_t place = -1;
  std::vector<int64_t> loop_strides = {};  ///< of the operand, without trailing zeros
  /// kVirtual operands: the value, and addresses relative to it. The value may end in any PE memory, so
  /// `resource` is then the one with the longest distances (kLm0); who knows the memory may overwrite it.
  int32_t value = -1;
  /// Under a run-time mask, or one that reaches only half of the data, or only in some L1Bs: not all old data
  /// is replaced.
  bool may_not_write = false;
};

/// All accesses of an instruction: operands, masks, BARs of LM operands, T of indirect addresses, and the
/// forwarding register that the unit writes (a MAU calculation writes kMauForward, …). A scheduler for
/// which only operations that are read through forwarding matter should drop forwarding writes that
/// nobody reads, since they order all operations of a unit. Masks set by mask statements aren't known here.
std::vector<Access> accesses(const Instruction& instruction, const Chip& chip);

/// Whether an access to L1BM of an instruction happens in this L1B of its L2B: those of L2BM instructions may
/// be in some.
bool is_in_l1b(const Access& access, const Instruction& instruction, int l1b, const Chip& chip);

/// How far apart two accesses must issue, `first` being earlier in program order:
///
///   kNoConstraint  independent: they may issue in any order (whether in one step, issue_conflict says)
///   kSameStep      `second` in the same step as `first` or later
///   g >= 0         g other steps between them: issue(second) >= issue(first) + 1 + g
///
/// So, but for kNoConstraint, issue(second) >= issue(first) + 1 + required_gap(first, second).
///
/// Two accesses depend on each other when one writes, both mean the same resource (or value) and place,
/// and their addresses overlap. Addresses with equal loop strides are compared within one iteration; with
/// different strides they count as overlapping. LM has one port, whose use by a write lasts longer than a
/// step: there a write and a read keep their order whatever the addresses. An MV takes no step; what reads
/// its result, or overwrites its source, must also be behind a `wait` for its tag, which this function
/// doesn't express.
inline constexpr int64_t kNoConstraint = -2;
inline constexpr int64_t kSameStep = -1;
int64_t required_gap(const Access& first, const Access& second, const Chip& chip);

/// No pair of accesses needs more other steps in between.
int64_t longest_gap(const Chip& chip);

/// Steps that must stand between a write of L1BM by one side and a read by one side.
int64_t l1bm_read_gap(Agent writer, Agent reader, const HazardGaps& hazard);
/// The same for two instructions: the largest gap of any pair of their accesses, forwarding registers left
/// out (who reads one wants the latest result, whoever it is of).
int64_t required_gap(const Instruction& first, const Instruction& second, const Chip& chip);

/// Whether instructions may issue in one step (section 4); empty when yes, otherwise the rule broken, in
/// words that name the instructions. Rules about a space don't apply to kVirtual operands, which have none
/// yet.
std::string issue_conflict(const std::vector<Instruction>& step, const Chip& chip);

/// The same rules as places that instructions take in a step, for schedulers: instructions may issue in one
/// step when no resource is wanted by more than its capacity. Uses with the same key (not empty) share a
/// place: reads of one memory at the same addresses, masks of the same entry. Each instruction alone must be
/// legal; MVs, which stand alone, have no uses.
struct StepResource {
  std::string name;
  int64_t capacity = 1;
};
const std::vector<StepResource>& step_resources();
struct StepUse {
  int resource = 0;  ///< index of step_resources()
  std::string key;
  /// In a loop: means the same in all iterations of the innermost of `loops` loops around.
  bool is_invariant(size_t loops) const { return strides_end < loops; }
  size_t strides_end = 0;  ///< loop strides of the key, without trailing zeros
};
std::vector<StepUse> step_uses(const Instruction& instruction);

/// What an MV occupies, and how much.
enum class TransferPort : uint8_t {
  kDram,       ///< of a group, reads and writes together
  kPdmRead,    ///< of a group
  kPdmWrite,   ///< of a group
  kL2bmRead,   ///< of an L2B, counted over the chip
  kL2bmWrite,  ///< of an L2B
  kGroupPath,  ///< from one group to another
};
struct TransferUse {
  TransferPort port;
  int32_t index = 0;  ///< group, or L2B over the chip; of kGroupPath: the group data comes from
  int32_t to = -1;    ///< of kGroupPath: the group data goes to
  int64_t lw = 0;
};
/// One end of a transfer, or one path between groups that it takes, with the addresses it touches there.
struct TransferPart {
  TransferPort port;
  int32_t index = 0;  ///< as TransferUse
  int32_t to = -1;
  int64_t lw = 0;
  int64_t address = 0;    ///< LW; of an indirect DRAM operand: the DAR entry. Not of kGroupPath
  bool write = false;     ///< of kDram
  bool indirect = false;  ///< through the DAR
};
struct TransferLoad {
  int64_t group_hops = 0;  ///< largest distance between groups; groups stand in a row
  std::vector<TransferUse> uses;
};
/// `mv` must be an MV instruction (InternalError). An omitted group means all groups where the transfer works
/// inside groups (mvp without groups, mvb2, mvr2), group 0 for the one end of a transfer that spans groups.
TransferLoad transfer_load(const Instruction& mv, const Chip& chip);
/// The same, end by end: a copy inside one memory has a part for each of its two ends.
std::vector<TransferPart> transfer_parts(const Instruction& mv, const Chip& chip);
/// Cycles from issue until the first LW moves: start-up, and the way between the groups.
int64_t transfer_latency(const std::vector<TransferPart>& parts, const Chip& chip);
/// LW per cycle.
double transfer_rate(TransferPort port, const Chip& chip);
/// Cycles from issue to completion of an MV transfer on an otherwise idle chip: start-up, hops, and
/// the longest time that any port is busy.
int64_t transfer_cycles(const Instruction& mv, const Chip& chip);
/// Cycles of moving `bytes` over the host link, one way, latency included.
int64_t host_link_cycles(int64_t bytes, const Chip& chip);
/// Without latency, in ticks (isa/dram_model.h).
int64_t link_ticks(int64_t bytes, const Chip& chip);
/// Peak multiply-adds per cycle of the whole chip for matrix (`matrix`) or vector operations; 0 where the
/// precision has none.
double peak_macs_per_cycle(Precision precision, bool matrix, const Chip& chip);

}  // namespace kodama::isa
