#include "layout/plan/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

#include "isa/error.h"
#include "isa/rounds_test_util.h"
#include "layout/plan/beam.h"
#include "layout/plan/parts.h"
#include "layout/plan/pbqp.h"
#include "layout/plan/pbqp_by_cbc.h"

namespace kodama::layout {
namespace {

// ---- PBQP

Pbqp random_problem(std::mt19937& random, int nodes, int candidates, double density, bool forbids) {
  Pbqp problem;
  const auto cost = [&] { return static_cast<double>(random() % 100); };
  for (int node = 0; node < nodes; ++node) {
    std::vector<double> costs(1 + random() % static_cast<unsigned>(candidates));
    for (double& each : costs) each = cost();
    problem.add_node(costs);
  }
  for (int a = 0; a < nodes; ++a) {
    for (int b = a + 1; b < nodes; ++b) {
      if (static_cast<double>(random() % 1000) >= density * 1000) continue;
      Pbqp::Matrix matrix(static_cast<size_t>(problem.candidate_count(a)),
                          static_cast<size_t>(problem.candidate_count(b)));
      for (double& each : matrix.values()) each = forbids && random() % 6 == 0 ? kForbidden : cost();
      // Either order of the nodes means the same edge.
      if (random() % 2 == 0) {
        problem.add_edge(a, b, matrix);
      } else {
        Pbqp::Matrix turned(matrix.columns(), matrix.rows());
        for (size_t i = 0; i < matrix.rows(); ++i) {
          for (size_t j = 0; j < matrix.columns(); ++j) turned[j][i] = matrix[i][j];
        }
        problem.add_edge(b, a, turned);
      }
    }
  }
  return problem;
}

double brute_force(const Pbqp& problem) {
  std::vector<int> choice(static_cast<size_t>(problem.node_count()), 0);
  double best = kForbidden;
  for (;;) {
    best = std::min(best, problem.cost(choice));
    size_t node = 0;
    while (node < choice.size() && ++choice[node] == problem.candidate_count(static_cast<int>(node)))
      choice[node++] = 0;
    if (node == choice.size()) return best;
  }
}

TEST(Pbqp, EqualsBruteForce) {
  std::mt19937 random(1);
  int infeasible = 0;
  for (int round = 0; round < 1000; ++round) {
    const Pbqp problem = random_problem(random, 1 + static_cast<int>(random() % 6), 4,
                                        static_cast<double>(random() % 11) / 10, round % 2 == 0);
    const double best = brute_force(problem);
    const Pbqp::Solution solution = problem.solve();
    ASSERT_TRUE(solution.proven);
    ASSERT_EQ(solution.cost, best);
    ASSERT_EQ(problem.cost(solution.choice), solution.cost);
    infeasible += best == kForbidden;
  }
  EXPECT_LT(infeasible, 100);
}

TEST(Pbqp, ChainsTreesAndRingsNeedNoBranch) {
  std::mt19937 random(2);
  for (const bool ring : {false, true}) {
    Pbqp problem;
    constexpr int kNodes = 300;
    for (int node = 0; node < kNodes; ++node) problem.add_node({static_cast<double>(random() % 9), 3, 4});
    for (int node = 0; node + (ring ? 0 : 1) < kNodes; ++node) {
      Pbqp::Matrix matrix(3, 3);
      for (double& each : matrix.values()) each = static_cast<double>(random() % 9);
      problem.add_edge(node, (node + 1) % kNodes, matrix);
    }
    const Pbqp::Solution solution = problem.solve();
    EXPECT_TRUE(solution.proven);
    EXPECT_EQ(solution.branches, 0);
    EXPECT_EQ(solution.core_nodes, 0);
  }
}

TEST(Pbqp, AnInterruptedSearchSaysHowFarItMayBeOff) {
  std::mt19937 random(3);
  const Pbqp problem = random_problem(random, 30, 6, 0.6, false);
  const Pbqp::Solution heuristic = problem.solve({.branches = 0});
  const Pbqp::Solution some = problem.solve({.branches = 200});
  EXPECT_LE(some.cost, heuristic.cost);
  EXPECT_LE(some.bound, some.cost);
  EXPECT_FALSE(some.proven);
  EXPECT_GT(some.bound, 0);
  EXPECT_EQ(problem.solve({.branches = 200}).choice, some.choice);  // the same on every machine
}

TEST(Pbqp, EqualsAnIntegerProgramSolver) {
  if (!has_cbc()) GTEST_SKIP() << "cbc (package coinor-cbc) is missing";
  std::mt19937 random(4);
  for (int round = 0; round < isa::rounds(40, 200); ++round) {
    // Up to 12 nodes of up to 6 candidates, from sparse to dense.
    const Pbqp problem = random_problem(random, 2 + static_cast<int>(random() % 11), 6,
                                        0.1 + 0.05 * static_cast<double>(random() % 5), round % 3 == 0);
    const Pbqp::Solution solution = problem.solve();
    ASSERT_TRUE(solution.proven);
    const double expected = by_cbc(problem);
    ASSERT_FALSE(std::isnan(expected)) << "cbc gave no answer";
    if (expected == kForbidden) {
      ASSERT_EQ(solution.cost, kForbidden);
    } else {
      ASSERT_NEAR(solution.cost, expected, 1e-4);
    }
  }
}

// ---- planner

PlanProblem header_example() {
  const auto convert = [](int /*from*/, int /*to*/) { return 10.0; };
  PlanProblem problem;
  problem.nodes = {{"make", {{5, {0}, "rows"}}},
                   {"use 1", {{9, {0}, "rows"}, {3, {1}, "columns"}}},
                   {"use 2", {{9, {0}, "rows"}, {3, {1}, "columns"}}}};
  problem.tensors = {{"product", {0, 0}, {{1, 0}, {2, 0}}, convert}};
  return problem;
}

TEST(Planner, TheExampleOfTheHeader) {
  const PlanProblem problem = header_example();
  EXPECT_EQ(plan(problem, "first").cost, 23);
  EXPECT_EQ(plan(problem, "greedy").cost, 23);
  const Plan best = plan(problem, "pbqp");
  EXPECT_EQ(best.cost, 21);
  EXPECT_TRUE(best.proven);
  ASSERT_EQ(best.conversions.size(), 1U);  // once for both
  EXPECT_EQ(best.conversions[0].to, 1);
  EXPECT_EQ(best.conversion_cost, 10);
  EXPECT_EQ(best.node_cost, 11);
}

/// Of a chain nothing is lost, with as many partial plans as a tensor has layouts; as many layers in dense
/// blocks as make a quadratic problem of thousands of nodes are planned near their bound.
TEST(Planner, BeamsOfChainsAndBlocks) {
  std::mt19937 random(6);
  constexpr int kLayouts = 5;
  const auto convert = [](int from, int to) { return 7.0 + 5 * ((3 * from + to) % kLayouts); };
  const auto add_nodes = [&](PlanProblem& problem, int count, size_t operands) {
    for (int node = 0; node < count; ++node) {
      problem.nodes.push_back({fmt::format("n{}", node), {}});
      for (int layout = 0; layout < kLayouts; ++layout) {
        problem.nodes.back().candidates.push_back({static_cast<double>(random() % 30), {}, ""});
        problem.nodes.back().candidates.back().layouts.assign(operands, layout);
        problem.nodes.back().candidates.back().layouts[0] = static_cast<int>(random() % kLayouts);
      }
    }
  };
  PlanProblem chain;
  add_nodes(chain, 300, 2);
  for (int node = 0; node + 1 < 300; ++node)
    chain.tensors.push_back({fmt::format("t{}", node), {node, 0}, {{node + 1, 1}}, convert});
  const ConversionCost cost = [&](int, int from, int to) { return from == to ? 0 : convert(from, to); };
  const Plan best = plan(chain, "pbqp");
  ASSERT_TRUE(best.proven);
  EXPECT_EQ(evaluate(chain, plan_by_beam(chain, cost, {.width = kLayouts})).cost, best.cost);

  // Every layer of a block reads all layers before it.
  PlanProblem block;
  constexpr int kLayers = 24;
  add_nodes(block, kLayers, kLayers);
  for (int node = 0; node + 1 < kLayers; ++node) {
    PlanProblem::Tensor tensor{fmt::format("t{}", node), {node, 0}, {}, convert};
    for (int reader = node + 1; reader < kLayers; ++reader) tensor.readers.push_back({reader, node + 1});
    block.tensors.push_back(tensor);
  }
  const double by_beam = evaluate(block, plan_by_beam(block, cost)).cost;
  EXPECT_LE(by_beam, plan(block, "greedy").cost);
  EXPECT_LE(plan(block, "pbqp", {.branches = 10}).cost, by_beam);
}

/// Nodes that read what others before them make, in two to four layouts.
PlanProblem random_plan_problem(std::mt19937& random, int nodes) {
  const int layouts = 2 + static_cast<int>(random() % 3);
  std::vector<std::vector<double>> conversions(static_cast<size_t>(layouts),
                                               std::vector<double>(static_cast<size_t>(layouts)));
  for (auto& row : conversions) {
    for (double& cost : row) cost = static_cast<double>(random() % 50);
  }
  const auto convert = [conversions](int from, int to) {
    return conversions[static_cast<size_t>(from)][static_cast<size_t>(to)];
  };
  PlanProblem problem;
  for (int node = 0; node < nodes; ++node) {
    problem.nodes.push_back({fmt::format("n{}", node), {}});
    // Operand 0 is the result, 1 and 2 are read.
    for (unsigned candidate = 1 + random() % 4; candidate > 0; --candidate) {
      PlanProblem::Candidate each;
      each.cost = static_cast<double>(random() % 60);
      for (int operand = 0; operand < 3; ++operand)
        each.layouts.push_back(static_cast<int>(random() % static_cast<unsigned>(layouts)));
      if (random() % 3 == 0) each.layouts[1 + random() % 2] = PlanProblem::kUnread;
      problem.nodes.back().candidates.push_back(each);
    }
  }
  for (int maker = 0; maker + 1 < nodes; ++maker) {
    PlanProblem::Tensor tensor{fmt::format("t{}", maker), {maker, 0}, {}, convert};
    for (int reader = maker + 1; reader < nodes; ++reader) {
      if (random() % 2 == 0) tensor.readers.push_back({reader, 1});
      if (random() % 4 == 0) tensor.readers.push_back({reader, 2});
    }
    problem.tensors.push_back(tensor);
  }
  return problem;
}

/// Gives the nodes each combination of candidates in turn, others stay; false behind the last.
bool next_choice(const PlanProblem& problem, const std::vector<int>& nodes, std::vector<int>& choice) {
  for (const int node : nodes) {
    int& each = choice[static_cast<size_t>(node)];
    if (++each < static_cast<int>(problem.nodes[static_cast<size_t>(node)].candidates.size())) return true;
    each = 0;
  }
  return false;
}

/// What a part finds is the best that its nodes can do while all others keep what they have, and it asks for
/// what the whole would ask for.
TEST(Planner, PartsAreAsGoodAsBruteForce) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    PlanProblem problem = random_plan_problem(random, 4 + static_cast<int>(random() % 6));
    std::vector<int> choice;
    for (const PlanProblem::Node& node : problem.nodes)
      choice.push_back(static_cast<int>(random() % node.candidates.size()));
    std::set<std::tuple<int, int, int>> expected;
    problem.expect = [&](const std::vector<PlanProblem::Change>& changes) {
      for (const auto& [tensor, from, to] : changes) expected.emplace(tensor, from, to);
    };
    const PlanNeighbours neighbours(problem);
    const int center = static_cast<int>(random() % problem.tensors.size());
    const std::vector<int> nodes = neighbours.around(center, 1 + random() % 5);
    ASSERT_TRUE(std::ranges::is_sorted(nodes));
    ASSERT_LE(nodes.size(), 5);
    const PlanPart part(problem, choice, nodes);
    const double before = evaluate(problem, choice).cost;
    const double part_before = evaluate(part.problem(), part.inward(choice)).cost;
    double best = kForbidden;
    std::vector<int> trial = choice;
    for (const int node : nodes) trial[static_cast<size_t>(node)] = 0;
    do {
      best = std::min(best, evaluate(problem, trial).cost);
      ASSERT_EQ(part.outward(part.inward(trial), choice), trial);
      ASSERT_EQ(evaluate(part.problem(), part.inward(trial)).cost - part_before,
                evaluate(problem, trial).cost - before);
    } while (next_choice(problem, nodes, trial));
    const Plan found = plan(part.problem(), "pbqp");
    ASSERT_TRUE(found.proven);
    expected.clear();
    const Plan whole = evaluate(problem, part.outward(found.choice, choice));
    ASSERT_EQ(whole.cost, best);
    const std::set<std::tuple<int, int, int>> of_whole = std::exchange(expected, {});
    evaluate(part.problem(), found.choice);
    ASSERT_TRUE(std::ranges::includes(of_whole, expected));
    // A tensor's own nodes come first.
    const PlanProblem::Tensor& tensor = problem.tensors[static_cast<size_t>(center)];
    ASSERT_TRUE(std::ranges::count(nodes, tensor.maker.node) == 1);
    ASSERT_EQ(neighbours.around(center, 1), std::vector<int>{tensor.maker.node});
  }
}

