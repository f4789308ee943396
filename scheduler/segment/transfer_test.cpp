#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "assembler/assembler.h"
#include "isa/error.h"
#include "isa/hazards.h"
#include "isa/sequencer.h"
#include "scheduler/problem/coarse_positions.h"
#include "scheduler/problem/transfer_problem.h"
#include "scheduler/segment/transfer_scheduling.h"
#include "scheduler/verify/verify.h"

namespace kodama::scheduler {
namespace {

using Buffer = TransferProblem::Buffer;
using Transfer = TransferProblem::Transfer;

// ---- problems -----------------------------------------------------------------------------------------

/// The example of transfer_problem.h.
TransferProblem two_tasks(int64_t capacity) {
  TransferProblem problem;
  problem.name = "two tasks";
  problem.capacity = capacity;
  problem.ports = {"DRAM"};
  problem.task_cycles = {100, 100};
  for (int task = 0; task < 2; ++task) {
    problem.buffers.push_back({fmt::format("{}", task), 64, 1, 0, {}, task, task});
    problem.transfers.push_back({fmt::format("load {}", task), task, true, 0, task, 0, {{0, 80}}, {}});
  }
  return problem;
}

TransferSchedule solve(const std::string& scheduler, const TransferProblem& problem) {
  check_problem(problem);
  const std::vector<TransferSchedule> schedules = find_transfer_scheduler(scheduler).run(problem, {});
  EXPECT_FALSE(schedules.empty());
  for (const TransferSchedule& schedule : schedules) EXPECT_EQ(schedule_fault(problem, schedule), "");
  return schedules.at(0);
}

TEST(TransferProblem, TheExample) {
  const TransferProblem wide = two_tasks(128);
  EXPECT_EQ(estimated_cycles(wide, solve("prefetch", wide)), 280);
  const TransferProblem narrow = two_tasks(64);
  EXPECT_EQ(estimated_cycles(narrow, solve("prefetch", narrow)), 360);
  EXPECT_EQ(transfer_bound(wide).cycles(), 280);
}

TEST(TransferProblem, StartsAndTransfersUnderWayAreLimited) {
  TransferProblem problem = two_tasks(128);
  problem.ports = {"one", "other"};
  problem.transfers[1].uses = {{1, 80}};
  const auto time_of_both = [&] {
    TransferClock clock(problem);
    clock.issue(0, false);
    clock.issue(1, false);
    return clock.end();
  };
  EXPECT_EQ(time_of_both(), 80);
  problem.issue_interval = 16;
  EXPECT_EQ(time_of_both(), 96);
  problem.max_in_flight = 1;
  EXPECT_EQ(time_of_both(), 160);
  problem.queues = {0, 1};
  EXPECT_EQ(time_of_both(), 96);
  problem.queues = {1, 1};
  EXPECT_EQ(time_of_both(), 160);
  problem.transfers[1].uses.push_back({0, 0});
  problem.queues = {0, 1};
  EXPECT_EQ(time_of_both(), 160) << "it has a place in both";
  problem.queues = {0};
  EXPECT_NE(problem_fault(problem), "");
  problem.queues = {0, 2};
  EXPECT_NE(problem_fault(problem), "");
}

TEST(TransferProblem, TasksBetweenEventsAreOnePosition) {
  // The example of coarse_positions.h.
  TransferProblem problem = two_tasks(128);
  problem.issue_interval = 16;
  problem.task_cycles.assign(10, 4);
  problem.buffers.resize(1);
  problem.buffers[0].first_task = 6;
  problem.buffers[0].last_task = 9;
  problem.transfers.resize(1);
  problem.transfers[0].latest = 6;
  const CoarsePositions coarse(problem, 0);
  EXPECT_THAT(coarse.problem().task_cycles, testing::ElementsAre(16, 8, 16));
  EXPECT_EQ(CoarsePositions(problem).problem().task_cycles, problem.task_cycles);
  EXPECT_EQ(coarse.problem().transfers[0].latest, 2);
  EXPECT_EQ(coarse.problem().buffers[0].first_task, 2);
  EXPECT_EQ(coarse.problem().buffers[0].last_task, 2);
  EXPECT_EQ(problem_fault(coarse.problem()), "");
  for (const auto& [position, whole] : std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {1, 4}, {2, 6}}) {
    const TransferSchedule schedule = coarse.refined({{position}, {false}, {0}, {}});
    EXPECT_EQ(schedule.issue[0], whole);
    EXPECT_EQ(schedule_fault(problem, schedule), "");
  }
}

TEST(TransferProblem, WhatIsStoredStays) {
  TransferProblem problem;
  problem.capacity = 128;
  problem.ports = {"DRAM"};
  problem.task_cycles = {10, 10, 10};
  problem.buffers = {{"made", 64, 64, 0, {}, 0, 0}, {"read", 64, 64, 0, {}, 2, 2}};
  problem.transfers = {{"store", 0, false, 1, 1, 0, {{0, 50}}, {}},
                       {"load", 1, true, 1, 2, 0, {{0, 50}}, {0}}};
  problem.keeps = {{{{0, 0}, {1, 0}}, {1}, 64}};
  const TransferSchedule kept = solve("keep", problem);
  EXPECT_TRUE(kept.kept[0]);
  EXPECT_EQ(kept.issue[1], TransferSchedule::kDropped);
  EXPECT_EQ(kept.address[0], kept.address[1]);
  // The store goes on behind the last task.
  EXPECT_EQ(estimated_cycles(problem, kept), 60);
  EXPECT_EQ(estimated_cycles(problem, solve("prefetch", problem)), 10 + 50 + 50 + 10);
}

/// Task 2 needs a place that what comes ahead for task 3 would take. Everything else comes ahead all the
/// same.
TEST(TransferProblem, ACrowdedMomentHoldsUpNothingElse) {
  TransferProblem problem;
  problem.capacity = 192;
  problem.ports = {"DRAM"};
  problem.task_cycles.assign(5, 100);
  for (const int64_t task : {0, 1, 2, 3, 4}) {
    const int64_t size = task == 0 || task == 2 ? 128 : 64;
    problem.buffers.push_back({"", size, size, 0, {}, task, task});
    const int64_t earliest = task == 2 ? 2 : 0;
    problem.transfers.push_back({"load", static_cast<int>(task), true, earliest, task, 0, {{0, 80}}, {}});
  }
  const TransferSchedule found = solve("prefetch", problem);
  EXPECT_EQ(found.issue[1], 0);
  EXPECT_EQ(found.issue[3], 2);
  EXPECT_EQ(found.issue[4], 3);
  EXPECT_EQ(estimated_cycles(problem, found), 80 + 100 + 100 + 80 + 100 + 100 + 100);
}

/// The same again and again: what is learnt in each repetition leaves those before it as they were.
TEST(TransferProblem, CrowdedMomentsAreLearntOneByOne) {
  constexpr int64_t kRepetitions = 100, kTasks = 5;
  TransferProblem problem;
  problem.capacity = 192;
  problem.ports = {"DRAM"};
  problem.task_cycles.assign(kRepetitions * kTasks, 100);
  for (int64_t task = 0; task < kRepetitions * kTasks; ++task) {
    const int64_t nth = task % kTasks;
    const int64_t size = nth == 0 || nth == 2 ? 128 : 64;
    problem.buffers.push_back({"", size, size, 0, {}, task, task});
    const int64_t earliest = nth == 2 ? task : task - nth;
    problem.transfers.push_back({"load", static_cast<int>(task), true, earliest, task, 0, {{0, 80}}, {}});
  }
  const TransferSchedule found = solve("prefetch", problem);
  for (int64_t task = 0; task < kRepetitions * kTasks; ++task) {
    const int64_t issued[kTasks] = {0, 0, 2, 2, 3};
    EXPECT_EQ(found.issue[static_cast<size_t>(task)], task / kTasks * kTasks + issued[task % kTasks]) << task;
  }
}

/// Task 2 needs a demanded address, where something else is until its time comes.
TEST(TransferProblem, WhatHasADemandedAddressComesAheadWhenItIsFree) {
  TransferProblem problem = two_tasks(128);
  problem.task_cycles = {100, 100, 100};
  problem.buffers.push_back({"demanded", 64, 1, 0, 0, 2, 2});
  problem.transfers.push_back({"load demanded", 2, true, 0, 2, 0, {{0, 80}}, {}});
  problem.buffers[0].last_task = 1;
  const TransferSchedule found = solve("prefetch", problem);
  EXPECT_EQ(found.address, (std::vector<int64_t>{0, 64, 0}));
  EXPECT_EQ(found.issue, (std::vector<int64_t>{0, 0, 2}));
  // There is another place for what else is there.
  problem.buffers[2].fixed_address = 128;
  problem.capacity = 192;
  EXPECT_LT(solve("prefetch", problem).issue[2], 2);
}

/// Tasks 0 and 1 make 64 LW each, task 2 works on 64 others, task 3 needs what 1 made and task 4 what 0 made.
TEST(TransferProblem, BoundGivesUpTheFurthestNextUse) {
  TransferProblem problem;
  problem.ports = {"DRAM"};
  problem.task_cycles.assign(5, 1);
  for (const int64_t task : {0, 1, 2, 3, 4}) problem.buffers.push_back({"", 64, 64, 0, {}, task, task});
  problem.transfers = {{"store a", 0, false, 1, 1, 0, {{0, 50}}, {}},
                       {"store b", 1, false, 2, 2, 0, {{0, 50}}, {}},
                       {"load b", 3, true, 2, 3, 0, {{0, 70}}, {1}},
                       {"load a", 4, true, 1, 4, 0, {{0, 80}}, {0}}};
  problem.keeps = {{{{0, 0}, {4, 0}}, {3}, 64}, {{{1, 0}, {3, 0}}, {2}, 64}};
  const auto bound = [&](int64_t capacity) {
    problem.capacity = capacity;
    return transfer_bound(problem).ports;
  };
  // The first transfer begins behind task 0.
  EXPECT_EQ(bound(192), 1 + 100);
  EXPECT_EQ(bound(128), 1 + 170);  // one of them is loaded, at least with 70 cycles
  EXPECT_EQ(bound(160), 1 + 135);  // half of one
  EXPECT_EQ(bound(64), 1 + 250);
}

/// What a task makes waits for the last one, over tasks whose buffers fill the memory.
TransferProblem kept_over(const std::vector<std::pair<int64_t, int64_t>>& others) {
  TransferProblem problem;
  problem.capacity = 4;
  problem.ports = {"DRAM"};
  problem.task_cycles.assign(6, 10);
  problem.buffers = {{"made", 2, 1, 0, {}, 0, 0}, {"read", 2, 1, 0, {}, 5, 5}};
  for (const auto& [first, last] : others) problem.buffers.push_back({"", 2, 1, 0, {}, first, last});
  problem.transfers = {{"store", 0, false, 1, 1, 0, {{0, 100}}, {}},
                       {"load", 1, true, 1, 5, 0, {{0, 1000}}, {0}}};
  problem.keeps = {{{{0, 0}, {1, 0}}, {1}, 2}};
  check_problem(problem);
  return problem;
}

TEST(TransferProblem, BoundSeesEveryTaskOfALife) {
  // Task 2 has two buffers, tasks 1 and 3 have one: nothing can stay in task 2.
  const int64_t bound = transfer_bound(kept_over({{1, 2}, {2, 3}})).cycles();
  EXPECT_EQ(bound, 10 + 100 + 1000);
  EXPECT_EQ(transfer_bound(kept_over({{1, 2}, {2, 2}, {3, 3}})).cycles(), bound);
  EXPECT_EQ(transfer_bound(kept_over({{1, 1}, {2, 2}, {2, 3}})).cycles(), bound);
  EXPECT_EQ(transfer_bound(kept_over({{1, 2}, {3, 4}})).cycles(), 10 + 100);
}

TEST(TransferProblem, BoundKnowsWhatTheFirstAndTheLastTransferWaitFor) {
  TransferProblem problem = two_tasks(128);
  for (Transfer& transfer : problem.transfers) transfer.latency = 30;
  problem.transfers[1].earliest = 0;
  // Nothing moves before the latency, and all tasks wait for the first load.
  EXPECT_EQ(transfer_bound(problem).ports, 30 + 80 + 200);
  EXPECT_EQ(transfer_bound(problem).tasks, 30 + 80 + 100 + 100);
  problem.issue_interval = 500;
  EXPECT_EQ(transfer_bound(problem).ports, 500 + 30 + 80 + 100);
  // One that comes behind the other, which ends late.
  problem.issue_interval = 0;
  problem.transfers[1].after = {0};
  EXPECT_EQ(transfer_bound(problem).tasks, 110 + 110 + 100);
}

/// The least estimate of all schedules of a tiny problem; nothing if it has none.
class EverySchedule {
 public:
  explicit EverySchedule(const TransferProblem& problem) : problem_(problem) {
    schedule_.issue.assign(problem.transfers.size(), 0);
    schedule_.copied.assign(problem.transfers.size(), false);
    schedule_.address.assign(problem.buffers.size(), 0);
    schedule_.kept.assign(problem.keeps.size(), false);
  }
  std::optional<int64_t> least() {
    for (uint32_t kept = 0; kept < 1U << problem_.keeps.size(); ++kept) {
      is_dropped_.assign(problem_.transfers.size(), false);
      for (size_t k = 0; k < problem_.keeps.size(); ++k) {
        schedule_.kept[k] = (kept >> k & 1) != 0;
        for (const int load : problem_.keeps[k].saved)
          is_dropped_[static_cast<size_t>(load)] = schedule_.kept[k];
      }
      issue(0);
    }
    return least_ == INT64_MAX ? std::nullopt : std::optional(least_);
  }

