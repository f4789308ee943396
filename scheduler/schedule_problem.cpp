#include "scheduler/schedule_problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "isa/arithmetic.h"
#include "isa/error.h"

namespace kodama::scheduler {
namespace {

constexpr const char* kPart = "schedule problem";

using Dependence = ScheduleProblem::Dependence;
using Operation = ScheduleProblem::Operation;

/// Longest ways from the beginning to an operation, and from its issue to the end, in steps.
struct Ways {
  std::vector<int64_t> head;
  std::vector<int64_t> tail;  ///< its own step included
};
Ways longest_ways(const ScheduleProblem& problem) {
  const size_t n = problem.operations.size();
  Ways ways{std::vector<int64_t>(n, 0), std::vector<int64_t>(n, 0)};
  std::vector<std::vector<const Dependence*>> leaving(n);
  for (const Dependence& edge : problem.dependences) {
    if (edge.iterations == 0) leaving[static_cast<size_t>(edge.from)].push_back(&edge);
  }
  for (size_t k = 0; k < n; ++k) {
    ways.head[k] = std::max(ways.head[k], problem.operations[k].earliest);
    for (const Dependence* edge : leaving[k]) {
      int64_t& head = ways.head[static_cast<size_t>(edge->to)];
      head = std::max(head, ways.head[k] + edge->distance);
    }
  }
  for (size_t k = n; k-- > 0;) {
    ways.tail[k] = problem.operations[k].takes_step ? 1 : 0;
    for (const Dependence* edge : leaving[k])
      ways.tail[k] = std::max(ways.tail[k], edge->distance + ways.tail[static_cast<size_t>(edge->to)]);
  }
  return ways;
}

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

/// Whether some cycle of dependences needs more than its iterations give at this interval.
bool has_positive_cycle(const ScheduleProblem& problem, int64_t interval) {
  const size_t n = problem.operations.size();
  std::vector<int64_t> time(n, 0);
  for (size_t round = 0; round <= n; ++round) {
    bool changed = false;
    for (const Dependence& edge : problem.dependences) {
      const int64_t least = time[static_cast<size_t>(edge.from)] + edge.distance - interval * edge.iterations;
      if (time[static_cast<size_t>(edge.to)] >= least) continue;
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

}  // namespace

int64_t schedule_steps(const ScheduleProblem& problem, const Schedule& schedule) {
  int64_t steps = 0;
  for (size_t k = 0; k < problem.operations.size(); ++k)
    steps = std::max(steps, schedule.issue[k] + (problem.operations[k].takes_step ? 1 : 0));
  return steps;
}

BlockBound block_bound(const ScheduleProblem& problem) {
  const Ways ways = longest_ways(problem);
  BlockBound bound;
  for (size_t k = 0; k < problem.operations.size(); ++k)
    bound.critical_path = std::max(bound.critical_path, ways.head[k] + ways.tail[k]);
  for (size_t r = 0; r < problem.resources.size(); ++r) {
    // Of those that can't issue before `head`, and leave at least `tail` behind them, each takes its place.
    struct Span {
      int64_t head = 0;
      int64_t tail = 0;
    };
    std::vector<Span> spans;
    std::set<int64_t> heads;
    for (const UserGroup& group : user_groups(problem, static_cast<int>(r))) {
      Span span{INT64_MAX, INT64_MAX};
      for (const int k : group.operations) {
        span.head = std::min(span.head, ways.head[static_cast<size_t>(k)]);
        span.tail = std::min(span.tail, ways.tail[static_cast<size_t>(k)]);
      }
      spans.push_back(span);
      heads.insert(span.head);
    }
    std::ranges::sort(spans, std::ranges::greater(), &Span::tail);
    for (const int64_t head : heads) {
      int64_t count = 0;
      for (const Span& span : spans) {
        if (span.head < head) continue;
        ++count;
        const int64_t last = head + isa::ceil_div(count, problem.resources[r].capacity) - 1;
        bound.resources = std::max(bound.resources, last + span.tail);
      }
    }
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

void check_problem(const ScheduleProblem& problem) {
  const auto n = static_cast<int>(problem.operations.size());
  const auto in_range = [&](int value, size_t size, const char* what) {
    isa::check_internal(value >= 0 && value < static_cast<int>(size), kPart, "'{}': {} {} of {}",
                        problem.name, what, value, size);
  };
  for (const auto& resource : problem.resources)
    isa::check_internal(resource.capacity > 0, kPart, "'{}': resource '{}' has room for {}", problem.name,
                        resource.name, resource.capacity);
  for (const Operation& operation : problem.operations) {
    for (const auto& use : operation.uses) in_range(use.resource, problem.resources.size(), "resource");
    for (const int c : operation.classes) in_range(c, problem.classes.size(), "class");
    isa::check_internal(operation.takes_step || operation.uses.empty(), kPart,
                        "'{}': '{}' takes no step but uses resources", problem.name, operation.text);
  }
  for (const Dependence& edge : problem.dependences) {
    in_range(edge.from, problem.operations.size(), "operation");
    in_range(edge.to, problem.operations.size(), "operation");
    isa::check_internal(edge.iterations > 0 ? problem.is_loop : edge.iterations == 0 && edge.from < edge.to,
                        kPart, "'{}': dependence {} -> {} of {} operations over {} iterations", problem.name,
                        edge.from, edge.to, n, edge.iterations);
  }
  for (const auto& separation : problem.separations) {
    in_range(separation.first, problem.classes.size(), "class");
    in_range(separation.second, problem.classes.size(), "class");
  }
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
  for (const auto& separation : problem.separations) {
    for (size_t a = 0; a < n; ++a) {
      if (std::ranges::find(problem.operations[a].classes, separation.first) ==
          problem.operations[a].classes.end())
        continue;
      for (size_t b = 0; b < n; ++b) {
        if (std::ranges::find(problem.operations[b].classes, separation.second) ==
            problem.operations[b].classes.end())
          continue;
        int64_t distance = schedule.issue[b] - schedule.issue[a];
        if (period > 0) {
          distance = (distance % period + period) % period;
          if (distance == 0) distance = period;
        }
        if (distance < 1 || distance > separation.steps) continue;
        return fmt::format("separation of '{}' and '{}' by {} steps: {} comes after {}",
                           problem.classes[static_cast<size_t>(separation.first)],
                           problem.classes[static_cast<size_t>(separation.second)], separation.steps,
                           label(b), label(a));
      }
    }
  }
  return {};
}

}  // namespace kodama::scheduler
