#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "isa/error.h"
#include "scheduler/problem/known_schedules.h"
#include "scheduler/problem/schedule_problem.h"
#include "scheduler/problem/schedule_suite.h"

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

int64_t length(const ScheduleProblem& problem, const char* scheduler, passes::PassOptions options = {}) {
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

/// Blocks that are hard to prove things about: latencies and separations of up to several hundred steps, many
/// of them almost alike, and operations that come late.
ScheduleProblem adversarial_problem(uint64_t seed, int operations) {
  std::mt19937_64 random(seed);
  const auto any = [&](std::initializer_list<int64_t> values) {
    return values.begin()[random() % values.size()];
  };
  ScheduleProblem problem;
  problem.name = fmt::format("adversarial {}", seed);
  problem.resources = {{"one", 1}, {"port", 1}, {"two", 2}};
  problem.classes = {"write", "read"};
  problem.separations = {{0, 1, any({1, 2, 3, 128, 130, 256})}};
  if (random() % 4 == 0) problem.separations.push_back({1, 0, any({1, 2, 129})});
  for (int k = 0; k < operations; ++k) {
    ScheduleProblem::Operation& operation = problem.operations.emplace_back();
    operation.text = fmt::format("operation {}", k);
    operation.earliest = any({0, 0, 0, 1, 126, 127, 128, 129, 130, 131, 132, 255, 256});
    operation.takes_step = random() % 8 != 0;
    if (operation.takes_step) {
      operation.uses = {{static_cast<int>(any({0, 0, 1, 2})), any({-1, -1, 0, 1}), false}};
      if (random() % 4 == 0) operation.uses.push_back({2, -1, false});
    }
    if (random() % 3 != 0) operation.classes = {static_cast<int>(any({0, 1}))};
    for (int from = 0; from < k; ++from) {
      if (random() % 4 != 0) continue;
      problem.dependences.push_back({from, k, any({0, 1, 2, 3, 126, 127, 128, 129, 130, 131, 256, 300}), 0});
    }
  }
  check_problem(problem);
  return problem;
}

/// The least steps of a block, by trying everything: operations one after the other in time, each at a time
/// at which it would be stopped from issuing earlier. That is its earliest step, a time at which another
/// issues, or one that is a distance, a step or a separation after that.
class EveryOrder {
 public:
  explicit EveryOrder(const ScheduleProblem& problem) : problem_(problem) {
    for (const auto& edge : problem.dependences) distances_.insert(edge.distance);
    for (const auto& each : problem.separations) distances_.insert(each.steps + 1);
    distances_.insert({0, 1});
    schedule_.issue.assign(problem.operations.size(), -1);
  }
  int64_t least() {
    add(0, 0);
    return least_;
  }

 private:
  void add(size_t placed, int64_t now) {
    if (placed == schedule_.issue.size()) {
      least_ = std::min(least_, schedule_steps(problem_, schedule_));
      return;
    }
    std::set<int64_t> times;
    for (size_t k = 0; k < schedule_.issue.size(); ++k) {
      times.insert(problem_.operations[k].earliest);
      if (schedule_.issue[k] < 0) continue;
      for (const int64_t distance : distances_) times.insert(schedule_.issue[k] + distance);
    }
    for (size_t k = 0; k < schedule_.issue.size(); ++k) {
      if (schedule_.issue[k] >= 0) continue;
      for (auto time = times.lower_bound(now); time != times.end() && *time + 1 <= least_; ++time) {
        if (!fits(k, *time)) continue;
        schedule_.issue[k] = *time;
        add(placed + 1, *time);
        schedule_.issue[k] = -1;
      }
    }
  }
  /// By the checker, on a problem of those that have a time.
  bool fits(size_t next, int64_t time) {
    ScheduleProblem part = problem_;
    part.operations.clear();
    part.dependences.clear();
    Schedule schedule;
    std::vector<int> number(schedule_.issue.size(), -1);
    for (size_t k = 0; k < number.size(); ++k) {
      if (schedule_.issue[k] < 0 && k != next) continue;
      number[k] = static_cast<int>(part.operations.size());
      part.operations.push_back(problem_.operations[k]);
      schedule.issue.push_back(k == next ? time : schedule_.issue[k]);
    }
    for (const auto& edge : problem_.dependences) {
      const int from = number[static_cast<size_t>(edge.from)];
      const int to = number[static_cast<size_t>(edge.to)];
      if (to >= 0 && from < 0) return false;  // it must be there first
      if (from >= 0 && to >= 0) part.dependences.push_back({from, to, edge.distance, 0});
    }
    return schedule_fault(part, schedule).empty();
  }

  const ScheduleProblem& problem_;
  std::set<int64_t> distances_;
  Schedule schedule_;
  int64_t least_ = INT64_MAX;
};

TEST(Schedulers, ExactAgreesWithBruteForceOnLongWaits) {
  int proven = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const ScheduleProblem problem = adversarial_problem(seed, 3 + static_cast<int>(seed % 2));
    const int64_t least = EveryOrder(problem).least();
    const Schedule exact = find_block_scheduler("exact", false).run(problem, {});
    EXPECT_EQ(schedule_fault(problem, exact), "") << seed;
    EXPECT_GE(schedule_steps(problem, exact), least) << to_json(problem);
    EXPECT_TRUE(schedule_steps(problem, exact) == least || exact.gave_up) << to_json(problem);
    EXPECT_NE(exact.is_optimal, exact.gave_up) << seed;
    EXPECT_LE(exact.shown_bound, least) << to_json(problem);
    proven += exact.is_optimal ? 1 : 0;
    EXPECT_LE(block_bound(problem).steps(), least) << to_json(problem);
  }
  EXPECT_GT(proven, 55);
}