 private:
  void issue(size_t next) {
    if (next == problem_.transfers.size()) {
      place(0);
      return;
    }
    if (is_dropped_[next]) {
      schedule_.issue[next] = TransferSchedule::kDropped;
      issue(next + 1);
      return;
    }
    const Transfer& transfer = problem_.transfers[next];
    if (transfer.is_scratch) {
      schedule_.issue[next] = TransferSchedule::kDropped;
      issue(next + 1);
    }
    for (int copied = 0; copied <= (transfer.copy ? 1 : 0); ++copied) {
      schedule_.copied[next] = copied == 1;
      for (int64_t at = transfer.earliest; at <= transfer.latest; ++at) {
        schedule_.issue[next] = at;
        issue(next + 1);
      }
    }
    schedule_.copied[next] = false;
  }
  /// All addresses: who takes whose place changes the order of transfers.
  void place(size_t next) {
    if (next == problem_.buffers.size()) {
      const int64_t cycles = estimated_cycles(problem_, schedule_);
      if (cycles < least_ && schedule_fault(problem_, schedule_).empty()) least_ = cycles;
      return;
    }
    for (int64_t at = 0; at + problem_.buffers[next].size <= problem_.capacity; ++at) {
      schedule_.address[next] = at;
      place(next + 1);
    }
  }

