#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "scheduler/packing/packing_builtin.h"
#include "scheduler/recompute/recompute_builtin.h"

/// The heuristic for what is neither small nor a chain. At first everything is held. While too much is alive,
/// the place where most is alive gives something up: of the values that lie over it, without being used
/// there, the one that costs the fewest cycles for each byte that is then less too many, over all steps. When
/// all fits, choices are taken back or changed as long as that is cheaper: values are held again, held behind
/// their last reader for those that are made again of them, or held while others go.
namespace kodama::scheduler {
namespace {

constexpr size_t kMostCandidates = 12;

struct Trial {
  std::vector<int> steps;
  RecomputeCost cost;
  size_t peak_place = 0;
  double excess = 0;  ///< bytes beyond the limit, over all steps
};

class GreedyRecompute {
 public:
  GreedyRecompute(const RecomputeProblem& problem, const std::vector<int>& order, int64_t most_trials,
                  const Holdings& start)
      : problem_(problem), uses_(problem), choices_(problem, uses_, order), trials_left_(most_trials) {
    if (!start.holding.empty()) static_cast<Holdings&>(choices_) = start;
  }

  RecomputeSchedule run() {
    Trial now = *trial();
    lowest_ = now;
    now = give_up(std::move(now), -1);
    if (now.cost.peak > problem_.limit) return finish(lowest_, "the lowest peak of a heuristic");
    improve(now);
    return finish(now, fmt::format("a heuristic, {} trials", trials_));
  }

 private:
  RecomputeSchedule finish(Trial& found, const std::string& how) const {
    RecomputeSchedule schedule = finish_recompute(problem_, std::move(found.steps), how);
    schedule.nodes = trials_;
    return schedule;
  }

  std::optional<Trial> trial() {
    ++trials_;
    --trials_left_;
    auto steps = choices_.steps();
    if (!steps) return std::nullopt;
    Trial made;
    made.steps = std::move(*steps);
    const std::vector<int64_t> alive = alive_bytes(problem_, made.steps);
    for (size_t k = 0; k < alive.size(); ++k) {
      made.cost.cycles += problem_.operations[static_cast<size_t>(made.steps[k])].cycles;
      made.excess += static_cast<double>(std::max<int64_t>(alive[k] - problem_.limit, 0));
      if (alive[k] <= made.cost.peak) continue;
      made.cost.peak = alive[k];
      made.peak_place = choices_.places()[k];
    }
    return made;
  }

  const RecomputeProblem::Value& value_of(int gap) const {
    return problem_.values[static_cast<size_t>(choices_.gaps()[static_cast<size_t>(gap)].value)];
  }
  int64_t maker_cycles(int gap) const {
    const auto value = static_cast<size_t>(choices_.gaps()[static_cast<size_t>(gap)].value);
    return problem_.operations[static_cast<size_t>(uses_.maker[value])].cycles;
  }
  bool can_go(int gap) const {
    const auto value = static_cast<size_t>(choices_.gaps()[static_cast<size_t>(gap)].value);
    return !problem_.values[value].is_kept && problem_.values[value].bytes > 0 &&
           !problem_.operations[static_cast<size_t>(uses_.maker[value])].once &&
           choices_.holding[static_cast<size_t>(gap)] != Holding::kBrief;
  }

  /// Those over the place that promise most: cheap to make, or large.
  std::vector<int> candidates(size_t place, int spared) const {
    std::vector<int> all = choices_.gaps_over(place);
    std::erase_if(all, [&](int gap) { return gap == spared || !can_go(gap); });
    const auto price = [&](int gap) {
      return static_cast<double>(maker_cycles(gap) + 1) / static_cast<double>(value_of(gap).bytes);
    };
    std::ranges::sort(all, {}, price);
    if (all.size() <= kMostCandidates) return all;
    std::ranges::sort(all.begin() + kMostCandidates / 2, all.end(), std::greater<>(),
                      [&](int gap) { return value_of(gap).bytes; });
    all.resize(kMostCandidates);
    return all;
  }

