#include "scheduler/problem/schedule_problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <set>

#include "isa/arithmetic.h"
#include "isa/error.h"

namespace kodama::scheduler {
namespace {

constexpr const char* kProblemPart = "schedule problem";

using Dependence = ScheduleProblem::Dependence;

/// Users of a resource; those with one key are one.
struct UserGroup {
  std::vector<int> operations;
};
std::vector<UserGroup> user_groups(const ScheduleProblem& problem, int resource) {
  std::vector<UserGroup> groups;
  std::map<int64_t, size_t> by_key;
  for (size_t k = 0; k < problem.operations.size(); ++k) {
    for (const ScheduleProblem::Use& use : problem.operations[k].uses) {
      if (use.resource != resource) continue;
      if (use.key < 0) {
        groups.push_back({{static_cast<int>(k)}});
        continue;
      }
      const auto [known, is_new] = by_key.try_emplace(use.key, groups.size());
      if (is_new) groups.emplace_back();
      groups[known->second].operations.push_back(static_cast<int>(k));
    }
  }
  return groups;
}

/// A place of a resource that must be taken from step `release` on, `delivery` steps before the end or more
/// (its own step included).
struct Place {
  int64_t release = 0;
  int64_t delivery = 0;
};
/// The least steps in which `capacity` places per step serve all of them: in each step those with the longest
/// delivery that are released (Jackson's rule, which is optimal for places of one step).
int64_t serve(std::vector<Place>& places, int64_t capacity) {
  std::ranges::sort(places, {}, &Place::release);
  std::priority_queue<int64_t> waiting;  // deliveries
  int64_t longest = 0;
  int64_t time = 0;
  for (size_t next = 0; next < places.size() || !waiting.empty(); ++time) {
    if (waiting.empty()) time = std::max(time, places[next].release);
    for (; next < places.size() && places[next].release <= time; ++next) waiting.push(places[next].delivery);
    for (int64_t k = 0; k < capacity && !waiting.empty(); ++k) {
      longest = std::max(longest, time + waiting.top());
      waiting.pop();
    }
  }
  return longest;
}

/// How early each operation of a block may issue, and how many steps its issue leaves to the end, its own
/// included.
struct Windows {
  int64_t critical_path = 0;  ///< the longest way, separations included
  std::vector<int64_t> head;
  std::vector<int64_t> tail;
};

/// Windows of a block. Longest ways know of two things besides dependences:
///
///   - an operation that depends on another, of which its class must stay away, comes behind their separation
///     (if not in the same step);
///   - of all that must come before an operation (or behind it), each takes its place of each resource.
class WindowFinder {
 public:
  explicit WindowFinder(const ScheduleProblem& problem)
      : problem_(problem), n_(problem.operations.size()), in_(n_), out_(n_) {
    for (const Dependence& edge : problem.dependences) {
      if (edge.iterations == 0) connect(edge.from, edge.to, edge.distance);
    }
    // Of very large blocks only the longest ways are looked at.
    constexpr size_t kMostWork = 20'000'000;
    looks_far_ = n_ * problem.dependences.size() <= kMostWork;
  }

  Windows run() {
    Windows result;
    // Separations first: `in_` and `out_` get a dependence for each that is implied.
    std::vector<int64_t> path(n_, 0);
    for (size_t k = 0; k < n_; ++k) {
      imply_separations(k);
      path[k] = problem_.operations[k].earliest;
      for (const Edge& edge : in_[k]) path[k] = std::max(path[k], path[edge.other] + edge.distance);
      result.critical_path = std::max(result.critical_path, path[k] + own_step(k));
    }
    result.head.assign(n_, 0);
    for (size_t k = 0; k < n_; ++k) {
      result.head[k] = problem_.operations[k].earliest;
      for (const Edge& edge : in_[k])
        result.head[k] = std::max(result.head[k], result.head[edge.other] + edge.distance);
      result.head[k] = std::max(result.head[k], crowded(in_, k, result.head));
    }
    result.tail.assign(n_, 0);
    for (size_t k = n_; k-- > 0;) {
      result.tail[k] = own_step(k);
      for (const Edge& edge : out_[k])
        result.tail[k] = std::max(result.tail[k], result.tail[edge.other] + edge.distance);
      result.tail[k] = std::max(result.tail[k], crowded(out_, k, result.tail));
    }
    return result;
  }

  bool looks_far() const { return looks_far_; }
  /// Longest ways from others to one, by operation; -1: there is none.
  std::vector<int64_t> ways_to(size_t k) const { return ways(in_, k); }

