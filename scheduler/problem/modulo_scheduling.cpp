#include <algorithm>
#include <numeric>
#include <optional>
#include <random>

#include "isa/arithmetic.h"
#include "scheduler/problem/builtin_schedulers.h"
#include "scheduler/problem/reservation.h"

/// Schedulers of loops. "modulo" is iterative modulo scheduling (Rau 1994): for one interval after the other,
/// from the bound on, operations are placed by falling height, each at the first step of its window of one
/// interval that is free. Where none is, it takes a step by force, and what is in the way, or now too early,
/// is placed again; a step that was forced before is not tried again. When `modulo-budget` placements per
/// operation didn't do, the next interval is tried. From the first that has a schedule other orders go back
/// to shorter ones, until `modulo-patience` intervals in a row have none: every order for every interval from
/// the bound on would be thousands of tries of large bodies, nearly all of them in vain.
///
/// "acyclic" schedules the body as a block and starts the next iteration as soon as dependences and resources
/// let all of it: what there is to compare with.
namespace kodama::scheduler {
namespace {

using Dependence = ScheduleProblem::Dependence;

const passes::PassOptionInfo kBudget{"modulo-budget", "20",
                                     "placements per operation before an interval is given up"};
const passes::PassOptionInfo kOrders{"modulo-orders", "32", "orders tried per interval"};
const passes::PassOptionInfo kPatience{
    "modulo-patience", "3", "intervals in a row without a schedule before shorter ones are given up"};

class ModuloScheduler {
 public:
  explicit ModuloScheduler(const ScheduleProblem& problem) : problem_(problem), adjacency_(problem) {}

  /// `noise` 0: by height alone.
  std::optional<Schedule> run(int64_t interval, int64_t budget, uint32_t noise) const {
    const size_t n = problem_.operations.size();
    const std::optional<std::vector<int64_t>> heights = heights_at(interval);
    if (!heights) return std::nullopt;
    std::mt19937 random(noise);
    std::vector<std::pair<int64_t, size_t>> order;
    for (size_t k = 0; k < n; ++k) {
      const int64_t urgency =
          noise == 0 ? (*heights)[k] : 4 * (*heights)[k] + static_cast<int64_t>(random() % (8 * noise));
      order.emplace_back(-urgency, k);
    }
    std::ranges::sort(order);
    std::vector<size_t> rank(n);
    for (size_t r = 0; r < n; ++r) rank[order[r].second] = r;

    Schedule schedule;
    schedule.interval = interval;
    schedule.issue.assign(n, kUnplaced);
    std::vector<int64_t> last_forced(n, kUnplaced);
    std::vector<bool> waiting(n, true);
    size_t left = n;
    size_t first_rank = 0;  // nobody before it waits
    Reservation taken(problem_, interval);
    const auto displace = [&](size_t k) {
      taken.remove(static_cast<int>(k), schedule.issue[k]);
      schedule.issue[k] = kUnplaced;
      waiting[k] = true;
      first_rank = std::min(first_rank, rank[k]);
      ++left;
    };
    for (int64_t placements = budget * static_cast<int64_t>(n); left > 0; --placements) {
      if (placements == 0) return std::nullopt;
      while (!waiting[order[first_rank].second]) ++first_rank;
      const size_t k = order[first_rank].second;
      int64_t earliest = problem_.operations[k].earliest;
      for (const Dependence* edge : adjacency_.in[k]) {
        const int64_t from = schedule.issue[static_cast<size_t>(edge->from)];
        if (from != kUnplaced && edge->from != edge->to)
          earliest = std::max(earliest, from + edge->distance - interval * edge->iterations);
      }
      int64_t time = taken.first_fit(static_cast<int>(k), earliest, earliest + interval).value_or(kUnplaced);
      if (time == kUnplaced) {
        time = last_forced[k] == kUnplaced ? earliest : std::max(earliest, last_forced[k] + 1);
        last_forced[k] = time;
        for (const int other : taken.in_the_way(static_cast<int>(k), time))
          displace(static_cast<size_t>(other));
        if (!taken.fits(static_cast<int>(k), time)) return std::nullopt;  // with itself
      }
      taken.add(static_cast<int>(k), time);
      schedule.issue[k] = time;
      waiting[k] = false;
      --left;
      for (const Dependence* edge : adjacency_.out[k]) {
        const auto to = static_cast<size_t>(edge->to);
        if (to != k && schedule.issue[to] != kUnplaced &&
            schedule.issue[to] < time + edge->distance - interval * edge->iterations)
          displace(to);
      }
    }
    return schedule;
  }

 private:
  static constexpr int64_t kUnplaced = INT64_MIN;

