#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "isa/arithmetic.h"
#include "scheduler/problem/builtin_schedulers.h"
#include "scheduler/problem/reservation.h"

/// "exact": the shortest schedule of a block, with a proof. For one length after the other, from the bound
/// on, a search goes through the steps and decides what issues in each, until a schedule is found or shown
/// not to exist. Four things keep it short:
///
///   - an operation must issue between the longest way to it and what the longest way behind it leaves. When
///     a step is done, windows of what is left are narrowed, and of every resource as many uses as must lie
///     in the remaining steps must fit there. Steps in which nobody can issue are passed over;
///   - an operation that could still join a step joins it, unless its place is wanted by another one, or
///     others that could come soon must keep their distance from it: issuing early never hurts anybody else;
///   - operations that are alike (the same uses, dependences and windows) issue in the order of the program;
///   - what was shown to fail is remembered: the step, the set of what issued, and the exact step from which
///     each of the others may issue.
///
/// `exact-nodes` bounds the search; beyond it the best schedule known is returned, with the length up to
/// which none exists.
namespace kodama::scheduler {
namespace {

using Dependence = ScheduleProblem::Dependence;

const passes::PassOptionInfo kNodes{"exact-nodes", "500000", "steps tried before the search gives up"};

class ExactSearch {
 public:
  ExactSearch(const ScheduleProblem& problem, int64_t nodes)
      : problem_(problem), adjacency_(problem), n_(problem.operations.size()), nodes_left_(nodes) {
    find_twins();
    separates_.assign(problem.classes.size(), 0);
    for (const auto& each : problem.separations) {
      int64_t& longest = separates_[static_cast<size_t>(each.first)];
      longest = std::max(longest, each.steps);
    }
  }

  bool gave_up() const { return gave_up_; }

  /// A schedule of at most `length` steps.
  std::optional<Schedule> find(int64_t length) {
    length_ = length;
    failed_.clear();
    remembered_ = 0;
    issue_.assign(n_, -1);
    earliest_.assign(n_, 0);
    latest_.assign(n_, 0);
    left_ = n_;
    for (size_t k = 0; k < n_; ++k) {
      earliest_[k] = std::max(earliest_[k], problem_.operations[k].earliest);
      for (const Dependence* edge : adjacency_.out[k]) raise(edge->to, earliest_[k] + edge->distance);
    }
    for (size_t k = n_; k-- > 0;) {
      latest_[k] = problem_.operations[k].takes_step ? length - 1 : length;
      for (const Dependence* edge : adjacency_.out[k])
        latest_[k] = std::min(latest_[k], latest_[static_cast<size_t>(edge->to)] - edge->distance);
      if (earliest_[k] > latest_[k]) return std::nullopt;
    }
    Reservation taken(problem_);
    if (!fill(0, taken, 0)) return std::nullopt;
    Schedule schedule;
    schedule.issue = issue_;
    return schedule;
  }

 private:
  void raise(int k, int64_t time) {
    earliest_[static_cast<size_t>(k)] = std::max(earliest_[static_cast<size_t>(k)], time);
  }

  /// Operations that only differ in their place in the program: each knows the one before it.
  void find_twins() {
    twin_before_.assign(n_, -1);
    const auto edges = [](const std::vector<const Dependence*>& list, bool out) {
      std::vector<std::pair<int, int64_t>> result;
      for (const Dependence* edge : list) result.emplace_back(out ? edge->to : edge->from, edge->distance);
      std::ranges::sort(result);
      return result;
    };
    for (size_t k = 1; k < n_; ++k) {
      for (size_t other = k; other-- > 0 && twin_before_[k] < 0;) {
        const auto& a = problem_.operations[k];
        const auto& b = problem_.operations[other];
        if (a.uses == b.uses && a.classes == b.classes && a.earliest == b.earliest &&
            a.takes_step == b.takes_step &&
            edges(adjacency_.in[k], false) == edges(adjacency_.in[other], false) &&
            edges(adjacency_.out[k], true) == edges(adjacency_.out[other], true))
          twin_before_[k] = static_cast<int>(other);
      }
    }
  }

  bool is_ready(size_t k, int64_t time) const {
    if (issue_[k] >= 0 || earliest_[k] > time) return false;
    if (twin_before_[k] >= 0 && issue_[static_cast<size_t>(twin_before_[k])] < 0) return false;
    return std::ranges::all_of(adjacency_.in[k], [&](const Dependence* edge) {
      const int64_t from = issue_[static_cast<size_t>(edge->from)];
      return from >= 0 && from + edge->distance <= time;
    });
  }

  /// Counts a step of the search; of large blocks as many as it takes the time of. False: no more of them.
  bool spend() {
    constexpr size_t kSmall = 64;
    constexpr size_t kPerStep = 128;
    nodes_left_ -= n_ <= kSmall ? 1 : static_cast<int64_t>((n_ + problem_.dependences.size()) / kPerStep) + 1;
    gave_up_ = gave_up_ || nodes_left_ <= 0;
    return !gave_up_;
  }

