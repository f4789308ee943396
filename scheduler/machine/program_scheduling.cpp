#include "scheduler/machine/program_scheduling.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "isa/error.h"
#include "passes/registry.h"
#include "scheduler/machine/machine_problem.h"
#include "scheduler/machine/program_analysis.h"

namespace kodama::scheduler {
namespace {

using isa::Access;
using isa::Instruction;
using isa::Operand;

/// Something issued: a step's instruction at `time`, or an MV just before the step at `time`.
struct Issued {
  int64_t time = 0;
  bool is_mv = false;
  std::vector<TimedAccess> accesses;
};

/// Other steps between two issued things.
int64_t steps_between(const Issued& first, int64_t time) {
  return time - first.time - (first.is_mv ? 0 : 1);
}

/// How much later than `time` something with these accesses must issue because of `first`.
int64_t missing_steps(const Issued& first, const std::vector<TimedAccess>& accesses, int64_t time,
                      const Distances& distances) {
  int64_t missing = 0;
  for (const TimedAccess& a : first.accesses) {
    for (const TimedAccess& b : accesses) {
      const int64_t gap = distances.gap(a, b);
      if (gap > 0) missing = std::max(missing, gap - steps_between(first, time));
    }
  }
  return missing;
}

// ---- ends of statement lists ----------------------------------------------------------------------------

int64_t step_count(const std::vector<isa::Statement>& statements) {
  int64_t steps = 0;
  for (const isa::Statement& statement : statements) {
    if (std::holds_alternative<isa::Step>(statement.kind)) ++steps;
    if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) steps += nop->count;
    if (const auto* loop = std::get_if<isa::Loop>(&statement.kind))
      steps += loop->count * step_count(loop->body);
  }
  return steps;
}

class Edges {
 public:
  Edges(const isa::Chip& chip, int64_t limit) : chip_(chip), limit_(limit) {}

  /// What issues in the first `limit` steps, times from 0. `counts` are the counts of the loops around.
  std::vector<Issued> head(const std::vector<isa::Statement>& statements,
                           std::vector<int64_t>& counts) const {
    return collect(statements, counts, true);
  }
  /// What issues in the last `limit` steps; the last step has time -1, an MV behind it time 0.
  std::vector<Issued> tail(const std::vector<isa::Statement>& statements,
                           std::vector<int64_t>& counts) const {
    return collect(statements, counts, false);
  }

 private:
  std::vector<Issued> collect(const std::vector<isa::Statement>& statements, std::vector<int64_t>& counts,
                              bool forward) const {
    std::vector<Issued> result;
    int64_t done = 0;  // steps walked over
    const size_t n = statements.size();
    for (size_t k = 0; k < n && done < limit_; ++k) {
      const isa::Statement& statement = statements[forward ? k : n - 1 - k];
      if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
        for (const Instruction& instruction : step->instructions) {
          result.push_back({forward ? done : -done - 1, false, timed(instruction, counts)});
        }
        ++done;
      } else if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
        done += nop->count;
      } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
        result.push_back({forward ? done : -done, true, timed(mv->instruction, counts)});
      } else if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
        const size_t depth = counts.size();
        counts.push_back(loop->count);
        const std::vector<Issued> body = collect(loop->body, counts, forward);
        counts.pop_back();
        const int64_t length = step_count(loop->body);
        for (int64_t i = 0; i < loop->count && done < limit_; ++i) {
          for (Issued issued : body) {
            issued.time += forward ? done : -done;
            for (TimedAccess& access : issued.accesses) {
              access = at_iteration(std::move(access), depth, forward ? i : loop->count - 1 - i);
            }
            result.push_back(std::move(issued));
          }
          if (length == 0) break;
          done += length;
        }
      }
    }
    return result;
  }

  std::vector<TimedAccess> timed(const Instruction& instruction, const std::vector<int64_t>& counts) const {
    return timed_accesses(instruction, chip_, counts);
  }

  const isa::Chip& chip_;
  int64_t limit_;
};

// ---- the walk over the program --------------------------------------------------------------------------

constexpr const char* kSchedulerPart = "scheduler";

/// Loops of more operations are scheduled as blocks: they are long enough to fill their steps.
constexpr size_t kLongestPipelinedBody = 400;

