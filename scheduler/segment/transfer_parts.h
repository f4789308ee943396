#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "isa/chip.h"
#include "isa/costs.h"
#include "isa/program.h"
#include "scheduler/problem/transfer_problem.h"
#include "scheduler/segment/transfer_scheduling.h"

/// The way of transfer_scheduling.h in three steps: what the parts do (analyze_parts), as a problem
/// (formulate), and the program that a solution stands for (emit_parts). Internal to scheduler/.
namespace kodama::scheduler {

inline constexpr const char* kTransferScheduling = "transfer scheduling";

/// A part of an L2BM (`place`: L2B over the chip, -1 = all), or of a group's DRAM or PDM.
struct TransferRange {
  isa::HazardResource memory = isa::HazardResource::kL2bm;
  int32_t place = -1;
  int64_t begin = 0;
  int64_t end = 0;
  bool write = false;
};
/// Whether both touch the same, and one writes.
bool conflict(const TransferRange& a, const TransferRange& b);
/// Both ends of an MV, each source followed by its destination where there are as many.
std::vector<TransferRange> ranges_of(const isa::Instruction& mv, const isa::Chip& chip);

inline bool is_wait(const isa::Instruction& instruction) {
  return isa::issue_group(instruction) == isa::IssueGroup::kWait;
}
inline bool is_l2bm(const isa::Operand& operand) {
  return operand.space == isa::Space::kL2bm;
}
/// Whether an operand of it is there.
inline bool touches_l2bm(const isa::Instruction& instruction) {
  return std::ranges::any_of(instruction.sources, is_l2bm) ||
         std::ranges::any_of(instruction.destinations, is_l2bm);
}
/// Calls visit(instruction) for what a statement, not a loop, does.
template <typename Visit>
void for_each_instruction(const isa::Statement& statement, Visit&& visit) {
  if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
    for (const isa::Instruction& instruction : step->instructions) visit(instruction);
  } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
    visit(mv->instruction);
  }
}

/// Where an instruction stands: a statement that is no loop, and its number there. Its address would not
/// tell, as copies of a step share their instructions.
struct InstructionPlace {
  const isa::Statement* statement = nullptr;
  size_t number = 0;
  bool operator==(const InstructionPlace&) const = default;
};
struct InstructionPlaceHash {
  size_t operator()(const InstructionPlace& place) const {
    return std::hash<const isa::Statement*>()(place.statement) * 31 + place.number;
  }
};

/// An operand in L2BM: it always means the same buffer.
struct L2bmNode {
  int64_t low = INT64_MAX;  ///< hull of what it names
  int64_t high = 0;
  uint64_t l2bs = 0;  ///< bit q: of L2B q
  bool write = false;
  bool pinned = false;
  int part = 0;
  int64_t task = -1;  ///< that has it; -1: a transfer
  int transfer = -1;
};

/// What stays in its order: a step, loop, mark; or an MV that belongs to a loop.
struct PartTask {
  enum class Kind : uint8_t { kBegin, kEnd, kStatement } kind = Kind::kStatement;
  int part = 0;
  const isa::Statement* statement = nullptr;
  int64_t cycles = 0;
  std::vector<int> nodes = {};
  std::vector<TransferRange> ranges = {};  ///< of the MVs inside, outside L2BM
  bool has_transfers = false;              ///< a loop with MVs or waits, or a MV that belongs to one
  bool behind_removed = false;             ///< a step in front of it fell away
};

/// An MV, or a part of one that loads what several stores have stored.
struct PartTransfer {
  int part = 0;
  const isa::Instruction* mv = nullptr;
  int32_t line = 0;
  int64_t position = 0;  ///< before this task
  bool is_load = true;
  int node = -1;
  std::vector<TransferRange> outside = {};  ///< its end in DRAM or PDM
  std::set<int> after = {};                 ///< stores that write what it reads
  bool after_loop = false;                  ///< a loop writes some of it
  bool is_scratch = false;                  ///< a store of what is loaded by transfers of the parts alone
  int64_t earliest = 1;                     ///< behind the mark of the first part
};
struct PartsAnalysis {
  std::vector<PartTask> tasks;
  std::vector<PartTransfer> moves;
  std::deque<isa::Instruction> pieces;  ///< of MVs
  std::vector<L2bmNode> nodes;
  std::vector<int> buffer;  ///< by node: the node that stands for all that mean the same buffer
  std::unordered_map<InstructionPlace, int, InstructionPlaceHash>
      node_of;                           ///< an instruction has one at most
  std::vector<std::set<int>> kept_tags;  ///< by part: of loops, whose waits stay where they are
  std::vector<int64_t> part_end;         ///< by part: its last task
};
/// How much the parts of a plan may have: what a plan has to learn, and the time that takes, grow with it.
struct PlanLimits {
  size_t tasks = SIZE_MAX, moves = SIZE_MAX;
};
/// Nothing when there is more. Without `has_scratch`, others may read what the parts call their scratch. The
/// analysis names the parts' statements and operands, which must outlive it. UnsupportedError for statements
/// that only hand-written programs have.
std::optional<PartsAnalysis> analyze_parts(std::span<const ProgramPart> parts, const isa::Chip& chip,
                                           const PlanLimits& limits, bool has_scratch);

/// A load of what a store before it takes out may copy it from where the store does.
struct Detour {
  int store = -1;      ///< -1: there is none
  int32_t group = -1;  ///< of the source; -1: each group has its own
  int32_t unit = 0;
  int64_t offset = 0;  ///< from the store's address in L2BM
  int copies = 1;      ///< a broadcast in the group is one to each of its L2Bs
};

struct Formulation {
  TransferProblem problem;
  std::vector<int> buffer_of_node;  ///< by node; its buffer in the problem
  std::vector<int64_t> lowest;      ///< by buffer: its address in the parts
  std::vector<Detour> detours;      ///< by transfer
};
/// A part that needs more than `most_lw` of L2BM at a time keeps its addresses.
Formulation formulate(const PartsAnalysis& analysis, std::span<const ProgramPart> parts,
                      const isa::Chip& chip, int64_t most_lw);
/// The MVs of a load with a detour. `load` has its own place already; the source's buffer has moved by
/// `shift`.
std::vector<isa::Instruction> detoured(const Detour& detour, const isa::Instruction& load,
                                       const PartTransfer& store, int64_t shift);

/// The program of a schedule.
ScheduledParts emit_parts(const PartsAnalysis& analysis, const Formulation& formulation,
                          const TransferSchedule& schedule, std::span<const ProgramPart> parts,
                          const isa::Chip& chip);
/// One part after the other, each as it is.
ScheduledParts emit_plain(std::span<const ProgramPart> parts, const isa::Chip& chip);
/// One behind the other, the second when the first's transfers are over.
ScheduledParts join_parts(ScheduledParts first, ScheduledParts second, const isa::Chip& chip);

}  // namespace kodama::scheduler
