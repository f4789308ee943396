/// JSON problems of schedules, transfers and packings, and behind a line `=` an answer, to all that reads and
/// solves them.
#include <algorithm>

#include "scheduler/packing/packing.h"
#include "scheduler/problem/schedule_problem.h"
#include "scheduler/problem/transfer_problem.h"
#include "testsuite/fuzz/fuzz_target.h"

namespace kodama::fuzz {
namespace {

using namespace scheduler;

/// Larger problems take long, and tell no more.
constexpr size_t kMostOperations = 40;

void schedule(const ScheduleProblem& problem, const std::string& answer) {
  if (!answer.empty()) {
    succeeds([&] {
      const Schedule known = schedule_from_json(problem, answer, "answer");
      if (schedule_fault(problem, known).empty()) to_json(problem, known);
    });
  }
  if (problem.operations.size() > kMostOperations || problem.dependences.size() > 10 * kMostOperations)
    return;
  const std::string text = to_json(problem);
  require(to_json(problem_from_json(text, "again")) == text, "written and read again", text);
  const int64_t bound = problem.is_loop ? interval_bound(problem).interval() : block_bound(problem).steps();
  int64_t least = INT64_MAX;
  int64_t shown = bound;
  for (const BlockScheduler& scheduler : block_schedulers()) {
    if (!(problem.is_loop ? scheduler.for_loops : scheduler.for_blocks)) continue;
    passes::PassOptions options;
    if (scheduler.name == "exact") options["exact-nodes"] = "2000";
    const Schedule found = scheduler.run(problem, options);
    const std::string fault = schedule_fault(problem, found);
    require(fault.empty(), "schedules are right", scheduler.name + ": " + fault + "\n" + text);
    const int64_t length = problem.is_loop ? found.interval : schedule_steps(problem, found);
    least = std::min(least, length);
    shown = std::max(shown, found.is_optimal ? length : found.shown_bound);
  }
  require(problem.operations.empty() || shown <= least, "no schedule is shorter than what is shown", text);
}

void move(const TransferProblem& problem, const std::string& answer) {
  if (!answer.empty()) {
    succeeds([&] {
      const TransferSchedule known = transfer_schedule_from_json(problem, answer, "answer");
      if (schedule_fault(problem, known).empty()) to_json(problem, &known);
    });
  }
  if (problem.transfers.size() > kMostOperations || problem.task_cycles.size() > kMostOperations) return;
  const std::string text = to_json(problem);
  require(to_json(transfer_problem_from_json(text, "again")) == text, "written and read again", text);
  const int64_t bound = transfer_bound(problem).cycles();
  for (const TransferScheduler& scheduler : transfer_schedulers()) {
    for (const TransferSchedule& found : scheduler.run(problem, {})) {
      if (!schedule_fault(problem, found).empty()) continue;  // who runs it is told
      require(bound <= estimated_cycles(problem, found), "no schedule beats the bound", text);
    }
  }
}

void fill(const PackingProblem& problem, const std::string& answer) {
  if (!answer.empty()) {
    succeeds([&] { packing_violations(problem, read_packing_solution_json(answer, "answer", problem)); });
  }
  if (problem.buffers.size() > kMostOperations) return;
  for (const Packer& packer : packers()) {
    passes::PassOptions options;
    for (const passes::PassOptionInfo& info : packer.options) {
      if (info.name.ends_with("nodes")) options[info.name] = "2000";
    }
    pack(problem, packer.name, options);  // verifies
  }
}

}  // namespace

void fuzz_one(std::string_view input) {
  const auto [first, second] = halves(input);
  const std::string text(first);
  const std::string answer(second);
  succeeds([&] { fill(read_packing_json(text, "input.json"), answer); });
  succeeds([&] { fill(read_packing_csv(text, "input.csv", 1000), ""); });
  if (is_transfer_problem(text, "input")) {
    move(transfer_problem_from_json(text, "input"), answer);
  } else {
    schedule(problem_from_json(text, "input"), answer);
  }
}

}  // namespace kodama::fuzz