  const TransferProblem& problem_;
  TransferSchedule schedule_;
  std::vector<bool> is_dropped_;
  int64_t least_ = INT64_MAX;
};

TransferProblem tiny_problem(std::mt19937& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  TransferProblem problem;
  problem.capacity = 2 + below(3);
  problem.ports = {"DRAM", "L2BM"};
  problem.issue_interval = below(3) * 15;
  problem.max_in_flight = below(3);
  const int64_t tasks = 2 + below(4);
  for (int64_t t = 0; t < tasks; ++t) problem.task_cycles.push_back(below(3) * 20);
  for (int64_t b = 0; b < 2 + below(3); ++b) {
    const int64_t first = below(tasks);
    problem.buffers.push_back(
        {"", 1 + below(2), 1, 0, {}, first, first + below(std::min<int64_t>(tasks - first, 2))});
  }
  const auto buffers = static_cast<int64_t>(problem.buffers.size());
  for (int64_t k = 0; k < 1 + below(4); ++k) {
    Transfer transfer;
    transfer.buffer = static_cast<int>(below(buffers));
    transfer.is_load = below(3) > 0;
    const Buffer& buffer = problem.buffers[static_cast<size_t>(transfer.buffer)];
    transfer.latest = transfer.is_load ? buffer.first_task : buffer.last_task + 1;
    transfer.earliest = transfer.is_load ? below(transfer.latest + 1) : transfer.latest;
    transfer.latency = below(3) * 25;
    transfer.uses = {{0, below(4) * 30}, {1, below(3) * 40}};
    if (k > 0 && below(3) == 0) transfer.after = {static_cast<int>(below(k))};
    if (transfer.is_load && below(3) == 0)
      transfer.copy = {static_cast<int>(below(buffers)), below(3) * 25, {{1, below(3) * 40}}};
    transfer.is_scratch = !transfer.is_load && below(2) == 0;
    problem.transfers.push_back(std::move(transfer));
  }
  std::vector<char> taken(static_cast<size_t>(buffers), 0);
  for (int64_t k = 0; k < below(3); ++k) {
    TransferProblem::Keep keep;
    for (int64_t member = 0; member < 2 + below(2); ++member) {
      const int64_t b = below(buffers);
      if (std::exchange(taken[static_cast<size_t>(b)], 1) != 0) continue;
      keep.members.push_back({static_cast<int>(b), 0});
      keep.size = std::max(keep.size, problem.buffers[static_cast<size_t>(b)].size);
    }
    if (keep.members.empty()) continue;
    for (size_t load = 0; load < problem.transfers.size(); ++load) {
      const Transfer& transfer = problem.transfers[load];
      if (transfer.is_load && std::ranges::any_of(keep.members, [&](const auto& member) {
            return member.buffer == transfer.buffer;
          }))
        keep.saved.push_back(static_cast<int>(load));
    }
    problem.keeps.push_back(std::move(keep));
  }
  check_problem(problem);
  return problem;
}

TEST(TransferProblem, NoScheduleBeatsTheBound) {
  std::mt19937 random(1);
  int solved = 0;
  int reached = 0;
  for (int k = 0; k < 400; ++k) {
    const TransferProblem problem = tiny_problem(random);
    const std::optional<int64_t> least = EverySchedule(problem).least();
    const TransferBound bound = transfer_bound(problem);
    if (!least) continue;
    ++solved;
    reached += bound.cycles() == *least ? 1 : 0;
    EXPECT_LE(bound.cycles(), *least) << to_json(problem);
  }
  EXPECT_GT(solved, 200);
  EXPECT_GT(reached, solved / 3);
}

/// No scheduler beats the best of all schedules, and most of theirs are it or near it.
TEST(TransferProblem, SchedulersAgainstEverySchedule) {
  std::mt19937 random(3);
  int solved = 0;
  int reached = 0;
  int64_t sum = 0;
  int64_t least_sum = 0;
  for (int k = 0; k < 400; ++k) {
    const TransferProblem problem = tiny_problem(random);
    // In programs, transfers need stores, which stand before them: all at their latest is a schedule, the
    // schedulers' start.
    const bool is_program = std::ranges::all_of(problem.transfers, [&](const Transfer& transfer) {
      return std::ranges::all_of(transfer.after, [&](int needed) {
        const Transfer& before = problem.transfers[static_cast<size_t>(needed)];
        return !before.is_load && before.latest <= transfer.latest && before.earliest <= transfer.earliest;
      });
    });
    const std::optional<int64_t> least = EverySchedule(problem).least();
    if (!least || !is_program) continue;
    SCOPED_TRACE(to_json(problem));
    ++solved;
    for (const char* scheduler : {"on-demand", "prefetch", "keep"}) {
      const auto found = find_transfer_scheduler(scheduler).run(problem, {});
      if (found.empty()) continue;
      EXPECT_EQ(schedule_fault(problem, found[0]), "");
      const int64_t cycles = estimated_cycles(problem, found[0]);
      EXPECT_GE(cycles, *least) << scheduler;
      if (scheduler != std::string("keep")) continue;
      reached += cycles == *least ? 1 : 0;
      sum += cycles;
      least_sum += *least;
    }
  }
  std::cout << "keep: " << reached << " of " << solved << " are the best, " << sum << " cycles against "
            << least_sum << '\n';
  EXPECT_GT(solved, 50);
  EXPECT_GT(reached, solved / 2);
  EXPECT_LE(static_cast<double>(sum), 1.1 * static_cast<double>(least_sum));
}

TEST(TransferProblem, TasksEndBeforeTheLastPosition) {
  TransferProblem problem = two_tasks(128);
  EXPECT_EQ(problem_fault(problem), "");
  problem.buffers[1].last_task = 2;
  EXPECT_NE(problem_fault(problem).find("found tasks 1 to 2, allowed: rising, from 0 to 1"),
            std::string::npos);
  EXPECT_THROW(check_problem(problem), isa::InternalError);
}

TEST(TransferProblem, WhatATransferNeedsIsIssuedBeforeItInOnePosition) {
  // A store that needs a load, which nobody awaits yet.
  TransferProblem problem = two_tasks(128);
  problem.transfers = {{"load", 0, true, 0, 1, 10, {{0, 80}}, {}},
                       {"store", 1, false, 1, 1, 0, {{0, 5}}, {0}}};
  problem.transfers.push_back({"load", 1, true, 0, 0, 0, {{0, 1}}, {}});
  problem.buffers[0].first_task = 1;
  problem.buffers[0].last_task = 1;
  problem.transfers[0].latest = 1;
  problem.transfers[1].earliest = problem.transfers[1].latest = 0;
  const TransferSchedule schedule{{0, 0, 0}, {false, false, false}, {0, 64}, {}};
  EXPECT_EQ(issue_order(problem, schedule), (std::vector<int>{2, 0, 1}));
  EXPECT_EQ(estimated_cycles(problem, schedule), 90 + 200);
}

TEST(TransferProblem, FaultsAreNamed) {
  const TransferProblem problem = two_tasks(128);
  const TransferSchedule right = solve("prefetch", problem);
  const auto fault = [&](const std::function<void(TransferSchedule&)>& damage) {
    TransferSchedule wrong = right;
    damage(wrong);
    return schedule_fault(problem, wrong);
  };
  const auto expect = [](const std::string& found, const std::string& part) {
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  expect(fault([](auto& s) { s.issue[1] = 2; }), "allowed are 0 to 1");
  expect(fault([](auto& s) { s.issue[1] = TransferSchedule::kDropped; }), "nobody keeps");
  expect(fault([](auto& s) { s.address[1] = s.address[0] + 32; }), "overlap");
  expect(fault([](auto& s) { s.address[1] = 65; }), "of 128");
  expect(fault([](auto& s) { s.kept.push_back(true); }), "keeps");
  expect(fault([](auto& s) { s.copied[1] = true; }), "there is none of it");
  TransferProblem fixed = problem;
  fixed.buffers[1].fixed_address = 64;
  TransferSchedule moved = right;
  moved.address = {64, 0};
  expect(schedule_fault(fixed, moved), "allowed is 64");
  TransferProblem ordered = problem;
  ordered.transfers[1].after = {0};
  ordered.transfers[0].latest = 0;
  TransferSchedule early = right;
  early.issue = {0, 0};
  EXPECT_EQ(schedule_fault(ordered, early), "");
}

/// Stages that make and read tensors, as networks do.
TransferProblem random_problem(std::mt19937& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  TransferProblem problem;
  problem.name = "random";
  problem.capacity = 64 * (9 + below(12));  // three buffers of 128 LW meet at most
  problem.ports = {"DRAM", "L2BM"};
  problem.issue_interval = below(3) * 8;
  problem.max_in_flight = below(2) * 8;
  const int64_t tasks = 3 + below(20);
  for (int64_t t = 0; t < tasks; ++t) problem.task_cycles.push_back(below(200));
  int last_store = -1;
  for (int64_t t = 0; t < tasks; ++t) {
    const int64_t size = 64 * (1 + below(2));
    const auto transfer = [&](bool is_load, int64_t earliest, int64_t latest, std::vector<int> after) {
      problem.transfers.push_back({"",
                                   static_cast<int>(problem.buffers.size()) - 1,
                                   is_load,
                                   earliest,
                                   latest,
                                   64,
                                   {{0, size / 16}, {1, size / 16}},
                                   std::move(after)});
      Transfer& added = problem.transfers.back();
      added.is_scratch = !is_load && below(2) == 0;
      if (is_load && !added.after.empty() && below(2) == 0) {
        const int source = problem.transfers[static_cast<size_t>(added.after[0])].buffer;
        added.copy = {source, 32, {{1, size / 16}}};
      }
    };
    if (below(3) > 0) {  // a constant
      problem.buffers.push_back({"", size, 64, 0, {}, t, t});
      transfer(true, below(t + 1), t, {});
    }
    if (last_store >= 0 && below(3) > 0) {  // what a task before made
      const Transfer store = problem.transfers[static_cast<size_t>(last_store)];
      const auto source = static_cast<size_t>(store.buffer);
      const auto kept_size = problem.buffers[source].size;
      problem.buffers.push_back({"", kept_size, 64, 0, {}, t, t});
      transfer(true, store.latest, t, {last_store});
      problem.keeps.push_back({{{store.buffer, 0}, {static_cast<int>(problem.buffers.size()) - 1, 0}},
                               {static_cast<int>(problem.transfers.size()) - 1},
                               kept_size});
      last_store = -1;
    } else if (below(2) > 0) {
      problem.buffers.push_back({"", size, 64, 0, {}, t, t});
      transfer(false, t + 1, t + 1, {});
      last_store = static_cast<int>(problem.transfers.size()) - 1;
    }
  }
  return problem;
}

TEST(TransferProblem, BoundDoesNotDependOnHowLivesAreWritten) {
  std::mt19937 random(2);
  for (int k = 0; k < 200; ++k) {
    TransferProblem problem = random_problem(random);
    const auto tasks = static_cast<int64_t>(problem.task_cycles.size());
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
    for (int b = 0; b < 4; ++b) {
      const int64_t first = below(tasks);
      problem.buffers.push_back({"", 64, 64, 0, {}, first, first + below(tasks - first)});
    }
    const TransferBound whole = transfer_bound(problem);
    TransferProblem split = problem;
    for (int b = 0; b < 4; ++b) {
      Buffer& buffer = split.buffers[split.buffers.size() - 1 - static_cast<size_t>(b)];
      if (buffer.first_task == buffer.last_task) continue;
      const int64_t middle = buffer.first_task + below(buffer.last_task - buffer.first_task);
      Buffer second = buffer;
      second.first_task = middle + 1;
      buffer.last_task = middle;
      split.buffers.push_back(second);
    }
    // A life in two parts has a position between them in which it is not there, so the parts take no more.
    EXPECT_EQ(transfer_bound(split).tasks, whole.tasks);
    EXPECT_EQ(transfer_bound(split).ports, whole.ports) << to_json(problem);
    TransferProblem shuffled = problem;
    std::vector<int> place(problem.buffers.size());
    for (size_t b = 0; b < place.size(); ++b) place[b] = static_cast<int>(b);
    std::shuffle(place.begin(), place.end(), random);
    for (size_t b = 0; b < place.size(); ++b)
      shuffled.buffers[static_cast<size_t>(place[b])] = problem.buffers[b];
    for (Transfer& transfer : shuffled.transfers)
      transfer.buffer = place[static_cast<size_t>(transfer.buffer)];
    for (auto& keep : shuffled.keeps) {
      for (auto& member : keep.members) member.buffer = place[static_cast<size_t>(member.buffer)];
    }
    EXPECT_EQ(transfer_bound(shuffled).cycles(), whole.cycles());
  }
}

TEST(TransferProblem, RandomProblems) {
  std::mt19937 random(1);
  int kept = 0;
  for (int k = 0; k < 500; ++k) {
    const TransferProblem problem = random_problem(random);
    SCOPED_TRACE(k);
    const TransferSchedule ahead = solve("prefetch", problem);
    const TransferSchedule keeping = solve("keep", problem);
    // All loads where they are needed: what programs do without a scheduler.
    TransferSchedule plain = ahead;
    for (size_t t = 0; t < problem.transfers.size(); ++t) plain.issue[t] = problem.transfers[t].latest;
    const int64_t bound = transfer_bound(problem).cycles();
    // The schedulers return the best of what they tried, which is never worse than the start; how good it is
    // SchedulersAgainstEverySchedule says.
    for (const TransferSchedule* schedule :
         std::initializer_list<const TransferSchedule*>{&plain, &ahead, &keeping})
      EXPECT_LE(bound, estimated_cycles(problem, *schedule));
    kept += static_cast<int>(std::ranges::count(keeping.kept, true));
    const TransferProblem again = transfer_problem_from_json(to_json(problem, &keeping), "test");
    EXPECT_EQ(to_json(again), to_json(problem));
    const TransferSchedule same = transfer_schedule_from_json(problem, to_json(problem, &keeping), "test");
    EXPECT_EQ(to_json(problem, &same), to_json(problem, &keeping));
  }
  EXPECT_GT(kept, 500);
}

TEST(TransferProblem, BadFilesAreRefused) {
  const auto refuse = [](const std::string& text, const std::string& part) {
    try {
      transfer_problem_from_json(text, "file.json");
      ADD_FAILURE() << "accepted: " << text;
    } catch (const isa::UserError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refuse("{", "no valid JSON");
  refuse("{}", "capacity");
  refuse(R"({"capacity": 64, "task_cycles": [1], "transfers": [{"buffer": 0, "load": true, "earliest": 0,
            "latest": 0}]})",
         "'buffer' of a transfer");
  refuse(R"({"capacity": 64, "task_cycles": [1], "buffers": [{"size": 0, "first_task": 0, "last_task": 0}]})",
         "buffer ''");
}

