#include "scheduler/recompute/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <limits>
#include <map>
#include <queue>

#include "isa/error.h"
#include "scheduler/recompute/recompute_builtin.h"
#include "scheduler/recompute/recompute_generator.h"

namespace kodama::scheduler {
namespace {

/// Least cycles, in the plainest way: Dijkstra over sets of values, where each step does an operation or
/// drops a value. -1: there is no way.
int64_t brute_force(const RecomputeProblem& problem) {
  using Set = uint32_t;
  const auto bytes = [&](Set set) {
    int64_t sum = 0;
    for (size_t k = 0; k < problem.values.size(); ++k)
      sum += (set >> k & 1) != 0 ? problem.values[k].bytes : 0;
    return sum;
  };
  Set wanted = 0;
  for (size_t k = 0; k < problem.values.size(); ++k) wanted |= problem.values[k].is_kept ? Set{1} << k : 0;
  std::map<Set, int64_t> cycles = {{0, 0}};
  std::priority_queue<std::pair<int64_t, Set>, std::vector<std::pair<int64_t, Set>>, std::greater<>> open;
  open.emplace(0, 0);
  const auto offer = [&](Set set, int64_t cost) {
    const auto [at, is_new] = cycles.try_emplace(set, cost);
    if (!is_new && at->second <= cost) return;
    at->second = cost;
    open.emplace(cost, set);
  };
  while (!open.empty()) {
    const auto [cost, set] = open.top();
    open.pop();
    if (cycles.at(set) < cost) continue;
    if ((wanted & ~set) == 0) return cost;
    for (size_t k = 0; k < problem.values.size(); ++k) {
      const Set bit = Set{1} << k;
      if ((set & bit) != 0 && !problem.values[k].is_kept) offer(set & ~bit, cost);
    }
    for (const auto& operation : problem.operations) {
      Set reads = 0;
      Set makes = 0;
      for (const int value : operation.reads) reads |= Set{1} << value;
      for (const int value : operation.makes) makes |= Set{1} << value;
      if ((reads & ~set) != 0 || bytes(set | makes) + operation.workspace > problem.limit) continue;
      offer(set | makes, cost + operation.cycles);
    }
  }
  return -1;
}

RecomputeProblem small_problem(uint64_t seed) {
  return generate_recompute({.seed = seed,
                             .stages = static_cast<int>(3 + seed % 4),
                             .skips = seed % 3 == 0 ? 0.6 : 0,
                             .is_even = seed % 5 == 0,
                             .share = 0.1 * static_cast<double>(seed % 10) - 0.05});
}

TEST(Recompute, OptimalIsBruteForces) {
  int infeasible = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const RecomputeProblem problem = small_problem(seed);
    const int64_t least = brute_force(problem);
    const RecomputeSchedule found = recompute(problem, "optimal");
    if (least < 0) {
      EXPECT_EQ(found.status, RecomputeStatus::kInfeasible);
      ++infeasible;
      continue;
    }
    ASSERT_EQ(found.status, RecomputeStatus::kSolved);
    EXPECT_EQ(found.cycles, least);
    EXPECT_TRUE(found.is_least);
  }
  EXPECT_GT(infeasible, 0);
  EXPECT_LT(infeasible, 30);
}

TEST(Recompute, EveryRecomputerOnManyProblems) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const RecomputeProblem problem = generate_recompute({.seed = seed,
                                                         .stages = static_cast<int>(5 + seed % 20),
                                                         .skips = seed % 2 == 0 ? 0.4 : 0,
                                                         .share = 0.1 * static_cast<double>(1 + seed % 9)});
    int64_t cycles = 0;
    for (const Recomputer& each : recomputers()) {
      const RecomputeSchedule found = recompute(problem, each.name);  // verifies it
      EXPECT_GE(found.peak, recompute_bound(problem).peak);
      EXPECT_GE(found.cycles, recompute_bound(problem).cycles);
      if (each.name == "optimal") cycles = found.cycles;
      if (found.status == RecomputeStatus::kSolved) {
        EXPECT_LE(cycles, found.cycles) << each.name;
      }
    }
  }
}

/// The dynamic programming finds the least cycles of chains whose links are alike, and of most others.
TEST(Recompute, Chains) {
  int same = 0;
  int all = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const bool is_even = seed % 3 == 0;
    const RecomputeProblem problem =
        generate_recompute({.seed = seed,
                            .stages = static_cast<int>(3 + seed % 5),
                            .is_even = is_even,
                            .share = 0.1 * static_cast<double>(seed % 10) - 0.05});
    const int64_t least = brute_force(problem);
    const auto chain = recompute_chain(problem, given_order(problem), 100'000);
    if (least < 0) {
      EXPECT_FALSE(chain);
      continue;
    }
    ++all;
    ASSERT_TRUE(chain || !is_even);
    if (!chain) continue;
    EXPECT_EQ(schedule_fault(problem, *chain), "");
    EXPECT_GE(chain->cycles, least);
    EXPECT_TRUE(chain->cycles == least || !is_even);
    same += chain->cycles == least ? 1 : 0;
  }
  std::cout << same << " of " << all << " chains as cheap as by brute force\n";
  EXPECT_GE(same * 20, all * 19);
}