/// `operand` of an iteration `shift` later; at a fixed iteration when `depth` loops are around it no more.
void shift_iteration(Operand& operand, size_t depth, int64_t shift, bool leaves_loop) {
  if (operand.loop_strides.size() > depth) operand.base += operand.loop_strides[depth] * shift;
  if (leaves_loop && operand.loop_strides.size() > depth) {
    operand.loop_strides.resize(depth);
    while (!operand.loop_strides.empty() && operand.loop_strides.back() == 0) operand.loop_strides.pop_back();
  }
}
Instruction shifted(Instruction instruction, size_t depth, int64_t shift, bool leaves_loop) {
  for (Operand& operand : instruction.sources) shift_iteration(operand, depth, shift, leaves_loop);
  for (Operand& operand : instruction.destinations) shift_iteration(operand, depth, shift, leaves_loop);
  return instruction;
}

/// A schedule may be bad, but not so long that its times overflow or its steps fill the memory. Generous: a
/// hundred times what one operation after the other takes, each as far from the one before as anything asks
/// for; in a loop, an operation may also wait for its turn for an interval.
int64_t longest_schedule(const ScheduleProblem& problem) {
  int64_t earliest = 0;
  int64_t distance = 1;
  for (const auto& operation : problem.operations) earliest = std::max(earliest, operation.earliest);
  for (const auto& edge : problem.dependences) distance = std::max(distance, edge.distance);
  for (const auto& each : problem.separations) distance = std::max(distance, each.steps + 1);
  const auto n = static_cast<int64_t>(problem.operations.size());
  return (earliest + distance * n) * (problem.is_loop ? 100 + n : 100);
}
/// Empty when all times are such that one can calculate with them.
std::string length_fault(const ScheduleProblem& problem, const Schedule& schedule) {
  const int64_t longest = longest_schedule(problem);
  for (size_t k = 0; k < schedule.issue.size(); ++k) {
    if (schedule.issue[k] < 0 || schedule.issue[k] > longest)
      return fmt::format("range: operation {} in step {}, allowed are steps 0 to {}", k, schedule.issue[k],
                         longest);
  }
  if (problem.is_loop && schedule.interval > longest)
    return fmt::format("range: interval {}, allowed are 1 to {}", schedule.interval, longest);
  return {};
}

class ProgramScheduler {
 public:
  ProgramScheduler(const MachineProgram& program, const isa::Chip& chip, const SchedulerChoice& choice)
      : program_(program),
        chip_(chip),
        blocks_(find_block_scheduler(choice.blocks, false)),
        loops_(find_block_scheduler(choice.loops, true)),
        choice_(choice),
        distances_(chip),
        edges_(chip, distances_.longest() + 1) {}

  isa::Program run() {
    find_forward_reads(program_.body);
    isa::Program result;
    result.source_name = program_.name;
    schedule_nodes(program_.body, {}, result.statements);
    if (choice_.conclude) choice_.conclude(proofs_);
    return result;
  }

 private:
  using Statements = std::vector<isa::Statement>;