// ---- programs -----------------------------------------------------------------------------------------

class Programs : public testing::Test {
 protected:
  isa::Chip chip = isa::find_chip("mncore2");

  ProgramPart part(const std::string& name, const std::string& text) const {
    return {name, assembler::assemble(text, name, chip)};
  }
  /// Loads 2 x 512 LW, works on them, stores them.
  ProgramPart stage(const std::string& name, int64_t from, int64_t to) const {
    return part(name, fmt::format(R"(mvp/n512i01 $d{0} $lc0@.0
mvp/n512i02 $d{1} $lc0@.1
nop; wait i01
nop; wait i02
l2bmd $lc0 $lb0
l2bmd $lc256 $lb32
nop/2
l1bmd $lb0 $lm0v
nop/20
l1bmd $lm0v $lb4096
nop/3
l2bmd $lb4096 $lc8192
l2bmd $lb4128 $lc8448
nop/2
mvp/n512i05 $lc8192@.0 $d{2}
mvp/n512i06 $lc8192@.1 $d{3}
nop; wait i05
nop; wait i06
)",
                                  from, from + 512, to, to + 512));
  }
  std::string text(const ScheduledParts& scheduled) const { return assembler::print(scheduled.program); }
  int64_t cycles(const ScheduledParts& scheduled) const {
    return isa::predict_cycles(scheduled.program, chip).total();
  }
  ScheduledParts schedule(const std::vector<ProgramPart>& parts, const std::string& scheduler) const {
    const ScheduledParts scheduled = schedule_transfers(parts, chip, {scheduler, {}, {}});
    verify::verify_segment(parts, scheduled, chip);
    EXPECT_TRUE(isa::find_hazards(scheduled.program, chip).empty()) << text(scheduled);
    return scheduled;
  }
};