 private:
  struct Edge {
    size_t other = 0;
    int64_t distance = 0;
  };
  using Edges = std::vector<std::vector<Edge>>;

  void connect(int from, int to, int64_t distance) {
    out_[static_cast<size_t>(from)].push_back({static_cast<size_t>(to), distance});
    in_[static_cast<size_t>(to)].push_back({static_cast<size_t>(from), distance});
  }
  int64_t own_step(size_t k) const { return problem_.operations[k].takes_step ? 1 : 0; }

  /// Everything that is reached from k by edges lies on one side of it in the program.
  std::vector<int64_t> ways(const Edges& edges, size_t k) const {
    std::vector<int64_t> way(n_, -1);
    way[k] = 0;
    const auto visit = [&](size_t from) {
      if (way[from] < 0) return;
      for (const Edge& edge : edges[from])
        way[edge.other] = std::max(way[edge.other], way[from] + edge.distance);
    };
    if (&edges == &in_) {
      for (size_t from = k + 1; from-- > 0;) visit(from);
    } else {
      for (size_t from = k; from < n_; ++from) visit(from);
    }
    way[k] = -1;
    return way;
  }

  void imply_separations(size_t k) {
    const auto& classes = problem_.operations[k].classes;
    const auto has = [](const std::vector<int>& list, int c) {
      return std::ranges::find(list, c) != list.end();
    };
    const bool is_second = std::ranges::any_of(
        problem_.separations, [&](const auto& each) { return each.steps > 0 && has(classes, each.second); });
    if (!is_second || !looks_far_) return;
    const std::vector<int64_t> way = ways(in_, k);
    for (size_t other = 0; other < k; ++other) {
      if (way[other] < 1) continue;
      int64_t least = 0;
      for (const auto& each : problem_.separations) {
        if (has(classes, each.second) && has(problem_.operations[other].classes, each.first))
          least = std::max(least, each.steps + 1);
      }
      if (least > way[other]) connect(static_cast<int>(other), static_cast<int>(k), least);
    }
  }

  /// The least time from the beginning to k in which all that must come before it take their places, or from
  /// k to the end with all that come behind: `known` are their heads or tails.
  int64_t crowded(const Edges& edges, size_t k, const std::vector<int64_t>& known) {
    if (edges[k].empty() || !looks_far_) return 0;
    const std::vector<int64_t> way = ways(edges, k);
    // By resource; users of one key may share a place, so the most convenient of them counts.
    places_.resize(problem_.resources.size());
    std::map<std::pair<int, int64_t>, Place> shared;
    for (size_t other = 0; other < n_; ++other) {
      if (way[other] < 0) continue;
      // A head is a time to wait before the place is taken, a way the steps from there to k; tails the other
      // way round.
      Place place{known[other], way[other]};
      if (&edges == &out_) std::swap(place.release, place.delivery);
      for (const auto& use : problem_.operations[other].uses) {
        if (use.key < 0) {
          places_[static_cast<size_t>(use.resource)].push_back(place);
          continue;
        }
        const auto [at, is_new] = shared.try_emplace({use.resource, use.key}, place);
        if (is_new) continue;
        at->second.release = std::min(at->second.release, place.release);
        at->second.delivery = std::min(at->second.delivery, place.delivery);
      }
    }
    for (const auto& [at, place] : shared) places_[static_cast<size_t>(at.first)].push_back(place);
    int64_t longest = 0;
    for (size_t r = 0; r < places_.size(); ++r) {
      if (std::ssize(places_[r]) > problem_.resources[r].capacity)
        longest = std::max(longest, serve(places_[r], problem_.resources[r].capacity));
      places_[r].clear();
    }
    return longest;
  }

