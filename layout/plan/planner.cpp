#include "layout/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "isa/error.h"
#include "layout/plan/pbqp.h"
#include "passes/registry.h"

namespace kodama::layout {
namespace {

using isa::UserError;

int layout_of(const PlanProblem& problem, const PlanProblem::Use& use, int candidate) {
  return problem.nodes[static_cast<size_t>(use.node)]
      .candidates[static_cast<size_t>(candidate)]
      .layouts[static_cast<size_t>(use.operand)];
}

size_t candidates_of(const PlanProblem& problem, int node) {
  return problem.nodes[static_cast<size_t>(node)].candidates.size();
}

Plan plan_first(const PlanProblem& problem, const PlanOptions& /*options*/) {
  return evaluate(problem, std::vector<int>(problem.nodes.size(), 0));
}

/// Node by node in the order of the problem: the candidate that is cheapest with the conversions to those
/// chosen before.
Plan plan_greedy(const PlanProblem& problem, const PlanOptions& /*options*/) {
  std::vector<int> choice(problem.nodes.size(), -1);
  for (size_t node = 0; node < problem.nodes.size(); ++node) {
    int best = 0;
    double best_cost = kForbidden;
    for (size_t candidate = 0; candidate < problem.nodes[node].candidates.size(); ++candidate) {
      choice[node] = static_cast<int>(candidate);
      double cost = problem.nodes[node].candidates[candidate].cost;
      for (const PlanProblem::Tensor& tensor : problem.tensors) {
        const bool touches = tensor.maker.node == static_cast<int>(node) ||
                             std::ranges::any_of(tensor.readers, [&](const PlanProblem::Use& use) {
                               return use.node == static_cast<int>(node);
                             });
        if (!touches || choice[static_cast<size_t>(tensor.maker.node)] < 0) continue;
        const int from = layout_of(problem, tensor.maker, choice[static_cast<size_t>(tensor.maker.node)]);
        std::set<int> wanted;
        for (const PlanProblem::Use& use : tensor.readers) {
          if (choice[static_cast<size_t>(use.node)] >= 0)
            wanted.insert(layout_of(problem, use, choice[static_cast<size_t>(use.node)]));
        }
        for (const int to : wanted) cost += from == to ? 0 : tensor.conversion(from, to);
      }
      if (cost < best_cost) {
        best_cost = cost;
        best = static_cast<int>(candidate);
      }
    }
    choice[node] = best;
  }
  return evaluate(problem, std::move(choice));
}

}  // namespace

Pbqp as_pbqp(const PlanProblem& problem) {
  Pbqp pbqp;
  for (const PlanProblem::Node& node : problem.nodes) {
    std::vector<double> costs;
    for (const PlanProblem::Candidate& candidate : node.candidates) costs.push_back(candidate.cost);
    pbqp.add_node(std::move(costs));
  }
  for (const PlanProblem::Tensor& tensor : problem.tensors) {
    std::set<int> wanted;
    for (const PlanProblem::Use& use : tensor.readers) {
      for (size_t candidate = 0; candidate < candidates_of(problem, use.node); ++candidate)
        wanted.insert(layout_of(problem, use, static_cast<int>(candidate)));
    }
    for (const int to : wanted) {
      const int copy = pbqp.add_node({0, 0});  // absent, present
      Pbqp::Matrix of_maker;
      for (size_t candidate = 0; candidate < candidates_of(problem, tensor.maker.node); ++candidate) {
        const int from = layout_of(problem, tensor.maker, static_cast<int>(candidate));
        of_maker.push_back({0, from == to ? 0 : tensor.conversion(from, to)});
      }
      pbqp.add_edge(tensor.maker.node, copy, of_maker);
      std::set<int> readers;  // a node may read the tensor twice
      for (const PlanProblem::Use& use : tensor.readers) {
        if (use.node == tensor.maker.node)
          throw UserError(fmt::format("plan: node '{}' reads the tensor '{}' that it makes",
                                      problem.nodes[static_cast<size_t>(use.node)].name, tensor.name));
        readers.insert(use.node);
      }
      for (const int reader : readers) {
        Pbqp::Matrix of_reader(2, std::vector<double>(candidates_of(problem, reader), 0));
        for (const PlanProblem::Use& use : tensor.readers) {
          if (use.node != reader) continue;
          for (size_t candidate = 0; candidate < candidates_of(problem, reader); ++candidate) {
            if (layout_of(problem, use, static_cast<int>(candidate)) == to)
              of_reader[0][candidate] = kForbidden;
          }
        }
        pbqp.add_edge(copy, reader, of_reader);
      }
    }
  }
  return pbqp;
}

namespace {

Plan plan_pbqp(const PlanProblem& problem, const PlanOptions& options) {
  const Pbqp::Solution solution = as_pbqp(problem).solve({.branches = options.branches});
  std::vector<int> choice(solution.choice.begin(),
                          solution.choice.begin() + static_cast<ptrdiff_t>(problem.nodes.size()));
  Plan plan = evaluate(problem, std::move(choice));
  plan.bound = solution.proven ? plan.cost : solution.bound;
  plan.proven = solution.proven;
  // A search that was cut short must not be worse than the simple planners.
  if (!plan.proven) {
    for (const auto& simple : {plan_first, plan_greedy}) {
      Plan other = simple(problem, options);
      if (other.cost >= plan.cost) continue;
      other.bound = plan.bound;
      plan = std::move(other);
    }
  }
  return plan;
}

passes::Registry<Planner>& registry() {
  static passes::Registry<Planner> all(
      "planner",
      {{"pbqp", "least in all, by branch and bound", {}, plan_pbqp},
       {"greedy", "layer by layer the cheapest, conversions included", {}, plan_greedy},
       {"first", "the first candidate of each layer, which is the fastest by itself", {}, plan_first}},
      [](const Planner& planner) -> std::pair<std::string, std::string> {
        if (planner.name != "host") return {};
        return {"of that name", "names other than 'host', which leaves all layouts to the host"};
      });
  return all;
}

}  // namespace

void check_problem(const PlanProblem& problem) {
  for (const PlanProblem::Node& node : problem.nodes) {
    if (node.candidates.empty()) throw UserError(fmt::format("plan: node '{}' has no candidates", node.name));
    for (const PlanProblem::Candidate& candidate : node.candidates) {
      if (candidate.layouts.size() != node.candidates[0].layouts.size()) {
        throw UserError(fmt::format("plan: node '{}': candidate '{}' has {} operands, the first one {}",
                                    node.name, candidate.name, candidate.layouts.size(),
                                    node.candidates[0].layouts.size()));
      }
    }
  }
  for (const PlanProblem::Tensor& tensor : problem.tensors) {
    const auto check = [&](const PlanProblem::Use& use) {
      const bool known =
          use.node >= 0 && use.node < static_cast<int>(problem.nodes.size()) && use.operand >= 0 &&
          use.operand <
              static_cast<int>(problem.nodes[static_cast<size_t>(use.node)].candidates[0].layouts.size());
      if (!known) {
        throw UserError(fmt::format("plan: tensor '{}' is operand {} of node {}, which doesn't exist",
                                    tensor.name, use.operand, use.node));
      }
    };
    check(tensor.maker);
    for (const PlanProblem::Use& use : tensor.readers) check(use);
  }
}

Plan evaluate(const PlanProblem& problem, std::vector<int> choice) {
  Plan plan;
  for (size_t node = 0; node < problem.nodes.size(); ++node)
    plan.node_cost += problem.nodes[node].candidates[static_cast<size_t>(choice[node])].cost;
  for (size_t t = 0; t < problem.tensors.size(); ++t) {
    const PlanProblem::Tensor& tensor = problem.tensors[t];
    const int from = layout_of(problem, tensor.maker, choice[static_cast<size_t>(tensor.maker.node)]);
    std::set<int> wanted;
    for (const PlanProblem::Use& use : tensor.readers)
      wanted.insert(layout_of(problem, use, choice[static_cast<size_t>(use.node)]));
    for (const int to : wanted) {
      if (to == from) continue;
      plan.conversions.push_back({static_cast<int>(t), from, to, tensor.conversion(from, to)});
      plan.conversion_cost += plan.conversions.back().cost;
    }
  }
  plan.choice = std::move(choice);
  plan.cost = plan.node_cost + plan.conversion_cost;
  plan.bound = -kForbidden;
  return plan;
}

std::string plan_fault(const PlanProblem& problem, const Plan& plan) {
  if (plan.choice.size() != problem.nodes.size())
    return fmt::format("{} candidates for {} nodes", plan.choice.size(), problem.nodes.size());
  for (size_t node = 0; node < problem.nodes.size(); ++node) {
    const int choice = plan.choice[node];
    const size_t count = problem.nodes[node].candidates.size();
    if (choice < 0 || choice >= static_cast<int>(count))
      return fmt::format("candidate {} of node '{}', which has {}", choice, problem.nodes[node].name, count);
  }
  const Plan real = evaluate(problem, plan.choice);
  for (const Plan::Conversion& conversion : real.conversions) {
    if (conversion.cost == kForbidden)
      return fmt::format("tensor '{}' can't be converted from layout {} to {}",
                         problem.tensors[static_cast<size_t>(conversion.tensor)].name, conversion.from,
                         conversion.to);
  }
  if (plan.cost != real.cost) return fmt::format("the cost is {}, not {}", real.cost, plan.cost);
  const double slack = 1e-6 * std::max(1.0, std::abs(real.cost));
  if (!(plan.bound <= real.cost + slack))
    return fmt::format("no plan is cheaper than {}, it says, and its own costs {}", plan.bound, real.cost);
  return {};
}

const std::vector<Planner>& planners() {
  return registry().all();
}
void register_pass(Planner planner) {
  registry().add(std::move(planner));
}
const Planner& find_planner(std::string_view name) {
  return registry().find(name);
}

Plan plan(const PlanProblem& problem, std::string_view planner, const PlanOptions& options) {
  check_problem(problem);
  const Planner& chosen = find_planner(planner);
  Plan result;
  passes::run_blaming("planner", chosen, [&] { result = chosen.run(problem, options); });
  if (!chosen.plugin.empty()) {
    const std::string fault = plan_fault(problem, result);
    if (!fault.empty()) passes::blame("planner", chosen, "its plan is wrong: " + fault);
  }
  return result;
}

}  // namespace kodama::layout