TEST_F(Programs, LoadsComeAheadAndDataStays) {
  // The third reads what the first makes; the second has nothing to do with them.
  const std::vector<ProgramPart> parts = {stage("a", 0, 4096), stage("b", 8192, 12288), stage("c", 4096, 0)};
  const ScheduledParts plain = schedule(parts, "on-demand");
  const ScheduledParts ahead = schedule(parts, "prefetch");
  const ScheduledParts kept = schedule(parts, "keep");
  EXPECT_LT(cycles(ahead), cycles(plain));
  EXPECT_LT(cycles(kept), cycles(ahead));
  EXPECT_EQ(isa::count(plain.program).mvs, 12);
  EXPECT_EQ(isa::count(ahead.program).mvs, 12);
  EXPECT_EQ(isa::count(kept.program).mvs, 10);  // c loads nothing
  EXPECT_EQ(kept.begin.size(), 4U);
}

TEST_F(Programs, LongSegmentsArePlannedInHalves) {
  const std::vector<ProgramPart> parts = {stage("a", 0, 4096), stage("b", 8192, 12288), stage("c", 4096, 0),
                                          stage("d", 12288, 8192)};
  std::vector<size_t> tasks;
  TransferChoice choice;
  choice.observe = [&](const TransferProblem& problem, const TransferSchedule&) {
    tasks.push_back(problem.task_cycles.size());
  };
  schedule_transfers(parts, chip, choice);
  ASSERT_EQ(tasks.size(), 1U);
  choice.most_tasks = tasks[0] - 1;
  tasks.clear();
  const ScheduledParts halves = schedule_transfers(parts, chip, choice);
  verify::verify_segment(parts, halves, chip);
  EXPECT_EQ(tasks.size(), 2U);
  for (const size_t count : tasks) EXPECT_LE(count, choice.most_tasks);
}

