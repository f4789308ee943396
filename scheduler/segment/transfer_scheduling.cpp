#include "scheduler/segment/transfer_scheduling.h"

#include <fmt/format.h>

#include "isa/error.h"
#include "isa/sequencer.h"
#include "passes/registry.h"
#include "scheduler/segment/transfer_parts.h"

namespace kodama::scheduler {

ScheduledParts schedule_transfers(const std::vector<ProgramPart>& parts, const isa::Chip& chip,
                                  const TransferChoice& choice) {
  const TransferScheduler& scheduler = find_transfer_scheduler(choice.scheduler);
  ScheduledParts plain = emit_plain(parts, chip);
  if (scheduler.leaves_programs) return plain;
  const PartsAnalysis analysis = analyze_parts(parts, chip);
  ScheduledParts best = std::move(plain);
  int64_t best_cycles = isa::predict_cycles(best.program, chip).total();
  for (const bool direct : {true, false}) {
    const Formulation formulation = formulate(analysis, parts, chip, direct);
    check_problem(formulation.problem);
    std::vector<TransferSchedule> schedules;
    passes::run_blaming("transfer scheduler", scheduler, [&] {
      schedules = scheduler.run(formulation.problem, choice.options);
      for (const TransferSchedule& schedule : schedules) {
        const std::string fault = schedule_fault(formulation.problem, schedule);
        if (!fault.empty())
          throw isa::InternalError(fmt::format(
              "internal error found by schedule_fault: transfer scheduler '{}': {}", scheduler.name, fault));
      }
    });
    const TransferSchedule* chosen = nullptr;
    for (const TransferSchedule& schedule : schedules) {
      ScheduledParts found = emit_parts(analysis, formulation, schedule, parts, chip);
      const int64_t cycles = isa::predict_cycles(found.program, chip).total();
      if (cycles >= best_cycles) continue;
      best = std::move(found);
      best_cycles = cycles;
      chosen = &schedule;
    }
    if (chosen == nullptr) continue;
    if (choice.observe) choice.observe(formulation.problem, *chosen);
    break;
  }
  return best;
}

}  // namespace kodama::scheduler