TEST(Schedulers, ExactTellsLongWaitsApart) {
  // a and b take turns on one unit, B may then issue 130 steps behind b; C from 131 on (followed by F), D
  // from 132 on, and B want one unit. With a first, B comes in step 131 and one of the others too late.
  ScheduleProblem problem;
  for (int gadget = 0; gadget < 5; ++gadget) {
    const int unit = 2 * gadget;
    problem.resources.insert(problem.resources.end(), {{"first", 1}, {"second", 1}});
    const auto add = [&](const char* text, int resource, int64_t earliest) {
      ScheduleProblem::Operation& operation = problem.operations.emplace_back();
      operation.text = text;
      operation.earliest = earliest;
      if (resource >= 0) operation.uses = {{resource, -1, false}};
      return static_cast<int>(problem.operations.size()) - 1;
    };
    const int a = add("a", unit, 0);
    const int b = add("b", unit, 0);
    const int after_a = add("A", -1, 0);
    const int after_b = add("B", unit + 1, 0);
    const int c = add("C", unit + 1, 131);
    add("D", unit + 1, 132);
    const int f = add("F", -1, 0);
    problem.dependences.insert(problem.dependences.end(),
                               {{a, after_a, 130, 0}, {b, after_b, 130, 0}, {c, f, 1, 0}});
  }
  check_problem(problem);
  EXPECT_EQ(length(problem, "exact"), 133);
  EXPECT_EQ(length(problem, "exact", {{"exact-nodes", "100000"}}), 133);
}

TEST(Schedulers, ExactSaysWhenItGaveUp) {
  const ScheduleProblem problem = random_problem(123, 27, false);
  const Schedule all = find_block_scheduler("exact", false).run(problem, {});
  EXPECT_TRUE(all.is_optimal);
  EXPECT_FALSE(all.gave_up);
  EXPECT_EQ(all.shown_bound, schedule_steps(problem, all));
  const Schedule few = find_block_scheduler("exact", false).run(problem, {{"exact-nodes", "100"}});
  EXPECT_EQ(schedule_fault(problem, few), "");
  EXPECT_FALSE(few.is_optimal);
  EXPECT_TRUE(few.gave_up);
  EXPECT_LT(few.shown_bound, schedule_steps(problem, few));
  EXPECT_GE(few.shown_bound, block_bound(problem).steps());
}

