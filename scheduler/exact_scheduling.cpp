#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "isa/arithmetic.h"
#include "scheduler/builtin_passes.h"
#include "scheduler/reservation.h"

/// "exact": the shortest schedule of a block, with a proof. For one length after the other, from the bound
/// on, a search goes through the steps and decides what issues in each, until a schedule is found or shown
/// not to exist. Four things keep it short:
///
///   - an operation must issue between the longest way to it and what the longest way behind it leaves. When
///   a
///     step is done, windows of what is left are narrowed, and of every resource as many uses as must lie in
///     the remaining steps must fit there;
///   - an operation that could still join a step joins it, unless its place is wanted by another one, or
///   others
///     must keep their distance from it: issuing early never hurts anybody else;
///   - operations that are alike (the same uses, dependences and windows) issue in the order of the program;
///   - what was shown to fail is remembered: the set of what issued, and how long each of the others must
///   wait.
///
/// `exact-nodes` bounds the search; beyond it the best schedule known is returned without a proof.
namespace kodama::scheduler {
namespace {

using Dependence = ScheduleProblem::Dependence;

const PassOptionInfo kNodes{"exact-nodes", "3000000", "steps tried before the search gives up"};

class ExactSearch {
 public:
  ExactSearch(const ScheduleProblem& problem, int64_t nodes)
      : problem_(problem), adjacency_(problem), n_(problem.operations.size()), nodes_left_(nodes) {
    find_twins();
    separates_.assign(problem.classes.size(), false);
    for (const auto& each : problem.separations) {
      separates_[static_cast<size_t>(each.first)] = true;
      longest_separation_ = std::max(longest_separation_, each.steps);
    }
  }

  bool gave_up() const { return nodes_left_ <= 0; }

