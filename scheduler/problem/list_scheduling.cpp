#include <algorithm>
#include <numeric>
#include <queue>
#include <random>
#include <set>

#include "scheduler/problem/builtin_schedulers.h"
#include "scheduler/problem/reservation.h"

/// Schedulers of blocks that never go back. "sequential" issues one operation per step, in program order.
/// "list" fills step after step with the most urgent operations that are ready. What is urgent is a matter of
/// opinion, so it tries several opinions and keeps the shortest schedule:
///
///   critical-path   the longest way to the end of the block
///   crowded-path    the same, where a way is as long as the busiest resource behind it needs
///   source          program order
///   random          critical-path with noise, as often as `list-tries` says
///
/// It stops as soon as a schedule is as short as the bound.
namespace kodama::scheduler {
namespace {

using Dependence = ScheduleProblem::Dependence;

/// Operations that are ready, the most urgent first. Those that need the same resources for themselves stand
/// together: when one of these is taken, none of them need be asked.
class ReadyList {
 public:
  explicit ReadyList(const Reservation& taken) : taken_(taken) {}

  void add(int64_t urgency, int operation) {
    const uint64_t alone = taken_.alone(operation);
    auto own = std::ranges::find(alike_, alone, &Alike::alone);
    if (own == alike_.end()) own = alike_.insert(own, {alone, {}, {}});
    own->operations.emplace(-urgency, operation);
    ++size_;
  }
  bool empty() const { return size_ == 0; }

  /// Calls place(operation) for those that fit at `time`, one after the other, and takes them out.
  template <typename Place>
  void place_at(int64_t time, Place&& place) {
    for (Alike& each : alike_) each.next = each.operations.begin();
    for (;;) {
      Alike* best = nullptr;
      for (Alike& each : alike_) {
        if (each.next == each.operations.end() || taken_.is_kept_out(each.alone, time)) continue;
        if (best == nullptr || *each.next < *best->next) best = &each;
      }
      if (best == nullptr) return;
      const int operation = best->next->second;
      if (!taken_.fits(operation, time)) {
        ++best->next;
        continue;
      }
      best->next = best->operations.erase(best->next);
      --size_;
      place(operation);
    }
  }
  /// The first time in [time, end) at which one of them fits, or else `end`.
  int64_t first_fit(int64_t time, int64_t end) const {
    for (const Alike& each : alike_) {
      for (const auto& [urgency, operation] : each.operations) {
        if (end <= time) return end;
        end = taken_.first_fit(operation, time, end).value_or(end);
      }
    }
    return end;
  }

 private:
  using Operations = std::set<std::pair<int64_t, int>>;  ///< by falling urgency
  struct Alike {
    uint64_t alone = 0;
    Operations operations;
    Operations::iterator next;
  };

  const Reservation& taken_;
  std::vector<Alike> alike_;
  size_t size_ = 0;
};

class ListScheduler {
 public:
  explicit ListScheduler(const ScheduleProblem& problem) : problem_(problem), adjacency_(problem) {
    const size_t n = problem.operations.size();
    tail_.assign(n, 0);
    for (size_t k = n; k-- > 0;) {
      tail_[k] = problem.operations[k].takes_step ? 1 : 0;
      for (const Dependence* edge : adjacency_.out[k])
        if (edge->iterations == 0)
          tail_[k] = std::max(tail_[k], edge->distance + tail_[static_cast<size_t>(edge->to)]);
    }
  }

  const std::vector<int64_t>& tails() const { return tail_; }

  /// Tails that know how long the busiest resource behind an operation is busy.
  std::vector<int64_t> crowded_tails() const {
    const size_t n = problem_.operations.size();
    std::vector<std::vector<bool>> behind(n, std::vector<bool>(n, false));
    std::vector<int64_t> result(n, 0);
    std::vector<int64_t> users(problem_.resources.size());
    for (size_t k = n; k-- > 0;) {
      int64_t nearest = INT64_MAX;
      for (const Dependence* edge : adjacency_.out[k]) {
        if (edge->iterations > 0) continue;
        const auto to = static_cast<size_t>(edge->to);
        nearest = std::min(nearest, edge->distance);
        behind[k][to] = true;
        for (size_t other = to + 1; other < n; ++other) {
          if (behind[to][other]) behind[k][other] = true;
        }
        result[k] = std::max(result[k], edge->distance + result[to]);
      }
      result[k] = std::max(result[k], tail_[k]);
      std::ranges::fill(users, 0);
      int64_t most = 0;
      for (size_t other = k + 1; other < n; ++other) {
        if (!behind[k][other]) continue;
        for (const auto& use : problem_.operations[other].uses) {
          const int64_t room = problem_.resources[static_cast<size_t>(use.resource)].capacity;
          if (room == 1) most = std::max(most, ++users[static_cast<size_t>(use.resource)]);
        }
      }
      if (nearest != INT64_MAX) result[k] = std::max(result[k], nearest + most);
    }
    return result;
  }

