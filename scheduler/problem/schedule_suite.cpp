#include "scheduler/problem/schedule_suite.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <ostream>
#include <random>

#include "isa/error.h"
#include "isa/file.h"
#include "isa/output.h"
#include "passes/registry.h"
#include "scheduler/problem/transfer_problem.h"

namespace kodama::scheduler {
namespace {

namespace fs = std::filesystem;

int64_t bound_of(const ScheduleProblem& problem) {
  return problem.is_loop ? interval_bound(problem).interval() : block_bound(problem).steps();
}
int64_t length_of(const ScheduleProblem& problem, const Schedule& schedule) {
  return problem.is_loop ? schedule.interval : schedule_steps(problem, schedule);
}

/// What is known of a schedule's length.
struct Verdict {
  bool is_proven = false;       ///< our bound or our search has shown that no schedule is shorter
  bool is_claimed = false;      ///< somebody else says so, and nobody has shown it
  int64_t shorter_exists = -1;  ///< the claim is false: there is a schedule of this length; -1: none is known
};
/// `ours`: made by a scheduler of Kodama, whose searches are believed. What a file or plugin says is a claim,
/// which the exact scheduler looks into.
Verdict verdict_on(const ScheduleProblem& problem, const Schedule& schedule, bool ours) {
  Verdict verdict;
  const int64_t length = length_of(problem, schedule);
  verdict.is_proven = length <= bound_of(problem) || (ours && schedule.is_optimal);
  if (verdict.is_proven || !schedule.is_optimal) return verdict;
  if (!problem.is_loop) {
    const Schedule exact = find_block_scheduler("exact", false).run(problem, {});
    const int64_t known = length_of(problem, exact);
    if (known < length) verdict.shorter_exists = known;
    verdict.is_proven = exact.is_optimal && known == length;
  }
  verdict.is_claimed = !verdict.is_proven && verdict.shorter_exists < 0;
  return verdict;
}

void print_schedule(const ScheduleProblem& problem, const Schedule& schedule, std::ostream& out) {
  std::vector<size_t> order(problem.operations.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::ranges::stable_sort(order, {}, [&](size_t k) { return schedule.issue[k]; });
  for (const size_t k : order) {
    const int64_t time = schedule.issue[k];
    if (problem.is_loop) {
      fmt::print(out, "{:>5} (slot {:>3}, stage {:>2})  {}\n", time, time % schedule.interval,
                 time / schedule.interval, problem.operations[k].text);
    } else {
      fmt::print(out, "{:>5}  {}\n", time, problem.operations[k].text);
    }
  }
}

/// What a scheduler did on all problems of a kind.
struct Total {
  int problems = 0;
  int at_bound = 0;
  int proven = 0;
  int gave_up = 0;
  double logs = 0;
  double worst = 1;
  int64_t steps = 0;
  double seconds = 0;
};

}  // namespace

ScheduleProblem random_problem(uint64_t seed, int operations, bool is_loop) {
  // Only the engine's numbers: distributions differ between libraries.
  std::mt19937_64 random(seed);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  ScheduleProblem problem;
  problem.name = fmt::format("random {} {}", is_loop ? "loop" : "block", seed);
  problem.is_loop = is_loop;
  problem.resources = {{"unit load", 1},   {"unit product", 1},  {"unit sum", 1},      {"unit store", 1},
                       {"memory port", 1}, {"register read", 1}, {"register write", 1}};
  constexpr int kMemory = 4;
  constexpr int kRead = 5;
  constexpr int kWrite = 6;
  problem.classes = {"write", "read"};
  problem.separations = {{0, 1, pick(1, 2)}};
  constexpr std::array kLatency{3, 4, 2, 1};
  for (int k = 0; k < operations; ++k) {
    const auto unit = static_cast<int>(pick(0, 9) < 3 ? 0 : pick(0, 9) < 5 ? 1 : pick(0, 9) < 8 ? 2 : 3);
    ScheduleProblem::Operation operation;
    operation.text = fmt::format("{} {}", problem.resources[static_cast<size_t>(unit)].name.substr(5), k);
    operation.uses.push_back({unit, -1, false});
    // One port of the memory for both directions, one for each of the registers. Some addresses are the same
    // in all iterations.
    const int64_t place = pick(0, 7);
    if (place < 2) {
      const int64_t address = pick(0, 5);
      operation.uses.push_back({kMemory, address, address % 2 == 0});
      operation.classes.push_back(static_cast<int>(place));
    } else if (place < 5) {
      const int64_t address = pick(0, 5);
      operation.uses.push_back({kRead, address, address % 2 == 0});
    }
    if (place > 3) operation.uses.push_back({kWrite, -1, false});
    // Short blocks are wide, long ones deep: operands come from the last few operations.
    const int64_t near = std::max(6, operations / 3);
    for (int64_t operand = pick(0, 2); operand > 0 && k > 0; --operand) {
      const auto from = static_cast<int>(pick(std::max<int64_t>(0, k - near), k - 1));
      const int from_unit = problem.operations[static_cast<size_t>(from)].uses[0].resource;
      problem.dependences.push_back({from, k, kLatency[static_cast<size_t>(from_unit)], 0});
    }
    if (pick(0, 9) == 0 && k > 0) {  // a place that is written again
      problem.dependences.push_back({static_cast<int>(pick(0, k - 1)), k, 0, 0});
    }
    problem.operations.push_back(std::move(operation));
  }
  if (is_loop) {
    for (int64_t recurrence = pick(1, 3); recurrence > 0; --recurrence) {
      const auto to = static_cast<int>(pick(0, operations - 1));
      const auto from = static_cast<int>(pick(to, std::min<int64_t>(operations - 1, to + 3)));
      const int unit = problem.operations[static_cast<size_t>(from)].uses[0].resource;
      problem.dependences.push_back({from, to, kLatency[static_cast<size_t>(unit)], pick(1, 2)});
    }
  }
  check_problem(problem);
  return problem;
}

Schedule checked_schedule(const ScheduleProblem& problem, const BlockScheduler& scheduler,
                          const passes::PassOptions& options) {
  Schedule schedule;
  passes::run_blaming("scheduler", scheduler, [&] { schedule = scheduler.run(problem, options); });
  const std::string fault = schedule_fault(problem, schedule);
  if (fault.empty()) return schedule;
  const std::string text = fmt::format("its schedule of '{}' is wrong: {}", problem.name, fault);
  if (!scheduler.plugin.empty()) passes::blame("scheduler", scheduler, text);
  throw isa::InternalError(fmt::format("internal error in scheduler '{}': {}", scheduler.name, text));
}

namespace {

int schedule_transfer_file(const ScheduleFileRequest& request, const std::string& text, std::ostream& out) {
  const TransferProblem problem = transfer_problem_from_json(text, request.file);
  std::optional<TransferSchedule> schedule;
  std::string who = request.schedule;
  if (request.schedule.empty()) {
    const TransferScheduler& scheduler = find_transfer_scheduler(request.scheduler);
    passes::check_options(request.options, {&scheduler.options});
    who = scheduler.name;
    std::vector<TransferSchedule> found = scheduler.run(problem, request.options);
    if (!found.empty()) {
      schedule = std::move(found.front());
    } else {
      fmt::print(out, "{}: {}: finds no schedule, the buffers don't fit\n", problem.name, who);
      return 1;
    }
  } else {
    schedule = transfer_schedule_from_json(problem, isa::read_file(request.schedule), request.schedule);
  }
  const std::string fault = schedule_fault(problem, *schedule);
  if (!fault.empty()) {
    fmt::print(out, "{}: {}: wrong: {}\n", problem.name, who, fault);
    return 1;
  }
  const TransferBound bound = transfer_bound(problem);
  int64_t ahead = 0;
  for (size_t k = 0; k < problem.transfers.size(); ++k) {
    const auto& transfer = problem.transfers[k];
    const bool is_issued = schedule->issue[k] != TransferSchedule::kDropped;
    if (transfer.is_load && is_issued && schedule->issue[k] < transfer.latest) ++ahead;
  }
  fmt::print(out, "{}: {} tasks, {} transfers, {} buffers, {} of which may stay\n", problem.name,
             problem.task_cycles.size(), problem.transfers.size(), problem.buffers.size(),
             problem.keeps.size());
  fmt::print(out, "bound: {} cycles (tasks {}, ports {})\n", bound.cycles(), bound.tasks, bound.ports);
  fmt::print(out, "{}: {} cycles estimated, {} loads ahead, {} dropped\n", who,
             estimated_cycles(problem, *schedule), ahead,
             std::ranges::count(schedule->issue, TransferSchedule::kDropped));
  if (!request.output.empty()) isa::write_output(request.output, to_json(problem, &*schedule));
  return 0;
}

}  // namespace

int schedule_file(const ScheduleFileRequest& request, std::ostream& out) {
  const std::string text = isa::read_file(request.file);
  if (is_transfer_problem(text, request.file) && request.draw)
    throw isa::UnsupportedError(request.file +
                                ": it is a problem of transfers; blocks and loops can be drawn");
  if (is_transfer_problem(text, request.file)) return schedule_transfer_file(request, text, out);
  const ScheduleProblem problem = problem_from_json(text, request.file);
  Schedule schedule;
  std::string who = request.schedule;
  bool ours = false;
  if (request.schedule.empty()) {
    const BlockScheduler& scheduler = find_block_scheduler(request.scheduler, problem.is_loop);
    passes::check_options(request.options, {&scheduler.options});
    schedule = scheduler.run(problem, request.options);
    who = scheduler.name;
    ours = scheduler.plugin.empty();
  } else {
    schedule = schedule_from_json(problem, isa::read_file(request.schedule), request.schedule);
  }
  const std::string fault = schedule_fault(problem, schedule);
  if (!fault.empty()) {
    fmt::print(out, "{}: {}: wrong: {}\n", problem.name, who, fault);
    return 1;
  }
  const char* const unit = problem.is_loop ? "interval" : "steps";
  const Verdict verdict = verdict_on(problem, schedule, ours);
  if (verdict.shorter_exists >= 0) {
    fmt::print(out, "{}: {}: wrong: it says that no schedule is shorter than {} {}, but there is one of {}\n",
               problem.name, who, length_of(problem, schedule), unit, verdict.shorter_exists);
    return 1;
  }
  fmt::print(out, "{}: {} operations, {} dependences\n", problem.name, problem.operations.size(),
             problem.dependences.size());
  if (problem.is_loop) {
    const IntervalBound bound = interval_bound(problem);
    fmt::print(out, "bound: interval {} (resources {}, recurrences {})\n", bound.interval(), bound.resources,
               bound.recurrences);
  } else {
    const BlockBound bound = block_bound(problem);
    fmt::print(out, "bound: {} steps (critical path {}, resources {})\n", bound.steps(), bound.critical_path,
               bound.resources);
  }
  std::string known;
  if (verdict.is_proven) {
    known = ", no schedule is shorter";
  } else if (verdict.is_claimed) {
    known =
        fmt::format(", claimed to be the least; not proven: what is shown is {} and more", bound_of(problem));
  } else if (schedule.gave_up) {
    known =
        fmt::format(", not proven: the search gave up; every schedule has {} and more", schedule.shown_bound);
  }
  fmt::print(out, "{}: {} {}{}\n", who, unit, length_of(problem, schedule), known);
  print_schedule(problem, schedule, out);
  if (!request.output.empty()) isa::write_output(request.output, to_json(problem, schedule));
  if (request.draw) request.draw(problem, schedule);
  return 0;
}

namespace {

/// UserError for a scheduler or an option that no pass of the request has.
void check_request(const ScheduleBenchRequest& request) {
  std::vector<std::string> names;
  std::vector<const std::vector<passes::PassOptionInfo>*> options;
  for (const BlockScheduler& scheduler : block_schedulers()) {
    names.push_back(scheduler.name);
    if (request.schedulers.empty() || std::ranges::count(request.schedulers, scheduler.name) > 0)
      options.push_back(&scheduler.options);
  }
  for (const std::string& name : request.schedulers) {
    if (std::ranges::find(names, name) == names.end())
      throw isa::UserError(fmt::format("found scheduler '{}', allowed: {}", name, fmt::join(names, ", ")));
  }
  passes::check_options(request.options, options);
}

}  // namespace

int bench_schedules(const ScheduleBenchRequest& request, std::ostream& out) {
  check_request(request);
  std::vector<ScheduleProblem> problems;
  if (!request.directory.empty()) {
    std::vector<fs::path> files;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(request.directory, error)) {
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
    if (error) throw isa::UserError(fmt::format("{}: can't be read: {}", request.directory, error.message()));
    std::ranges::sort(files);
    for (const fs::path& file : files) {
      problems.push_back(problem_from_json(isa::read_file(file.string()), file.string()));
      problems.back().name = file.stem().string();
    }
  }
  constexpr int kSmallest = 6;
  constexpr int kSizes = 60;
  for (int seed = 1; seed <= request.random_blocks; ++seed) {
    const int size = kSmallest + seed * 7 % kSizes;
    problems.push_back(random_problem(static_cast<uint64_t>(seed), size, seed % 4 == 0));
  }
  if (problems.empty())
    throw isa::UserError(fmt::format("{}: no .json file, and no random problems are asked for",
                                     request.directory.empty() ? "bench schedule" : request.directory));

  // Blocks of up to this many operations are what the exact scheduler is for.
  constexpr size_t kSmallBlock = 40;
  struct Kind {
    const char* title;
    bool is_loop;
    bool only_small;
  };
  std::map<std::pair<std::string, int>, Total> totals;
  constexpr std::array kKinds{Kind{"blocks", false, false},
                              Kind{"blocks of up to 40 operations", false, true}, Kind{"loops", true, false}};
  for (const ScheduleProblem& problem : problems) {
    const int64_t bound = bound_of(problem);
    int64_t proven_best = -1;
    int64_t best = INT64_MAX;
    std::string best_by;
    for (const BlockScheduler& scheduler : block_schedulers()) {
      if (!(problem.is_loop ? scheduler.for_loops : scheduler.for_blocks)) continue;
      if (!request.schedulers.empty() &&
          std::ranges::find(request.schedulers, scheduler.name) == request.schedulers.end())
        continue;
      if (scheduler.name == "exact" && problem.operations.size() > kSmallBlock) continue;
      passes::PassOptions options;
      for (const passes::PassOptionInfo& info : scheduler.options) {
        if (const auto given = request.options.find(info.name); given != request.options.end())
          options.insert(*given);
      }
      const auto start = std::chrono::steady_clock::now();
      const Schedule schedule = checked_schedule(problem, scheduler, options);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      const int64_t length = length_of(problem, schedule);
      if (length < best) {
        best = length;
        best_by = scheduler.name;
      }
      const Verdict verdict = verdict_on(problem, schedule, scheduler.plugin.empty());
      if (verdict.shorter_exists >= 0)
        passes::blame(
            "scheduler", scheduler,
            fmt::format("it says that no schedule of '{}' is shorter than {}, but there is one of {}",
                        problem.name, length, verdict.shorter_exists));
      if (verdict.is_proven) proven_best = std::max(proven_best, length);
      if (request.details) {
        fmt::print(
            out, "{:<44} {:>4} operations  {:<11} {:>5} bound {:>5} gap {:>5.1f}%{} {:.3f} s\n", problem.name,
            problem.operations.size(), scheduler.name, length, bound,
            100.0 * static_cast<double>(length - bound) / static_cast<double>(std::max<int64_t>(bound, 1)),
            verdict.is_proven    ? " proven "
            : verdict.is_claimed ? " claimed"
            : schedule.gave_up   ? " gave up"
                                 : "        ",
            took.count());
      }
      for (size_t kind = 0; kind < kKinds.size(); ++kind) {
        if (kKinds[kind].is_loop != problem.is_loop) continue;
        if (kKinds[kind].only_small && problem.operations.size() > kSmallBlock) continue;
        Total& total = totals[{scheduler.name, static_cast<int>(kind)}];
        const double ratio = static_cast<double>(std::max<int64_t>(length, 1)) /
                             static_cast<double>(std::max<int64_t>(bound, 1));
        ++total.problems;
        total.at_bound += length <= bound ? 1 : 0;
        total.proven += verdict.is_proven ? 1 : 0;
        total.gave_up += schedule.gave_up ? 1 : 0;
        total.logs += std::log(ratio);
        total.worst = std::max(total.worst, ratio);
        total.steps += length;
        total.seconds += took.count();
      }
    }
    isa::check_internal(proven_best <= best || proven_best < 0, "schedule suite",
                        "'{}': {} steps are proven to be the least, but '{}' needs {}", problem.name,
                        proven_best, best_by, best);
  }
  fmt::print(out, "{} problems\n", problems.size());
  for (size_t kind = 0; kind < kKinds.size(); ++kind) {
    bool any = false;
    for (const BlockScheduler& scheduler : block_schedulers()) {
      const auto found = totals.find({scheduler.name, static_cast<int>(kind)});
      if (found == totals.end()) continue;
      const Total& total = found->second;
      if (!any) {
        fmt::print(out, "{}: {}\n  {:<12} {:>8} {:>10} {:>7} {:>9} {:>7} {:>8} {:>8}\n", kKinds[kind].title,
                   total.problems, "scheduler", "steps", "over bound", "worst", "at bound", "proven",
                   "gave up", "seconds");
      }
      any = true;
      fmt::print(out, "  {:<12} {:>8} {:>10.3f} {:>7.2f} {:>9} {:>7} {:>8} {:>8.2f}\n", scheduler.name,
                 total.steps, std::exp(total.logs / total.problems), total.worst, total.at_bound,
                 total.proven, total.gave_up, total.seconds);
    }
  }
  return 0;
}

}  // namespace kodama::scheduler