TEST_F(Programs, LoopsWithTransfersKeepTheirWaits) {
  ProgramPart looped = part("loop", "mvp/n512i01 $d0 $lc0@.0\nl2bmd $lc0 $lb0; wait i01\n");
  looped.program.statements = {isa::Statement{isa::Loop{3, looped.program.statements}, 0}};
  const std::vector<ProgramPart> parts = {looped, stage("a", 8192, 12288), looped};
  for (const char* scheduler : {"on-demand", "prefetch", "keep"}) {
    const ScheduledParts scheduled = schedule(parts, scheduler);
    const auto loops = std::ranges::count_if(scheduled.program.statements, [](const isa::Statement& each) {
      return std::holds_alternative<isa::Loop>(each.kind);
    });
    EXPECT_EQ(loops, 2);
  }
}

TEST_F(Programs, WaitsStandBesideStepsThatHaveNone) {
  // One beside what needs the transfers, one beside a step before it.
  const std::string text_of =
      "mvp/n512i01 $d0 $lc0@.0\nmvp/n512i02 $d512 $lc0@.1\nlpassa $lm0v $ln0v\n"
      "lpassa $lm8v $ln8v\nnop; wait i01\nnop; wait i02\nl2bmd $lc256 $lb0\n";
  const ScheduledParts scheduled = schedule({part("loads", text_of)}, "prefetch");
  EXPECT_EQ(isa::count(scheduled.program).steps, 3) << text(scheduled);
}

TEST_F(Programs, StepsKeepTheirDistanceOverTransfers) {
  // What is loaded comes to a place that was just written, as there is no other: a distance that nobody had
  // to keep in the part as it was, and a transfer takes no step.
  chip.memory.l2bm_lw = 1280;
  const ProgramPart first = part("first", R"(nop/9
l2bmd $lb4096 $lc0
l2bmd $lb4128 $lc256
l2bmd $lb4160 $lc512
l2bmd $lb4192 $lc768
nop/2
mvp/n1024i01 $lc0@.0 $d8192
nop; wait i01
)");
  const ProgramPart both = part("both", R"(nop/9
mvp/n256i02 $d4096 $lc256@.0
l2bmd $lb4096 $lc0
l2bmb $lc256 $lb0; wait i02
)");
  const ProgramPart reader = part("reader", R"(mvp/n1024i01 $d8192 $lc0@.0
l2bmb $lc0 $lb0; wait i01
)");
  for (const char* scheduler : {"on-demand", "prefetch", "keep"}) schedule({first, both, reader}, scheduler);
}

