#include "scheduler/optimizer/optimize.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "isa/error.h"
#include "isa/hazards.h"
#include "isa/sequencer.h"
#include "scheduler/optimizer/named_scheduling.h"
#include "scheduler/optimizer/operation_flow.h"
#include "scheduler/optimizer/program_emitter.h"
#include "scheduler/optimizer/program_stream.h"
#include "scheduler/optimizer/segment_search.h"
#include "scheduler/optimizer/stream_changes.h"
#include "scheduler/optimizer/stream_pruning.h"

/// From the program to segments (program_stream.h), from them to operations with dependences
/// (cluster_scheduling.h), and back (program_emitter.h). What may be changed about the operations
/// (stream_changes.h) is found once (operation_flow.h); which of it pays is found by trying
/// (segment_search.h).
namespace kodama::scheduler {
namespace {

void check_result(const isa::Program& result, const isa::Chip& chip) {
  const auto found = isa::find_hazards(result, chip);
  isa::check_internal(found.empty(), "optimizer", "the result has hazards: {}",
                      found.empty() ? "" : found[0].text);
}

bool is_transfer(const isa::Statement& statement) {
  if (std::holds_alternative<isa::Mv>(statement.kind)) return true;
  if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) return nop->wait_tag > 0;
  const auto* step = std::get_if<isa::Step>(&statement.kind);
  return step != nullptr && std::ranges::any_of(step->instructions, [](const isa::Instruction& instruction) {
           return instruction.opcode == isa::Opcode::kWait;
         });
}

/// What follows a segment in the input, up to `kLookAhead` transfers and waits.
std::vector<isa::Statement> following(const ProgramStream& stream, size_t s) {
  constexpr int kLookAhead = 16;
  std::vector<isa::Statement> result;
  int left = kLookAhead;
  int64_t steps = 0;
  for (size_t next = s + 1; next < stream.segments.size() && left > 0; ++next) {
    for (const isa::Statement& statement : stream.segments[next].original) {
      if (!is_transfer(statement)) {
        const auto* nop = std::get_if<isa::Nop>(&statement.kind);
        steps += nop != nullptr ? nop->count : 1;
        continue;
      }
      if (left-- == 0) break;
      if (steps > 0) result.push_back({isa::Nop{std::exchange(steps, 0), 0}});
      result.push_back(statement);
    }
  }
  if (steps > 0) result.push_back({isa::Nop{steps, 0}});
  return result;
}

std::pair<int64_t, int64_t> rank(const OptimizeOptions& options, int64_t steps, int64_t cycles) {
  return options.objective == Objective::kCycles ? std::pair(cycles, steps) : std::pair(steps, cycles);
}

Optimized search(const isa::Program& program, const isa::Chip& chip, const OptimizeOptions& options) {
  ProgramStream stream = split_program(program, chip);
  Optimized result;
  prune_stream(stream, options, chip);
  result.removed = std::ranges::count(stream.dead, true);
  const OperationFlow flow =
      analyze_flow(stream.operations, stream.dead, stream.events, options.live_outs, chip);
  const bool by_name = !options.scheduler.empty();
  std::vector<std::vector<StreamChange>> changes(stream.segments.size());
  if (!by_name) changes = find_changes(stream, flow, options, chip);

  ProgramEmitter emitter(program, chip);
  std::map<std::string, int64_t> units;
  std::map<std::string, int64_t> ports;
  const auto leave = [&](const ProgramSegment& segment) {
    ++result.untouched;
    result.untouched_steps += segment.length;
    emitter.verbatim(stream, segment);
  };
  for (size_t s = 0; s < stream.segments.size(); ++s) {
    const ProgramSegment& segment = stream.segments[s];
    if (segment.untouchable) {
      leave(segment);
    } else if (segment.begin < segment.end) {
      const std::vector<isa::Statement> after = following(stream, s);
      SegmentSolution solution = search_segment(stream, flow, segment, std::move(changes[s]),
                                                {emitter.recent(), emitter.clock(), after}, options, chip);
      if (by_name && solution.length != INT64_MAX) {
        if (auto times = schedule_by_name(options, solution.segment, emitter.recent(), chip))
          solution.times = std::move(*times);
      }
      if (solution.length == INT64_MAX) {
        leave(segment);
      } else {
        for (const auto& [kind, count] : solution.changes) result.changes[kind] += count;
        const StepBounds& bounds = solution.bounds;
        result.bounds.critical_path += bounds.critical_path;
        result.bounds.steps += bounds.steps;
        units[bounds.unit_name] += bounds.unit;
        ports[bounds.port_name] += bounds.port;
        emitter.scheduled(solution.segment, solution.times);
      }
    }
    if (segment.barrier) emitter.statement(*segment.barrier);
  }
  for (const auto& [name, uses] : units) {
    if (uses > result.bounds.unit)
      std::tie(result.bounds.unit, result.bounds.unit_name) = std::tie(uses, name);
  }
  for (const auto& [name, uses] : ports) {
    if (uses > result.bounds.port)
      std::tie(result.bounds.port, result.bounds.port_name) = std::tie(uses, name);
  }
  result.program = emitter.finish();
  check_result(result.program, chip);
  result.steps_before = isa::count(program).steps;
  result.steps_after = isa::count(result.program).steps;
  result.cycles_before = isa::predict_cycles(program, chip).total();
  result.cycles_after = isa::predict_cycles(result.program, chip).total();
  return result;
}

}  // namespace

