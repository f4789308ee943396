#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "scheduler/problem/schedule_problem.h"

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
    needs_.reserve(problem.operations.size());
    for (const auto& operation : problem.operations) needs_.push_back(needs_of(operation));
  }

  /// Whether the operation may issue at `time` beside those that are there.
  bool fits(int operation, int64_t time) const {
    return resources_fit(operation, time) && wait_for_separations(operation, time) == 0;
  }
  /// The resources that an operation shares with nobody, as a mask; of two operations with the same, neither
  /// fits where one is_kept_out.
  uint64_t alone(int operation) const { return needs_[static_cast<size_t>(operation)].alone; }
  /// Whether one of these resources has no place left.
  bool is_kept_out(uint64_t alone, int64_t time) const { return (alone & slot_at(time).full) != 0; }
  /// The first time in [time, end) at which it may.
  std::optional<int64_t> first_fit(int operation, int64_t time, int64_t end) const {
    while (time < end) {
      if (!resources_fit(operation, time)) {
        ++time;
        continue;
      }
      const int64_t wait = wait_for_separations(operation, time);
      if (wait == 0) return time;
      if (wait >= end - time) return std::nullopt;
      time += wait;
    }
    return std::nullopt;
  }
  /// Those that would have to go.
  std::vector<int> in_the_way(int operation, int64_t time) const {
    std::vector<int> result;
    const auto add = [&](int other) {
      if (std::ranges::find(result, other) == result.end()) result.push_back(other);
    };
    const std::vector<ScheduleProblem::Use>& own = of(operation).uses;
    for (size_t use = 0; use < own.size(); ++use) {
      if (room_for(operation, use, time)) continue;
      for (const Entry& entry : slot_at(time).entries) {
        if (uses(entry.operation, own[use].resource)) add(entry.operation);
      }
    }
    for_each_separated(operation, time, [&](int other, int64_t) { add(other); });
    return result;
  }
  void add(int operation, int64_t time) {
    const int64_t number = slot_of(time);
    if (number < kDenseSlots && std::ssize(near_) <= number) near_.resize(static_cast<size_t>(number) + 1);
    Slot& slot = number >= kDenseSlots ? far_[number] : near_[static_cast<size_t>(number)];
    slot.entries.push_back({operation, time});
    count(slot, operation);
    for (const int c : of(operation).classes) {
      if (is_separated(c)) of_class_[static_cast<size_t>(c)].emplace(number, operation);
    }
  }
  void remove(int operation, int64_t time) {
    const int64_t at = slot_of(time);
    Slot& slot = at >= kDenseSlots ? far_[at] : near_[static_cast<size_t>(at)];
    const auto found = std::ranges::find(slot.entries, operation, &Entry::operation);
    *found = slot.entries.back();
    slot.entries.pop_back();
    count(slot, operation);
    for (const int c : of(operation).classes) of_class_[static_cast<size_t>(c)].erase({at, operation});
  }

 private:
  struct Entry {
    int operation = 0;
    int64_t time = 0;
  };
  struct Slot {
    std::vector<Entry> entries;
    std::vector<int64_t> taken;  ///< by resource: places of its users, which may share one; empty: none
    uint64_t full = 0;           ///< resources, as a mask, without a place left
  };
  /// Resources as a mask, the first 64: what most steps are refused or granted by.
  struct Needs {
    uint64_t alone = 0;  ///< those of uses that share with nobody
    uint64_t all = 0;
    bool is_known = true;  ///< the mask has all of them, each once
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
  static uint64_t bit_of(int resource) { return resource < 64 ? uint64_t{1} << resource : 0; }
  static Needs needs_of(const ScheduleProblem::Operation& operation) {
    Needs needs;
    for (const ScheduleProblem::Use& use : operation.uses) {
      const uint64_t bit = bit_of(use.resource);
      if (bit == 0 || (needs.all & bit) != 0) needs.is_known = false;
      needs.all |= bit;
      if (use.key < 0) needs.alone |= bit;
    }
    return needs;
  }
  const Slot& slot_at(int64_t time) const {
    static const Slot kNobody;
    const int64_t slot = slot_of(time);
    if (slot < std::ssize(near_)) return near_[static_cast<size_t>(slot)];
    if (slot < kDenseSlots || far_.empty()) return kNobody;
    const auto found = far_.find(slot);
    return found == far_.end() ? kNobody : found->second;
  }
  bool uses(int operation, int resource) const {
    return std::ranges::find(of(operation).uses, resource, &ScheduleProblem::Use::resource) !=
           of(operation).uses.end();
  }

  /// Counts the places of what an operation uses again: it came or went. Few share a step, so comparing them
  /// pair by pair is faster than any table.
  void count(Slot& slot, int operation) const {
    slot.taken.resize(problem_.resources.size(), 0);
    for (const ScheduleProblem::Use& changed : of(operation).uses) {
      int64_t taken = 0;
      for (size_t k = 0; k < slot.entries.size(); ++k) {
        for (const ScheduleProblem::Use& use : of(slot.entries[k].operation).uses) {
          if (use.resource == changed.resource && !shares(slot, k, use)) ++taken;
        }
      }
      const auto resource = static_cast<size_t>(changed.resource);
      slot.taken[resource] = taken;
      slot.full &= ~bit_of(changed.resource);
      if (taken >= problem_.resources[resource].capacity) slot.full |= bit_of(changed.resource);
    }
  }
  /// Whether one of the first `before` users has the place of a use of the next.
  bool shares(const Slot& slot, size_t before, const ScheduleProblem::Use& use) const {
    if (use.key < 0) return false;
    const int64_t time = slot.entries[before].time;
    for (size_t k = 0; k < before; ++k) {
      for (const ScheduleProblem::Use& there : of(slot.entries[k].operation).uses) {
        if (there.resource == use.resource && same_place(use, time, there, slot.entries[k].time)) return true;
      }
    }
    return false;
  }

  /// Whether a use has room beside those that are there and the operation's own before it.
  bool room_for(int operation, size_t number, int64_t time) const {
    const std::vector<ScheduleProblem::Use>& own = of(operation).uses;
    const ScheduleProblem::Use& use = own[number];
    const auto resource = static_cast<size_t>(use.resource);
    const Slot& slot = slot_at(time);
    int64_t taken = slot.taken.empty() ? 0 : slot.taken[resource];
    for (size_t k = 0; k < number; ++k) {
      if (own[k].resource != use.resource) continue;
      if (use.key >= 0 && own[k].key == use.key && own[k].invariant == use.invariant) return true;
      ++taken;
    }
    if (taken < problem_.resources[resource].capacity) return true;
    if (use.key < 0) return false;
    return std::ranges::any_of(slot.entries, [&](const Entry& entry) {
      return std::ranges::any_of(of(entry.operation).uses, [&](const ScheduleProblem::Use& there) {
        return there.resource == use.resource && same_place(use, time, there, entry.time);
      });
    });
  }
  bool same_place(const ScheduleProblem::Use& a, int64_t a_time, const ScheduleProblem::Use& b,
                  int64_t b_time) const {
    return a.key >= 0 && a.key == b.key && a.invariant == b.invariant && (a.invariant || a_time == b_time);
  }
  bool resources_fit(int operation, int64_t time) const {
    const Needs& needs = needs_[static_cast<size_t>(operation)];
    const uint64_t full = slot_at(time).full;
    if ((needs.alone & full) != 0) return false;
    if (needs.is_known && (needs.all & full) == 0) return true;
    for (size_t use = 0; use < of(operation).uses.size(); ++use) {
      if (!room_for(operation, use, time)) return false;
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
  std::vector<Slot> near_;                                   ///< by slot
  std::vector<Needs> needs_;                                 ///< by operation
  std::unordered_map<int64_t, Slot> far_;
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