TEST_F(Programs, LoadsDontPassStoresThatMakeTheirData) {
  // The first transfer of all that isn't a loop's is a store.
  const ProgramPart maker = part("maker", R"(nop/9
l2bmd $lb4096 $lc8192
nop/2
mvp/n64i05 $lc8192@.0 $d0
nop; wait i05
)");
  const ProgramPart reader = part("reader", R"(nop/40
mvp/n64i01 $d0@0 $lc0@0.1
nop; wait i01
l2bmb $lc0 $lb0
)");
  const ProgramPart group_reader = part("group reader", R"(nop/40
mvb2/n64i01 $d0 $lc0
nop; wait i01
l2bmb $lc0 $lb0
)");
  const auto count_direct = [](const ScheduledParts& scheduled) {
    return std::ranges::count_if(scheduled.program.statements, [](const isa::Statement& each) {
      const auto* mv = std::get_if<isa::Mv>(&each.kind);
      return mv != nullptr && mv->instruction.sources[0].space == mv->instruction.destinations[0].space;
    });
  };
  EXPECT_EQ(count_direct(schedule({maker, reader}, "on-demand")), 0);
  EXPECT_EQ(count_direct(schedule({maker, reader}, "keep")), 1);  // from L2BM to L2BM
  // To all L2Bs of a group with one transfer, or from the one that has it with one for each.
  EXPECT_EQ(count_direct(schedule({maker, group_reader}, "on-demand")), 0);
  EXPECT_EQ(count_direct(schedule({maker, group_reader}, "keep")), chip.l2b_per_group);
}

TEST_F(Programs, WhatIsLoadedFromL2bmAloneIsNotStored) {
  // Two stores make what one load takes, from other places in L2BM.
  ProgramPart maker = part("maker", R"(nop/9
l2bmd $lb4096 $lc8192
l2bmd $lb4128 $lc12288
nop/2
mvp/n256i05 $lc8192@.0 $d0
mvp/n256i06 $lc12288@.0 $d256
nop; wait i05
nop; wait i06
)");
  const auto reader_of = [&](const std::string& source, const std::string& destination) {
    return part("reader", fmt::format("nop/40\nmvp/n512i01 {} {}\nnop; wait i01\nl2bmd $lc0 $lb0\n"
                                      "l2bmd $lc256 $lb32\n",
                                      source, destination));
  };
  const ProgramPart same = reader_of("$d0", "$lc0@.0");
  const ProgramPart reader = reader_of("$d0@0", "$lc0@0.1");
  struct Counts {
    int64_t copies = 0, stores = 0, loads = 0;
    bool operator==(const Counts&) const = default;
  };
  const auto count = [&](const std::vector<ProgramPart>& parts) {
    Counts counts;
    for (const isa::Statement& each : schedule(parts, "keep").program.statements) {
      const auto* mv = std::get_if<isa::Mv>(&each.kind);
      if (mv == nullptr) continue;
      const bool from_l2bm = mv->instruction.sources[0].space == isa::Space::kL2bm;
      const bool to_l2bm = mv->instruction.destinations[0].space == isa::Space::kL2bm;
      ++(from_l2bm && to_l2bm ? counts.copies : from_l2bm ? counts.stores : counts.loads);
    }
    return counts;
  };
  // The same L2Bs have it where they want it.
  EXPECT_EQ(count({maker, same}), (Counts{0, 2, 0}));
  // Others copy, as often as there were stores; these stay, as DRAM may be read later.
  EXPECT_EQ(count({maker, reader}), (Counts{2, 2, 0}));
  maker.scratch = {{0, 256}};
  EXPECT_EQ(count({maker, reader}), (Counts{2, 1, 0}));
  maker.scratch = {{0, 512}};
  EXPECT_EQ(count({maker, reader}), (Counts{2, 0, 0}));
  // One that nobody reads isn't needed at all; one that a loop reads is.
  EXPECT_EQ(count({maker}), (Counts{0, 0, 0}));
  ProgramPart looped = part("loop", "mvp/n512i01 $d0 $lc0@.0\nl2bmd $lc0 $lb0; wait i01\n");
  looped.program.statements = {isa::Statement{isa::Loop{3, looped.program.statements}, 0}};
  EXPECT_EQ(count({maker, looped}).stores, 2);
  // What fills L2BM in between leaves no room: data goes by DRAM, in as many pieces or in one.
  const ProgramPart filler =
      part("filler", fmt::format(R"(mvp/n{0}i01 $d65536 $lc0@.0
nop; wait i01
{1})",
                                 chip.memory.l2bm_lw, [&] {
                                   std::string steps;
                                   for (int64_t at = 0; at < chip.memory.l2bm_lw; at += 256)
                                     steps += fmt::format("l2bmd $lc{} $lb0\n", at);
                                   return steps;
                                 }()));
  EXPECT_EQ(count({maker, filler, reader}).stores, 2);
}

TEST_F(Programs, TheVerifierFindsStoresThatAreMissing) {
  ProgramPart maker = part("maker", R"(nop/9
l2bmd $lb4096 $lc8192
nop/2
mvp/n256i05 $lc8192@.0 $d0
nop; wait i05
)");
  ScheduledParts scheduled = schedule({maker}, "keep");
  std::erase_if(scheduled.program.statements, [](const isa::Statement& each) {
    const auto* nop = std::get_if<isa::Nop>(&each.kind);
    return std::holds_alternative<isa::Mv>(each.kind) || (nop != nullptr && nop->wait_tag > 0);
  });
  scheduled.begin.back() = scheduled.program.statements.size();
  EXPECT_THROW(verify::verify_segment({maker}, scheduled, chip), isa::InternalError);
  maker.scratch = {{0, 192}};  // not all of it
  EXPECT_THROW(verify::verify_segment({maker}, scheduled, chip), isa::InternalError);
  maker.scratch = {{0, 256}};
  EXPECT_NO_THROW(verify::verify_segment({maker}, scheduled, chip));
}

TEST_F(Programs, StatementsOfHandWrittenProgramsAreRefused) {
  EXPECT_THROW(schedule_transfers({part("d", "d get $lc0n0c0 1\n")}, chip), isa::UnsupportedError);
}

