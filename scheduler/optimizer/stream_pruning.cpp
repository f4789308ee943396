#include "scheduler/optimizer/stream_pruning.h"

#include <algorithm>

#include "scheduler/optimizer/operation_flow.h"

namespace kodama::scheduler {
namespace {

using isa::HazardResource;
using isa::Instruction;
using isa::IssueGroup;
using isa::Opcode;
using isa::Operand;
using isa::Space;

bool may_vanish(const StreamOperation& operation) {
  switch (isa::issue_group(operation.instruction)) {
    case IssueGroup::kAlu:
    case IssueGroup::kMauCalc:
    case IssueGroup::kMauMwrite:
    case IssueGroup::kMauMread:
    case IssueGroup::kL1bm:
    case IssueGroup::kL1bmTurnaround:
      return true;
    case IssueGroup::kL2bm:
      return operation.instruction.opcode != Opcode::kL2bmdars;
    default:
      return false;
  }
}

class Pruner {
 public:
  Pruner(ProgramStream& stream, const OptimizeOptions& options, const isa::Chip& chip)
      : stream_(stream), options_(options), chip_(chip), dead_(stream.dead) {}

  void run() {
    for (bool changed = true; changed;) {
      changed = false;
      const OperationFlow flow =
          analyze_flow(stream_.operations, dead_, stream_.events, options_.live_outs, chip_);
      for (const ProgramSegment& segment : stream_.segments) {
        if (segment.untouchable || segment.has_block_mask()) continue;
        for (int k = segment.end; k-- > segment.begin;) {
          if (!dead_[static_cast<size_t>(k)] && prune(k, flow, segment)) changed = true;
        }
      }
    }
  }

 private:
  bool prune(int k, const OperationFlow& flow, const ProgramSegment& segment) {
    StreamOperation& operation = stream_.operations[static_cast<size_t>(k)];
    if (!may_vanish(operation)) return false;
    bool all = true;
    bool changed = false;
    for (const int d : flow.defines[static_cast<size_t>(k)]) {
      const Definition& definition = flow.definitions[static_cast<size_t>(d)];
      const bool is_dead = !definition.escapes && definition.uses.empty();
      if (is_dead) {
        changed = drop_destinations(operation.instruction, definition.resource) || changed;
      } else {
        all = false;
      }
    }
    const bool is_forwarded = std::ranges::any_of(stream_.links, [&](const ForwardLink& link) {
      return link.producer == k && !dead_[static_cast<size_t>(link.consumer)];
    });
    if (all && !is_forwarded) {
      dead_[static_cast<size_t>(k)] = true;
      return true;
    }
    if (changed) refresh(operation, segment.mask, stream_.moving, chip_);
    return changed;
  }

  ProgramStream& stream_;
  const OptimizeOptions& options_;
  const isa::Chip& chip_;
  std::vector<bool>& dead_;
};

}  // namespace

bool drop_destinations(Instruction& instruction, HazardResource memory) {
  Instruction shorter = instruction;
  const auto removed = std::erase_if(shorter.destinations, [&](const Operand& destination) {
    // A transfer is what its destination makes it.
    return destination.space != Space::kL1bm && isa::hazard_resource(destination.space) == memory;
  });
  if (removed == 0) return false;
  if (shorter.destinations.empty()) {
    Operand nowhere;
    nowhere.space = Space::kNoWrite;
    shorter.destinations.push_back(nowhere);
  }
  if (!isa::operand_error(shorter).empty()) return false;
  instruction = std::move(shorter);
  return true;
}

void prune_stream(ProgramStream& stream, const OptimizeOptions& options, const isa::Chip& chip) {
  Pruner(stream, options, chip).run();
}

}  // namespace kodama::scheduler
