#include "layout/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "isa/error.h"
#include "layout/plan/beam.h"
#include "layout/plan/parts.h"
#include "layout/plan/pbqp.h"
#include "passes/registry.h"

namespace kodama::layout {
namespace {

using isa::UserError;

/// Branches of the first solutions, which only say which conversions to ask for; when there are none any
/// more, so many times as many.
constexpr int64_t kFirstBranches = 200;
constexpr int64_t kMoreBranches = 25;
/// Solutions with so many branches that are not proven and lead to none.
constexpr int kVainRounds = 4;
/// Plans by beam, each of which has used conversions whose costs weren't known.
constexpr int kBeamRounds = 30;
/// Nodes that choose anew together, and branches of their search: few nodes first, of which it misses
/// nothing. Then how often a part may ask for more costs, and how many parts there are for each tensor that
/// they begin with.
struct PartSize {
  size_t nodes;
  int64_t branches;
};
constexpr std::array<PartSize, 2> kPartSizes = {{{6, 200}, {16, 20}}};
constexpr int kPartRounds = 5;
constexpr size_t kPartsOfTensor = 3;
/// Parts are around tensors whose conversions are so much of a plan's cost.
constexpr double kPartShare = 1e-3;
/// What a part may gain has to be so much of the least that conversions cost which nobody has asked for: the
/// larger they are, the longer it takes to find out.
constexpr double kWorthAsking = 0.25;

int layout_of(const PlanProblem& problem, const PlanProblem::Use& use, int candidate) {
  return problem.nodes[static_cast<size_t>(use.node)]
      .candidates[static_cast<size_t>(candidate)]
      .layouts[static_cast<size_t>(use.operand)];
}

size_t candidates_of(const PlanProblem& problem, int node) {
  return problem.nodes[static_cast<size_t>(node)].candidates.size();
}

void add_wanted(std::set<int>& wanted, const PlanProblem& problem, const PlanProblem::Use& use,
                int candidate) {
  const int layout = layout_of(problem, use, candidate);
  if (layout != PlanProblem::kUnread) wanted.insert(layout);
}

/// Layouts that some candidate of a reader wants.
std::set<int> wanted_layouts(const PlanProblem& problem, const PlanProblem::Tensor& tensor) {
  std::set<int> wanted;
  for (const PlanProblem::Use& use : tensor.readers) {
    for (size_t candidate = 0; candidate < candidates_of(problem, use.node); ++candidate)
      add_wanted(wanted, problem, use, static_cast<int>(candidate));
  }
  return wanted;
}

/// The conversions of a choice, tensor by tensor.
std::vector<PlanProblem::Change> changes_of(const PlanProblem& problem, const std::vector<int>& choice) {
  std::vector<PlanProblem::Change> changes;
  for (size_t t = 0; t < problem.tensors.size(); ++t) {
    const PlanProblem::Tensor& tensor = problem.tensors[t];
    const int from = layout_of(problem, tensor.maker, choice[static_cast<size_t>(tensor.maker.node)]);
    std::set<int> wanted;
    for (const PlanProblem::Use& use : tensor.readers)
      add_wanted(wanted, problem, use, choice[static_cast<size_t>(use.node)]);
    for (const int to : wanted) {
      if (to != from) changes.push_back({static_cast<int>(t), from, to});
    }
  }
  return changes;
}

Plan plan_first(const PlanProblem& problem, const PlanOptions& /*options*/) {
  return evaluate(problem, std::vector<int>(problem.nodes.size(), 0));
}

double at_least(const PlanProblem::Tensor& tensor, int from, int to) {
  if (from == to) return 0;
  return tensor.at_least ? tensor.at_least(from, to) : tensor.conversion(from, to);
}
double exactly(const PlanProblem::Tensor& tensor, int from, int to) {
  return from == to ? 0 : tensor.conversion(from, to);
}

/// Node by node in the order of the problem: the candidate that is cheapest with the conversions to those
/// chosen before.
Plan plan_greedy(const PlanProblem& problem, const PlanOptions& /*options*/) {
  std::vector<int> choice(problem.nodes.size(), -1);
  for (size_t node = 0; node < problem.nodes.size(); ++node) {
    // Of a candidate with what was chosen before.
    const auto cost_of = [&](size_t candidate, const auto& conversion) {
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
            add_wanted(wanted, problem, use, choice[static_cast<size_t>(use.node)]);
        }
        for (const int to : wanted) cost += conversion(tensor, from, to);
      }
      return cost;
    };
    // The candidate that costs least at least, until that is its cost.
    std::vector<double> costs(problem.nodes[node].candidates.size());
    std::vector<bool> is_exact(costs.size(), false);
    for (size_t candidate = 0; candidate < costs.size(); ++candidate)
      costs[candidate] = cost_of(candidate, at_least);
    size_t best = 0;
    for (;;) {
      best = static_cast<size_t>(std::ranges::min_element(costs) - costs.begin());
      if (is_exact[best]) break;
      costs[best] = cost_of(best, exactly);
      is_exact[best] = true;
    }
    choice[node] = static_cast<int>(best);
  }
  return evaluate(problem, std::move(choice));
}

}  // namespace