/// The example of parts.h, thirty times, with users that read what all users before them made: too many for
/// branch and bound, and a beam keeps the layout that is cheap at first.
TEST(Planner, WhatIsKeptIsChosenWithItsKeeper) {
  constexpr int kStates = 30, kLayouts = 5;
  std::mt19937 random(8);
  PlanProblem problem;
  const auto convert = [](int from, int to) { return from == to ? 0.0 : 20.0; };
  const auto keep = [](int from, int to) { return from == to ? 0 : kForbidden; };
  const auto shuffle = [](int from, int to) { return 7.0 + 5 * ((3 * from + to) % kLayouts); };
  enum : int { kHave = 0, kUse = kStates, kMake = 2 * kStates, kKeep = 3 * kStates };
  for (const char* name : {"have", "use", "make", "keep"}) {
    for (int state = 0; state < kStates; ++state) {
      PlanProblem::Node& node = problem.nodes.emplace_back(PlanProblem::Node{name, {}});
      if (name == std::string("use")) {
        // What it makes, the weights' rows, then what others made.
        for (int layout = 0; layout < kLayouts; ++layout) {
          PlanProblem::Candidate each{static_cast<double>(random() % 30), {}, ""};
          each.layouts.assign(2 + kStates, layout);
          each.layouts[0] = static_cast<int>(random() % kLayouts);
          each.layouts[1] = 0;
          node.candidates.push_back(each);
        }
      } else if (name == std::string("make")) {
        node.candidates = {{0, {1, 1}, ""}};
      } else {
        node.candidates = {{0, {0, 0}, ""}, {0, {1, 1}, ""}};
      }
    }
  }
  for (int state = 0; state < kStates; ++state) {
    problem.tensors.push_back(
        {"weights", {kHave + state, 0}, {{kUse + state, 1}, {kMake + state, 1}}, convert});
    problem.tensors.push_back({"next", {kMake + state, 0}, {{kKeep + state, 0}}, convert});
    problem.tensors.push_back({"place", {kHave + state, 1}, {{kKeep + state, 1}}, keep});
    PlanProblem::Tensor used{"used", {kUse + state, 0}, {}, shuffle};
    for (int later = state + 1; later < kStates; ++later) used.readers.push_back({kUse + later, 2 + state});
    if (!used.readers.empty()) problem.tensors.push_back(used);
  }
  const Plan found = plan(problem, "pbqp", {.branches = 10});
  EXPECT_FALSE(found.proven);
  for (int state = 0; state < kStates; ++state) {
    EXPECT_EQ(found.choice[static_cast<size_t>(kHave + state)], 1) << state;
    EXPECT_EQ(found.choice[static_cast<size_t>(kKeep + state)], 1) << state;
  }
}