TEST(Schedulers, TimeAndMemoryDoNotGrowWithDistances) {
  ScheduleProblem problem = example(false);
  problem.classes = {"write", "read"};
  problem.separations = {{0, 1, kMostSteps}};
  problem.operations[0].classes = {1};
  problem.operations[1].classes = {0};
  problem.operations[3].earliest = kMostSteps;
  problem.dependences[1].distance = kMostSteps - 7;
  for (const char* scheduler : {"list", "sequential", "exact"}) {
    SCOPED_TRACE(scheduler);
    EXPECT_LE(length(problem, scheduler), 3 * kMostSteps);
  }
  EXPECT_EQ(length(problem, "exact"), kMostSteps + 1);
  ScheduleProblem loop = example(true);
  loop.dependences.push_back({2, 0, kMostSteps, 1});
  EXPECT_EQ(length(loop, "modulo"), kMostSteps + 3);
  EXPECT_EQ(length(loop, "acyclic"), kMostSteps + 4);
  loop.classes = problem.classes;
  loop.separations = problem.separations;
  loop.operations[0].classes = {1};
  loop.operations[1].classes = {0};
  EXPECT_GT(length(loop, "modulo"), kMostSteps);
}

TEST(BlockBound, KnowsSeparationsAndWhatComesBetween) {
  // Writes of a memory, then reads of it, which stay 2 steps away from any write: 3 + 2 + 3.
  ScheduleProblem problem;
  problem.resources = {{"port", 1}};
  problem.classes = {"write", "read"};
  problem.separations = {{0, 1, 2}};
  for (int k = 0; k < 6; ++k) {
    problem.operations.emplace_back().uses = {{0, k, false}};
    problem.operations.back().classes = {k < 3 ? 0 : 1};
  }
  EXPECT_EQ(block_bound(problem).steps(), 6);  // reads may come first
  EXPECT_EQ(length(problem, "exact"), 6);
  problem.dependences = {{0, 3, 1, 0}, {0, 4, 1, 0}, {0, 5, 1, 0}};
  EXPECT_EQ(block_bound(problem).steps(), 8);  // wherever the other writes are
  problem.dependences.insert(problem.dependences.end(), {{1, 5, 1, 0}, {2, 5, 1, 0}});
  EXPECT_EQ(block_bound(problem).steps(), 8);
  EXPECT_EQ(length(problem, "exact"), 8);
  // One read behind one write, no other order: the idle steps are somewhere.
  problem.dependences = {{0, 3, 0, 0}};
  for (auto& operation : problem.operations) operation.earliest = 5;
  EXPECT_EQ(block_bound(problem).steps(), 5 + 6 + 2);
  EXPECT_EQ(length(problem, "exact"), 5 + 6 + 2);
}

TEST(BlockBound, IsReachedByAKernelOfTheSuite) {
  // Eight loads on one unit before each of eight operations, which the next eight loads wait for.
  ScheduleProblem problem;
  problem.resources = {{"load", 1}, {"sum", 1}};
  int last_sum = -1;
  for (int batch = 0; batch < 8; ++batch) {
    const auto first = static_cast<int>(problem.operations.size());
    for (int k = 0; k <= 8; ++k) problem.operations.emplace_back().uses = {{k < 8 ? 0 : 1, -1, false}};
    for (int k = 0; k < 8; ++k) {
      problem.dependences.push_back({first + k, first + 8, 2, 0});
      if (last_sum >= 0) problem.dependences.push_back({last_sum, first + k, 1, 0});
    }
    last_sum = first + 8;
  }
  check_problem(problem);
  EXPECT_EQ(block_bound(problem).steps(), 8 * 10);
  EXPECT_EQ(length(problem, "list"), 8 * 10);
}