  /// Longest ways to the end of an iteration; nothing when a recurrence is longer than the interval.
  std::optional<std::vector<int64_t>> heights_at(int64_t interval) const {
    const size_t n = problem_.operations.size();
    std::vector<int64_t> height(n, 0);
    for (size_t round = 0; round <= n; ++round) {
      bool changed = false;
      for (auto edge = problem_.dependences.rbegin(); edge != problem_.dependences.rend(); ++edge) {
        const int64_t least =
            height[static_cast<size_t>(edge->to)] + edge->distance - interval * edge->iterations;
        if (height[static_cast<size_t>(edge->from)] >= least) continue;
        height[static_cast<size_t>(edge->from)] = least;
        changed = true;
      }
      if (!changed) return height;
    }
    return std::nullopt;
  }

  const ScheduleProblem& problem_;
  Adjacency adjacency_;
};

/// The first iteration starts at step 0, or a little later: times keep their remainders.
void start_at_zero(Schedule& schedule) {
  if (schedule.issue.empty()) return;
  const int64_t first = *std::ranges::min_element(schedule.issue);
  for (int64_t& time : schedule.issue) time -= first;
}

Schedule acyclic_schedule(const ScheduleProblem& problem, const passes::PassOptions&) {
  // In the order of a list schedule, each iteration begins when all of the one before allows.
  ScheduleProblem block = problem;
  block.is_loop = false;
  std::erase_if(block.dependences, [](const Dependence& edge) { return edge.iterations > 0; });
  Schedule schedule = list_scheduler().run(block, {});
  schedule.is_optimal = false;
  schedule.interval = std::max<int64_t>(schedule_steps(block, schedule), 1);
  for (const Dependence& edge : problem.dependences) {
    if (edge.iterations == 0) continue;
    const int64_t least = schedule.issue[static_cast<size_t>(edge.from)] + edge.distance -
                          schedule.issue[static_cast<size_t>(edge.to)];
    if (least > 0) schedule.interval = std::max(schedule.interval, isa::ceil_div(least, edge.iterations));
  }
  // The body's first steps may come too soon after its last ones: iterations share no step, so only
  // separations reach from one to the next.
  std::vector<int64_t> first(problem.classes.size(), INT64_MAX);  // of a class's operations
  std::vector<int64_t> last(problem.classes.size(), INT64_MIN);
  for (size_t k = 0; k < problem.operations.size(); ++k) {
    for (const int c : problem.operations[k].classes) {
      first[static_cast<size_t>(c)] = std::min(first[static_cast<size_t>(c)], schedule.issue[k]);
      last[static_cast<size_t>(c)] = std::max(last[static_cast<size_t>(c)], schedule.issue[k]);
    }
  }
  for (const auto& each : problem.separations) {
    const int64_t from = last[static_cast<size_t>(each.first)];
    const int64_t to = first[static_cast<size_t>(each.second)];
    if (from == INT64_MIN || to == INT64_MAX || from < to || each.steps == 0) continue;
    schedule.interval = std::max(schedule.interval, each.steps + from - to + 1);
  }
  return schedule;
}

Schedule modulo_schedule(const ScheduleProblem& problem, const passes::PassOptions& options) {
  const int64_t budget = passes::positive_option(options, kBudget);
  const int64_t orders = passes::positive_option(options, kOrders);
  const int64_t patience = passes::positive_option(options, kPatience);
  const int64_t bound = interval_bound(problem).interval();
  const ModuloScheduler scheduler(problem);
  Schedule best = acyclic_schedule(problem, {});
  const auto try_order = [&](int64_t interval, int64_t order) {
    std::optional<Schedule> found = scheduler.run(interval, budget, static_cast<uint32_t>(order));
    if (found) best = *std::move(found);
    return found.has_value();
  };
  // Every interval, and with growing strides where there are very many of them.
  constexpr int64_t kDense = 64;
  for (int64_t interval = bound; interval < best.interval;
       interval += 1 + std::max<int64_t>(interval - bound - kDense, 0) / 64) {
    if (try_order(interval, 0)) break;
  }
  for (int64_t interval = best.interval - 1, in_vain = 0; interval >= bound && in_vain < patience;
       --interval) {
    ++in_vain;
    for (int64_t order = 0; order < orders; ++order) {
      if (!try_order(interval, order)) continue;
      in_vain = 0;
      break;
    }
  }
  start_at_zero(best);
  best.is_optimal = best.interval <= bound;
  return best;
}

}  // namespace

BlockScheduler modulo_scheduler() {
  return {"modulo",
          "iterative modulo scheduling: iterations overlap",
          {kBudget, kOrders, kPatience},
          false,
          true,
          true,
          modulo_schedule};
}

BlockScheduler acyclic_scheduler() {
  return {"acyclic",       "the body as a block, one iteration after the other", {}, false, true, false,
          acyclic_schedule};
}

}  // namespace kodama::scheduler
