#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "isa/error.h"
#include "scheduler/schedule_problem.h"
#include "scheduler/schedule_suite.h"

namespace kodama::scheduler {
namespace {

using ::testing::HasSubstr;

/// The example of schedule_problem.h.
ScheduleProblem example(bool is_loop) {
  ScheduleProblem problem;
  problem.name = "sum of products";
  problem.is_loop = is_loop;
  problem.resources = {{"load", 1}, {"mau", 1}, {"alu", 1}};
  const auto add = [&](const char* text, int unit) {
    ScheduleProblem::Operation& operation = problem.operations.emplace_back();
    operation.text = text;
    operation.uses = {{unit, -1, false}};
  };
  add("load x", 0);
  add("load y", 0);
  add("product", 1);
  add("sum", 2);
  problem.dependences = {{0, 2, 3, 0}, {1, 2, 3, 0}, {2, 3, 3, 0}};
  if (is_loop) problem.dependences.push_back({3, 3, 3, 1});
  return problem;
}

int64_t length(const ScheduleProblem& problem, const char* scheduler, PassOptions options = {}) {
  const Schedule schedule = find_block_scheduler(scheduler, problem.is_loop).run(problem, options);
  EXPECT_EQ(schedule_fault(problem, schedule), "") << scheduler;
  return problem.is_loop ? schedule.interval : schedule_steps(problem, schedule);
}

TEST(ScheduleProblem, TheExampleOfTheHeader) {
  const ScheduleProblem block = example(false);
  EXPECT_EQ(block_bound(block).critical_path, 7);
  EXPECT_EQ(block_bound(block).steps(), 8);
  EXPECT_EQ(length(block, "list"), 8);
  EXPECT_EQ(length(block, "exact"), 8);
  const ScheduleProblem loop = example(true);
  EXPECT_EQ(interval_bound(loop).resources, 2);
  EXPECT_EQ(interval_bound(loop).recurrences, 3);
  EXPECT_EQ(length(loop, "modulo"), 3);
  EXPECT_GT(length(loop, "acyclic"), 3);
}

/// Every schedule in the order of issue, up to a length: is there one?
bool exists(const ScheduleProblem& problem, int64_t length, Schedule& schedule, size_t next = 0) {
  if (next == problem.operations.size()) return schedule_fault(problem, schedule).empty();
  for (int64_t time = 0; time < length; ++time) {
    schedule.issue[next] = time;
    if (exists(problem, length, schedule, next + 1)) return true;
  }
  return false;
}

TEST(Schedulers, ExactAgreesWithBruteForce) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const ScheduleProblem problem = random_problem(seed, 4 + static_cast<int>(seed % 2), false);
    int64_t least = 1;
    Schedule schedule;
    schedule.issue.assign(problem.operations.size(), 0);
    while (!exists(problem, least, schedule)) ++least;
    EXPECT_EQ(length(problem, "exact"), least) << seed;
    EXPECT_LE(block_bound(problem).steps(), least) << seed;
    EXPECT_GE(length(problem, "list"), least) << seed;
  }
}

TEST(Schedulers, NobodyBeatsTheBoundOrAProof) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const ScheduleProblem block = random_problem(seed, 10 + static_cast<int>(seed % 25), false);
    const Schedule exact = find_block_scheduler("exact", false).run(block, {});
    EXPECT_EQ(schedule_fault(block, exact), "");
    const int64_t steps = schedule_steps(block, exact);
    EXPECT_GE(steps, block_bound(block).steps());
    for (const char* name : {"list", "sequential"}) {
      const int64_t other = length(block, name);
      EXPECT_GE(other, block_bound(block).steps());
      EXPECT_GE(other, exact.is_optimal ? steps : 0) << name << " " << seed;
    }
    for (const char* priority : {"critical-path", "crowded-path", "source"})
      EXPECT_GE(length(block, "list", {{"list-priority", priority}}), length(block, "list"));
    const ScheduleProblem loop = random_problem(seed, 5 + static_cast<int>(seed % 40), true);
    EXPECT_GE(length(loop, "modulo"), interval_bound(loop).interval());
    EXPECT_LE(length(loop, "modulo"), length(loop, "acyclic"));
  }
}