/// Whether a loop has a schedule of this interval whose operations are all issued before `end`.
bool loop_exists(const ScheduleProblem& problem, int64_t end, Schedule& schedule, size_t next = 0) {
  if (next == problem.operations.size()) return schedule_fault(problem, schedule).empty();
  const auto breaks = [&](const ScheduleProblem::Dependence& each) {
    if (std::max(each.from, each.to) != static_cast<int>(next)) return false;
    const int64_t from = schedule.issue[static_cast<size_t>(each.from)];
    const int64_t to = schedule.issue[static_cast<size_t>(each.to)];
    return to + schedule.interval * each.iterations < from + each.distance;
  };
  for (int64_t time = 0; time < end; ++time) {
    schedule.issue[next] = time;
    if (std::ranges::none_of(problem.dependences, breaks) && loop_exists(problem, end, schedule, next + 1))
      return true;
  }
  return false;
}

/// Loops of four operations, of which every schedule is tried. Latencies are at most 4, so that the last
/// operation of an iteration needs to wait no longer than four of them and a round.
TEST(Schedulers, LoopsAgainstEverySchedule) {
  int optimal = 0;
  constexpr int kLoops = 60;
  for (uint64_t seed = 1; seed <= kLoops; ++seed) {
    const ScheduleProblem loop = random_problem(seed, 4, true);
    Schedule schedule;
    schedule.issue.assign(loop.operations.size(), 0);
    const int64_t found = length(loop, "modulo");
    int64_t least = 0;
    do {
      schedule.interval = ++least;
    } while (least < found && !loop_exists(loop, 16 + least, schedule));
    EXPECT_LE(interval_bound(loop).interval(), least) << seed;
    EXPECT_GE(length(loop, "acyclic"), least) << seed;
    optimal += found == least ? 1 : 0;
    EXPECT_LE(found, least + 1) << seed;
  }
  EXPECT_GE(optimal, kLoops * 9 / 10);
}

TEST(Schedulers, NobodyBeatsTheBoundOrAProof) {
  int shorter = 0;  // loops, by other orders
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const ScheduleProblem block = random_problem(seed, 10 + static_cast<int>(seed % 25), false);
    const Schedule exact = find_block_scheduler("exact", false).run(block, {{"exact-nodes", "200000"}});
    EXPECT_EQ(schedule_fault(block, exact), "");
    const int64_t steps = schedule_steps(block, exact);
    EXPECT_GE(steps, block_bound(block).steps());
    for (const char* name : {"list", "sequential"}) {
      const int64_t other = length(block, name);
      EXPECT_GE(other, block_bound(block).steps());
      EXPECT_GE(other, exact.is_optimal ? steps : 0) << name << " " << seed;
    }
    for (const char* priority : {"critical-path", "crowded-path", "source"})
      EXPECT_GE(length(block, "list", {{"list-priority", priority}}), exact.shown_bound) << seed;
    const ScheduleProblem loop = random_problem(seed, 5 + static_cast<int>(seed % 40), true);
    const int64_t interval = length(loop, "modulo");
    EXPECT_GE(interval, interval_bound(loop).interval());
    // With one order and no patience it is between this and none at all.
    const int64_t hasty = length(loop, "modulo", {{"modulo-orders", "1"}, {"modulo-patience", "1"}});
    EXPECT_GE(hasty, interval) << seed;
    EXPECT_LE(hasty, length(loop, "acyclic")) << seed;
    shorter += interval < hasty ? 1 : 0;
  }
  EXPECT_GT(shorter, 0);
}

