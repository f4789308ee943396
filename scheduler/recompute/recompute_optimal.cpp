#include <fmt/format.h>

#include <utility>

#include "scheduler/recompute/recompute_builtin.h"

namespace kodama::scheduler {
namespace {

const std::vector<passes::PassOptionInfo>& optimal_options() {
  static const std::vector<passes::PassOptionInfo> options = {
      {"exact", "16", "operations of a problem that is searched for the least cycles"},
      {"nodes", "50000", "states of that search"},
      {"states", "1000000", "of the dynamic programming of chains; if it takes more, bytes are rounded"},
      {"trials", "3000", "changes that the heuristic tries"}};
  return options;
}

class OptimalRecompute {
 public:
  OptimalRecompute(const RecomputeProblem& problem, const passes::PassOptions& given)
      : problem_(problem), given_(given) {}

  RecomputeSchedule run() {
    const RecomputeBound bound = recompute_bound(problem_);
    // What was written down in some order has it for a reason: another is taken where it helps.
    best_ = finish_recompute(problem_, given_order(problem_), "nothing is done again");
    if (!is_solved()) {
      const FoundOrder found = lowest_order(problem_);
      nodes_ = found.nodes;
      offer(finish_recompute(problem_, found.order, "nothing is done again, in another order"));
      if (bound.peak > problem_.limit) {
        give_up(fmt::format("an operation alone, or what is kept, takes {} bytes", bound.peak));
      } else if (!is_solved() && !search()) {
        try_all(given_order(problem_));
        if (found.order != given_order(problem_)) try_all(found.order);
      }
    }
    best_.nodes = nodes_;
    best_.is_least = best_.is_least || (is_solved() && best_.cycles == bound.cycles);
    return std::move(best_);
  }

 private:
  bool is_solved() const { return best_.status == RecomputeStatus::kSolved; }
  int64_t number(const char* name) const {
    return passes::integer_option(given_, passes::declared_option(optimal_options(), name), 0);
  }
  void offer(RecomputeSchedule schedule) {
    nodes_ += schedule.nodes;
    if (is_better(schedule, best_)) best_ = std::move(schedule);
  }
  void give_up(std::string why) {
    best_.status = RecomputeStatus::kInfeasible;
    best_.message = std::move(why);
  }

  /// Whether that has settled it.
  bool search() {
    if (std::cmp_greater(problem_.operations.size(), number("exact"))) return false;
    const auto found = search_recompute(problem_, number("nodes"));
    if (!found) return false;
    if (found->status == RecomputeStatus::kInfeasible) {
      nodes_ += found->nodes;
      give_up("the search is exhausted");
    } else {
      offer(*found);
    }
    return true;
  }

  void try_all(const std::vector<int>& order) {
    auto chain = recompute_chain(problem_, order, number("states"));
    if (chain) offer(std::move(*chain));
    Holdings segments;
    offer(recompute_segments(problem_, order, &segments));
    offer(recompute_greedily(problem_, order, number("trials")));
    if (!segments.holding.empty()) offer(recompute_greedily(problem_, order, number("trials"), segments));
  }

  const RecomputeProblem& problem_;
  const passes::PassOptions& given_;
  RecomputeSchedule best_;
  int64_t nodes_ = 0;
};

}  // namespace

Recomputer optimal_recomputer() {
  return {.name = "optimal",
          .description =
              "least cycles: of small problems by search, of chains by dynamic programming; "
              "else the best of segments and a heuristic",
          .options = optimal_options(),
          .run = [](const RecomputeProblem& problem, const passes::PassOptions& given) {
            return OptimalRecompute(problem, given).run();
          }};
}

}  // namespace kodama::scheduler