Pbqp as_pbqp(const PlanProblem& problem, const ConversionCost& cost) {
  Pbqp pbqp;
  for (const PlanProblem::Node& node : problem.nodes) {
    std::vector<double> costs;
    for (const PlanProblem::Candidate& candidate : node.candidates) costs.push_back(candidate.cost);
    pbqp.add_node(std::move(costs));
  }
  for (size_t t = 0; t < problem.tensors.size(); ++t) {
    const PlanProblem::Tensor& tensor = problem.tensors[t];
    for (const int to : wanted_layouts(problem, tensor)) {
      const int copy = pbqp.add_node({0, 0});  // absent, present
      Pbqp::Matrix of_maker(candidates_of(problem, tensor.maker.node), 2);
      std::map<int, double> costs;  // many candidates make the same layout
      for (size_t candidate = 0; candidate < of_maker.rows(); ++candidate) {
        const int from = layout_of(problem, tensor.maker, static_cast<int>(candidate));
        const auto [known, is_new] = costs.try_emplace(from);
        if (is_new) known->second = cost ? cost(static_cast<int>(t), from, to) : exactly(tensor, from, to);
        of_maker[candidate][1] = known->second;
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
        Pbqp::Matrix of_reader(2, candidates_of(problem, reader));
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

/// What conversions cost as far as a planner has asked for it, at least.
class LazyCosts {
 public:
  explicit LazyCosts(const PlanProblem& problem) : problem_(problem) {}

  double cost(int tensor, int from, int to) {
    const auto [found, is_new] = costs_.try_emplace(Key{tensor, from, to}, Known{});
    if (is_new) found->second.cost = at_least(problem_.tensors[static_cast<size_t>(tensor)], from, to);
    return found->second.cost;
  }
  /// What conversions cost at least that nobody has asked for.
  double unknown(int tensor, int from, int to) {
    const double least = cost(tensor, from, to);
    return costs_[Key{tensor, from, to}].is_exact ? 0 : least;
  }
  /// Notes the conversions of a plan, which evaluate() has asked for. Returns whether any was news.
  bool learn(const Plan& plan) {
    return learn(plan, [](int tensor) { return tensor; });
  }
  /// Of a plan whose tensors have other numbers.
  template <typename Number>
  bool learn(const Plan& plan, const Number& number) {
    bool is_news = false;
    for (const Plan::Conversion& conversion : plan.conversions) {
      Known& known = costs_[Key{number(conversion.tensor), conversion.from, conversion.to}];
      is_news = is_news || !known.is_exact;
      known = {conversion.cost, true};
    }
    return is_news;
  }

 private:
  struct Known {
    double cost = 0;
    bool is_exact = false;
  };
  using Key = std::array<int, 3>;  ///< tensor, from, to
  struct HashOfKey {
    size_t operator()(const Key& key) const {
      uint64_t hash = 0;
      for (const int number : key) hash = (hash ^ static_cast<uint32_t>(number)) * 0x9e3779b97f4a7c15ULL;
      return hash ^ (hash >> 32);
    }
  };
  const PlanProblem& problem_;
  std::unordered_map<Key, Known, HashOfKey> costs_;  ///< asked for by the million
};

/// A choice of the problem's nodes as a solution of as_pbqp, copies of tensors included.
std::vector<int> known_solution(const PlanProblem& problem, std::vector<int> choice) {
  if (choice.empty()) return choice;
  for (const PlanProblem::Tensor& tensor : problem.tensors) {
    std::set<int> wanted;
    for (const PlanProblem::Use& use : tensor.readers)
      add_wanted(wanted, problem, use, choice[static_cast<size_t>(use.node)]);
    for (const int to : wanted_layouts(problem, tensor)) choice.push_back(wanted.contains(to) ? 1 : 0);
  }
  return choice;
}

/// Parts of a plan choose anew, those around the dearest conversions first, until none of them gains.
class PlanParts {
 public:
  PlanParts(const PlanProblem& problem, LazyCosts& costs)
      : problem_(problem), costs_(costs), neighbours_(problem), rests_(problem.tensors.size(), 0) {}

  void improve(Plan& best) {
    std::vector<double> spent(problem_.tensors.size(), 0);
    for (const Plan::Conversion& conversion : best.conversions)
      spent[static_cast<size_t>(conversion.tensor)] += conversion.cost;
    for (size_t tensor = 0; tensor < spent.size(); ++tensor) {
      if (spent[tensor] >= kPartShare * best.cost) waiting_.push_back(static_cast<int>(tensor));
    }
    std::ranges::stable_sort(waiting_, std::greater(),
                             [&](int tensor) { return spent[static_cast<size_t>(tensor)]; });
    choice_ = best.choice;
    for (size_t left = kPartsOfTensor * waiting_.size(); !waiting_.empty() && left > 0; --left) {
      const int center = waiting_.front();
      waiting_.pop_front();
      rests_[static_cast<size_t>(center)] = 1;
      for (const PartSize& size : kPartSizes) {
        if (improve_around(center, size)) break;
      }
    }
    if (choice_ == best.choice) return;
    Plan plan = evaluate(problem_, std::move(choice_));
    costs_.learn(plan);
    if (plan.cost < best.cost) best = std::move(plan);
  }

 private:
  /// Returns whether that gained something.
  bool improve_around(int center, const PartSize& size) {
    const std::vector<int> nodes = neighbours_.around(center, size.nodes);
    const PlanPart part(problem_, choice_, nodes);
    const auto number = [&](int tensor) { return part.tensors()[static_cast<size_t>(tensor)]; };
    const ConversionCost cost = [&](int tensor, int from, int to) {
      return costs_.cost(number(tensor), from, to);
    };
    const std::vector<int> before = part.inward(choice_);
    const Plan now = evaluate(part.problem(), before);
    for (int round = 0; round < kPartRounds; ++round) {
      const Pbqp::Solution solution =
          as_pbqp(part.problem(), cost).solve({size.branches, known_solution(part.problem(), before)});
      std::vector<int> found(solution.choice.begin(),
                             solution.choice.begin() + static_cast<ptrdiff_t>(before.size()));
      double unknown = 0;
      for (const auto& [tensor, from, to] : changes_of(part.problem(), found))
        unknown += costs_.unknown(number(tensor), from, to);
      if (now.cost - solution.cost < kWorthAsking * unknown) return false;
      const Plan plan = evaluate(part.problem(), std::move(found));
      const bool is_news = costs_.learn(plan, number);
      if (plan.cost < now.cost - tolerance(now.cost)) {
        for (size_t k = 0; k < nodes.size(); ++k) {
          if (plan.choice[k] != before[k]) look_again(nodes[k]);
        }
        choice_ = part.outward(plan.choice, std::move(choice_));
        return true;
      }
      if (!is_news) return false;
    }
    return false;
  }
  void look_again(int node) {
    for (const int tensor : neighbours_.tensors_of(node)) {
      if (std::exchange(rests_[static_cast<size_t>(tensor)], 0) != 0) waiting_.push_back(tensor);
    }
  }

  const PlanProblem& problem_;
  LazyCosts& costs_;
  PlanNeighbours neighbours_;
  std::deque<int> waiting_;  ///< tensors around which parts may gain
  std::vector<char> rests_;  ///< by tensor: it was looked at, and nothing has changed since
  std::vector<int> choice_;
};

Plan plan_pbqp(const PlanProblem& problem, const PlanOptions& options) {
  LazyCosts costs(problem);
  const ConversionCost cost = [&](int tensor, int from, int to) { return costs.cost(tensor, from, to); };
  Plan best;
  best.cost = kForbidden;
  double bound = -kForbidden;
  // A good plan to begin with, and what its conversions cost.
  bool is_news = true;
  for (int round = 0; round < kBeamRounds && is_news; ++round) {
    Plan plan = evaluate(problem, plan_by_beam(problem, cost));
    is_news = costs.learn(plan);
    if (best.choice.empty() || plan.cost < best.cost) best = std::move(plan);
  }
  best.bound = bound;
  if (options.branches == 0) return best;
  int vain_rounds = 0;
  // While costs become known, few branches will do; the whole budget is for what they are in the end.
  for (int64_t branches = std::min(kFirstBranches, options.branches);;) {
    const Pbqp::Solution solution =
        as_pbqp(problem, cost).solve({branches, known_solution(problem, best.choice)});
    bound = std::max(bound, solution.proven ? solution.cost : solution.bound);
    std::vector<int> choice(solution.choice.begin(),
                            solution.choice.begin() + static_cast<ptrdiff_t>(problem.nodes.size()));
    Plan plan = evaluate(problem, std::move(choice));
    is_news = costs.learn(plan);
    if (best.choice.empty() || plan.cost < best.cost) best = std::move(plan);
    best.proven = bound >= best.cost - tolerance(best.cost);
    if (best.proven) break;
    // A search that was cut short found a solution that may be far from the best of its problem. What it uses
    // is worth knowing a few times, but not until there is nothing new.
    const bool is_first = branches == std::min(kFirstBranches, options.branches);
    if (is_news && (is_first || solution.proven || ++vain_rounds < kVainRounds)) continue;
    if (branches == options.branches) break;
    vain_rounds = 0;
    branches = std::min(branches * kMoreBranches, options.branches);
  }
  // A search that was cut short leaves what parts of the plan find, and must not be worse than the simple
  // planners.
  if (!best.proven) {
    PlanParts(problem, costs).improve(best);
    best.proven = bound >= best.cost - tolerance(best.cost);
  }
  best.bound = best.proven ? best.cost : bound;
  if (!best.proven) {
    for (const auto& simple : {plan_first, plan_greedy}) {
      Plan other = simple(problem, options);
      if (other.cost >= best.cost) continue;
      other.bound = best.bound;
      best = std::move(other);
    }
  }
  return best;
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
    const auto& makers = problem.nodes[static_cast<size_t>(tensor.maker.node)].candidates;
    for (size_t candidate = 0; candidate < makers.size(); ++candidate) {
      if (layout_of(problem, tensor.maker, static_cast<int>(candidate)) == PlanProblem::kUnread)
        throw UserError(fmt::format("plan: candidate '{}' of node '{}' doesn't make the tensor '{}'",
                                    makers[candidate].name,
                                    problem.nodes[static_cast<size_t>(tensor.maker.node)].name, tensor.name));
    }
    for (const PlanProblem::Use& use : tensor.readers) check(use);
  }
}

Plan evaluate(const PlanProblem& problem, std::vector<int> choice) {
  Plan plan;
  for (size_t node = 0; node < problem.nodes.size(); ++node)
    plan.node_cost += problem.nodes[node].candidates[static_cast<size_t>(choice[node])].cost;
  const std::vector<PlanProblem::Change> changes = changes_of(problem, choice);
  if (problem.expect) problem.expect(changes);
  for (const auto& [t, from, to] : changes) {
    plan.conversions.push_back({t, from, to, problem.tensors[static_cast<size_t>(t)].conversion(from, to)});
    plan.conversion_cost += plan.conversions.back().cost;
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
