#include "scheduler/optimizer/program_problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "isa/costs.h"
#include "scheduler/machine/machine_problem.h"
#include "scheduler/machine/machine_program.h"
#include "scheduler/machine/program_analysis.h"
#include "scheduler/optimizer/cluster_scheduling.h"
#include "scheduler/optimizer/program_stream.h"

namespace kodama::scheduler {
namespace {

using isa::HazardResource;

MachineOperation machine_operation(const StreamOperation& operation, const MovingBases& moving,
                                   const isa::Chip& chip) {
  MachineOperation result = make_machine_operation(
      operation.instruction, to_string(Operation{operation.instruction, {}}, {}), chip, {});
  for (TimedAccess& timed : result.accesses) {
    const bool moves = (timed.access.resource == HazardResource::kLm0 && moving[0]) ||
                       (timed.access.resource == HazardResource::kLm1 && moving[1]);
    if (moves) timed.everywhere = timed.access.whole = true;
  }
  return result;
}

/// Operations of one step, all of which read before any writes, in an order in which each reads what it did
/// there; nothing when there is none, or when two write the same place.
std::optional<std::vector<int>> sequence_of_step(std::vector<int> step,
                                                 const std::vector<MachineOperation>& operations,
                                                 const Distances& distances) {
  const auto meets_write = [&](int first, bool first_writes, int writer) {
    for (const TimedAccess& a : operations[static_cast<size_t>(first)].accesses) {
      for (const TimedAccess& b : operations[static_cast<size_t>(writer)].accesses) {
        if (a.access.write != first_writes || !b.access.write || a.access.resource != b.access.resource)
          continue;
        if (!a.ranges_meet(b)) continue;
        if (isa::required_gap(a.access, b.access, distances.chip()) != isa::kNoConstraint) return true;
      }
    }
    return false;
  };
  std::vector<int> result;
  while (!step.empty()) {
    const auto none_meets = [&](int writer, bool writes) {
      return std::ranges::none_of(
          step, [&](int other) { return other != writer && meets_write(other, writes, writer); });
    };
    const auto next = std::ranges::find_if(step, [&](int writer) { return none_meets(writer, false); });
    if (next == step.end() || !none_meets(*next, true)) return std::nullopt;
    result.push_back(*next);
    step.erase(next);
  }
  return result;
}

bool uses_table(const StreamOperation& operation) {
  return std::ranges::any_of(
      operation.accesses, [](const isa::Access& access) { return access.resource == HazardResource::kDar; });
}

/// Indices of the segment's operations one after the other; nothing when they can't be.
std::optional<std::vector<int>> sequence(const ProgramStream& stream, const ProgramSegment& segment,
                                         const std::vector<MachineOperation>& operations,
                                         const Distances& distances) {
  std::vector<int> result;
  std::vector<int> step;
  const auto end_step = [&] {
    const auto ordered = sequence_of_step(std::exchange(step, {}), operations, distances);
    if (ordered) result.insert(result.end(), ordered->begin(), ordered->end());
    return ordered.has_value();
  };
  for (int k = segment.begin; k < segment.end; ++k) {
    const StreamOperation& operation = stream.operations[static_cast<size_t>(k)];
    if (uses_table(operation)) return std::nullopt;
    const int local = k - segment.begin;
    // MVs issue before the step of their time.
    if (!step.empty()) {
      const StreamOperation& previous = stream.operations[static_cast<size_t>(segment.begin + step.back())];
      if ((operation.is_mv || operation.time != previous.time) && !end_step()) return std::nullopt;
    }
    if (operation.is_mv) {
      result.push_back(local);
    } else {
      step.push_back(local);
    }
  }
  if (!end_step()) return std::nullopt;
  return result;
}

}  // namespace

ProgramProblems program_problems(const isa::Program& program, const std::string& name,
                                 const isa::Chip& chip) {
  const ProgramStream stream = split_program(program, chip);
  const Distances distances(chip);
  ProgramProblems result;
  std::vector<RecentOperation> recent;
  int number = 0;
  for (const ProgramSegment& segment : stream.segments) {
    const std::vector<RecentOperation> before = recent;
    for (int k = segment.begin; k < segment.end; ++k) {
      const StreamOperation& operation = stream.operations[static_cast<size_t>(k)];
      recent.push_back({operation.time, operation.is_mv, operation.accesses});
    }
    for (RecentOperation& each : recent) each.time -= segment.length;
    std::erase_if(recent, [&](const RecentOperation& each) { return each.time < -distances.longest() - 2; });
    if (segment.begin == segment.end) continue;
    ++number;
    std::vector<MachineOperation> operations;
    ForwardOrder read{};
    for (int k = segment.begin; k < segment.end; ++k) {
      operations.push_back(machine_operation(stream.operations[static_cast<size_t>(k)], stream.moving, chip));
      for (const TimedAccess& timed : operations.back().accesses) {
        if (isa::is_forwarding_register(timed.access.resource) && !timed.access.write)
          read[static_cast<size_t>(timed.access.resource)] = true;
      }
    }
    std::optional<std::vector<int>> order;
    if (!segment.untouchable && !segment.has_block_mask())
      order = sequence(stream, segment, operations, distances);
    if (!order) {
      ++result.skipped;
      continue;
    }
    std::vector<MachineOperation> ordered;
    for (const int k : *order) ordered.push_back(std::move(operations[static_cast<size_t>(k)]));
    ScheduleProblem problem = block_problem(fmt::format("{} {}", name, number), ordered, distances, read);
    Schedule schedule;
    for (size_t k = 0; k < ordered.size(); ++k) {
      const StreamOperation& operation = stream.operations[static_cast<size_t>(segment.begin + (*order)[k])];
      problem.operations[k].earliest = delay_behind(before, {{0, operation.is_mv, operation.accesses}}, chip);
      schedule.issue.push_back(operation.time);
    }
    result.schedules.push_back(std::move(schedule));
    result.problems.push_back(std::move(problem));
  }
  return result;
}

}  // namespace kodama::scheduler
