#include "scheduler/optimizer/stream_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "passes/registry.h"
#include "scheduler/optimizer/builtin_changes.h"

namespace kodama::scheduler {
namespace {

using isa::Instruction;

passes::Registry<ChangeKind>& registry() {
  static passes::Registry<ChangeKind> all("optimizer change",
                                          {forward_change(), rename_change(), narrow_change()});
  return all;
}

void find_invariant(ChangeContext& context) {
  const size_t n = context.stream.operations.size();
  std::vector<std::vector<int>> producers(n);
  std::vector<std::vector<int>> consumers(n);
  for (const ForwardLink& link : context.stream.links) {
    if (context.stream.dead[static_cast<size_t>(link.consumer)]) continue;
    producers[static_cast<size_t>(link.consumer)].push_back(link.producer);
    consumers[static_cast<size_t>(link.producer)].push_back(link.consumer);
  }
  context.is_invariant.assign(n, false);
  for (size_t k = 0; k < n; ++k) {
    const bool same_forward = std::ranges::all_of(
        producers[k], [&](int p) { return static_cast<bool>(context.is_invariant[static_cast<size_t>(p)]); });
    context.is_invariant[k] = is_cycle_invariant(context.stream.operations[k].instruction, same_forward);
  }
  context.forwards_low.assign(n, false);
  for (size_t k = n; k-- > 0;) {
    const isa::Space space = forwarding_register(context.stream.operations[k].instruction);
    for (const int c : consumers[k]) {
      const Instruction& consumer = context.stream.operations[static_cast<size_t>(c)].instruction;
      for (size_t s = 0; s < consumer.sources.size(); ++s) {
        if (consumer.sources[s].space == space &&
            lower_matters(consumer, s, context.forwards_low[static_cast<size_t>(c)]))
          context.forwards_low[k] = true;
      }
    }
  }
}

/// Whether the operations that a change makes are instructions that can issue.
bool is_legal(const StreamChange& change, const ChangeContext& context) {
  std::map<int, Instruction> changed;
  for (const StreamChange::Edit& edit : change.edits) {
    const Instruction& before = context.stream.operations[static_cast<size_t>(edit.operation)].instruction;
    edit.make(changed.emplace(edit.operation, before).first->second);
  }
  return std::ranges::all_of(changed, [&](const auto& each) {
    return isa::operand_error(each.second).empty() &&
           isa::issue_conflict({each.second}, context.chip).empty();
  });
}

/// Of a plugin's change: what it names is there.
void check_names(const StreamChange& change, const ProgramSegment& segment, const ChangeContext& context) {
  constexpr const char* kPart = "opt change";
  const auto check = [&](int k) {
    isa::check_internal(k >= segment.begin && k < segment.end, kPart,
                        "it changes operation {}; those of the segment are {} to {}", k, segment.begin,
                        segment.end - 1);
    isa::check_internal(!context.stream.dead[static_cast<size_t>(k)], kPart,
                        "it changes operation {}, which nobody needs", k);
  };
  const auto check_definition = [&](int d) {
    isa::check_internal(d < static_cast<int>(context.flow.definitions.size()), kPart,
                        "it names definition {} of {}", d, context.flow.definitions.size());
  };
  for (const StreamChange::Edit& edit : change.edits) {
    check(edit.operation);
    isa::check_internal(edit.make != nullptr, kPart, "it doesn't say what becomes of operation {}",
                        edit.operation);
  }
  for (const ForwardLink& link : change.links) {
    check(link.producer);
    check(link.consumer);
  }
  check_definition(change.definition);
  check_definition(change.also_reads);
  isa::check_internal(change.definition >= 0 || (change.unread.empty() && !change.moved_to), kPart,
                      "it doesn't say which definition is read or moved");
  if (change.definition >= 0) {
    check(context.flow.definitions[static_cast<size_t>(change.definition)].operation);
  }
}

}  // namespace

const std::vector<ChangeKind>& change_kinds() {
  return registry().all();
}
void register_pass(ChangeKind kind) {
  registry().add(std::move(kind));
}

std::vector<std::vector<StreamChange>> find_changes(const ProgramStream& stream, const OperationFlow& flow,
                                                    const OptimizeOptions& options, const isa::Chip& chip) {
  ChangeContext context{stream, flow, options, chip};
  find_invariant(context);
  const std::vector<ChangeKind>& kinds = change_kinds();
  std::vector<ChangeFinder> finders(kinds.size());
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    if (options.left_out.contains(kinds[kind].name)) continue;
    passes::run_blaming("opt change", kinds[kind], [&] { finders[kind] = kinds[kind].run(context); });
  }
  std::vector<std::vector<StreamChange>> result;
  for (const ProgramSegment& segment : stream.segments) {
    std::vector<StreamChange>& changes = result.emplace_back();
    if (segment.untouchable || segment.has_block_mask()) continue;
    for (int k = segment.begin; k < segment.end; ++k) {
      if (stream.dead[static_cast<size_t>(k)]) continue;
      for (size_t kind = 0; kind < kinds.size(); ++kind) {
        if (!finders[kind]) continue;
        passes::run_blaming("opt change", kinds[kind], [&] {
          std::vector<StreamChange> found;
          finders[kind](k, segment, found);
          for (StreamChange& change : found) {
            if (!kinds[kind].plugin.empty()) check_names(change, segment, context);
            if (!is_legal(change, context)) continue;
            change.kind = kind;
            changes.push_back(std::move(change));
          }
        });
      }
    }
  }
  return result;
}

}  // namespace kodama::scheduler