  /// A schedule of at most `length` steps.
  std::optional<Schedule> find(int64_t length) {
    length_ = length;
    failed_.clear();
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
    if (!fill(0, taken)) return std::nullopt;
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

  /// Uses of each resource that must lie before each deadline fit between `time` and there.
  bool resources_suffice(int64_t time) const {
    for (size_t r = 0; r < problem_.resources.size(); ++r) {
      if (problem_.resources[r].capacity != 1) continue;
      demand_.assign(static_cast<size_t>(length_ - time + 1), 0);
      keys_.clear();
      for (size_t k = 0; k < n_; ++k) {
        if (issue_[k] >= 0) continue;
        for (const auto& use : problem_.operations[k].uses) {
          if (use.resource != static_cast<int>(r)) continue;
          // Those that share a place count once, with the latest deadline of them.
          if (use.key < 0) {
            ++demand_[static_cast<size_t>(latest_[k] - time)];
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
      for (const auto& [key, latest] : keys_) ++demand_[static_cast<size_t>(latest - time)];
      int64_t wanted = 0;
      for (size_t d = 0; d < demand_.size(); ++d) {
        wanted += demand_[d];
        if (wanted > static_cast<int64_t>(d) + 1) return false;
      }
    }
    return true;
  }

  /// All that the rest of the search depends on.
  std::string state(int64_t time) const {
    std::string text;
    text.reserve(2 * n_ + 2 * problem_.classes.size() + 2);
    const auto put = [&](int64_t value) { text.push_back(static_cast<char>(std::min<int64_t>(value, 127))); };
    put(time & 127);
    put(time >> 7);
    for (size_t k = 0; k < n_; ++k) {
      if (issue_[k] >= 0) {
        put(-1);
        continue;
      }
      int64_t wait = earliest_[k] - time;
      for (const Dependence* edge : adjacency_.in[k]) {
        const int64_t from = issue_[static_cast<size_t>(edge->from)];
        if (from >= 0) wait = std::max(wait, from + edge->distance - time);
      }
      put(std::max<int64_t>(wait, 0));
    }
    // What keeps others at a distance.
    for (size_t c = 0; c < problem_.classes.size(); ++c) {
      if (!separates_[c]) continue;
      int64_t last = -1;
      for (size_t k = 0; k < n_; ++k) {
        const auto& classes = problem_.operations[k].classes;
        if (issue_[k] >= 0 && std::ranges::find(classes, static_cast<int>(c)) != classes.end())
          last = std::max(last, issue_[k]);
      }
      put(last < 0 ? 0 : std::max<int64_t>(longest_separation_ + 1 - (time - last), 0));
    }
    return text;
  }

  /// Steps from `time` on; everything before is decided.
  bool fill(int64_t time, Reservation& taken) {
    if (left_ == 0) return true;
    if (--nodes_left_ <= 0 || time > length_) return false;
    // Windows of what is left, with what issued so far.
    std::vector<int64_t> saved = earliest_;
    bool possible = true;
    for (size_t k = 0; k < n_ && possible; ++k) {
      if (issue_[k] >= 0) {
        for (const Dependence* edge : adjacency_.out[k]) raise(edge->to, issue_[k] + edge->distance);
        continue;
      }
      earliest_[k] = std::max(earliest_[k], time);
      for (const Dependence* edge : adjacency_.out[k]) raise(edge->to, earliest_[k] + edge->distance);
      possible = earliest_[k] <= latest_[k];
    }
    bool found = false;
    if (possible && resources_suffice(time)) {
      std::string key = state(time);
      if (!failed_.contains(key)) {
        std::vector<size_t> joined;
        std::vector<size_t> left_out;
        found = choose(time, taken, joined, left_out);
        if (!found && nodes_left_ > 0 && failed_.size() < kMostRemembered) failed_.insert(std::move(key));
      }
    }
    if (!found) earliest_ = std::move(saved);
    return found;
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

  /// Adds one operation after the other to the step, or decides to leave it out.
  bool choose(int64_t time, Reservation& taken, std::vector<size_t>& joined, std::vector<size_t>& left_out) {
    if (--nodes_left_ <= 0) return false;
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
        const auto& classes = problem_.operations[k].classes;
        const bool separates =
            std::ranges::any_of(classes, [&](int c) { return separates_[static_cast<size_t>(c)]; });
        if (!separates && taken.fits(static_cast<int>(k), time)) return false;
      }
      for (size_t k = 0; k < n_; ++k) {
        if (issue_[k] < 0 && latest_[k] <= time) return false;
      }
      return fill(time + 1, taken);
    }
    taken.add(static_cast<int>(next), time);
    issue_[next] = time;
    --left_;
    joined.push_back(next);
    if (choose(time, taken, joined, left_out)) return true;
    joined.pop_back();
    ++left_;
    issue_[next] = -1;
    taken.remove(static_cast<int>(next), time);
    if (latest_[next] == time) return false;
    // Leaving it out only helps those who want its place, or must keep their distance.
    const auto& classes = problem_.operations[next].classes;
    bool matters = std::ranges::any_of(classes, [&](int c) { return separates_[static_cast<size_t>(c)]; });
    for (size_t k = 0; k < n_ && !matters; ++k) {
      if (k == next || issue_[k] >= 0 || earliest_[k] > time || !compete(next, k)) continue;
      matters = true;
    }
    if (!matters) return false;
    left_out.push_back(next);
    const bool found = choose(time, taken, joined, left_out);
    left_out.pop_back();
    return found;
  }

  static constexpr size_t kMostRemembered = 2'000'000;

  const ScheduleProblem& problem_;
  Adjacency adjacency_;
  size_t n_;
  int64_t nodes_left_;
  int64_t length_ = 0;
  size_t left_ = 0;
  int64_t longest_separation_ = 0;
  std::vector<int> twin_before_;
  std::vector<bool> separates_;  ///< by class
  std::vector<int64_t> issue_, earliest_, latest_;
  std::unordered_set<std::string> failed_;
  mutable std::vector<int64_t> demand_;
  mutable std::vector<std::pair<int64_t, int64_t>> keys_;
};

Schedule exact_schedule(const ScheduleProblem& problem, const PassOptions& options) {
  Schedule best = list_scheduler().run(problem, {});
  if (best.is_optimal || problem.operations.empty()) return best;
  int64_t steps = schedule_steps(problem, best);
  ExactSearch search(problem, positive_option(options, kNodes));
  for (int64_t length = block_bound(problem).steps(); length < steps; ++length) {
    std::optional<Schedule> found = search.find(length);
    if (found) {
      best = std::move(*found);
      best.is_optimal = true;
      return best;
    }
    if (search.gave_up()) return best;
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