/// A long chain of equal stages: with room for c links, each stage is run at most as often as Griewank says.
TEST(Recompute, LongChain) {
  RecomputeProblem problem = generate_recompute({.seed = 1, .stages = 60, .is_even = true, .share = 0.2});
  const auto chain = recompute_chain(problem, given_order(problem), 1'000'000);
  ASSERT_TRUE(chain);
  EXPECT_EQ(schedule_fault(problem, *chain), "");
  EXPECT_LE(chain->peak, problem.limit);
  EXPECT_LT(static_cast<double>(chain->cycles), 1.5 * static_cast<double>(recompute_bound(problem).cycles));
}

TEST(Recompute, OrderIsTheLowest) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RecomputeProblem problem = generate_recompute({.seed = seed, .stages = 3, .skips = 0.6});
    int64_t lowest = std::numeric_limits<int64_t>::max();
    std::vector<int> order = given_order(problem);
    do {
      std::vector<bool> made(problem.values.size(), false);
      const auto is_there = [&](int value) { return bool{made[static_cast<size_t>(value)]}; };
      const bool is_possible = std::all_of(order.begin(), order.end(), [&](int number) {
        const auto& operation = problem.operations[static_cast<size_t>(number)];
        for (const int value : operation.makes) made[static_cast<size_t>(value)] = true;
        return std::all_of(operation.reads.begin(), operation.reads.end(), is_there);
      });
      if (is_possible) lowest = std::min(lowest, cost_of(problem, order).peak);
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_EQ(recompute(problem, "order").peak, lowest);
  }
}

TEST(Recompute, WhatCantBeRepeatedIsNot) {
  RecomputeProblem problem = generate_recompute({.seed = 3, .stages = 8, .share = 0.4});
  for (auto& operation : problem.operations) operation.once = true;
  const RecomputeSchedule found = recompute(problem, "optimal");
  EXPECT_EQ(found.steps.size(), problem.operations.size());
  problem.operations[0].once = false;
  recompute(problem, "sqrt");
}

TEST(Recompute, Json) {
  RecomputeProblem problem = generate_recompute({.seed = 5, .stages = 6, .skips = 0.5});
  problem.operations[1].workspace = 7;
  problem.operations[2].once = true;
  const RecomputeSchedule found = recompute(problem);
  const std::string text = to_json(problem, &found);
  EXPECT_EQ(recompute_problem_from_json(text, "test"), problem);
  const RecomputeSchedule read = recompute_schedule_from_json(text, "test");
  EXPECT_EQ(read.steps, found.steps);
  EXPECT_EQ(schedule_fault(problem, read), "");
}

TEST(Recompute, VerifierFindsFaults) {
  const RecomputeProblem problem = generate_recompute({.seed = 2, .stages = 8, .share = 0.4});
  const RecomputeSchedule right = recompute(problem);
  ASSERT_EQ(right.status, RecomputeStatus::kSolved);
  const auto fault = [&](const auto& change) {
    RecomputeSchedule wrong = right;
    change(wrong);
    return schedule_fault(problem, wrong);
  };
  EXPECT_NE(fault([](auto& wrong) { ++wrong.peak; }), "");
  EXPECT_NE(fault([](auto& wrong) { ++wrong.cycles; }), "");
  EXPECT_NE(fault([](auto& wrong) { wrong.steps.pop_back(); }), "");
  EXPECT_NE(fault([](auto& wrong) { std::swap(wrong.steps[0], wrong.steps[1]); }), "");
  EXPECT_NE(fault([](auto& wrong) { wrong.steps[0] = -1; }), "");
  EXPECT_NE(fault([](auto& wrong) { wrong.status = RecomputeStatus::kInfeasible; }), "");
}

TEST(Recompute, BadProblems) {
  const RecomputeProblem good = generate_recompute({.seed = 1, .stages = 4});
  const auto refuse = [&](const auto& change) {
    RecomputeProblem bad = good;
    change(bad);
    EXPECT_THROW(check_recompute_problem(bad), isa::UserError);
  };
  check_recompute_problem(good);
  refuse([](auto& bad) { bad.operations[0].reads = {3}; });
  refuse([](auto& bad) { bad.operations[1].makes = {0}; });
  refuse([](auto& bad) { bad.operations[1].makes = {}; });
  refuse([](auto& bad) { bad.operations[1].reads = {0, 0}; });
  refuse([](auto& bad) { bad.values[0].bytes = -1; });
  refuse([](auto& bad) { bad.limit = -1; });
  refuse([](auto& bad) { bad.operations[0].cycles = int64_t{1} << 60; });
  refuse([](auto& bad) { bad.values.push_back({"lost", 1, false}); });
}

}  // namespace
}  // namespace kodama::scheduler