/// What `kodama schedule` prints of a problem and a schedule from a file, and its exit code.
std::pair<int, std::string> check_files(const ScheduleProblem& problem, const std::string& schedule) {
  const std::string directory = testing::TempDir();
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(directory + name) << text;
    return directory + name;
  };
  std::ostringstream out;
  const int status = schedule_file(
      {write("proof_problem.json", to_json(problem)), "", {}, "", write("proof_schedule.json", schedule)},
      out);
  return {status, out.str()};
}

TEST(ScheduleFile, WhatAFileClaimsIsNoProof) {
  const ScheduleProblem block = example(false);
  const auto claim = [&](const std::vector<int64_t>& issue) {
    return to_json(block, Schedule{issue, 0, true});
  };
  EXPECT_THAT(check_files(block, claim({0, 1, 4, 7})).second, HasSubstr("steps 8, no schedule is shorter"));
  const auto [status, text] = check_files(block, claim({0, 1, 4, 9}));
  EXPECT_EQ(status, 1);
  EXPECT_THAT(text, HasSubstr("no schedule is shorter than 10 steps, but there is one of 8"));
  // Without a claim, our bound says it all the same, and a longer one is just that.
  EXPECT_THAT(check_files(block, to_json(block, Schedule{{0, 1, 4, 7}, 0, false})).second,
              HasSubstr("steps 8, no schedule is shorter"));
  EXPECT_THAT(check_files(block, to_json(block, Schedule{{0, 1, 4, 9}, 0, false})).second,
              HasSubstr("steps 10\n"));
  // Where neither bound nor search reaches, a claim is called one.
  ScheduleProblem loop = example(true);
  EXPECT_THAT(check_files(loop, to_json(loop, Schedule{{0, 1, 4, 7}, 4, true})).second,
              HasSubstr("interval 4, claimed to be the least; not proven: what is shown is 3 and more"));
  // Ours gave up.
  const ScheduleProblem hard = random_problem(123, 27, false);
  std::ofstream(testing::TempDir() + "proof_hard.json") << to_json(hard);
  std::ostringstream out;
  EXPECT_EQ(
      schedule_file({testing::TempDir() + "proof_hard.json", "exact", {{"exact-nodes", "100"}}, "", ""}, out),
      0);
  EXPECT_THAT(out.str(), HasSubstr(", not proven: the search gave up; every schedule has 14 and more"));
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

TEST(ScheduleJson, NumbersAndDepthHaveLimits) {
  const auto refuse = [](const std::string& text, const char* part) {
    try {
      problem_from_json(text, "file.json");
      ADD_FAILURE() << text;
    } catch (const isa::UserError& failure) {
      EXPECT_THAT(failure.what(), HasSubstr(part));
    }
  };
  const auto dependence = [](int64_t distance, int64_t iterations) {
    return fmt::format(R"({{"loop": true, "operations": [{{}}, {{}}],
                           "dependences": [{{"from": 0, "to": 1, "distance": {}, "iterations": {}}}]}})",
                       distance, iterations);
  };
  EXPECT_NO_THROW(problem_from_json(dependence(kMostSteps, 0), "file.json"));
  EXPECT_NO_THROW(problem_from_json(dependence(-kMostSteps, kMostIterations), "file.json"));
  refuse(dependence(kMostSteps + 1, 0), "distance of a dependence: found 1000000001");
  refuse(dependence(-1, 0), "distance of a dependence: found -1");
  refuse(dependence(1, kMostIterations + 1), "over 1001 iterations");
  refuse(R"({"operations": [{"earliest": 1000000001}]})", "earliest step: found 1000000001");
  refuse(R"({"classes": ["a"], "separations": [{"first": 0, "second": 0, "steps": -1}]})",
         "steps of a separation");
  refuse(R"({"classes": ["a"], "operations": [{"classes": [18446744073709551615]}]})",
         "operations[0].classes[0]: found 18446744073709551615, allowed: an integer of 32 bits");
  // An operation that no step has room for.
  refuse(R"({"resources": [{"name": "unit"}], "operations": [{"uses": [{"resource": 0}, {"resource": 0}]}]})",
         "uses 2 places of resource 'unit', which has 1");
  refuse(std::string(100'000, '['), "levels of lists and objects");
}

/// A problem changed in one number each.
std::vector<ScheduleProblem> neighbours(const ScheduleProblem& problem) {
  std::vector<ScheduleProblem> result;
  const auto change = [&](auto&& edit) {
    result.push_back(problem);
    edit(result.back());
  };
  change([](ScheduleProblem& p) { p.is_loop = !p.is_loop; });
  change([](ScheduleProblem& p) { ++p.resources.back().capacity; });
  change([](ScheduleProblem& p) { p.resources.push_back({"another", 1}); });
  change([](ScheduleProblem& p) { p.classes.push_back("another"); });
  for (size_t k = 0; k < problem.operations.size(); ++k) {
    change([k](ScheduleProblem& p) { ++p.operations[k].earliest; });
    change([k](ScheduleProblem& p) { p.operations[k].takes_step = !p.operations[k].takes_step; });
    for (size_t u = 0; u < problem.operations[k].uses.size(); ++u) {
      change([k, u](ScheduleProblem& p) { p.operations[k].uses[u].key += 100; });
      change([k, u](ScheduleProblem& p) { p.operations[k].uses[u].invariant ^= true; });
      change([k, u](ScheduleProblem& p) { ++p.operations[k].uses[u].resource; });
    }
    change([k](ScheduleProblem& p) { p.operations[k].uses.push_back({0, 1 << 20, false}); });
    change([k](ScheduleProblem& p) { p.operations[k].classes.push_back(0); });
  }
  for (size_t e = 0; e < problem.dependences.size(); ++e) {
    change([e](ScheduleProblem& p) { --p.dependences[e].from; });
    change([e](ScheduleProblem& p) { ++p.dependences[e].to; });
    change([e](ScheduleProblem& p) { p.dependences[e].distance += 300; });
    change([e](ScheduleProblem& p) { ++p.dependences[e].iterations; });
  }
  for (size_t k = 0; k < problem.separations.size(); ++k) {
    change([k](ScheduleProblem& p) { ++p.separations[k].first; });
    change([k](ScheduleProblem& p) { ++p.separations[k].second; });
    change([k](ScheduleProblem& p) { ++p.separations[k].steps; });
  }
  return result;
}

TEST(KnownSchedules, AreAskedForOnceByTheNumbersOfAProblem) {
  // Says which of its problems it saw, by the number of calls.
  int64_t calls = 0;
  BlockScheduler scheduler{
      "counting", "", {}, true, true, false, [&](const ScheduleProblem& problem, const passes::PassOptions&) {
        Schedule schedule;
        schedule.issue.assign(problem.operations.size(), ++calls);
        return schedule;
      }};
  for (uint32_t seed = 0; seed < 20; ++seed) {
    KnownSchedules known;
    calls = 0;
    ScheduleProblem problem = random_problem(seed, 8, seed % 2 == 0);
    const Schedule first = known.run(scheduler, problem, {});
    problem.name = "other";
    for (auto& operation : problem.operations) operation.text += " of another layer";
    for (auto& resource : problem.resources) resource.name += "'";
    EXPECT_EQ(known.run(scheduler, problem, {}).issue, first.issue);
    EXPECT_EQ(calls, 1);
    for (const ScheduleProblem& other : neighbours(problem)) {
      const int64_t before = calls;
      known.run(scheduler, other, {});
      EXPECT_EQ(calls, before + 1);
    }
    const int64_t before = calls;
    known.run(scheduler, problem, {{"option", "1"}});
    known.run(scheduler, problem, {{"option", "2"}});
    EXPECT_EQ(calls, before + 2);
    // A plugin may answer as it likes.
    scheduler.plugin = "libmine.so";
    known.run(scheduler, problem, {});
    EXPECT_EQ(calls, before + 3);
    scheduler.plugin.clear();
  }
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
