/// A layout planner as a plugin: changes one choice at a time. docs/write-a-pass.md explains it.
#include <vector>

#include "layout/plan/planner.h"
#include "passes/plugin.h"

using namespace kodama::layout;

namespace {

const kodama::passes::PassOptionInfo kRounds{"descent-rounds", "8", "how often every node is tried"};

/// From the first candidates on, every change of one node's candidate that makes the whole cheaper.
Plan descend(const PlanProblem& problem, const PlanOptions& options) {
  int64_t rounds = kodama::passes::positive_option(options.given, kRounds);
  Plan best = evaluate(problem, std::vector<int>(problem.nodes.size(), 0));
  for (bool is_better = true; is_better && rounds > 0; --rounds) {
    is_better = false;
    for (size_t node = 0; node < problem.nodes.size(); ++node) {
      for (size_t candidate = 0; candidate < problem.nodes[node].candidates.size(); ++candidate) {
        std::vector<int> choice = best.choice;
        choice[node] = static_cast<int>(candidate);
        Plan other = evaluate(problem, choice);
        if (other.cost >= best.cost) continue;
        best = other;
        is_better = true;
      }
    }
  }
  return best;
}

}  // namespace

KODAMA_PLUGIN() {
  register_pass(Planner{.name = "descent",
                        .description = "one change at a time, as long as one helps",
                        .options = {kRounds},
                        .run = descend});
}