  const ScheduleProblem& problem_;
  size_t n_;
  Edges in_, out_;
  bool looks_far_ = true;
  std::vector<std::vector<Place>> places_;
};

/// Whether some cycle of dependences needs more than its iterations give at this interval.
bool has_positive_cycle(const ScheduleProblem& problem, int64_t interval) {
  const size_t n = problem.operations.size();
  std::vector<int64_t> time(n, 0);
  int64_t longest = 0;  // no way without a cycle is longer
  for (const Dependence& edge : problem.dependences) longest += std::max<int64_t>(edge.distance, 0);
  for (size_t round = 0; round <= n; ++round) {
    bool changed = false;
    for (const Dependence& edge : problem.dependences) {
      const int64_t least = time[static_cast<size_t>(edge.from)] + edge.distance - interval * edge.iterations;
      if (time[static_cast<size_t>(edge.to)] >= least) continue;
      if (least > longest) return true;
      time[static_cast<size_t>(edge.to)] = least;
      changed = true;
    }
    if (!changed) return false;
  }
  return true;
}

/// The steps that a port loses at least per iteration, when it has users of the first and of the second class
/// of separations and no others: somewhere one of the second follows one of the first.
int64_t least_separation(const ScheduleProblem& problem, const std::vector<UserGroup>& groups) {
  std::set<int> firsts;
  std::set<int> seconds;
  std::map<std::pair<int, int>, int64_t> steps;
  std::set<int> any_first;
  std::set<int> any_second;
  for (const auto& each : problem.separations) {
    steps[{each.first, each.second}] = each.steps;
    any_first.insert(each.first);
    any_second.insert(each.second);
  }
  for (const UserGroup& group : groups) {
    bool known = false;
    for (const int k : group.operations) {
      for (const int c : problem.operations[static_cast<size_t>(k)].classes) {
        if (any_first.contains(c)) firsts.insert(c);
        if (any_second.contains(c)) seconds.insert(c);
        known = known || any_first.contains(c) || any_second.contains(c);
      }
    }
    if (!known) return 0;
  }
  if (firsts.empty() || seconds.empty()) return 0;
  int64_t least = INT64_MAX;
  for (const int first : firsts) {
    for (const int second : seconds) {
      const auto found = steps.find({first, second});
      least = std::min(least, found == steps.end() ? 0 : found->second);
    }
  }
  return least;
}

/// The least steps of those who share a port (of one place) and are all of the first or second class of a
/// separation: where one of the second must come after one of the first, the port is idle between two of
/// them. `groups` and `places` are those of the port.
int64_t steps_with_turn(const ScheduleProblem& problem, const WindowFinder& finder,
                        const std::vector<UserGroup>& groups, const std::vector<Place>& places,
                        const ScheduleProblem::Separation& separation) {
  const auto is = [&](int k, int c) {
    const auto& classes = problem.operations[static_cast<size_t>(k)].classes;
    return std::ranges::find(classes, c) != classes.end();
  };
  struct Member {
    Place place;
    /// The latest head of those of the first class that must come before somebody of this group; none: -1.
    int64_t after_first = -1;
  };
  std::vector<Member> members;
  std::vector<int64_t> releases;
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto concerned = [&](int k) { return is(k, separation.first) || is(k, separation.second); };
    if (!std::ranges::all_of(groups[g].operations, concerned)) continue;
    Member& member = members.emplace_back(Member{places[g]});
    releases.push_back(places[g].release);
    for (const int k : groups[g].operations) {
      if (!is(k, separation.second)) continue;
      const std::vector<int64_t> way = finder.ways_to(static_cast<size_t>(k));
      for (size_t other = 0; other < groups.size(); ++other) {
        for (const int first : groups[other].operations) {
          // Of two groups: they are never in one step.
          const int64_t least = other == g ? 1 : 0;
          if (is(first, separation.first) && way[static_cast<size_t>(first)] >= least)
            member.after_first = std::max(member.after_first, places[other].release);
        }
      }
    }
  }
  std::ranges::sort(members, std::ranges::greater(), [](const Member& each) { return each.place.delivery; });
  std::ranges::sort(releases);
  releases.erase(std::unique(releases.begin(), releases.end()), releases.end());
  int64_t longest = 0;
  for (const int64_t release : releases) {
    int64_t count = 0;
    bool turns = false;
    for (const Member& member : members) {
      if (member.place.release < release) continue;
      ++count;
      // The idle steps lie behind one from `release` on, and before this member.
      turns = turns || member.after_first >= release;
      const int64_t idle = turns ? separation.steps : 0;
      longest = std::max(longest, release + count + idle - 1 + member.place.delivery);
    }
  }
  return longest;
}

}  // namespace

int64_t schedule_steps(const ScheduleProblem& problem, const Schedule& schedule) {
  int64_t steps = 0;
  for (size_t k = 0; k < problem.operations.size(); ++k)
    steps = std::max(steps, schedule.issue[k] + (problem.operations[k].takes_step ? 1 : 0));
  return steps;
}