  void find_forward_reads(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      if (const auto* loop = std::get_if<CountedLoop>(&node.kind)) find_forward_reads(loop->body);
      if (const auto* region = std::get_if<RegionNode>(&node.kind)) find_forward_reads(region->body);
      const auto* block = std::get_if<Block>(&node.kind);
      if (block == nullptr) continue;
      ForwardOrder written{};
      for (const Operation& operation : block->operations) {
        const std::vector<Access> list = isa::accesses(operation.instruction, chip_);
        for (const Access& access : list) {
          const auto r = static_cast<size_t>(access.resource);
          if (isa::is_forwarding_register(access.resource) && access.value < 0 && !access.write &&
              !written[r]) {
            forward_crosses_blocks_[r] = true;
          }
        }
        for (const Access& access : list) {
          if (access.value < 0 && access.write) written[static_cast<size_t>(access.resource)] = true;
        }
      }
    }
  }

  static void append_nops(Statements& out, int64_t count) {
    if (count <= 0) return;
    if (!out.empty()) {
      if (auto* nop = std::get_if<isa::Nop>(&out.back().kind); nop != nullptr && nop->wait_tag == 0) {
        nop->count += count;
        return;
      }
    }
    out.push_back({isa::Nop{count, 0}});
  }

  /// What issued shortly before the end of `out`, as seen from the next step (time 0).
  std::vector<Issued> recent(const Statements& out, const std::vector<Issued>& before) {
    std::vector<Issued> result = edges_.tail(out, counts_);
    const int64_t steps = step_count(out);
    for (Issued issued : before) {
      issued.time -= steps;
      if (issued.time >= -distances_.longest() - 1) result.push_back(std::move(issued));
    }
    return result;
  }

  /// `before`: what issued shortly before the first of these nodes, times relative to it.
  void schedule_nodes(const std::vector<Node>& nodes, const std::vector<Issued>& before, Statements& out) {
    for (const Node& node : nodes) {
      if (const auto* block = std::get_if<Block>(&node.kind)) {
        schedule_block(*block, recent(out, before), out);
      } else if (const auto* region = std::get_if<RegionNode>(&node.kind)) {
        out.push_back({isa::RegionMark{true, region->name}});
        Statements inner;
        schedule_nodes(region->body, recent(out, before), inner);
        std::move(inner.begin(), inner.end(), std::back_inserter(out));
        out.push_back({isa::RegionMark{false, {}}});
      } else {
        schedule_loop(std::get<CountedLoop>(node.kind), recent(out, before), out);
      }
    }
  }

  void schedule_loop(const CountedLoop& loop, const std::vector<Issued>& before, Statements& out) {
    if (loop.count <= 0) return;
    kept_.push_back(loop.count > 1);
    if (loop.count == 1) {
      Statements inner;
      schedule_nodes(loop.body, before, inner);
      std::move(inner.begin(), inner.end(), std::back_inserter(out));
      kept_.pop_back();
      return;
    }
    const size_t depth = counts_.size();
    isa::check_internal(depth < isa::kMaxLoopDepth, kSchedulerPart, "loops nested deeper than {}",
                        isa::kMaxLoopDepth);
    counts_.push_back(loop.count);
    const ScheduleProofs proofs_before = proofs_;
    Statements found = one_after_the_other(loop, depth);
    ScheduleProofs proofs_overlapped = proofs_before;
    if (Statements pipelined = overlapped(loop, depth, proofs_overlapped);
        !pipelined.empty() && step_count(pipelined) < step_count(found)) {
      found = std::move(pipelined);
      proofs_ = proofs_overlapped;
    }
    counts_.pop_back();
    kept_.pop_back();
    // What the code before the loop leaves pending is waited for before it, not in every iteration.
    append_nops(out, missing_between(before, found));
    std::move(found.begin(), found.end(), std::back_inserter(out));
  }

  /// Steps that must stand between what issued before and these statements.
  int64_t missing_between(const std::vector<Issued>& before, const Statements& statements) {
    int64_t missing = 0;
    for (const Issued& next : edges_.head(statements, counts_)) {
      for (const Issued& issued : before)
        missing = std::max(missing, missing_steps(issued, next.accesses, next.time, distances_));
    }
    return missing;
  }

  Statements one_after_the_other(const CountedLoop& loop, size_t depth) {
    isa::Loop result;
    result.count = loop.count;
    schedule_nodes(loop.body, {}, result.body);
    // The back edge: the end of one iteration against the beginning of the next.
    const std::vector<Issued> first = edges_.head(result.body, counts_);
    const std::vector<Issued> last = edges_.tail(result.body, counts_);
    int64_t nops = 0;
    for (const Issued& next : first) {
      std::vector<TimedAccess> accesses = next.accesses;
      for (TimedAccess& timed : accesses) {
        if (timed.access.loop_strides.size() <= depth) continue;
        for (int64_t& begin : timed.access.begin) begin += timed.access.loop_strides[depth];
      }
      for (const Issued& issued : last)
        nops = std::max(nops, missing_steps(issued, accesses, next.time, distances_));
    }
    append_nops(result.body, nops);
    Statements statements;
    if (!result.body.empty()) statements.push_back({std::move(result)});
    return statements;
  }

  /// The loop with iterations that overlap: those that begin before the first has ended, then a loop with a
  /// part of several iterations in each of its own, then those that end. Empty when it can't be.
  Statements overlapped(const CountedLoop& loop, size_t depth, ScheduleProofs& proofs) {
    const Block* block = nullptr;
    for (const Node& node : loop.body) {
      const auto* found = std::get_if<Block>(&node.kind);
      if (found != nullptr && found->operations.empty()) continue;
      if (found == nullptr || block != nullptr) return {};
      block = found;
    }
    if (block == nullptr || block->operations.size() > kLongestPipelinedBody) return {};
    ForwardOrder ordered = forward_crosses_blocks_;
    const std::vector<MachineOperation> operations = make_operations(*block, ordered);
    if (std::ranges::any_of(operations, [](const auto& each) { return each.is_mv || each.is_wait; }))
      return {};
    ScheduleProblem problem = loop_problem(program_.name, operations, distances_, ordered, depth);
    const Schedule schedule = solve(problem, *block, loops_);
    proofs += proofs_of(problem, schedule, loops_);
    const int64_t interval = schedule.interval;
    const auto stage = [&](size_t k) { return schedule.issue[k] / interval; };
    int64_t stages = 1;
    for (size_t k = 0; k < operations.size(); ++k) stages = std::max(stages, stage(k) + 1);
    if (stages < 2 || stages > loop.count) return {};

    // Instructions by step of the whole loop; in the middle, of one interval.
    const auto fill = [&](int64_t first_step, int64_t steps, auto&& instruction_at) {
      std::vector<isa::Step> list(static_cast<size_t>(steps));
      for (size_t k = 0; k < operations.size(); ++k) instruction_at(k, first_step, list);
      Statements statements;
      for (isa::Step& step : list) {
        if (step.instructions.empty()) {
          append_nops(statements, 1);
        } else {
          statements.push_back({std::move(step)});
        }
      }
      return statements;
    };
    const auto at_the_ends = [&](size_t k, int64_t first_step, std::vector<isa::Step>& list) {
      // Of iteration i, which issues i intervals later, those that fall between the two ends of `list`.
      const int64_t first = std::max<int64_t>((first_step - schedule.issue[k]) / interval, 0);
      for (int64_t i = first; i < std::min(loop.count, first + stages + 1); ++i) {
        const int64_t step = schedule.issue[k] + i * interval - first_step;
        if (step < 0 || step >= static_cast<int64_t>(list.size())) continue;
        list[static_cast<size_t>(step)].instructions.push_back(
            shifted(operations[k].instruction, depth, i, true));
      }
    };
    const int64_t before = (stages - 1) * interval;
    Statements result = fill(0, before, at_the_ends);
    isa::Loop middle;
    middle.count = loop.count - stages + 1;
    middle.body = fill(0, interval, [&](size_t k, int64_t, std::vector<isa::Step>& list) {
      list[static_cast<size_t>(schedule.issue[k] % interval)].instructions.push_back(
          shifted(operations[k].instruction, depth, stages - 1 - stage(k), false));
    });
    result.push_back({std::move(middle)});
    const int64_t after = loop.count * interval;
    Statements end = fill(after, schedule_steps(problem, schedule) - interval, at_the_ends);
    std::move(end.begin(), end.end(), std::back_inserter(result));
    return result;
  }

  void drop_flattened_loops(Instruction& instruction) const {
    const auto drop = [&](Operand& operand) {
      std::vector<int64_t> strides;
      for (size_t d = 0; d < std::min(operand.loop_strides.size(), kept_.size()); ++d) {
        if (kept_[d]) strides.push_back(operand.loop_strides[d]);
      }
      while (!strides.empty() && strides.back() == 0) strides.pop_back();
      operand.loop_strides = std::move(strides);
    };
    std::for_each(instruction.sources.begin(), instruction.sources.end(), drop);
    std::for_each(instruction.destinations.begin(), instruction.destinations.end(), drop);
  }

  /// Marks the forwarding registers that are read here.
  std::vector<MachineOperation> make_operations(const Block& block, ForwardOrder& ordered) const {
    std::vector<MachineOperation> operations;
    operations.reserve(block.operations.size());
    for (const Operation& operation : block.operations) {
      Instruction instruction = resolve(operation.instruction, program_);
      drop_flattened_loops(instruction);
      operations.push_back(make_machine_operation(std::move(instruction), {}, chip_, counts_));
      operations.back().is_early = operation.is_early;
      for (const TimedAccess& timed : operations.back().accesses) {
        const Access& access = timed.access;
        if (isa::is_forwarding_register(access.resource) && !access.write)
          ordered[static_cast<size_t>(access.resource)] = true;
      }
    }
    return operations;
  }

  passes::PassOptions options_of(const BlockScheduler& scheduler) const {
    passes::PassOptions own;
    for (const passes::PassOptionInfo& info : scheduler.options) {
      if (const auto given = choice_.options.find(info.name); given != choice_.options.end())
        own.insert(*given);
    }
    return own;
  }
  /// What a plugin says of its schedules isn't believed.
  static ScheduleProofs proofs_of(const ScheduleProblem& problem, const Schedule& schedule,
                                  const BlockScheduler& scheduler) {
    const bool ours = scheduler.plugin.empty();
    ScheduleProofs proofs;
    proofs.schedules = 1;
    proofs.proven = ours && schedule.is_optimal ? 1 : 0;
    if (!schedule.gave_up) return proofs;
    proofs.gave_up = 1;
    proofs.gave_up_steps = problem.is_loop ? schedule.interval : schedule_steps(problem, schedule);
    proofs.gave_up_bound = ours              ? schedule.shown_bound
                           : problem.is_loop ? interval_bound(problem).interval()
                                             : block_bound(problem).steps();
    return proofs;
  }
  /// Texts are for people; to write them takes longer than many a schedule.
  void name_operations(const Block& block, ScheduleProblem& problem) const {
    for (size_t k = 0; k < problem.operations.size(); ++k)
      problem.operations[k].text = scheduler::to_string(block.operations[k], program_);
  }
  static std::string fault_of(const ScheduleProblem& problem, const Schedule& schedule) {
    const std::string fault = length_fault(problem, schedule);
    return fault.empty() ? schedule_fault(problem, schedule) : fault;
  }
  Schedule solve(ScheduleProblem& problem, const Block& block, const BlockScheduler& scheduler) {
    if (choice_.observe || !scheduler.plugin.empty()) name_operations(block, problem);
    if (choice_.observe) choice_.observe(problem);
    Schedule schedule;
    passes::run_blaming("scheduler", scheduler, [&] {
      KnownSchedules& known = choice_.known != nullptr ? *choice_.known : own_known_;
      schedule = known.run(scheduler, problem, options_of(scheduler));
    });
    if (fault_of(problem, schedule).empty()) return schedule;
    name_operations(block, problem);
    const std::string fault =
        fmt::format("its schedule of a {} of '{}' is wrong: {}", problem.is_loop ? "loop" : "block",
                    problem.name, fault_of(problem, schedule));
    if (!scheduler.plugin.empty()) passes::blame("scheduler", scheduler, fault);
    throw isa::InternalError(fmt::format("internal error in scheduler '{}': {}", scheduler.name, fault));
  }

  void schedule_block(const Block& block, const std::vector<Issued>& before, Statements& out) {
    if (block.operations.empty()) return;
    ForwardOrder ordered = forward_crosses_blocks_;
    std::vector<MachineOperation> operations = make_operations(block, ordered);
    ScheduleProblem problem = block_problem(program_.name, operations, distances_, ordered);
    for (size_t k = 0; k < operations.size(); ++k) {
      for (const Issued& issued : before) {
        problem.operations[k].earliest = std::max(
            problem.operations[k].earliest, missing_steps(issued, operations[k].accesses, 0, distances_));
      }
    }
    const Schedule schedule = solve(problem, block, blocks_);
    proofs_ += proofs_of(problem, schedule, blocks_);
    emit(operations, schedule, out);
  }

  static void emit(std::vector<MachineOperation>& operations, const Schedule& schedule, Statements& out) {
    struct Slot {
      std::vector<size_t> mvs;  ///< before the step
      std::vector<size_t> step;
    };
    std::vector<Slot> slots;
    for (size_t k = 0; k < operations.size(); ++k) {
      const auto time = static_cast<size_t>(schedule.issue[k]);
      if (slots.size() <= time) slots.resize(time + 1);
      (operations[k].is_mv ? slots[time].mvs : slots[time].step).push_back(k);
    }
    for (size_t t = 0; t < slots.size(); ++t) {
      for (const size_t k : slots[t].mvs) out.push_back({isa::Mv{std::move(operations[k].instruction)}});
      const std::vector<size_t>& step = slots[t].step;
      if (step.empty()) {
        if (t + 1 < slots.size()) append_nops(out, 1);
      } else if (step.size() == 1 && operations[step[0]].is_wait) {
        out.push_back({isa::Nop{1, operations[step[0]].instruction.tag}});
      } else {
        std::vector<Instruction> instructions;
        instructions.reserve(step.size());
        for (const size_t k : step) instructions.push_back(std::move(operations[k].instruction));
        out.push_back({isa::Step{std::move(instructions)}});
      }
    }
  }

  const MachineProgram& program_;
  const isa::Chip& chip_;
  const BlockScheduler& blocks_;
  const BlockScheduler& loops_;
  const SchedulerChoice& choice_;
  KnownSchedules own_known_;
  Distances distances_;
  Edges edges_;
  ScheduleProofs proofs_;
  std::vector<int64_t> counts_;  ///< of the kept loops around
  std::vector<bool> kept_;       ///< by source depth: not flattened
  ForwardOrder forward_crosses_blocks_{};
};

}  // namespace

ScheduleProofs& ScheduleProofs::operator+=(const ScheduleProofs& other) {
  schedules += other.schedules;
  proven += other.proven;
  gave_up += other.gave_up;
  gave_up_steps += other.gave_up_steps;
  gave_up_bound += other.gave_up_bound;
  return *this;
}

isa::Program schedule_program(const MachineProgram& program, const isa::Chip& chip,
                              const SchedulerChoice& choice) {
  return ProgramScheduler(program, chip, choice).run();
}

}  // namespace kodama::scheduler
