#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "scheduler/schedule_problem.h"

/// What the schedulers (not the checkers) share: which steps are taken. Internal to scheduler/.
namespace kodama::scheduler {

/// Times modulo a period; without one, times as they are. Memory and time go with the operations that are
/// there, not with the steps between them.
class Reservation {
 public:
  /// `period` 0: a block.
  explicit Reservation(const ScheduleProblem& problem, int64_t period = 0)
      : problem_(problem), period_(period), after_(problem.classes.size()), before_(problem.classes.size()) {
    for (const auto& each : problem.separations) {
      before_[static_cast<size_t>(each.second)].push_back({each.first, each.steps});
      after_[static_cast<size_t>(each.first)].push_back({each.second, each.steps});
    }
    of_class_.resize(problem.classes.size());
  }

  /// Whether the operation may issue at `time` beside those that are there.
  bool fits(int operation, int64_t time) const {
    return resources_fit(operation, time) && wait_for_separations(operation, time) == 0;
  }
  /// The first time in [time, end) at which it may.
  std::optional<int64_t> first_fit(int operation, int64_t time, int64_t end) const {
    while (time < end) {
      const int64_t wait = wait_for_separations(operation, time);
      if (wait == 0 && resources_fit(operation, time)) return time;
      if (wait >= end - time) return std::nullopt;
      time += std::max<int64_t>(wait, 1);
    }
    return std::nullopt;
  }
  /// Those that would have to go.
  std::vector<int> in_the_way(int operation, int64_t time) const {
    std::vector<int> result;
    const auto add = [&](int other) {
      if (std::ranges::find(result, other) == result.end()) result.push_back(other);
    };
    for (size_t use = 0; use < of(operation).uses.size(); ++use) {
      std::vector<int> users;
      if (room_for(operation, use, time, &users)) continue;
      for (const int other : users) add(other);
    }
    for_each_separated(operation, time, [&](int other, int64_t) { add(other); });
    return result;
  }
  void add(int operation, int64_t time) {
    const int64_t slot = slot_of(time);
    if (slot >= kDenseSlots) {
      far_[slot].push_back({operation, time});
    } else {
      if (std::ssize(near_) <= slot) near_.resize(static_cast<size_t>(slot) + 1);
      near_[static_cast<size_t>(slot)].push_back({operation, time});
    }
    for (const int c : of(operation).classes) {
      if (is_separated(c)) of_class_[static_cast<size_t>(c)].emplace(slot, operation);
    }
  }
  void remove(int operation, int64_t time) {
    const int64_t at = slot_of(time);
    auto& slot = at >= kDenseSlots ? far_[at] : near_[static_cast<size_t>(at)];
    const auto found = std::ranges::find(slot, operation, &Entry::operation);
    *found = slot.back();
    slot.pop_back();
    for (const int c : of(operation).classes) of_class_[static_cast<size_t>(c)].erase({at, operation});
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
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  /// Slots behind these are few.
  static constexpr int64_t kDenseSlots = 1 << 14;

  const ScheduleProblem::Operation& of(int operation) const {
    return problem_.operations[static_cast<size_t>(operation)];
  }
  bool is_separated(int c) const {
    return !after_[static_cast<size_t>(c)].empty() || !before_[static_cast<size_t>(c)].empty();
  }
  int64_t slot_of(int64_t time) const { return period_ > 0 ? (time % period_ + period_) % period_ : time; }
  const std::vector<Entry>& entries_at(int64_t time) const {
    static const std::vector<Entry> kNobody;
    const int64_t slot = slot_of(time);
    if (slot < std::ssize(near_)) return near_[static_cast<size_t>(slot)];
    if (slot < kDenseSlots || far_.empty()) return kNobody;
    const auto found = far_.find(slot);
    return found == far_.end() ? kNobody : found->second;
  }

  /// Whether a use has room beside those that are there and the operation's own before it. `users`, if not
  /// null, receives who is in the way.
  bool room_for(int operation, size_t number, int64_t time, std::vector<int>* users) const {
    const std::vector<ScheduleProblem::Use>& own = of(operation).uses;
    const ScheduleProblem::Use& use = own[number];
    const int64_t capacity = problem_.resources[static_cast<size_t>(use.resource)].capacity;
    // Few share a step: comparing them pair by pair is faster than any table.
    int64_t taken = 0;
    for (size_t k = 0; k < number; ++k) {
      if (own[k].resource != use.resource) continue;
      if (use.key >= 0 && own[k].key == use.key && own[k].invariant == use.invariant) return true;
      ++taken;
    }
    const std::vector<Entry>& entries = entries_at(time);
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
    for (size_t use = 0; use < of(operation).uses.size(); ++use) {
      if (!room_for(operation, use, time, nullptr)) return false;
    }
    return true;
  }

  /// Calls visit(operation, slot) for those of a class 1 to `steps` steps behind a slot (of a loop: of all
  /// iterations).
  template <typename Visit>
  void for_each_behind(int c, int64_t slot, int64_t steps, Visit&& visit) const {
    const std::set<std::pair<int64_t, int>>& known = of_class_[static_cast<size_t>(c)];
    const auto range = [&](int64_t first, int64_t last) {
      for (auto it = known.lower_bound({first, 0}); it != known.end() && it->first <= last; ++it)
        visit(it->second, it->first);
    };
    if (period_ == 0) return range(slot + 1, slot + steps);
    if (steps >= period_) return range(0, period_ - 1);
    range(slot + 1, std::min(slot + steps, period_ - 1));
    range(0, slot + steps - period_);
  }
  /// Calls visit(operation, wait) for those that keep an operation away: `wait` steps later it would have
  /// passed this one.
  template <typename Visit>
  void for_each_separated(int operation, int64_t time, Visit&& visit) const {
    const int64_t slot = slot_of(time);
    const auto distance = [&](int64_t from, int64_t to) {  // 1 to the period, or to any number in a block
      return to > from || period_ == 0 ? to - from : to - from + period_;
    };
    for (const int c : of(operation).classes) {
      for (const Neighbour& each : before_[static_cast<size_t>(c)]) {
        const bool never = period_ > 0 && each.steps >= period_;
        // From `steps` before the slot to one before it.
        const int64_t from = slot_of_difference(slot, each.steps);
        for_each_behind(each.other_class, from - 1, each.steps, [&](int other, int64_t at) {
          visit(other, never ? kNever : each.steps - distance(at, slot) + 1);
        });
      }
      for (const Neighbour& each : after_[static_cast<size_t>(c)]) {
        const bool never = period_ > 0 && each.steps >= period_;
        for_each_behind(each.other_class, slot, each.steps,
                        [&](int other, int64_t at) { visit(other, never ? kNever : distance(slot, at)); });
      }
    }
  }
  int64_t slot_of_difference(int64_t slot, int64_t steps) const {
    return period_ > 0 ? slot_of(slot - steps) : slot - steps;
  }
  /// Steps after which separations may let the operation in: 0 = they do now, kNever = in no step.
  int64_t wait_for_separations(int operation, int64_t time) const {
    const auto& classes = of(operation).classes;
    if (classes.empty()) return 0;
    if (period_ > 0) {
      // Its own next iteration.
      for (const int c : classes) {
        for (const Neighbour& each : after_[static_cast<size_t>(c)]) {
          if (each.steps >= period_ && std::ranges::find(classes, each.other_class) != classes.end())
            return kNever;
        }
      }
    }
    int64_t longest = 0;
    for_each_separated(operation, time, [&](int, int64_t wait) { longest = std::max(longest, wait); });
    return longest;
  }

  const ScheduleProblem& problem_;
  int64_t period_;
  std::vector<std::vector<Neighbour>> after_;                ///< by first class
  std::vector<std::vector<Neighbour>> before_;               ///< by second class
  std::vector<std::set<std::pair<int64_t, int>>> of_class_;  ///< slot and operation, of separated classes
  std::vector<std::vector<Entry>> near_;                     ///< by slot
  std::unordered_map<int64_t, std::vector<Entry>> far_;
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
