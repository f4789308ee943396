/// A change for kodama opt as a plugin: who reads a copy reads the original. docs/write-a-pass.md explains
/// it.
#include <algorithm>

#include "isa/instruction.h"
#include "passes/plugin.h"
#include "scheduler/optimizer/stream_changes.h"

using namespace kodama::isa;
using namespace kodama::scheduler;

namespace {

/// A range of LM or GRF, long words without more ado.
bool is_plain(const Operand& operand) {
  return (is_local_memory(operand.space) || operand.space == Space::kGrf0 || operand.space == Space::kGrf1) &&
         operand.width == Width::kLong && !operand.flat && !operand.t_indirect && operand.j < 0 &&
         operand.mask.kind == Mask::Kind::kNone;
}

/// Sources of operation `reader` that read what a copy in the same segment has written.
void find_copies(const ChangeContext& context, int reader, const ProgramSegment& segment,
                 std::vector<StreamChange>& changes) {
  const auto& operations = context.stream.operations;
  const Instruction& reads = operations[size_t(reader)].instruction;
  for (size_t source = 0; source < reads.sources.size(); ++source) {
    const int written = context.flow.source_definition[size_t(reader)][source];
    if (written < 0) continue;
    const int k = context.flow.definitions[size_t(written)].operation;
    if (k < segment.begin || k >= segment.end) continue;
    const StreamOperation& copy = operations[size_t(k)];
    if (copy.instruction.opcode != Opcode::kPassa || copy.is_masked ||
        copy.instruction.zero_flush.kind != Mask::Kind::kNone)
      continue;
    const Operand& from = copy.instruction.sources[0];
    const Operand& read = reads.sources[source];
    const auto to = std::ranges::find(copy.instruction.destinations, read.space, &Operand::space);
    const int original = context.flow.source_definition[size_t(k)][0];
    if (original < 0 || to == copy.instruction.destinations.end() || !is_plain(from) || !is_plain(*to) ||
        !is_plain(read) || read.base != to->base || read.stride != to->stride || context.stream.moving[0] ||
        context.stream.moving[1])
      continue;
    // Nobody may have written where the original is, not even in the step of the copy.
    const bool is_kept = std::all_of(
        operations.begin() + segment.begin, operations.begin() + reader, [&](const StreamOperation& other) {
          return other.time < copy.time || std::ranges::none_of(other.accesses, [&](const Access& access) {
                   return access.write && access.resource == hazard_resource(from.space);
                 });
        });
    if (!is_kept) continue;
    StreamChange change;
    change.edits = {{reader, [source, from](Instruction& instruction) {
                       Operand& operand = instruction.sources[source];
                       operand.space = from.space;
                       operand.base = from.base;
                       operand.stride = from.stride;
                     }}};
    change.definition = written;
    change.unread = {{reader, int(source)}};
    change.also_reads = original;
    changes.push_back(change);
  }
}

}  // namespace

KODAMA_PLUGIN() {
  register_pass(ChangeKind{.name = "copies",
                           .description = "who reads a copy reads the original",
                           .options = {},
                           .run = [](const ChangeContext& context) -> ChangeFinder {
                             return [&context](int operation, const ProgramSegment& segment,
                                               std::vector<StreamChange>& changes) {
                               find_copies(context, operation, segment, changes);
                             };
                           }});
}
