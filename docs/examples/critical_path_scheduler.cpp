/// A scheduler as a plugin: list scheduling by critical path. docs/write-a-pass.md explains it.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "isa/error.h"
#include "passes/plugin.h"
#include "scheduler/problem/schedule_problem.h"

using namespace kodama::passes;
using namespace kodama::scheduler;

namespace {

const PassOptionInfo kUrgency{"mine-urgency", "path",
                              "path (the longest way to the end first) or source (program order)"};

/// Steps from an operation's issue to the end. Dependences lead forward, so one walk back is enough.
std::vector<int64_t> ways_to_the_end(const ScheduleProblem& problem) {
  std::vector<int64_t> ways(problem.operations.size(), 1);
  std::vector<ScheduleProblem::Dependence> edges = problem.dependences;
  std::ranges::sort(edges, std::ranges::greater(), &ScheduleProblem::Dependence::from);
  for (const auto& edge : edges)
    ways[size_t(edge.from)] = std::max(ways[size_t(edge.from)], edge.distance + ways[size_t(edge.to)]);
  return ways;
}

/// Whether operation `mine` may issue in `step` beside those that have a step in `issue` (-1: not yet).
bool fits(const ScheduleProblem& problem, size_t mine, int64_t step, const std::vector<int64_t>& issue) {
  for (const auto& wanted : problem.operations[mine].uses) {
    std::set<int64_t> places;  // the keys in use; users without a key count down from -1
    for (size_t k = 0; k < issue.size(); ++k) {
      if (issue[k] != step && k != mine) continue;
      for (const auto& use : problem.operations[k].uses)
        if (use.resource == wanted.resource)
          places.insert(use.key >= 0 ? use.key : -1 - int64_t(places.size()));
    }
    if (int64_t(places.size()) > problem.resources[size_t(wanted.resource)].capacity) return false;
  }
  const auto has = [&](size_t k, int c) { return std::ranges::count(problem.operations[k].classes, c) > 0; };
  for (const auto& separation : problem.separations) {
    for (size_t k = 0; k < issue.size(); ++k) {
      const int64_t gap = step - issue[k];  // negative: `mine` comes first
      if (issue[k] < 0 || gap == 0 || std::abs(gap) > separation.steps) continue;
      if (has(gap > 0 ? k : mine, separation.first) && has(gap > 0 ? mine : k, separation.second))
        return false;
    }
  }
  return true;
}

Schedule critical_path(const ScheduleProblem& problem, const PassOptions& options) {
  const auto given = options.find(kUrgency.name);
  const std::string urgency = given == options.end() ? kUrgency.default_value : given->second;
  if (urgency != "path" && urgency != "source")
    throw kodama::isa::UserError("option mine-urgency: found '" + urgency + "', allowed: path, source");

  const size_t n = problem.operations.size();
  std::vector<size_t> order(n);  // the most urgent first; of equals, the first in the program
  std::iota(order.begin(), order.end(), size_t{0});
  const std::vector<int64_t> ways = ways_to_the_end(problem);
  if (urgency == "path")
    std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t k) { return ways[k]; });

  std::vector<std::vector<ScheduleProblem::Dependence>> before(n);
  for (const auto& edge : problem.dependences) before[size_t(edge.to)].push_back(edge);
  Schedule schedule;
  schedule.issue.assign(n, -1);
  const auto is_ready = [&](size_t k, int64_t step) {
    return problem.operations[k].earliest <= step && std::ranges::all_of(before[k], [&](const auto& edge) {
             const int64_t from = schedule.issue[size_t(edge.from)];
             return from >= 0 && from + edge.distance <= step;
           });
  };
  size_t issued = 0;
  for (int64_t step = 0; issued < n; ++step) {
    for (bool again = true; again;) {  // an operation may let others into the same step
      again = false;
      for (const size_t k : order) {
        if (schedule.issue[k] >= 0 || !is_ready(k, step) || !fits(problem, k, step, schedule.issue)) continue;
        schedule.issue[k] = step;
        ++issued;
        again = true;
      }
    }
  }
  return schedule;
}

}  // namespace

KODAMA_PLUGIN() {
  register_pass(BlockScheduler{.name = "mine",
                               .description = "the operations on the longest way first",
                               .options = {kUrgency},
                               .run = critical_path});
}
