#include <algorithm>
#include <bit>
#include <limits>
#include <queue>
#include <unordered_map>

#include "scheduler/recompute/recompute_builtin.h"

/// Least cycles by search (A*). A state is what is alive, and which operations are done of those that must be
/// remembered: those that can't be repeated, and those whose values nobody reads. From a state every
/// operation leads on whose operands are alive and that makes something new; where it has no room, every
/// least set of values that can go for it. What must be done in any case to get the kept values is what the
/// rest costs at least.
namespace kodama::scheduler {
namespace {

using Mask = uint64_t;
constexpr size_t kMostBits = 64;
constexpr size_t kMostStates = 2'000'000;

struct SearchState {
  Mask alive = 0;
  Mask done = 0;
  bool operator==(const SearchState&) const = default;
};
struct SearchStateHash {
  size_t operator()(const SearchState& state) const {
    constexpr Mask kMix = 0x9e3779b97f4a7c15;
    Mask hash = state.alive * kMix;
    hash ^= hash >> 29;
    hash = (hash + state.done) * kMix;
    return static_cast<size_t>(hash ^ hash >> 32);
  }
};

class RecomputeSearch {
 public:
  RecomputeSearch(const RecomputeProblem& problem, int64_t most_nodes)
      : problem_(problem), uses_(problem), most_nodes_(most_nodes) {
    for (size_t k = 0; k < problem.operations.size(); ++k) {
      const auto& operation = problem.operations[k];
      Mask reads = 0;
      Mask makes = 0;
      bool is_wanted = false;
      for (const int value : operation.reads) reads |= Mask{1} << value;
      for (const int value : operation.makes) {
        makes |= Mask{1} << value;
        const auto& made = problem.values[static_cast<size_t>(value)];
        is_wanted = is_wanted || made.is_kept || !uses_.readers[static_cast<size_t>(value)].empty();
        if (made.is_kept) kept_ |= Mask{1} << value;
      }
      reads_.push_back(reads);
      makes_.push_back(makes);
      if (operation.once || !is_wanted) remembered_ |= Mask{1} << k;
    }
  }

  std::optional<RecomputeSchedule> run() {
    offer({}, 0, 0, {}, -1);
    while (!open_.empty()) {
      const Open next = open_.top();
      open_.pop();
      const Node& node = nodes_.at(next.state);
      if (next.cycles != node.cycles) continue;
      if (is_end(next.state)) return finish(next.state);
      if (++expanded_ > most_nodes_ || nodes_.size() > kMostStates) return std::nullopt;
      expand(next.state, next.cycles);
    }
    RecomputeSchedule schedule;
    schedule.status = RecomputeStatus::kInfeasible;
    schedule.nodes = expanded_;
    return schedule;
  }

 private:
  struct Node {
    int64_t cycles = std::numeric_limits<int64_t>::max();
    SearchState before = {};
    int operation = -1;
  };
  struct Open {
    int64_t estimate = 0;
    int64_t cycles = 0;
    SearchState state;
    bool operator<(const Open& other) const { return estimate > other.estimate; }
  };

  bool is_end(const SearchState& state) const {
    return (kept_ & ~state.alive) == 0 && (remembered_ & ~state.done) == 0;
  }
  int64_t bytes(Mask values) const {
    int64_t sum = 0;
    for (; values != 0; values &= values - 1)
      sum += problem_.values[static_cast<size_t>(std::countr_zero(values))].bytes;
    return sum;
  }

  /// What is to be done in any case.
  int64_t rest(const SearchState& state) const {
    Mask operations = remembered_ & ~state.done;
    for (Mask missing = kept_ & ~state.alive; missing != 0; missing &= missing - 1)
      operations |= Mask{1} << uses_.maker[static_cast<size_t>(std::countr_zero(missing))];
    // Makers come earlier.
    int64_t cycles = 0;
    for (size_t k = problem_.operations.size(); k-- > 0;) {
      if ((operations >> k & 1) == 0) continue;
      cycles += problem_.operations[k].cycles;
      for (Mask missing = reads_[k] & ~state.alive; missing != 0; missing &= missing - 1)
        operations |= Mask{1} << uses_.maker[static_cast<size_t>(std::countr_zero(missing))];
    }
    return cycles;
  }

