/// `narrow`: an operation writes in one cycle only what all four cycles write the same.
#include <algorithm>

#include "scheduler/optimizer/builtin_changes.h"

namespace kodama::scheduler {
namespace {

using isa::Instruction;
using isa::Operand;
using isa::Space;

bool can_narrow(int k, const ChangeContext& context) {
  const StreamOperation& operation = context.stream.operations[static_cast<size_t>(k)];
  if (!context.is_invariant[static_cast<size_t>(k)] || operation.is_masked) return false;
  bool writes = false;
  for (const Operand& destination : operation.instruction.destinations) {
    if (destination.space == Space::kNoWrite) continue;
    if (!isa::is_pe_memory(destination.space) || destination.t_indirect) return false;
    for (int c = 1; c < isa::kCyclesPerStep; ++c) {
      if (destination.address(c) != destination.address(0)) return false;
    }
    writes = true;
  }
  return writes;
}

void narrow_writes(Instruction& producer) {
  bool wide = false;
  for (const Operand& destination : producer.destinations)
    wide = wide || destination.width == isa::Width::kDoubleLong;
  for (Operand& destination : producer.destinations) {
    if (destination.space != Space::kNoWrite) destination.mask = {isa::Mask::Kind::kPattern, 0b1000, wide, 0};
  }
}

}  // namespace

ChangeKind narrow_change() {
  return {"narrow",
          "what all four cycles write the same is written in one",
          {},
          [](const ChangeContext& context) -> ChangeFinder {
            return [&context](int k, const ProgramSegment&, std::vector<StreamChange>& changes) {
              if (can_narrow(k, context)) changes.push_back({.edits = {{k, narrow_writes}}});
            };
          }};
}

}  // namespace kodama::scheduler
