#include "scheduler/recompute/recompute_suite.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <ostream>

#include "isa/error.h"
#include "isa/file.h"
#include "isa/output.h"
#include "scheduler/recompute/recompute_generator.h"

namespace kodama::scheduler {
namespace {

double share_of(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

struct BenchTotal {
  int problems = 0;
  int solved = 0;
  int least = 0;
  double over_bound = 0;  ///< of those that are solved
  double seconds = 0;
};

std::vector<RecomputeProblem> bench_problems(const RecomputeBenchRequest& request) {
  std::vector<RecomputeProblem> problems;
  for (const std::string& file : request.files)
    problems.push_back(recompute_problem_from_json(isa::read_file(file), file));
  if (!request.files.empty()) return problems;
  for (int k = 0; k < request.count; ++k) {
    const uint64_t seed = request.first_seed + static_cast<uint64_t>(k);
    problems.push_back(generate_recompute({.seed = seed, .stages = 7, .skips = 0.5}));
    problems.push_back(generate_recompute({.seed = seed, .stages = 24, .share = 0.4}));
    problems.push_back(generate_recompute({.seed = seed, .stages = 48, .skips = 0.4, .share = 0.4}));
  }
  return problems;
}

/// Of the options those that this one declares.
passes::PassOptions own_options(const Recomputer& pass, const passes::PassOptions& options) {
  passes::PassOptions own;
  for (const auto& info : pass.options) {
    const auto found = options.find(info.name);
    if (found != options.end()) own.insert(*found);
  }
  return own;
}

}  // namespace

void run_recompute_bench(const RecomputeBenchRequest& request, std::ostream& out) {
  std::vector<std::string> names = request.recomputers;
  if (names.empty()) {
    for (const Recomputer& each : recomputers()) names.push_back(each.name);
  }
  std::vector<const std::vector<passes::PassOptionInfo>*> known;
  for (const std::string& name : names) known.push_back(&find_recomputer(name).options);
  passes::check_options(request.options, known);
  std::map<std::string, BenchTotal> totals;
  out << fmt::format("{:<16} {:>10} {:>10}  {:<10} {:<10} {:>10} {:>12} {:>8} {:>8}\n", "problem",
                     "operations", "limit/peak", "by", "status", "peak/limit", "cycles/bound", "nodes",
                     "seconds");
  for (const RecomputeProblem& problem : bench_problems(request)) {
    const int64_t peak = recompute(problem, "none").peak;
    for (const std::string& name : names) {
      const Recomputer& pass = find_recomputer(name);
      const auto start = std::chrono::steady_clock::now();
      const RecomputeSchedule schedule = recompute(problem, name, own_options(pass, request.options));
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      const double over = share_of(schedule.cycles, recompute_bound(problem).cycles);
      const bool is_solved = schedule.status == RecomputeStatus::kSolved;
      BenchTotal& total = totals[name];
      ++total.problems;
      total.solved += is_solved ? 1 : 0;
      total.least += schedule.is_least ? 1 : 0;
      total.over_bound += is_solved ? over : 0;
      total.seconds += seconds;
      out << fmt::format("{:<16} {:>10} {:>10.3f}  {:<10} {:<10} {:>10.3f} {:>12.3f} {:>8} {:>8.2f}\n",
                         problem.name, problem.operations.size(), share_of(problem.limit, peak), name,
                         to_string(schedule.status), share_of(schedule.peak, problem.limit), over,
                         schedule.nodes, seconds);
    }
  }
  for (const std::string& name : names) {
    const BenchTotal& total = totals[name];
    out << fmt::format("{}: {} of {} solved, {} proven least, cycles/bound {:.3f} on average, {:.2f} s\n",
                       name, total.solved, total.problems, total.least,
                       total.solved > 0 ? total.over_bound / total.solved : 0, total.seconds);
  }
}

int recompute_file(const RecomputeFileRequest& request, std::ostream& out) {
  RecomputeProblem problem = recompute_problem_from_json(isa::read_file(request.file), request.file);
  if (request.limit) problem.limit = *request.limit;
  check_recompute_problem(problem);
  if (!request.schedule.empty()) {
    const RecomputeSchedule given =
        recompute_schedule_from_json(isa::read_file(request.schedule), request.schedule);
    const std::string fault = schedule_fault(problem, given);
    out << (fault.empty()
                ? fmt::format("{}: right, peak {}, {} cycles\n", request.schedule, given.peak, given.cycles)
                : fmt::format("{}: wrong: {}\n", request.schedule, fault));
    return fault.empty() ? 0 : 1;
  }
  const RecomputeSchedule schedule = recompute(problem, request.recomputer, request.options);
  const RecomputeBound bound = recompute_bound(problem);
  out << fmt::format("{}: {} operations, {} ({}{})\n", problem.name, problem.operations.size(),
                     to_string(schedule.status), schedule.message, schedule.is_least ? "; least" : "");
  out << fmt::format("limit  {}\npeak   {} (bound {})\ncycles {} (bound {})\nsteps  {}\nnodes  {}\n",
                     problem.limit, schedule.peak, bound.peak, schedule.cycles, bound.cycles,
                     schedule.steps.size(), schedule.nodes);
  if (!request.output.empty()) isa::write_output(request.output, to_json(problem, &schedule));
  return schedule.status == RecomputeStatus::kSolved ? 0 : 1;
}

}  // namespace kodama::scheduler
