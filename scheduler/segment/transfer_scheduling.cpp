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
  bool is_plain = true;
  // Where there is no plan because something found no place, more of the parts keep their addresses.
  constexpr int kEighths = 8;
  for (int most = kEighths - 1; most >= kEighths / 2 && is_plain; --most) {
    const Formulation formulation = formulate(analysis, parts, chip, chip.memory.l2bm_lw / kEighths * most);
    check_problem(formulation.problem);
    if (parts.size() > 1 && formulation.problem.task_cycles.size() > choice.most_tasks) break;
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
    is_plain = chosen == nullptr;
    if (!is_plain && choice.observe) choice.observe(formulation.problem, *chosen);
  }
  // What is too much for one plan, because the memory is too small for some of it or transfers of all crowd
  // the ports, may be good in halves.
  if (parts.size() > 1 && is_plain) {
    const auto middle = parts.begin() + static_cast<ptrdiff_t>(parts.size() / 2);
    std::vector<ProgramPart> first(parts.begin(), middle);
    // What the second half may read is no scratch of the first.
    for (ProgramPart& part : first) part.scratch.clear();
    ScheduledParts halves = join_parts(schedule_transfers(first, chip, choice),
                                       schedule_transfers({middle, parts.end()}, chip, choice), chip);
    if (isa::predict_cycles(halves.program, chip).total() < best_cycles) best = std::move(halves);
  }
  return best;
}

}  // namespace kodama::scheduler