  /// Highest urgency first.
  Schedule run(const std::vector<int64_t>& urgency) const {
    const size_t n = problem_.operations.size();
    Schedule schedule;
    schedule.issue.assign(n, -1);
    std::vector<int> waiting_for(n, 0);
    std::vector<int64_t> earliest(n, 0);
    for (const Dependence& edge : problem_.dependences) {
      if (edge.iterations == 0) ++waiting_for[static_cast<size_t>(edge.to)];
    }
    using Timed = std::pair<int64_t, int>;
    std::priority_queue<Timed, std::vector<Timed>, std::greater<>> later;  // by earliest time
    Reservation taken(problem_);
    ReadyList ready(taken);
    const auto release = [&](size_t k) { later.emplace(earliest[k], static_cast<int>(k)); };
    for (size_t k = 0; k < n; ++k) {
      earliest[k] = problem_.operations[k].earliest;
      if (waiting_for[k] == 0) release(k);
    }
    size_t placed = 0;
    for (int64_t time = 0; placed < n;) {
      const size_t placed_before = placed;
      bool progress = true;
      while (progress) {
        progress = false;
        while (!later.empty() && later.top().first <= time) {
          const int k = later.top().second;
          ready.add(urgency[static_cast<size_t>(k)], k);
          later.pop();
        }
        ready.place_at(time, [&](int k) {
          taken.add(k, time);
          schedule.issue[static_cast<size_t>(k)] = time;
          ++placed;
          for (const Dependence* edge : adjacency_.out[static_cast<size_t>(k)]) {
            if (edge->iterations > 0) continue;
            const auto to = static_cast<size_t>(edge->to);
            earliest[to] = std::max(earliest[to], time + edge->distance);
            if (--waiting_for[to] > 0) continue;
            release(to);
            // It may go into the same step.
            progress = progress || earliest[to] <= time;
          }
        });
      }
      // Where nothing was placed, nothing changes until a separation ends or somebody becomes ready.
      int64_t next = placed == placed_before || ready.empty() ? INT64_MAX : time + 1;
      if (!later.empty()) next = std::min(next, std::max(later.top().first, time + 1));
      if (placed == placed_before) next = ready.first_fit(time + 1, next);
      time = next;
    }
    return schedule;
  }

 private:
  const ScheduleProblem& problem_;
  Adjacency adjacency_;
  std::vector<int64_t> tail_;
};

const passes::PassOptionInfo kPriority{"list-priority", "best",
                                       "critical-path, crowded-path, source, or best: the shortest of all"};
const passes::PassOptionInfo kTries{"list-tries", "16", "random orders that `best` tries for small blocks"};

/// Blocks of more operations are scheduled by critical-path alone.
constexpr size_t kLargeBlock = 600;
/// And by source, if they have so many: they were written for overlap
/// (compiler/kernels/stream_product_lowering.cpp).
constexpr size_t kHugeBlock = 2500;
/// Of more than this, no random orders are tried.
constexpr size_t kMediumBlock = 200;

Schedule list_schedule(const ScheduleProblem& problem, const passes::PassOptions& options) {
  const std::string& priority = passes::choice_option(
      options, kPriority, {kPriority.default_value, "critical-path", "crowded-path", "source"});
  const ListScheduler scheduler(problem);
  const size_t n = problem.operations.size();
  std::vector<int64_t> by_source(n);
  for (size_t k = 0; k < n; ++k) by_source[k] = -static_cast<int64_t>(k);
  if (priority == "critical-path") return scheduler.run(scheduler.tails());
  if (priority == "crowded-path") return scheduler.run(scheduler.crowded_tails());
  if (priority == "source") return scheduler.run(by_source);

  Schedule best = scheduler.run(scheduler.tails());
  int64_t steps = schedule_steps(problem, best);
  if (n > kLargeBlock) {
    if (n <= kHugeBlock) return best;
    Schedule in_order = scheduler.run(by_source);
    return schedule_steps(problem, in_order) < steps ? in_order : best;
  }
  const int64_t bound = block_bound(problem).steps();
  const auto attempt = [&](const std::vector<int64_t>& urgency) {
    if (steps <= bound) return;
    Schedule found = scheduler.run(urgency);
    const int64_t found_steps = schedule_steps(problem, found);
    if (found_steps >= steps) return;
    best = std::move(found);
    steps = found_steps;
  };
  if (steps > bound) attempt(scheduler.crowded_tails());
  attempt(by_source);
  if (steps > bound && n <= kMediumBlock) {
    std::mt19937 random(1);  // the same for every run
    const std::vector<int64_t> crowded = scheduler.crowded_tails();
    const int64_t tries = passes::positive_option(options, kTries);
    for (int64_t k = 0; k < tries && steps > bound; ++k) {
      const std::vector<int64_t>& base = k % 2 == 0 ? scheduler.tails() : crowded;
      std::vector<int64_t> noisy = base;
      const auto reach = static_cast<uint32_t>(2 + k / 2);
      for (int64_t& each : noisy) each = 4 * each + static_cast<int64_t>(random() % (4 * reach));
      attempt(noisy);
    }
  }
  best.is_optimal = steps <= bound;
  return best;
}

Schedule sequential_schedule(const ScheduleProblem& problem, const passes::PassOptions&) {
  const Adjacency adjacency(problem);
  Reservation taken(problem);
  Schedule schedule;
  int64_t time = 0;
  for (size_t k = 0; k < problem.operations.size(); ++k) {
    time = std::max(time, problem.operations[k].earliest);
    for (const Dependence* edge : adjacency.in[k]) {
      if (edge->iterations == 0)
        time = std::max(time, schedule.issue[static_cast<size_t>(edge->from)] + edge->distance);
    }
    time = *taken.first_fit(static_cast<int>(k), time, INT64_MAX);
    taken.add(static_cast<int>(k), time);
    schedule.issue.push_back(time);
    if (problem.operations[k].takes_step) ++time;
  }
  return schedule;
}

}  // namespace

BlockScheduler list_scheduler() {
  return {"list",
          "fills steps with the most urgent operations that are ready",
          {kPriority, kTries},
          true,
          false,
          false,
          list_schedule};
}

BlockScheduler sequential_scheduler() {
  return {"sequential",       "one operation per step, in program order", {}, true, false, false,
          sequential_schedule};
}

}  // namespace kodama::scheduler