TEST(Planner, MalformedProblemsAreRefused) {
  PlanProblem problem = header_example();
  EXPECT_THROW(plan(problem, "best"), isa::UserError);
  problem.tensors[0].readers.push_back({3, 0});
  EXPECT_THROW(plan(problem, "pbqp"), isa::UserError);
  problem = header_example();
  problem.nodes[1].candidates.clear();
  EXPECT_THROW(plan(problem, "first"), isa::UserError);
  problem = header_example();
  problem.tensors[0].readers[0] = {0, 0};
  EXPECT_THROW(plan(problem, "pbqp"), isa::UserError);
  problem = header_example();
  problem.nodes[0].candidates[0].layouts[0] = PlanProblem::kUnread;
  EXPECT_THROW(plan(problem, "pbqp"), isa::UserError);
}

/// The same problem with lower bounds of conversions; `asked` counts the conversions that were asked for.
PlanProblem lazy(PlanProblem problem, std::set<std::tuple<size_t, int, int>>& asked) {
  for (size_t t = 0; t < problem.tensors.size(); ++t) {
    PlanProblem::Tensor& tensor = problem.tensors[t];
    const auto cost = tensor.conversion;
    tensor.conversion = [cost, t, &asked](int from, int to) {
      asked.insert({t, from, to});
      return cost(from, to);
    };
    // From none of the cost to all of it.
    tensor.at_least = [cost, t](int from, int to) {
      return std::floor(cost(from, to) * static_cast<double>((static_cast<int>(t) + 2 * from + to) % 5) / 4);
    };
  }
  return problem;
}