BlockBound block_bound(const ScheduleProblem& problem) {
  WindowFinder finder(problem);
  const Windows windows = finder.run();
  BlockBound bound;
  bound.critical_path = windows.critical_path;
  for (size_t k = 0; k < problem.operations.size(); ++k) {
    // Without its own step, which is in the tail, if it takes one.
    bound.resources = std::max(bound.resources, windows.head[k] + windows.tail[k]);
  }
  for (size_t r = 0; r < problem.resources.size(); ++r) {
    const std::vector<UserGroup> groups = user_groups(problem, static_cast<int>(r));
    std::vector<Place> places;
    for (const UserGroup& group : groups) {
      Place place{INT64_MAX, INT64_MAX};
      for (const int k : group.operations) {
        place.release = std::min(place.release, windows.head[static_cast<size_t>(k)]);
        place.delivery = std::min(place.delivery, windows.tail[static_cast<size_t>(k)]);
      }
      places.push_back(place);
    }
    if (problem.resources[r].capacity == 1 && finder.looks_far()) {
      for (const auto& separation : problem.separations) {
        if (separation.steps > 0)
          bound.resources =
              std::max(bound.resources, steps_with_turn(problem, finder, groups, places, separation));
      }
    }
    bound.resources = std::max(bound.resources, serve(places, problem.resources[r].capacity));
  }
  return bound;
}