TEST(ScheduleFault, NamesTheRule) {
  ScheduleProblem problem = example(false);
  problem.classes = {"write", "read"};
  problem.operations[0].classes = {0};
  problem.operations[1].classes = {1};
  problem.separations = {{0, 1, 1}};
  problem.operations[3].earliest = 2;
  const auto fault = [&](std::vector<int64_t> issue) {
    return schedule_fault(problem, {std::move(issue), 0, false});
  };
  EXPECT_EQ(fault({0, 2, 5, 8}), "");
  EXPECT_THAT(fault({0, 2, 4, 8}), HasSubstr("dependence"));
  EXPECT_THAT(fault({3, 3, 6, 9}), HasSubstr("resource 'load'"));
  EXPECT_THAT(fault({0, 1, 4, 7}), HasSubstr("separation of 'write' and 'read'"));
  EXPECT_THAT(fault({0, 2, 5}), HasSubstr("3 issue steps for 4"));
  problem.operations[3].earliest = 9;
  EXPECT_THAT(fault({0, 2, 5, 8}), HasSubstr("earliest step 9"));

  const ScheduleProblem loop = example(true);
  EXPECT_THAT(schedule_fault(loop, {{0, 1, 4, 7}, 2, false}), HasSubstr("1 iterations later"));
  EXPECT_EQ(schedule_fault(loop, {{0, 1, 4, 7}, 3, false}), "");
  EXPECT_THAT(schedule_fault(loop, {{0, 3, 6, 9}, 3, false}), HasSubstr("resource 'load'"));
}

TEST(ScheduleFault, SharedPlacesInALoop) {
  // Two reads of one address share the port; of different iterations only when the address never changes.
  ScheduleProblem problem;
  problem.is_loop = true;
  problem.resources = {{"port", 1}};
  for (int k = 0; k < 2; ++k) problem.operations.emplace_back().uses = {{0, 7, false}};
  EXPECT_EQ(schedule_fault(problem, {{0, 0}, 2, false}), "");
  EXPECT_THAT(schedule_fault(problem, {{0, 2}, 2, false}), HasSubstr("port"));
  for (auto& operation : problem.operations) operation.uses[0].invariant = true;
  EXPECT_EQ(schedule_fault(problem, {{0, 2}, 2, false}), "");
}

TEST(ScheduleJson, RoundTrip) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const ScheduleProblem problem = random_problem(seed, 12, seed % 2 == 0);
    const std::string text = to_json(problem);
    const ScheduleProblem again = problem_from_json(text, "test");
    EXPECT_EQ(to_json(again), text);
    const Schedule schedule = find_block_scheduler("", problem.is_loop).run(problem, {});
    const Schedule read = schedule_from_json(again, to_json(problem, schedule), "test");
    EXPECT_EQ(read.issue, schedule.issue);
    EXPECT_EQ(schedule_fault(again, read), "");
  }
}

TEST(ScheduleJson, ErrorsNameThePlace) {
  const auto error = [](const char* text) -> std::string {
    try {
      problem_from_json(text, "file.json");
    } catch (const isa::UserError& failure) {
      return failure.what();
    }
    return "nothing";
  };
  EXPECT_THAT(error("{"), HasSubstr("file.json"));
  EXPECT_THAT(error("[]"), HasSubstr("an object"));
  EXPECT_THAT(error(R"({"loop": 1})"), HasSubstr("loop: found 1, allowed: true or false"));
  EXPECT_THAT(error(R"({"resources": [{"capacity": 0}]})"), HasSubstr("capacity 0"));
  EXPECT_THAT(error(R"({"operations": [{"uses": [{"resource": 0}]}]})"), HasSubstr("resource"));
  EXPECT_THAT(error(R"({"operations": [{}, {"earliest": "x"}]})"), HasSubstr("operations[1].earliest"));
  EXPECT_THAT(error(R"({"operations": [{}, {}], "dependences": [{"from": 1, "to": 0, "distance": 1}]})"),
              HasSubstr("1 -> 0"));
  EXPECT_THAT(error(R"({"operations": [{}, {}], "dependences": [{"from": 0, "to": 1}]})"),
              HasSubstr("dependences[0] has no 'distance'"));
  EXPECT_THAT(error(R"({"operations": [{"earliest": 99999999999}]})"), HasSubstr("32 bits"));
  EXPECT_EQ(error("{}"), "nothing");
}

TEST(Schedulers, NamesAreChecked) {
  EXPECT_THROW(find_block_scheduler("modulo", false), isa::UserError);
  EXPECT_THROW(find_block_scheduler("list", true), isa::UserError);
  EXPECT_EQ(find_block_scheduler("", false).name, "list");
  EXPECT_EQ(find_block_scheduler("", true).name, "modulo");
}

TEST(Schedulers, TheEmptyProblem) {
  for (const bool is_loop : {false, true}) {
    ScheduleProblem problem;
    problem.is_loop = is_loop;
    for (const BlockScheduler& scheduler : block_schedulers()) {
      if (!(is_loop ? scheduler.for_loops : scheduler.for_blocks)) continue;
      EXPECT_EQ(schedule_fault(problem, scheduler.run(problem, {})), "") << scheduler.name;
    }
  }
}

}  // namespace
}  // namespace kodama::scheduler
