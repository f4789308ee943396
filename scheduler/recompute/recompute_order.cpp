#include <algorithm>
#include <functional>
#include <limits>
#include <set>

#include "scheduler/recompute/recompute_builtin.h"

/// Orders in which every operation is done once.
namespace kodama::scheduler {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// What is alive while operations are done one after the other, each once.
class OrderState {
 public:
  OrderState(const RecomputeProblem& problem, const RecomputeUses& uses) : problem_(problem), uses_(uses) {
    for (const auto& readers : uses.readers) readers_left_.push_back(readers.size());
    for (const auto& operation : problem.operations) missing_.push_back(operation.reads.size());
  }
  bool is_ready(int operation) const { return missing_[static_cast<size_t>(operation)] == 0; }

  /// By how much more is alive behind the operation than before it.
  int64_t change(int operation) const {
    const auto& each = problem_.operations[static_cast<size_t>(operation)];
    int64_t bytes = 0;
    for (const int value : each.makes) {
      const auto& made = problem_.values[static_cast<size_t>(value)];
      if (made.is_kept || !uses_.readers[static_cast<size_t>(value)].empty()) bytes += made.bytes;
    }
    for (const int value : each.reads) {
      const auto& read = problem_.values[static_cast<size_t>(value)];
      if (!read.is_kept && readers_left_[static_cast<size_t>(value)] == 1) bytes -= read.bytes;
    }
    return bytes;
  }
  /// What is alive in the operation.
  int64_t during(int operation) const {
    const auto& each = problem_.operations[static_cast<size_t>(operation)];
    int64_t bytes = alive_ + each.workspace;
    for (const int value : each.makes) bytes += problem_.values[static_cast<size_t>(value)].bytes;
    return bytes;
  }
  /// Calls ready(operation) for those that can be done then.
  template <typename Ready>
  void run(int operation, const Ready& ready) {
    peak_ = std::max(peak_, during(operation));
    alive_ += change(operation);
    const auto& each = problem_.operations[static_cast<size_t>(operation)];
    for (const int value : each.reads) --readers_left_[static_cast<size_t>(value)];
    for (const int value : each.makes) {
      for (const int reader : uses_.readers[static_cast<size_t>(value)]) {
        if (--missing_[static_cast<size_t>(reader)] == 0) ready(reader);
      }
    }
  }
  int64_t peak() const { return peak_; }

