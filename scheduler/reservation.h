#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "scheduler/schedule_problem.h"

/// What the schedulers (not the checkers) share: which steps are taken. Internal to scheduler/.
namespace kodama::scheduler {

/// Times modulo a period; without one, times as they are.
class Reservation {
 public:
  /// `period` 0: a block.
  explicit Reservation(const ScheduleProblem& problem, int64_t period = 0)
      : problem_(problem), period_(period), after_(problem.classes.size()), before_(problem.classes.size()) {
    for (const auto& each : problem.separations) {
      before_[static_cast<size_t>(each.second)].push_back({each.first, each.steps});
      after_[static_cast<size_t>(each.first)].push_back({each.second, each.steps});
    }
    if (period > 0) grow(period - 1);
  }

  /// Whether the operation may issue at `time` beside those that are there.
  bool fits(int operation, int64_t time) const {
    return resources_fit(operation, time) && separations_fit(operation, time);
  }
  /// Those that would have to go.
  std::vector<int> in_the_way(int operation, int64_t time) const {
    std::vector<int> result;
    const auto add = [&](int other) {
      if (std::ranges::find(result, other) == result.end()) result.push_back(other);
    };
    for (const ScheduleProblem::Use& use : of(operation).uses) {
      std::vector<int> users;
      if (room_for(use, time, &users)) continue;
      for (const int other : users) add(other);
    }
    for_each_separated(operation, time, [&](int other) {
      add(other);
      return true;
    });
    return result;
  }
  void add(int operation, int64_t time) {
    const size_t slot = slot_of(time);
    grow(static_cast<int64_t>(slot));
    slots_[slot].push_back({operation, time});
  }
  void remove(int operation, int64_t time) {
    auto& slot = slots_[slot_of(time)];
    const auto found = std::ranges::find(slot, operation, &Entry::operation);
    *found = slot.back();
    slot.pop_back();
  }

 private:
  struct Entry {
    int operation = 0;
    int64_t time = 0;
  };
  struct Neighbour {
    int other_class = 0;
    int64_t steps = 0;
  };

  const ScheduleProblem::Operation& of(int operation) const {
    return problem_.operations[static_cast<size_t>(operation)];
  }
  size_t slot_of(int64_t time) const {
    return static_cast<size_t>(period_ > 0 ? (time % period_ + period_) % period_ : time);
  }
  void grow(int64_t slot) {
    if (static_cast<int64_t>(slots_.size()) <= slot) slots_.resize(static_cast<size_t>(slot) + 1);
  }

  /// `users`, if not null, receives who is in the way.
  bool room_for(const ScheduleProblem::Use& use, int64_t time, std::vector<int>* users) const {
    const size_t slot = slot_of(time);
    if (slot >= slots_.size()) return true;
    const int64_t capacity = problem_.resources[static_cast<size_t>(use.resource)].capacity;
    // Few share a step: comparing them pair by pair is faster than any table.
    int64_t taken = 0;
    const std::vector<Entry>& entries = slots_[slot];
    for (size_t k = 0; k < entries.size(); ++k) {
      for (const ScheduleProblem::Use& there : of(entries[k].operation).uses) {
        if (there.resource != use.resource) continue;
        if (same_place(use, time, there, entries[k].time)) return true;
        bool counted = false;
        for (size_t earlier = 0; earlier < k && !counted && there.key >= 0; ++earlier) {
          for (const ScheduleProblem::Use& known : of(entries[earlier].operation).uses) {
            counted = counted || (known.resource == use.resource &&
                                  same_place(there, entries[k].time, known, entries[earlier].time));
          }
        }
        if (!counted) ++taken;
        if (users != nullptr) users->push_back(entries[k].operation);
      }
    }
    return taken < capacity;
  }
  bool same_place(const ScheduleProblem::Use& a, int64_t a_time, const ScheduleProblem::Use& b,
                  int64_t b_time) const {
    return a.key >= 0 && a.key == b.key && a.invariant == b.invariant && (a.invariant || a_time == b_time);
  }
  bool resources_fit(int operation, int64_t time) const {
    return std::ranges::all_of(of(operation).uses,
                               [&](const auto& use) { return room_for(use, time, nullptr); });
  }

  template <typename Visit>
  void for_each_separated(int operation, int64_t time, Visit&& visit) const {
    const auto look = [&](int64_t at, int wanted) {
      if (at < 0 && period_ == 0) return true;
      const size_t slot = slot_of(at);
      if (slot >= slots_.size()) return true;
      for (const Entry& entry : slots_[slot]) {
        const auto& classes = of(entry.operation).classes;
        if (std::ranges::find(classes, wanted) != classes.end() && !visit(entry.operation)) return false;
      }
      return true;
    };
    for (const int c : of(operation).classes) {
      for (const Neighbour& each : before_[static_cast<size_t>(c)]) {
        for (int64_t d = 1; d <= each.steps; ++d) {
          if (!look(time - d, each.other_class)) return;
        }
      }
      for (const Neighbour& each : after_[static_cast<size_t>(c)]) {
        for (int64_t d = 1; d <= each.steps; ++d) {
          if (!look(time + d, each.other_class)) return;
        }
      }
    }
  }
  bool separations_fit(int operation, int64_t time) const {
    const auto& classes = of(operation).classes;
    if (classes.empty()) return true;
    if (period_ > 0) {
      // Its own next iteration.
      for (const int c : classes) {
        for (const Neighbour& each : after_[static_cast<size_t>(c)]) {
          if (each.steps >= period_ && std::ranges::find(classes, each.other_class) != classes.end())
            return false;
        }
      }
    }
    bool free = true;
    for_each_separated(operation, time, [&](int) { return free = false; });
    return free;
  }

  const ScheduleProblem& problem_;
  int64_t period_;
  std::vector<std::vector<Neighbour>> after_;   ///< by first class
  std::vector<std::vector<Neighbour>> before_;  ///< by second class
  std::vector<std::vector<Entry>> slots_;
};

/// Dependences by operation.
struct Adjacency {
  std::vector<std::vector<const ScheduleProblem::Dependence*>> out;
  std::vector<std::vector<const ScheduleProblem::Dependence*>> in;
  explicit Adjacency(const ScheduleProblem& problem)
      : out(problem.operations.size()), in(problem.operations.size()) {
    for (const auto& edge : problem.dependences) {
      out[static_cast<size_t>(edge.from)].push_back(&edge);
      in[static_cast<size_t>(edge.to)].push_back(&edge);
    }
  }
};

}  // namespace kodama::scheduler
