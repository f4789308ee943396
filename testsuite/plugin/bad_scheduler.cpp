/// Schedulers that are wrong on purpose, each in one way: `bad-ignores` says which rule a list scheduler
/// forgets, or what else goes wrong.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "passes/plugin.h"
#include "scheduler/machine/passes.h"
#include "scheduler/problem/schedule_problem.h"

using namespace kodama::passes;
using namespace kodama::scheduler;

namespace {

const PassOptionInfo kIgnores{
    "bad-ignores", "dependences",
    "dependences, resources, separations, size, range, throws, throws-int, nothing"};

/// Operation after operation in program order, each in the first step that the rules which are kept leave;
/// the checker of Kodama says what is kept.
Schedule schedule_badly(const ScheduleProblem& problem, const PassOptions& options) {
  const auto given = options.find(kIgnores.name);
  const std::string ignored = given == options.end() ? kIgnores.default_value : given->second;
  if (ignored == "throws") throw std::out_of_range("a bug of the plugin");
  if (ignored == "throws-int") throw 1;
  ScheduleProblem kept = problem;
  if (ignored == "dependences") kept.dependences.clear();
  if (ignored == "separations") kept.separations.clear();
  if (ignored == "resources") {
    for (auto& operation : kept.operations) operation.uses.clear();
  }

  Schedule schedule;
  ScheduleProblem so_far = kept;
  so_far.operations.clear();
  so_far.dependences.clear();
  for (size_t k = 0; k < kept.operations.size(); ++k) {
    so_far.operations.push_back(kept.operations[k]);
    schedule.issue.push_back(kept.operations[k].earliest);
    so_far.dependences.clear();
    for (const auto& edge : kept.dependences) {
      if (static_cast<size_t>(std::max(edge.from, edge.to)) <= k) so_far.dependences.push_back(edge);
    }
    while (!schedule_fault(so_far, schedule).empty()) ++schedule.issue.back();
  }
  if (ignored == "size" && !schedule.issue.empty()) schedule.issue.pop_back();
  if (ignored == "range" && !schedule.issue.empty()) schedule.issue.back() = INT64_MAX;
  return schedule;
}

}  // namespace

KODAMA_PLUGIN() {
  register_pass(BlockScheduler{
      .name = "bad", .description = "wrong on purpose", .options = {kIgnores}, .run = schedule_badly});
  register_pass(
      BlockScheduler{.name = "bad-loop",
                     .description = "an iteration in every step, everything at once",
                     .for_blocks = false,
                     .for_loops = true,
                     .run = [](const ScheduleProblem& problem, const PassOptions&) {
                       return Schedule{std::vector<int64_t>(problem.operations.size(), 0), 1, false};
                     }});
  register_pass(Coalescer{.name = "bad-coalescer",
                          .description = "nothing is needed",
                          .run = [](MachineProgram& program, const kodama::isa::Chip&, const PassOptions&) {
                            program.body.clear();
                          }});
  register_pass(Spiller{.name = "bad-spiller",
                        .description = "values in memories that they don't allow",
                        .run = [](MachineProgram& program, const kodama::isa::Chip&, const PassOptions&) {
                          for (Value& value : program.values) value.home = kodama::isa::Space::kMatX;
                        }});
  register_pass(Allocator{.name = "bad-allocator",
                          .description = "everything at address 0",
                          .run = [](MachineProgram& program, const kodama::isa::Chip&, const PassOptions&) {
                            for (Value& value : program.values) value.address = 0;
                          }});
}