IntervalBound interval_bound(const ScheduleProblem& problem) {
  IntervalBound bound{1, 1};
  for (size_t r = 0; r < problem.resources.size(); ++r) {
    const std::vector<UserGroup> groups = user_groups(problem, static_cast<int>(r));
    if (groups.empty()) continue;
    int64_t least = isa::ceil_div(static_cast<int64_t>(groups.size()), problem.resources[r].capacity);
    if (problem.resources[r].capacity == 1) least += least_separation(problem, groups);
    bound.resources = std::max(bound.resources, least);
  }
  int64_t low = 1;
  int64_t high = 1;
  for (const Dependence& edge : problem.dependences) high += std::max<int64_t>(edge.distance, 0);
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (has_positive_cycle(problem, middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  bound.recurrences = low;
  return bound;
}

std::string problem_fault(const ScheduleProblem& problem) {
  std::string fault;
  const auto require = [&](bool right, fmt::string_view text, const auto&... values) {
    if (!right && fault.empty()) fault = fmt::vformat(text, fmt::make_format_args(values...));
    return right;
  };
  const auto in_range = [&](int value, size_t size, const char* what) {
    return require(value >= 0 && value < static_cast<int64_t>(size), "{}: found {}, allowed: 0 to {}", what,
                   value, static_cast<int64_t>(size) - 1);
  };
  const auto steps = [&](int64_t value, int64_t least, const char* what) {
    return require(value >= least && value <= kMostSteps, "{}: found {}, allowed: {} to {}", what, value,
                   least, kMostSteps);
  };
  for (const auto& resource : problem.resources)
    require(resource.capacity > 0, "resource '{}': found capacity {}, allowed: 1 and more", resource.name,
            resource.capacity);
  for (const ScheduleProblem::Operation& operation : problem.operations) {
    std::map<int, std::pair<int64_t, std::set<std::pair<int64_t, bool>>>>
        places;  // by resource: without key, and keys
    for (const auto& use : operation.uses) {
      if (!in_range(use.resource, problem.resources.size(), "resource of an operation")) return fault;
      auto& [alone, keys] = places[use.resource];
      if (use.key < 0) {
        ++alone;
      } else {
        keys.emplace(use.key, use.invariant);
      }
    }
    for (const auto& [resource, wanted] : places) {
      const auto& known = problem.resources[static_cast<size_t>(resource)];
      const int64_t count = wanted.first + std::ssize(wanted.second);
      require(count <= known.capacity, "operation '{}' uses {} places of resource '{}', which has {}",
              operation.text, count, known.name, known.capacity);
    }
    for (const int c : operation.classes) in_range(c, problem.classes.size(), "class of an operation");
    require(operation.takes_step || operation.uses.empty(),
            "operation '{}' takes no step, so it can't use resources", operation.text);
    steps(operation.earliest, 0, "earliest step");
  }
  for (const Dependence& edge : problem.dependences) {
    in_range(edge.from, problem.operations.size(), "'from' of a dependence");
    in_range(edge.to, problem.operations.size(), "'to' of a dependence");
    const int64_t most = problem.is_loop ? kMostIterations : 0;
    require(edge.iterations >= 0 && edge.iterations <= most,
            "found a dependence over {} iterations, allowed: 0{}", edge.iterations,
            problem.is_loop ? fmt::format(" to {}", most) : " outside loops");
    require(edge.iterations > 0 || edge.from < edge.to,
            "found a dependence {} -> {} inside an iteration, allowed: from earlier to later operations",
            edge.from, edge.to);
    steps(edge.distance, edge.iterations > 0 ? -kMostSteps : 0, "distance of a dependence");
  }
  for (const auto& separation : problem.separations) {
    in_range(separation.first, problem.classes.size(), "'first' of a separation");
    in_range(separation.second, problem.classes.size(), "'second' of a separation");
    steps(separation.steps, 0, "steps of a separation");
  }
  return fault;
}

void check_problem(const ScheduleProblem& problem) {
  const std::string fault = problem_fault(problem);
  isa::check_internal(fault.empty(), kProblemPart, "'{}': {}", problem.name, fault);
}

std::string schedule_fault(const ScheduleProblem& problem, const Schedule& schedule) {
  const size_t n = problem.operations.size();
  if (schedule.issue.size() != n)
    return fmt::format("{} issue steps for {} operations", schedule.issue.size(), n);
  if (problem.is_loop && schedule.interval < 1) return fmt::format("interval {}", schedule.interval);
  const auto label = [&](size_t k) {
    return fmt::format("operation {} ('{}') in step {}", k, problem.operations[k].text, schedule.issue[k]);
  };
  for (size_t k = 0; k < n; ++k) {
    if (schedule.issue[k] < problem.operations[k].earliest)
      return fmt::format("{} is before its earliest step {}", label(k), problem.operations[k].earliest);
  }
  for (const Dependence& edge : problem.dependences) {
    const auto from = static_cast<size_t>(edge.from);
    const auto to = static_cast<size_t>(edge.to);
    if (schedule.issue[to] + edge.iterations * schedule.interval < schedule.issue[from] + edge.distance)
      return fmt::format("dependence: {} must be {} steps after {}{}", label(to), edge.distance, label(from),
                         edge.iterations > 0 ? fmt::format(", {} iterations later", edge.iterations) : "");
  }
  // What shares a step, by resource: in a loop of all iterations.
  const int64_t period = problem.is_loop ? schedule.interval : 0;
  const auto slot = [&](size_t k) {
    const int64_t t = schedule.issue[k];
    return period > 0 ? (t % period + period) % period : t;
  };
  std::map<std::pair<int64_t, int>, std::vector<size_t>> users;
  for (size_t k = 0; k < n; ++k) {
    for (const auto& use : problem.operations[k].uses) users[{slot(k), use.resource}].push_back(k);
  }
  for (auto& [at, operations] : users) {
    const int resource = at.second;
    std::ranges::sort(operations);
    operations.erase(std::unique(operations.begin(), operations.end()), operations.end());
    std::set<std::tuple<int64_t, int64_t>> keys;  // key, and the iteration it belongs to
    int64_t places = 0;
    for (const size_t k : operations) {
      for (const auto& use : problem.operations[k].uses) {
        if (use.resource != resource) continue;
        const int64_t stage = period > 0 && !use.invariant ? schedule.issue[k] - slot(k) : 0;
        if (use.key < 0) {
          ++places;
        } else {
          keys.emplace(use.key, stage);
        }
      }
    }
    places += static_cast<int64_t>(keys.size());
    if (places <= problem.resources[static_cast<size_t>(resource)].capacity) continue;
    std::vector<std::string> labels;
    for (const size_t k : operations) labels.push_back(label(k));
    return fmt::format("resource '{}' has room for {}, wanted by {}: {}",
                       problem.resources[static_cast<size_t>(resource)].name,
                       problem.resources[static_cast<size_t>(resource)].capacity, places,
                       fmt::join(labels, ", "));
  }
  // Operations of each class by step; in a loop by that of an iteration.
  std::vector<std::multimap<int64_t, size_t>> of_class(problem.classes.size());
  for (size_t k = 0; k < n; ++k) {
    for (const int c : problem.operations[k].classes) of_class[static_cast<size_t>(c)].emplace(slot(k), k);
  }
  for (const auto& separation : problem.separations) {
    const auto& seconds = of_class[static_cast<size_t>(separation.second)];
    // One of them in 1 to `steps` steps behind a step.
    const auto behind = [&](int64_t at) -> std::optional<size_t> {
      if (seconds.empty()) return std::nullopt;
      if (period > 0 && separation.steps >= period) return seconds.begin()->second;
      const auto found = seconds.upper_bound(at);
      if (found != seconds.end() && found->first - at <= separation.steps) return found->second;
      if (period > 0 && seconds.begin()->first + period - at <= separation.steps)
        return seconds.begin()->second;
      return std::nullopt;
    };
    for (const auto& [at, a] : of_class[static_cast<size_t>(separation.first)]) {
      if (const auto b = behind(at)) {
        return fmt::format("separation of '{}' and '{}' by {} steps: {} comes after {}",
                           problem.classes[static_cast<size_t>(separation.first)],
                           problem.classes[static_cast<size_t>(separation.second)], separation.steps,
                           label(*b), label(a));
      }
    }
  }
  return {};
}

}  // namespace kodama::scheduler