/// Buffers that come to places of others, and loads that fall away: no step may come too close to one that it
/// had nothing to do with before.
TEST_F(Programs, RandomPartsKeepTheirDistances) {
  constexpr int kPlaceLw = 256;
  constexpr int kPlaces = 6;
  chip.memory.l2bm_lw = kPlaces * kPlaceLw;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 engine(seed);
    const auto number = [&](int count) { return static_cast<int>(engine() % static_cast<unsigned>(count)); };
    const auto random_round = [&] {
      std::vector<int> places(kPlaces);
      std::iota(places.begin(), places.end(), 0);
      std::shuffle(places.begin(), places.end(), engine);
      const int loads = 1 + number(3);
      const int stores = 1 + number(kPlaces - loads);
      const auto place = [&](int k) { return kPlaceLw * places[static_cast<size_t>(k)]; };
      const bool waits_beside = number(2) == 0;
      std::string text;
      for (int k = 0; k < loads; ++k) {
        const int from = 1024 * number(6);
        for (int unit = 0; unit < 2; ++unit)
          text += fmt::format("mvp/n{}i{:02} $d{} $lc{}@.{}\n", kPlaceLw, 2 * k + unit + 1,
                              from + unit * kPlaceLw, place(k), unit);
        text += fmt::format("nop; wait i{:02}\n", 2 * k + 1);
        if (!waits_beside) text += fmt::format("nop; wait i{:02}\n", 2 * k + 2);
      }
      // Each step works on a place of its own: none needs a distance from another.
      std::vector<std::string> steps;
      for (int k = 0; k < loads; ++k)
        steps.push_back(fmt::format("l2bmd $lc{} $lb{}{}\n", place(k), 32 * k,
                                    waits_beside ? fmt::format("; wait i{:02}", 2 * k + 2) : ""));
      for (int k = loads; k < loads + stores; ++k)
        steps.push_back(fmt::format("l2bmd $lb{} $lc{}\n", 4096 + 32 * k, place(k)));
      // What a place holds that nobody has filled, and what nobody stores, is of no use: it may lie anywhere.
      if (loads + stores < kPlaces)
        steps.push_back(fmt::format("l2bmd $lc{} $lb128\n", place(loads + stores)));
      if (loads + stores + 1 < kPlaces)
        steps.push_back(fmt::format("l2bmd $lb4320 $lc{}\n", place(loads + stores + 1)));
      std::shuffle(steps.begin(), steps.end(), engine);
      for (const std::string& step : steps) text += step;
      text += "nop/2\n";
      std::string waits;
      for (int k = 0; k < stores; ++k) {
        const int to = 1024 * (number(6) + 6 * k);
        for (int unit = 0; unit < 2; ++unit) {
          text += fmt::format("mvp/n{}i{:02} $lc{}@.{} $d{}\n", kPlaceLw, 2 * k + unit + 10, place(loads + k),
                              unit, to + unit * kPlaceLw);
          waits += fmt::format("nop; wait i{:02}\n", 2 * k + unit + 10);
        }
      }
      return text + waits;
    };
    std::vector<ProgramPart> parts;
    for (int p = 0; p < 3; ++p) {
      parts.push_back(part(fmt::format("part {}", p), random_round() + random_round()));
      ASSERT_TRUE(isa::find_hazards(parts.back().program, chip).empty()) << text({parts.back().program, {}});
    }
    for (const char* scheduler : {"on-demand", "prefetch", "keep"}) schedule(parts, scheduler);
  }
}

/// A plan that is no faster than the parts one after the other is made once, not again in less memory.
TEST_F(Programs, APlanThatIsNoBetterIsntMadeAgain) {
  static int plans = 0;
  [[maybe_unused]] static const bool is_there = [] {
    register_pass(TransferScheduler{"counted",
                                    "on demand, and counts",
                                    {},
                                    false,
                                    [](const TransferProblem& problem, const passes::PassOptions& options) {
                                      ++plans;
                                      return find_transfer_scheduler("on-demand").run(problem, options);
                                    }});
    return true;
  }();
  plans = 0;
  schedule({stage("a", 0, 4096)}, "counted");
  EXPECT_EQ(plans, 1);
}

TEST_F(Programs, TheVerifierFindsDamage) {
  const std::vector<ProgramPart> parts = {stage("a", 0, 4096), stage("b", 4096, 12288), stage("c", 8192, 0)};
  const ScheduledParts right = schedule(parts, "prefetch");
  const auto damaged = [&](const std::function<bool(isa::Statement&)>& damage) {
    // Each place where it can be done, one after the other.
    int found = 0;
    int done = 0;
    for (size_t k = 0; k < right.program.statements.size(); ++k) {
      ScheduledParts wrong = right;
      if (!damage(wrong.program.statements[k])) continue;
      ++done;
      try {
        verify::verify_segment(parts, wrong, chip);
      } catch (const isa::InternalError&) {
        ++found;
      }
    }
    EXPECT_GT(done, 2);
    return done - found;
  };
  const auto mv = [](isa::Statement& statement) -> isa::Instruction* {
    auto* each = std::get_if<isa::Mv>(&statement.kind);
    return each == nullptr ? nullptr : &each->instruction;
  };
  EXPECT_EQ(damaged([&](isa::Statement& s) {
              if (mv(s) == nullptr) return false;
              mv(s)->sources[0].base += 64;
              return true;
            }),
            0);
  EXPECT_EQ(damaged([&](isa::Statement& s) {
              if (mv(s) == nullptr) return false;
              mv(s)->destinations[0].base += 64;
              return true;
            }),
            0);
  EXPECT_EQ(damaged([&](isa::Statement& s) {
              if (mv(s) == nullptr) return false;
              s.kind = isa::RegionMark{true, "gone"};
              return true;
            }),
            0);
  EXPECT_EQ(damaged([](isa::Statement& s) {  // waits
              if (auto* nop = std::get_if<isa::Nop>(&s.kind); nop != nullptr && nop->wait_tag > 0) {
                nop->wait_tag = 0;
                return true;
              }
              auto* step = std::get_if<isa::Step>(&s.kind);
              const auto waits = [](const auto& each) { return each.opcode == isa::Opcode::kWait; };
              return step != nullptr && std::erase_if(step->instructions.own(), waits) > 0;
            }),
            0);
  EXPECT_EQ(damaged([](isa::Statement& s) {  // a step's address in L2BM
              auto* step = std::get_if<isa::Step>(&s.kind);
              if (step == nullptr) return false;
              for (isa::Instruction& each : step->instructions.own()) {
                for (auto* operands : {&each.sources, &each.destinations}) {
                  for (isa::Operand& operand : *operands) {
                    if (operand.space != isa::Space::kL2bm) continue;
                    operand.base += 64;
                    return true;
                  }
                }
              }
              return false;
            }),
            0);
}

}  // namespace
}  // namespace kodama::scheduler