  void offer(const SearchState& state, int64_t cycles, int64_t rest_cycles, const SearchState& before,
             int operation) {
    Node& node = nodes_[state];
    if (cycles >= node.cycles) return;
    node = {cycles, before, operation};
    open_.push({cycles + rest_cycles, cycles, state});
  }

  void expand(const SearchState& state, int64_t cycles) {
    for (size_t k = 0; k < problem_.operations.size(); ++k) {
      const Mask bit = Mask{1} << k;
      const bool is_new = (makes_[k] & ~state.alive) != 0 || (remembered_ & ~state.done & bit) != 0;
      if (!is_new || (reads_[k] & ~state.alive) != 0) continue;
      if (problem_.operations[k].once && (state.done & bit) != 0) continue;
      const Mask after = state.alive | makes_[k];
      const int64_t more = bytes(after) + problem_.operations[k].workspace - problem_.limit;
      for (const Mask gone : sets_to_drop(state.alive & ~reads_[k] & ~makes_[k] & ~kept_, more)) {
        const SearchState next = {after & ~gone, state.done | (remembered_ & bit)};
        offer(next, cycles + problem_.operations[k].cycles, rest(next), state, static_cast<int>(k));
      }
    }
  }

  /// Sets of values that have so many bytes, and would not without any one of them.
  std::vector<Mask> sets_to_drop(Mask from, int64_t wanted) const {
    if (wanted <= 0) return {0};
    std::vector<int> values;
    for (; from != 0; from &= from - 1) values.push_back(std::countr_zero(from));
    std::erase_if(values, [&](int value) { return problem_.values[static_cast<size_t>(value)].bytes == 0; });
    std::ranges::sort(values, std::greater<>(),
                      [&](int value) { return problem_.values[static_cast<size_t>(value)].bytes; });
    std::vector<Mask> sets;
    add_sets(values, 0, 0, wanted, sets);
    return sets;
  }
  /// Largest first, so that a set is least when its last value was needed.
  void add_sets(const std::vector<int>& values, size_t next, Mask chosen, int64_t wanted,
                std::vector<Mask>& sets) const {
    for (size_t k = next; k < values.size(); ++k) {
      const Mask with = chosen | Mask{1} << values[k];
      const int64_t left = wanted - problem_.values[static_cast<size_t>(values[k])].bytes;
      if (left <= 0) {
        sets.push_back(with);
      } else {
        add_sets(values, k + 1, with, left, sets);
      }
    }
  }

  RecomputeSchedule finish(SearchState state) const {
    std::vector<int> steps;
    for (;;) {
      const Node& node = nodes_.at(state);
      if (node.operation < 0) break;
      steps.push_back(node.operation);
      state = node.before;
    }
    std::ranges::reverse(steps);
    RecomputeSchedule schedule = finish_recompute(problem_, std::move(steps), "search");
    schedule.is_least = true;
    schedule.nodes = expanded_;
    return schedule;
  }

  const RecomputeProblem& problem_;
  const RecomputeUses uses_;
  int64_t most_nodes_;
  int64_t expanded_ = 0;
  std::vector<Mask> reads_, makes_;  ///< values, by operation
  Mask kept_ = 0;                    ///< values
  Mask remembered_ = 0;              ///< operations
  std::unordered_map<SearchState, Node, SearchStateHash> nodes_;
  std::priority_queue<Open> open_;
};

}  // namespace

std::optional<RecomputeSchedule> search_recompute(const RecomputeProblem& problem, int64_t most_nodes) {
  if (problem.values.size() > kMostBits || problem.operations.size() > kMostBits) return std::nullopt;
  return RecomputeSearch(problem, most_nodes).run();
}

}  // namespace kodama::scheduler