  /// Until all fits, or nothing helps.
  Trial give_up(Trial now, int spared) {
    while (now.cost.peak > problem_.limit && trials_left_ > 0) {
      double best_price = std::numeric_limits<double>::max();
      int best = -1;
      std::optional<Trial> best_trial;
      for (const int gap : candidates(now.peak_place, spared)) {
        Holding& holding = choices_.holding[static_cast<size_t>(gap)];
        const Holding before = holding;
        holding = next(before);
        auto tried = trial();
        holding = before;
        if (!tried || tried->excess >= now.excess) continue;
        if (tried->cost.peak < lowest_.cost.peak) lowest_ = *tried;
        const double price =
            static_cast<double>(std::max<int64_t>(tried->cost.cycles - now.cost.cycles, 0) + 1) /
            (now.excess - tried->excess);
        if (price >= best_price) continue;
        best_price = price;
        best = gap;
        best_trial = std::move(tried);
      }
      if (best < 0) break;
      choices_.holding[static_cast<size_t>(best)] = next(choices_.holding[static_cast<size_t>(best)]);
      now = std::move(*best_trial);
    }
    return now;
  }
  static Holding next(Holding holding) {
    return holding == Holding::kHeld ? Holding::kRemade : Holding::kBrief;
  }

  bool accept(Trial& now, std::optional<Trial> tried) const {
    if (!tried || tried->cost.peak > problem_.limit || tried->cost.cycles >= now.cost.cycles) return false;
    now = std::move(*tried);
    return true;
  }

  void improve(Trial& now) {
    PackingRandom random(1);
    bool changed = true;
    while (changed && trials_left_ > 0) {
      changed = take_back(now);
      changed = hold_for_others(now) || changed;
    }
    std::vector<int> gaps;
    for (size_t k = 0; k < choices_.gaps().size(); ++k) gaps.push_back(static_cast<int>(k));
    constexpr int kRounds = 3;
    for (int round = 0; round < kRounds && trials_left_ > 0; ++round) {
      random.shuffle(gaps);
      for (const int gap : gaps) {
        if (trials_left_ <= 0) return;
        if (choices_.holding[static_cast<size_t>(gap)] != Holding::kHeld) exchange(now, gap);
      }
    }
  }

  /// Values that can be held after all.
  bool take_back(Trial& now) {
    std::vector<int> given_up;
    for (size_t k = 0; k < choices_.gaps().size(); ++k) {
      if (choices_.holding[k] != Holding::kHeld) given_up.push_back(static_cast<int>(k));
    }
    std::ranges::stable_sort(given_up, std::greater<>(), [&](int gap) { return maker_cycles(gap); });
    bool changed = false;
    for (const int gap : given_up) {
      Holding& holding = choices_.holding[static_cast<size_t>(gap)];
      for (const Holding other : {Holding::kHeld, Holding::kRemade, Holding::kBrief}) {
        if (other == holding || trials_left_ <= 0) continue;
        const Holding before = holding;
        holding = other;
        if (accept(now, trial())) {
          changed = true;
          break;
        }
        holding = before;
      }
    }
    return changed;
  }

  /// What is made again for others alone, and could have been held for them.
  bool hold_for_others(Trial& now) {
    std::vector<int> times(problem_.operations.size(), 0);
    for (const int step : now.steps) ++times[static_cast<size_t>(step)];
    bool changed = false;
    for (size_t value = 0; value < problem_.values.size() && trials_left_ > 0; ++value) {
      if (times[static_cast<size_t>(uses_.maker[value])] < 2) continue;
      choices_.is_checkpoint[value] = !choices_.is_checkpoint[value];
      if (accept(now, trial())) {
        changed = true;
      } else {
        choices_.is_checkpoint[value] = !choices_.is_checkpoint[value];
      }
    }
    return changed;
  }

  /// Holds a value, and gives up others for it.
  void exchange(Trial& now, int gap) {
    const std::vector<Holding> before = choices_.holding;
    choices_.holding[static_cast<size_t>(gap)] = Holding::kHeld;
    auto tried = trial();
    if (tried && tried->cost.cycles < now.cost.cycles) {
      Trial repaired = give_up(std::move(*tried), gap);
      if (accept(now, std::move(repaired))) {
        take_back(now);
        return;
      }
    }
    choices_.holding = before;
  }

  const RecomputeProblem& problem_;
  const RecomputeUses uses_;
  RecomputeChoices choices_;
  Trial lowest_;
  int64_t trials_ = 0;
  int64_t trials_left_ = 0;
};

}  // namespace

RecomputeSchedule recompute_greedily(const RecomputeProblem& problem, const std::vector<int>& order,
                                     int64_t most_trials, const Holdings& start) {
  return GreedyRecompute(problem, order, most_trials, start).run();
}

}  // namespace kodama::scheduler