  /// Uses of each resource that must lie before each deadline fit between `time` and there.
  bool resources_suffice(int64_t time) const {
    for (size_t r = 0; r < problem_.resources.size(); ++r) {
      if (problem_.resources[r].capacity != 1) continue;
      deadlines_.clear();
      keys_.clear();
      for (size_t k = 0; k < n_; ++k) {
        if (issue_[k] >= 0) continue;
        for (const auto& use : problem_.operations[k].uses) {
          if (use.resource != static_cast<int>(r)) continue;
          // Those that share a place count once, with the latest deadline of them.
          if (use.key < 0) {
            deadlines_.push_back(latest_[k]);
          } else {
            const auto known = std::ranges::find(keys_, use.key, &std::pair<int64_t, int64_t>::first);
            if (known == keys_.end()) {
              keys_.emplace_back(use.key, latest_[k]);
            } else {
              known->second = std::max(known->second, latest_[k]);
            }
          }
        }
      }
      for (const auto& [key, latest] : keys_) deadlines_.push_back(latest);
      std::ranges::sort(deadlines_);
      for (size_t d = 0; d < deadlines_.size(); ++d) {
        if (deadlines_[d] < time + static_cast<int64_t>(d)) return false;
      }
    }
    return true;
  }

  /// All that the rest of the search depends on, exactly: numbers of any size, seven bits per byte.
  std::string state(int64_t time) const {
    std::string text;
    text.reserve(2 * n_ + 2 * problem_.classes.size() + 8);
    const auto put = [&](int64_t value) {
      auto rest = static_cast<uint64_t>(value);
      for (; rest >= 128; rest >>= 7) text.push_back(static_cast<char>(rest | 128));
      text.push_back(static_cast<char>(rest));
    };
    put(time);
    // 0 = it issued; else one more than it must wait. Windows know all that issued (`fill`).
    for (size_t k = 0; k < n_; ++k) put(issue_[k] >= 0 ? 0 : 1 + std::max<int64_t>(earliest_[k] - time, 0));
    // What keeps others at a distance.
    for (size_t c = 0; c < problem_.classes.size(); ++c) {
      if (separates_[c] == 0) continue;
      int64_t last = -1;
      for (size_t k = 0; k < n_; ++k) {
        const auto& classes = problem_.operations[k].classes;
        if (issue_[k] >= 0 && std::ranges::find(classes, static_cast<int>(c)) != classes.end())
          last = std::max(last, issue_[k]);
      }
      put(last < 0 ? 0 : std::max<int64_t>(separates_[c] + 1 - (time - last), 0));
    }
    return text;
  }

  /// The first step from `time` on in which somebody may issue whom dependences allow to.
  int64_t next_event(int64_t time, const Reservation& taken) const {
    int64_t next = INT64_MAX;
    for (size_t k = 0; k < n_ && next > time; ++k) {
      const bool is_free =
          issue_[k] < 0 && std::ranges::all_of(adjacency_.in[k], [&](const Dependence* edge) {
            return issue_[static_cast<size_t>(edge->from)] >= 0;
          });
      if (!is_free) continue;
      const std::optional<int64_t> first =
          taken.first_fit(static_cast<int>(k), std::max(earliest_[k], time), length_ + 1);
      next = std::min(next, first.value_or(length_ + 1));
    }
    return next;
  }

  /// Steps from `time` on; everything before is decided.
  bool fill(int64_t time, Reservation& taken, size_t depth) {
    if (left_ == 0) return true;
    if (!spend()) return false;
    if (depth > kDeepest) {
      gave_up_ = true;
      return false;
    }
    // Windows of what is left, with what issued so far.
    std::vector<int64_t> saved = earliest_;
    bool found = false;
    if (narrow(time)) {
      // Nobody comes in between.
      const int64_t next = next_event(time, taken);
      if (next <= length_ && (next == time || narrow(next)) && resources_suffice(next)) {
        std::string key = state(next);
        if (!failed_.contains(key)) {
          std::vector<size_t> left_out;
          found = choose(next, taken, left_out, depth + 1);
          if (!found && !gave_up_ && remembered_ + key.size() < kMostRemembered) {
            remembered_ += key.size() + sizeof(std::string) + 2 * sizeof(void*);
            failed_.insert(std::move(key));
          }
        }
      }
    }
    if (!found) earliest_ = std::move(saved);
    return found;
  }

  /// Nobody issues before `time` any more; false when somebody then comes too late.
  bool narrow(int64_t time) {
    for (size_t k = 0; k < n_; ++k) {
      if (issue_[k] < 0) {
        earliest_[k] = std::max(earliest_[k], time);
        if (earliest_[k] > latest_[k]) return false;
      }
      const int64_t from = issue_[k] >= 0 ? issue_[k] : earliest_[k];
      for (const Dependence* edge : adjacency_.out[k]) raise(edge->to, from + edge->distance);
    }
    return true;
  }