Optimized optimize(const isa::Program& program, const isa::Chip& chip, const OptimizeOptions& options) {
  check_choice(options);
  Optimized result = search(program, chip, options);
  if (options.objective == Objective::kCycles && isa::count(program).mvs > 0) {
    // Each segment is the best for what is known before those behind it are searched. All of them with the
    // fewest steps may be better still.
    OptimizeOptions by_steps = options;
    by_steps.objective = Objective::kSteps;
    Optimized other = search(program, chip, by_steps);
    if (rank(options, other.steps_after, other.cycles_after) <
        rank(options, result.steps_after, result.cycles_after))
      result = std::move(other);
  }
  result.is_better = rank(options, result.steps_after, result.cycles_after) <
                     rank(options, result.steps_before, result.cycles_before);
  if (!result.is_better && !options.eager) {
    result.program = program;
    result.steps_after = result.steps_before;
    result.cycles_after = result.cycles_before;
    result.removed = 0;
    result.changes.clear();
  }
  return result;
}

isa::Program plain_form(const isa::Program& program, const isa::Chip& chip) {
  const ProgramStream stream = split_program(program, chip);
  ProgramEmitter emitter(program, chip);
  for (const ProgramSegment& segment : stream.segments) {
    bool is_done = segment.begin == segment.end;
    if (!segment.untouchable && !is_done) {
      StreamSegment all;
      all.has_block_mask = segment.has_block_mask();
      all.operations.assign(stream.operations.begin() + segment.begin,
                            stream.operations.begin() + segment.end);
      for (const ForwardLink& link : stream.links) {
        if (link.producer >= segment.begin && link.producer < segment.end)
          all.links.push_back({link.producer - segment.begin, link.consumer - segment.begin});
      }
      for (const bool keep_distances : {false, true}) {
        const ClusterScheduler scheduler(all, emitter.recent(), chip, keep_distances);
        if (!scheduler.is_consistent()) continue;
        const auto times = scheduler.plain();
        if (!times) continue;
        emitter.scheduled(all, *times);
        is_done = true;
        break;
      }
    }
    if (!is_done) emitter.verbatim(stream, segment);
    if (segment.barrier) emitter.statement(*segment.barrier);
  }
  isa::Program result = emitter.finish();
  check_result(result, chip);
  return result;
}

}  // namespace kodama::scheduler
