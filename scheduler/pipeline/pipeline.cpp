#include "scheduler/pipeline/pipeline.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "isa/error.h"
#include "passes/registry.h"
#include "scheduler/machine/builtin_passes.h"
#include "scheduler/machine/loop_expansion.h"
#include "scheduler/machine/passes.h"
#include "scheduler/machine/program_scheduling.h"
#include "scheduler/problem/transfer_problem.h"
#include "scheduler/verify/verify.h"

namespace kodama::scheduler {

namespace {

const passes::PassOptionInfo kLoopCopies{
    "loop-copies", "4", "copies of a loop's body, with values of their own, where iterations overlap"};

std::string describe(const isa::Program& schedule) {
  const isa::ProgramCounts counts = isa::count(schedule);
  return fmt::format("{} steps, {} of them nops, {} MVs, {} instructions\n", counts.steps, counts.nops,
                     counts.mvs, counts.instructions);
}

}  // namespace

void check_options(const PipelineChoice& choice) {
  static const std::vector<passes::PassOptionInfo> own_options{kLoopCopies};
  std::vector<const std::vector<passes::PassOptionInfo>*> known = choice.others;
  for (const auto* options :
       {&find_coalescer(choice.coalescer).options, &find_home_assigner(choice.home_assigner).options,
        &find_spiller(choice.spiller).options, &find_allocator(choice.allocator).options,
        &find_block_scheduler(choice.scheduler, false).options,
        &find_block_scheduler(choice.loop_scheduler, true).options,
        &find_transfer_scheduler(choice.transfers).options, &own_options})
    known.push_back(options);
  passes::check_options(choice.options, known);
}

namespace {

/// The passes of a choice, one after the other.
class Pipeline {
 public:
  Pipeline(const isa::Chip& chip, const PipelineChoice& choice, const PassDump& dump, KnownSchedules* known)
      : chip_(chip),
        choice_(choice),
        dump_(dump),
        known_(known),
        coalescer_(find_coalescer(choice.coalescer)),
        homes_(find_home_assigner(choice.home_assigner)),
        spiller_(find_spiller(choice.spiller)),
        allocator_(find_allocator(choice.allocator)),
        scheduler_(find_block_scheduler(choice.scheduler, false)),
        loop_scheduler_(find_block_scheduler(choice.loop_scheduler, true)) {}

  isa::Program run(MachineProgram program) const {
    run_pass("coalescer", coalescer_, program,
             [&](const MachineProgram& before) { verify::verify_copies(before, program, chip_); });
    // Copies of loop bodies are for iterations that overlap.
    if (loop_scheduler_.overlaps) {
      MachineProgram expanded = program;
      if (expand_loops(expanded, chip_, passes::positive_option(choice_.options, kLoopCopies))) {
        if (wanted(kExpansionDump)) dump_.write(kExpansionDump, "txt", to_string(expanded));
        verify::verify_expansion(program, expanded, chip_);
        try {
          // Copies that don't fit are worth less than one body that does.
          return placed_and_scheduled(std::move(expanded), false);
        } catch (const isa::UnsupportedError&) {
          // No room for the copies: then without.
        }
      }
    }
    return placed_and_scheduled(std::move(program), true);
  }

 private:
  bool wanted(const std::string& point) const { return dump_.wants && dump_.wants(point); }

  /// A pass, and the check of what it has changed.
  template <typename Pass, typename Check>
  void run_pass(std::string_view kind, const Pass& pass, MachineProgram& program, const Check& check) const {
    const MachineProgram before = program;
    passes::run_blaming(kind, pass, [&] { pass.run(program, chip_, choice_.options); });
    if (wanted(pass.name)) dump_.write(pass.name, "txt", to_string(program));
    if (program != before) passes::run_blaming(kind, pass, [&] { check(before); });
  }

  isa::Program placed_and_scheduled(MachineProgram program, bool spills) const {
    run_pass("home assigner", homes_, program, [&](const MachineProgram& before) {
      verify::verify_repairs(before, program);
      verify::verify_homes(program, chip_);
    });
    if (spills) {
      run_pass("spiller", spiller_, program, [&](const MachineProgram& before) {
        verify::verify_homes(program, chip_);
        verify::verify_copies(before, program, chip_);
      });
    }
    if (wanted(kAllocationDump)) {
      for (const PackingProblem& problem : allocation_problems(program, chip_))
        dump_.write(kAllocationDump, "json", packing_json(problem).dump(1) + "\n");
    }
    run_pass("allocator", allocator_, program,
             [&](const MachineProgram&) { verify::verify_allocation(program, chip_); });

    SchedulerChoice schedulers{scheduler_.name, loop_scheduler_.name, choice_.options, {}, dump_.conclude,
                               known_};
    if (wanted(kProblemDump)) {
      schedulers.observe = [&](const ScheduleProblem& problem) {
        dump_.write(kProblemDump, "json", to_json(problem));
      };
    }
    isa::Program schedule = schedule_program(program, chip_, schedulers);
    if (wanted(scheduler_.name)) dump_.write(scheduler_.name, "txt", describe(schedule));
    verify::verify_schedule(program, schedule, chip_);
    if (dump_.observe) dump_.observe(program, schedule);
    return schedule;
  }

  const isa::Chip& chip_;
  const PipelineChoice& choice_;
  const PassDump& dump_;
  KnownSchedules* known_;
  const Coalescer& coalescer_;
  const HomeAssigner& homes_;
  const Spiller& spiller_;
  const Allocator& allocator_;
  const BlockScheduler& scheduler_;
  const BlockScheduler& loop_scheduler_;
};

}  // namespace

isa::Program build_program(MachineProgram program, const isa::Chip& chip, const PipelineChoice& choice,
                           const PassDump& dump, KnownSchedules* known) {
  check_options(choice);
  return Pipeline(chip, choice, dump, known).run(std::move(program));
}

}  // namespace kodama::scheduler