  /// Whether two operations want one place of a resource in one step.
  bool compete(size_t a, size_t b) const {
    for (const auto& x : problem_.operations[a].uses) {
      for (const auto& y : problem_.operations[b].uses) {
        if (x.resource == y.resource && (x.key < 0 || x.key != y.key)) return true;
      }
    }
    return false;
  }

  /// Whether others that could issue in the steps behind `time` must keep their distance from this one.
  bool keeps_away(size_t operation, int64_t time) const {
    const auto& classes = problem_.operations[operation].classes;
    for (const auto& each : problem_.separations) {
      if (std::ranges::find(classes, each.first) == classes.end()) continue;
      for (size_t k = 0; k < n_; ++k) {
        const auto& others = problem_.operations[k].classes;
        if (k != operation && issue_[k] < 0 && earliest_[k] <= time + each.steps &&
            std::ranges::find(others, each.second) != others.end())
          return true;
      }
    }
    return false;
  }

  /// Adds one operation after the other to the step, or decides to leave it out.
  bool choose(int64_t time, Reservation& taken, std::vector<size_t>& left_out, size_t depth) {
    if (!spend()) return false;
    // The most urgent that is neither in nor out and could be in.
    size_t next = n_;
    for (size_t k = 0; k < n_; ++k) {
      if (!is_ready(k, time) || std::ranges::find(left_out, k) != left_out.end()) continue;
      if (!taken.fits(static_cast<int>(k), time)) {
        if (latest_[k] == time) return false;
        continue;
      }
      if (next == n_ || latest_[k] < latest_[next]) next = k;
    }
    if (next == n_) {
      // Nobody who could be here, and hinders nobody, waits outside.
      for (const size_t k : left_out) {
        if (latest_[k] == time) return false;
        if (!keeps_away(k, time) && taken.fits(static_cast<int>(k), time)) return false;
      }
      for (size_t k = 0; k < n_; ++k) {
        if (issue_[k] < 0 && latest_[k] <= time) return false;
      }
      return fill(time + 1, taken, depth + 1);
    }
    taken.add(static_cast<int>(next), time);
    issue_[next] = time;
    --left_;
    if (choose(time, taken, left_out, depth + 1)) return true;
    ++left_;
    issue_[next] = -1;
    taken.remove(static_cast<int>(next), time);
    if (latest_[next] == time) return false;
    // Leaving it out only helps those who want its place, or must keep their distance.
    bool is_wanted = false;
    for (size_t k = 0; k < n_ && !is_wanted; ++k)
      is_wanted = k != next && issue_[k] < 0 && earliest_[k] <= time && compete(next, k);
    if (!is_wanted && !keeps_away(next, time)) return false;
    left_out.push_back(next);
    const bool found = choose(time, taken, left_out, depth + 1);
    left_out.pop_back();
    return found;
  }

  static constexpr size_t kMostRemembered = size_t{256} << 20;  ///< bytes
  static constexpr size_t kDeepest = 5000;                      ///< calls within each other

  const ScheduleProblem& problem_;
  Adjacency adjacency_;
  size_t n_;
  int64_t nodes_left_;
  bool gave_up_ = false;
  int64_t length_ = 0;
  size_t left_ = 0;
  std::vector<int> twin_before_;
  std::vector<int64_t> separates_;  ///< by class: the most steps that others stay away from it
  std::vector<int64_t> issue_, earliest_, latest_;
  std::unordered_set<std::string> failed_;
  size_t remembered_ = 0;  ///< bytes
  mutable std::vector<int64_t> deadlines_;
  mutable std::vector<std::pair<int64_t, int64_t>> keys_;
};

Schedule exact_schedule(const ScheduleProblem& problem, const passes::PassOptions& options) {
  Schedule best = list_scheduler().run(problem, {});
  if (best.is_optimal || problem.operations.empty()) return best;
  ExactSearch search(problem, passes::positive_option(options, kNodes));
  // Short lengths are the quickest to refute; where there are very many of them, halves.
  constexpr int kOneByOne = 64;
  best.shown_bound = block_bound(problem).steps();
  for (int tried = 0; best.shown_bound < schedule_steps(problem, best); ++tried) {
    const int64_t span = schedule_steps(problem, best) - best.shown_bound;
    const int64_t length = best.shown_bound + (tried < kOneByOne ? 0 : span / 2);
    std::optional<Schedule> found = search.find(length);
    if (search.gave_up()) {
      best.gave_up = true;
      return best;
    }
    if (found) {
      best.issue = std::move(found->issue);
    } else {
      best.shown_bound = length + 1;
    }
  }
  best.is_optimal = true;
  return best;
}

}  // namespace

BlockScheduler exact_scheduler() {
  return {"exact",       "branch and bound: the shortest schedule, proven, of small blocks",
          {kNodes},      true,
          false,         false,
          exact_schedule};
}

}  // namespace kodama::scheduler
