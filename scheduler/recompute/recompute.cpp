#include "scheduler/recompute/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "isa/error.h"
#include "passes/registry.h"
#include "scheduler/recompute/recompute_builtin.h"

namespace kodama::scheduler {
namespace {

constexpr int64_t kMostInSum = int64_t{1} << 50;

passes::Registry<Recomputer>& all_recomputers() {
  static passes::Registry<Recomputer> all(
      "recomputer", {optimal_recomputer(), sqrt_recomputer(), order_recomputer(), none_recomputer()});
  return all;
}

/// Numbers of values, and that they rise.
void check_values(const RecomputeProblem& problem, const RecomputeProblem::Operation& operation,
                  const std::vector<int>& values, const char* what) {
  int before = -1;
  for (const int value : values) {
    if (value <= before || std::cmp_greater_equal(value, problem.values.size()))
      throw isa::UserError(fmt::format("{}: operation '{}': found {} {}, allowed: rising, 0 to {}",
                                       problem.name, operation.name, what, value, problem.values.size() - 1));
    before = value;
  }
}

}  // namespace

std::string_view to_string(RecomputeStatus status) {
  switch (status) {
    case RecomputeStatus::kSolved:
      return "solved";
    case RecomputeStatus::kInfeasible:
      return "infeasible";
    case RecomputeStatus::kGaveUp:
      return "gave up";
  }
  return "";
}

void check_recompute_problem(const RecomputeProblem& problem) {
  int64_t bytes = 0;
  int64_t cycles = 0;
  const auto add = [&](int64_t& sum, int64_t number, const std::string& what) {
    if (number < 0 || number > kMostInSum - sum)
      throw isa::UserError(
          fmt::format("{}: {}: found {}, allowed: 0 to {} in sum", problem.name, what, number, kMostInSum));
    sum += number;
  };
  int64_t limit = 0;
  add(limit, problem.limit, "limit");
  for (const auto& value : problem.values) add(bytes, value.bytes, fmt::format("value '{}'", value.name));
  std::vector<bool> is_made(problem.values.size(), false);
  for (const auto& operation : problem.operations) {
    const auto fail = [&](const std::string& message) {
      throw isa::UserError(fmt::format("{}: operation '{}': {}", problem.name, operation.name, message));
    };
    add(cycles, operation.cycles, fmt::format("operation '{}'", operation.name));
    add(bytes, operation.workspace, fmt::format("operation '{}'", operation.name));
    check_values(problem, operation, operation.reads, "read value");
    check_values(problem, operation, operation.makes, "made value");
    if (operation.makes.empty()) fail("found nothing that it makes, allowed: at least one value");
    for (const int value : operation.reads) {
      if (!is_made[static_cast<size_t>(value)])
        fail(fmt::format("found value '{}' read, allowed: values that operations before it make",
                         problem.values[static_cast<size_t>(value)].name));
    }
    for (const int value : operation.makes) {
      if (is_made[static_cast<size_t>(value)])
        fail(fmt::format("found value '{}', which another one makes, allowed: one maker",
                         problem.values[static_cast<size_t>(value)].name));
      is_made[static_cast<size_t>(value)] = true;
    }
  }
  for (size_t k = 0; k < is_made.size(); ++k) {
    if (!is_made[k])
      throw isa::UserError(fmt::format("{}: value '{}': found no operation that makes it, allowed: one",
                                       problem.name, problem.values[k].name));
  }
}

RecomputeUses::RecomputeUses(const RecomputeProblem& problem)
    : maker(problem.values.size(), -1), readers(problem.values.size()) {
  for (size_t k = 0; k < problem.operations.size(); ++k) {
    for (const int value : problem.operations[k].makes)
      maker[static_cast<size_t>(value)] = static_cast<int>(k);
    for (const int value : problem.operations[k].reads)
      readers[static_cast<size_t>(value)].push_back(static_cast<int>(k));
  }
}

std::vector<int64_t> alive_bytes(const RecomputeProblem& problem, const std::vector<int>& steps) {
  // Changes of what is alive: of a value from the step that makes it to the last that reads what was made.
  std::vector<int64_t> change(steps.size() + 1, 0);
  struct Life {
    size_t begin = 0, end = 0;
    bool is_there = false;
  };
  std::vector<Life> lives(problem.values.size());
  const auto close = [&](int value) {
    const Life& life = lives[static_cast<size_t>(value)];
    change[life.begin] += problem.values[static_cast<size_t>(value)].bytes;
    change[life.end + 1] -= problem.values[static_cast<size_t>(value)].bytes;
  };
  std::vector<int64_t> alive(steps.size(), 0);
  for (size_t k = 0; k < steps.size(); ++k) {
    const auto& operation = problem.operations.at(static_cast<size_t>(steps[k]));
    alive[k] += operation.workspace;
    for (const int value : operation.reads) {
      Life& life = lives[static_cast<size_t>(value)];
      isa::check_internal(life.is_there, "recompute", "step {} reads '{}', which isn't there", k,
                          problem.values[static_cast<size_t>(value)].name);
      life.end = std::max(life.end, k);
    }
    for (const int value : operation.makes) {
      Life& life = lives[static_cast<size_t>(value)];
      const bool is_kept = problem.values[static_cast<size_t>(value)].is_kept;
      if (life.is_there && is_kept) continue;
      if (life.is_there) close(value);
      life = {k, is_kept ? steps.size() - 1 : k, true};
    }
  }
  for (size_t value = 0; value < lives.size(); ++value) {
    if (lives[value].is_there) close(static_cast<int>(value));
  }
  int64_t now = 0;
  for (size_t k = 0; k < steps.size(); ++k) alive[k] += now += change[k];
  return alive;
}

RecomputeCost cost_of(const RecomputeProblem& problem, const std::vector<int>& steps) {
  const std::vector<int64_t> alive = alive_bytes(problem, steps);
  RecomputeCost cost;
  const auto most = std::ranges::max_element(alive);
  if (most != alive.end()) {
    cost.peak = *most;
    cost.at = static_cast<size_t>(most - alive.begin());
  }
  for (const int step : steps) cost.cycles += problem.operations[static_cast<size_t>(step)].cycles;
  return cost;
}

std::vector<int> given_order(const RecomputeProblem& problem) {
  std::vector<int> order(problem.operations.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

RecomputeSchedule finish_recompute(const RecomputeProblem& problem, std::vector<int> steps,
                                   const std::string& how) {
  RecomputeSchedule schedule;
  const RecomputeCost cost = cost_of(problem, steps);
  schedule.peak = cost.peak;
  schedule.cycles = cost.cycles;
  schedule.steps = std::move(steps);
  schedule.message = how;
  if (schedule.peak <= problem.limit) schedule.status = RecomputeStatus::kSolved;
  return schedule;
}

bool is_better(const RecomputeSchedule& a, const RecomputeSchedule& b) {
  const bool solved = a.status == RecomputeStatus::kSolved;
  if (solved != (b.status == RecomputeStatus::kSolved)) return solved;
  if (solved) return a.cycles < b.cycles;
  return std::pair(a.peak, a.cycles) < std::pair(b.peak, b.cycles);
}

RecomputeBound recompute_bound(const RecomputeProblem& problem) {
  const RecomputeUses uses(problem);
  RecomputeBound bound;
  int64_t kept = 0;
  for (const auto& value : problem.values) kept += value.is_kept ? value.bytes : 0;
  bound.peak = kept;
  // Kept values that are there in any case, by operation.
  std::vector<std::set<int>> there(problem.operations.size());
  for (size_t k = 0; k < problem.operations.size(); ++k) {
    const auto& operation = problem.operations[k];
    bound.cycles += operation.cycles;
    for (const int value : operation.reads) {
      const auto maker = static_cast<size_t>(uses.maker[static_cast<size_t>(value)]);
      there[k].insert(there[maker].begin(), there[maker].end());
      for (const int made : problem.operations[maker].makes) {
        if (problem.values[static_cast<size_t>(made)].is_kept) there[k].insert(made);
      }
    }
    std::set<int> alive = there[k];
    alive.insert(operation.reads.begin(), operation.reads.end());
    alive.insert(operation.makes.begin(), operation.makes.end());
    int64_t bytes = operation.workspace;
    for (const int value : alive) bytes += problem.values[static_cast<size_t>(value)].bytes;
    bound.peak = std::max(bound.peak, bytes);
  }
  return bound;
}

const std::vector<Recomputer>& recomputers() {
  return all_recomputers().all();
}
void register_pass(Recomputer recomputer) {
  all_recomputers().add(std::move(recomputer));
}
const Recomputer& find_recomputer(const std::string& name) {
  return all_recomputers().find(name);
}

RecomputeSchedule recompute(const RecomputeProblem& problem, const std::string& recomputer,
                            const passes::PassOptions& options) {
  check_recompute_problem(problem);
  const Recomputer& pass = find_recomputer(recomputer);
  passes::check_options(options, {&pass.options});
  RecomputeSchedule schedule;
  passes::run_blaming("recomputer", pass, [&] {
    schedule = pass.run(problem, options);
    const std::string fault = schedule_fault(problem, schedule);
    isa::check_internal(fault.empty(), "recompute", "{}: {} by '{}'", problem.name, fault, pass.name);
  });
  return schedule;
}

}  // namespace kodama::scheduler
