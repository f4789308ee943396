#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "passes/pass_options.h"

/// The layout planner: one candidate per node of a graph, so that the nodes' costs and the conversions
/// between them are least in all.
///
/// A candidate of a node has a cost and wants each operand in one layout, or makes it in one. A tensor is
/// made by one node and read by any number of nodes. Where a reader wants another layout than the maker's,
/// the tensor is converted, once per distinct layout that is wanted: it is then kept in several. Layouts are
/// numbers here; what they mean is the business of who makes the problem.
///
/// Example: a product made in rows, read by two nodes, each with one candidate that wants rows and a cheaper
/// one that wants columns. Converting costs 10.
///
///     make   {cost 5, makes rows}
///     use 1  {cost 9, reads rows}, {cost 3, reads columns}
///     use 2  {cost 9, reads rows}, {cost 3, reads columns}
///
/// `first` takes the first candidates: 5 + 9 + 9 = 23. `greedy`, node by node in order, sees at use 1 that 3
/// + 10 is more than 9, takes rows, and the same at use 2: 23. `pbqp` sees that one conversion serves both: 5
/// + 10 + 3 + 3 = 21.
///
/// As a quadratic problem (layout/plan/pbqp.h): a node per node, and one with the candidates *absent* and
/// *present* per tensor and layout that some reader wants. Present costs the conversion, by the maker's
/// choice; a reader that wants a layout forbids its absence.
///
/// Most conversions are in no good plan, and what they cost may take long to find out. So costs are *lazy*:
/// a conversion counts with what it costs at least (Tensor::at_least), the problem is solved, and what the
/// solution uses is asked for (Tensor::conversion), until a solution uses nothing else. No plan is cheaper
/// than the solution of a problem whose costs are too small, so the last one is as good as if all had been
/// asked for, and bounds are bounds. In the example, a conversion that costs at least 7 and in truth 10 is
/// asked for once; with at least 13, never: both uses take rows.
///
/// Branch and bound gets nowhere in problems of thousands of nodes, as dense blocks make. So `pbqp` begins
/// with the plan of a beam (layout/plan/beam.h), which it proves to be the best or makes better. Where the
/// search is cut short, parts of the plan then choose anew, around the dearest conversions first
/// (layout/plan/parts.h).
namespace kodama::layout {

class Pbqp;

struct PlanProblem {
  static constexpr int kUnread = -1;
  struct Candidate {
    double cost = 0;
    /// Of the node's operands, in their order; kUnread where this candidate does without one.
    std::vector<int> layouts;
    std::string name;
  };
  struct Node {
    std::string name;
    std::vector<Candidate> candidates;  ///< at least one; all with the same number of operands
  };
  struct Use {
    int node = 0;
    int operand = 0;
  };
  struct Tensor {
    std::string name;
    Use maker;
    std::vector<Use> readers;
    /// Cost of converting it; 0 when the layouts are equal, infinite when it can't be. Always the same for
    /// the same two layouts. It may take long to find out: planners ask for what they are about to use.
    std::function<double(int from, int to)> conversion;
    /// What `conversion` is at least, and quickly. Without it, asking for the cost is quick.
    std::function<double(int from, int to)> at_least = {};
  };
  /// A conversion, of a tensor by its number.
  struct Change {
    int tensor = 0;
    int from = 0;
    int to = 0;
  };
  std::vector<Node> nodes;
  std::vector<Tensor> tensors;
  /// If not empty, is told of conversions that are about to be asked for, so that what they cost can be found
  /// out side by side.
  std::function<void(const std::vector<Change>&)> expect = {};
};

struct Plan {
  std::vector<int> choice;  ///< candidate of each node
  double cost = 0;          ///< infinite when a conversion is impossible
  double node_cost = 0;
  double conversion_cost = 0;
  struct Conversion {
    int tensor;
    int from;
    int to;
    double cost;
  };
  std::vector<Conversion> conversions;  ///< tensor by tensor, by layout
  double bound = 0;                     ///< no plan is cheaper; `cost` when proven
  bool proven = false;
};

struct PlanOptions {
  int64_t branches = 200000;  ///< of branch and bound; 0: a good plan will do, quickly
  passes::PassOptions given = {};
};

/// UserError for a malformed problem: candidates without operands that a tensor names, a node without
/// candidates.
void check_problem(const PlanProblem& problem);
/// Cost and conversions of a choice, which has a candidate for every node.
Plan evaluate(const PlanProblem& problem, std::vector<int> choice);
/// What is wrong with a plan: a node without a candidate, an impossible conversion, a cost that isn't that of
/// the choice, a bound above it. Empty: nothing.
std::string plan_fault(const PlanProblem& problem, const Plan& plan);

/// Cost of converting a tensor, by its number in the problem.
using ConversionCost = std::function<double(int tensor, int from, int to)>;
/// The problem as "pbqp" solves it (layout/plan/pbqp.h): its nodes, then one for each copy of a tensor,
/// absent or present. Without `cost`, all conversions are asked for.
Pbqp as_pbqp(const PlanProblem& problem, const ConversionCost& cost = {});

/// Chooses a candidate for every node of a problem that has been checked; evaluate() makes a Plan of the
/// choice. Who knows no bound leaves it as it is.
struct Planner {
  std::string name;
  std::string description;
  std::vector<passes::PassOptionInfo> options;
  std::function<Plan(const PlanProblem&, const PlanOptions&)> run;
  std::string plugin = {};  ///< the file it came from; empty: Kodama's own. Filled by register_pass
};

/// Registry: "pbqp", "greedy", "first", and those of plugins. The first is the default.
const std::vector<Planner>& planners();
void register_pass(Planner planner);
/// By name; empty = default. UserError listing the names.
const Planner& find_planner(std::string_view name);

/// Runs the planner of this name (find_planner). PassError when it is a plugin's and its plan has a fault.
Plan plan(const PlanProblem& problem, std::string_view planner, const PlanOptions& options = {});

}  // namespace kodama::layout
