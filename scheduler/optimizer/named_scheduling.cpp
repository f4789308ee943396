#include "scheduler/optimizer/named_scheduling.h"

#include <algorithm>
#include <map>

#include "isa/error.h"
#include "scheduler/machine/passes.h"
#include "scheduler/machine/program_scheduling.h"
#include "scheduler/optimizer/stream_changes.h"

namespace kodama::scheduler {
namespace {

using isa::Access;
using isa::HazardResource;
using isa::Instruction;
using isa::Opcode;

/// When the operations of the segment issue in statements made of them.
ClusterScheduler::Times times_in(const std::vector<isa::Statement>& statements,
                                 const StreamSegment& segment) {
  ClusterScheduler::Times times(segment.operations.size(), -1);
  int64_t now = 0;
  const auto place = [&](const Instruction& instruction) {
    for (size_t k = 0; k < times.size(); ++k) {
      if (times[k] >= 0 || !(segment.operations[k].instruction == instruction)) continue;
      times[k] = now;
      return;
    }
    throw isa::InternalError("internal error in optimizer: the scheduler made up an operation");
  };
  for (const isa::Statement& statement : statements) {
    if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) place(mv->instruction);
    if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
      for (const Instruction& instruction : step->instructions) place(instruction);
      ++now;
    }
    if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
      if (nop->wait_tag > 0) {
        Instruction wait;
        wait.opcode = Opcode::kWait;
        wait.tag = nop->wait_tag;
        place(wait);
      }
      now += nop->count;
    }
  }
  isa::check_internal(std::ranges::find(times, -1) == times.end(), "optimizer",
                      "the scheduler lost an operation");
  return times;
}

}  // namespace

void check_choice(const OptimizeOptions& options) {
  std::vector<const std::vector<passes::PassOptionInfo>*> known;
  for (const ChangeKind& kind : change_kinds()) known.push_back(&kind.options);
  if (!options.scheduler.empty()) {
    std::string names;
    const BlockScheduler* chosen = nullptr;
    for (const BlockScheduler& scheduler : block_schedulers()) {
      if (!scheduler.for_blocks) continue;
      if (scheduler.name == options.scheduler) chosen = &scheduler;
      names += (names.empty() ? "" : ", ") + scheduler.name;
    }
    if (chosen == nullptr) {
      throw isa::UserError(
          fmt::format("--scheduler {}: there is no such scheduler; allowed: {}", options.scheduler, names));
    }
    known.push_back(&chosen->options);
  }
  passes::check_options(options.passes, known);
}

std::optional<ClusterScheduler::Times> schedule_by_name(const OptimizeOptions& options,
                                                        const StreamSegment& segment,
                                                        const std::vector<RecentOperation>& before,
                                                        const isa::Chip& chip) {
  if (!segment.links.empty() || segment.has_block_mask) return std::nullopt;
  const ClusterScheduler order(segment, {}, chip, false);
  if (!order.is_consistent()) return std::nullopt;
  const auto times = order.plain();
  if (!times) return std::nullopt;
  std::map<int64_t, std::vector<size_t>> sequence;
  for (size_t k = 0; k < times->size(); ++k) {
    const bool is_mv = segment.operations[k].is_mv;
    auto& same = sequence[2 * (*times)[k] + (is_mv ? 0 : 1)];
    if (!is_mv && !same.empty()) return std::nullopt;  // must stay together
    same.push_back(k);
  }
  Block block;
  for (const auto& [time, operations] : sequence) {
    for (const size_t k : operations) {
      for (const Access& access : segment.operations[k].accesses) {
        if (access.resource == HazardResource::kDar) return std::nullopt;
      }
      block.operations.push_back({segment.operations[k].instruction, ""});
    }
  }
  MachineProgram program;
  program.body.push_back({std::move(block)});
  const isa::Program scheduled = schedule_program(program, chip, {options.scheduler, {}, options.passes, {}});
  ClusterScheduler::Times result = times_in(scheduled.statements, segment);
  std::vector<RecentOperation> issued;
  for (size_t k = 0; k < result.size(); ++k)
    issued.push_back({result[k], segment.operations[k].is_mv, segment.operations[k].accesses});
  const int64_t delay = delay_behind(before, issued, chip);
  for (int64_t& time : result) time += delay;
  return result;
}

}  // namespace kodama::scheduler