 private:
  const RecomputeProblem& problem_;
  const RecomputeUses& uses_;
  std::vector<size_t> readers_left_;  ///< by value
  std::vector<size_t> missing_;       ///< by operation
  int64_t alive_ = 0;
  int64_t peak_ = 0;
};

/// In the given order, but that what leaves no more alive than there was comes as soon as it can, if it
/// doesn't raise the peak.
std::vector<int> eager_order(const RecomputeProblem& problem, const RecomputeUses& uses,
                             const std::vector<int>& order) {
  std::vector<int> place(order.size());
  for (size_t k = 0; k < order.size(); ++k) place[static_cast<size_t>(order[k])] = static_cast<int>(k);
  OrderState state(problem, uses);
  std::set<int> ready;  // places
  for (size_t k = 0; k < order.size(); ++k) {
    if (state.is_ready(order[k])) ready.insert(static_cast<int>(k));
  }
  std::vector<int> result;
  while (!ready.empty()) {
    const auto shrinks = [&](int at) {
      const int operation = order[static_cast<size_t>(at)];
      return state.change(operation) <= 0 && state.during(operation) <= state.peak();
    };
    auto next = std::ranges::find_if(ready, shrinks);
    if (next == ready.end()) next = ready.begin();
    const int operation = order[static_cast<size_t>(*next)];
    ready.erase(next);
    result.push_back(operation);
    state.run(operation, [&](int reader) { ready.insert(place[static_cast<size_t>(reader)]); });
  }
  return result;
}

/// Operations that make what is kept, in their order, each behind what it needs and nothing else.
std::vector<int> lazy_order(const RecomputeProblem& problem, const RecomputeUses& uses) {
  std::vector<bool> is_done(problem.operations.size(), false);
  std::vector<int> result;
  std::vector<std::pair<int, size_t>> stack;  // operation, operands looked at
  const auto visit = [&](int root) {
    if (!is_done[static_cast<size_t>(root)]) stack.emplace_back(root, 0);
    while (!stack.empty()) {
      const int operation = stack.back().first;
      const auto& reads = problem.operations[static_cast<size_t>(operation)].reads;
      if (stack.back().second < reads.size()) {
        const int maker = uses.maker[static_cast<size_t>(reads[stack.back().second++])];
        if (!is_done[static_cast<size_t>(maker)]) stack.emplace_back(maker, 0);
        continue;
      }
      stack.pop_back();
      if (!is_done[static_cast<size_t>(operation)]) result.push_back(operation);
      is_done[static_cast<size_t>(operation)] = true;
    }
  };
  for (size_t k = 0; k < problem.operations.size(); ++k) {
    const auto is_end = [&](int value) {
      return problem.values[static_cast<size_t>(value)].is_kept ||
             uses.readers[static_cast<size_t>(value)].empty();
    };
    if (std::ranges::any_of(problem.operations[k].makes, is_end)) visit(static_cast<int>(k));
  }
  for (size_t k = 0; k < problem.operations.size(); ++k) visit(static_cast<int>(k));
  return result;
}

/// Least peak over all orders, by the sets of operations that are done.
FoundOrder exact_order(const RecomputeProblem& problem, const RecomputeUses& uses) {
  const size_t count = problem.operations.size();
  const size_t sets = size_t{1} << count;
  std::vector<size_t> needs(count, 0);
  for (size_t k = 0; k < count; ++k) {
    for (const int value : problem.operations[k].reads)
      needs[k] |= size_t{1} << uses.maker[static_cast<size_t>(value)];
  }
  std::vector<size_t> readers(problem.values.size(), 0);
  for (size_t value = 0; value < readers.size(); ++value) {
    for (const int reader : uses.readers[value]) readers[value] |= size_t{1} << reader;
  }
  std::vector<int64_t> peak(sets, kNever);
  std::vector<int8_t> last(sets, -1);
  FoundOrder found;
  found.is_least = true;
  peak[0] = 0;
  for (size_t done = 0; done + 1 < sets; ++done) {
    if (peak[done] == kNever) continue;
    ++found.nodes;
    int64_t alive = 0;
    for (size_t value = 0; value < readers.size(); ++value) {
      const bool is_made = (done >> uses.maker[value] & 1) != 0;
      if (is_made && (problem.values[value].is_kept || (readers[value] & ~done) != 0))
        alive += problem.values[value].bytes;
    }
    for (size_t k = 0; k < count; ++k) {
      if ((done >> k & 1) != 0 || (needs[k] & ~done) != 0) continue;
      int64_t bytes = alive + problem.operations[k].workspace;
      for (const int value : problem.operations[k].makes)
        bytes += problem.values[static_cast<size_t>(value)].bytes;
      const size_t next = done | size_t{1} << k;
      const int64_t most = std::max(peak[done], bytes);
      if (most >= peak[next]) continue;
      peak[next] = most;
      last[next] = static_cast<int8_t>(k);
    }
  }
  for (size_t done = sets - 1; done != 0; done &= ~(size_t{1} << last[done]))
    found.order.push_back(last[done]);
  std::ranges::reverse(found.order);
  return found;
}

}  // namespace

FoundOrder lowest_order(const RecomputeProblem& problem) {
  const RecomputeUses uses(problem);
  const std::vector<int> given = given_order(problem);
  FoundOrder found;
  int64_t peak = kNever;
  const auto offer = [&](std::vector<int> order) {
    const int64_t own = cost_of(problem, order).peak;
    ++found.nodes;
    if (own >= peak) return;
    peak = own;
    found.order = std::move(order);
  };
  offer(given);
  offer(eager_order(problem, uses, given));
  const std::vector<int> lazy = lazy_order(problem, uses);
  offer(lazy);
  offer(eager_order(problem, uses, lazy));
  found.is_least = peak <= recompute_bound(problem).peak;
  if (found.is_least || problem.operations.size() > kExactOrder) return found;
  return exact_order(problem, uses);
}

Recomputer none_recomputer() {
  return {.name = "none",
          .description = "every operation once, in the order that is given",
          .options = {},
          .run = [](const RecomputeProblem& problem, const passes::PassOptions&) {
            RecomputeSchedule schedule =
                finish_recompute(problem, given_order(problem), "the order that is given");
            schedule.is_least = schedule.status == RecomputeStatus::kSolved;
            return schedule;
          }};
}

Recomputer order_recomputer() {
  return {.name = "order",
          .description = "every operation once, such that little is alive (exact up to 18 operations)",
          .options = {},
          .run = [](const RecomputeProblem& problem, const passes::PassOptions&) {
            const FoundOrder found = lowest_order(problem);
            RecomputeSchedule schedule = finish_recompute(
                problem, found.order, found.is_least ? "the order with the least peak" : "an order by lists");
            schedule.nodes = found.nodes;
            schedule.is_least = schedule.status == RecomputeStatus::kSolved;
            return schedule;
          }};
}

}  // namespace kodama::scheduler