TEST(Planner, OnlyConversionsThatMatterAreAskedFor) {
  PlanProblem problem = header_example();
  problem.tensors[0].at_least = [](int, int) { return 13.0; };
  problem.tensors[0].conversion = [](int, int) -> double {
    ADD_FAILURE() << "asked for";
    return 14;
  };
  EXPECT_EQ(plan(problem, "pbqp").cost, 23);
  EXPECT_TRUE(plan(problem, "pbqp").proven);
  EXPECT_EQ(plan(problem, "greedy").cost, 23);
  EXPECT_EQ(plan(problem, "first").cost, 23);
}

TEST(Planner, NoPlannerBeatsPbqpAndItIsTheOptimum) {
  std::mt19937 random(5);
  size_t lazily_asked = 0;
  size_t all = 0;
  for (int round = 0; round < 300; ++round) {
    const PlanProblem problem = random_plan_problem(random, 2 + static_cast<int>(random() % 5));
    double best = kForbidden;
    std::vector<int> choice(problem.nodes.size(), 0);
    std::vector<int> all_nodes(problem.nodes.size());
    std::iota(all_nodes.begin(), all_nodes.end(), 0);
    do {
      best = std::min(best, evaluate(problem, choice).cost);
    } while (next_choice(problem, all_nodes, choice));
    const Plan found = plan(problem, "pbqp");
    ASSERT_TRUE(found.proven);
    ASSERT_EQ(found.cost, best);
    // A beam that keeps everything finds the best; one that keeps nothing but the cheapest, a plan.
    const ConversionCost convert_exactly = [&](int tensor, int from, int to) {
      return from == to ? 0 : problem.tensors[static_cast<size_t>(tensor)].conversion(from, to);
    };
    ASSERT_EQ(evaluate(problem, plan_by_beam(problem, convert_exactly, {.width = 100000})).cost, best);
    ASSERT_EQ(plan_fault(problem, evaluate(problem, plan_by_beam(problem, convert_exactly, {.width = 1}))),
              "");
    std::set<std::tuple<size_t, int, int>> asked;
    const PlanProblem problem_of_bounds = lazy(problem, asked);
    const Plan found_lazily = plan(problem_of_bounds, "pbqp");
    ASSERT_TRUE(found_lazily.proven);
    ASSERT_EQ(found_lazily.cost, best);
    ASSERT_EQ(plan_fault(problem, found_lazily), "");
    lazily_asked += asked.size();
    for (const char* name : {"greedy", "first"})
      ASSERT_EQ(plan(problem_of_bounds, name).choice, plan(problem, name).choice) << name;
    // Cut short, it is a plan and a bound all the same.
    const Plan some = plan(problem_of_bounds, "pbqp", {.branches = 1});
    ASSERT_EQ(plan_fault(problem, some), "");
    ASSERT_LE(some.bound, best);
    // Without any search, a plan.
    const Plan quick = plan(problem_of_bounds, "pbqp", {.branches = 0});
    ASSERT_EQ(plan_fault(problem, quick), "");
    ASSERT_FALSE(quick.proven);
    asked.clear();
    as_pbqp(problem_of_bounds);
    all += asked.size();
    ASSERT_LE(found.cost, plan(problem, "greedy").cost);
    ASSERT_LE(found.cost, plan(problem, "first").cost);
    for (const Planner& planner : planners())
      ASSERT_EQ(plan_fault(problem, plan(problem, planner.name)), "") << planner.name;
    Plan wrong = found;
    wrong.bound = found.cost + 1;
    ASSERT_NE(plan_fault(problem, wrong), "");
    wrong = found;
    wrong.cost += 1;
    ASSERT_NE(plan_fault(problem, wrong), "");
    wrong = found;
    wrong.choice[0] = -1;
    ASSERT_NE(plan_fault(problem, wrong), "");
  }
  EXPECT_LT(lazily_asked, all * 2 / 3);
}

}  // namespace
}  // namespace kodama::layout
