#include "layout/plan/beam.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "isa/error.h"

namespace kodama::layout {
namespace {

/// Sweeps in which nodes choose anew.
constexpr int kMostSweeps = 10;
/// What is forbidden costs this much here: a plan with one such conversion is better than one with two.
constexpr double kMuch = 1e15;

class Beam {
 public:
  Beam(const PlanProblem& problem, const ConversionCost& cost, const BeamOptions& options)
      : problem_(problem),
        cost_(cost),
        width_(at(options.width)),
        uses_(problem.nodes.size()),
        slots_(problem.tensors.size(), -1) {
    for (size_t t = 0; t < problem.tensors.size(); ++t) {
      const PlanProblem::Tensor& tensor = problem.tensors[t];
      uses_[at(tensor.maker.node)].made.push_back({static_cast<int>(t), tensor.maker.operand});
      for (const PlanProblem::Use& use : tensor.readers)
        uses_[at(use.node)].read.push_back({static_cast<int>(t), use.operand});
    }
  }

  std::vector<int> run() {
    const std::vector<int> order = in_order();
    std::vector<int> readers_left;
    for (const PlanProblem::Tensor& tensor : problem_.tensors)
      readers_left.push_back(static_cast<int>(tensor.readers.size()));
    for (const int node : order) {
      extend(node);
      for (const TensorUse& use : uses_[at(node)].read) {
        if (--readers_left[at(use.tensor)] == 0) forget(use.tensor);
      }
    }
    const auto best = std::ranges::min_element(states_, {}, &State::cost);
    std::vector<int> choice(problem_.nodes.size(), 0);
    int step = best->step;
    for (size_t k = order.size(); k-- > 0; step = steps_[at(step)].before)
      choice[at(order[k])] = steps_[at(step)].candidate;
    improve(choice, order);
    return choice;
  }

 private:
  static size_t at(int index) { return static_cast<size_t>(index); }

  struct TensorUse {
    int tensor, operand;
  };
  struct NodeUses {
    std::vector<TensorUse> made, read;
  };
  /// Of a tensor: the layout it was made in, then those it has been converted to, ascending.
  using Held = std::vector<int>;
  /// What is held of every tensor of live_: numbers of `helds_`. A long recurrence has hundreds of tensors
  /// that are still read, and states are copied and compared for every candidate.
  using AllHeld = std::vector<int>;
  struct State {
    double cost = 0;
    int step = -1;
    AllHeld held;       ///< as live_
    uint64_t hash = 0;  ///< the sum of hash_of(tensor, held) over all of live_
  };
  static uint64_t hash_of(int tensor, int number) {
    uint64_t bits =
        (static_cast<uint64_t>(tensor) << 32 | static_cast<uint32_t>(number)) * 0x9e3779b97f4a7c15ULL;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
    return bits ^ (bits >> 31);
  }
  /// Different states, in the order in which they come.
  class States {
   public:
    std::vector<State> list;
    /// Not of what is held already.
    bool add(State&& state) {
      const auto [first, last] = by_hash_.equal_range(state.hash);
      if (std::any_of(first, last, [&](const auto& known) { return list[known.second].held == state.held; }))
        return false;
      by_hash_.emplace(state.hash, list.size());
      list.push_back(std::move(state));
      return true;
    }

   private:
    std::unordered_multimap<uint64_t, size_t> by_hash_;
  };
  struct Step {
    int before, candidate;
  };
  struct Extension {
    double cost;
    size_t state;
    int candidate;
    int newest;  ///< layout of what the node makes
  };

  /// Makers before readers, else as they are numbered.
  std::vector<int> in_order() const {
    std::vector<int> waits(problem_.nodes.size(), 0);
    for (size_t node = 0; node < waits.size(); ++node)
      waits[node] = static_cast<int>(uses_[node].read.size());
    std::set<int> ready;
    for (size_t node = 0; node < waits.size(); ++node) {
      if (waits[node] == 0) ready.insert(static_cast<int>(node));
    }
    std::vector<int> order;
    while (!ready.empty()) {
      const int node = *ready.begin();
      ready.erase(ready.begin());
      order.push_back(node);
      for (const TensorUse& made : uses_[at(node)].made) {
        for (const PlanProblem::Use& use : problem_.tensors[at(made.tensor)].readers) {
          if (--waits[at(use.node)] == 0) ready.insert(use.node);
        }
      }
    }
    if (order.size() < problem_.nodes.size())
      throw isa::UserError("plan: nodes read each other's tensors in a circle");
    return order;
  }

  int layout_of(int node, int candidate, int operand) const {
    return problem_.nodes[at(node)].candidates[at(candidate)].layouts[at(operand)];
  }
  double cost(int tensor, int from, int to) const {
    return from == to ? 0 : std::min(cost_(tensor, from, to), kMuch);
  }
  int number_of(const Held& held) {
    const auto [known, is_new] = numbers_.try_emplace(held, static_cast<int>(helds_.size()));
    if (is_new) helds_.push_back(&known->first);
    return known->second;
  }
  const Held& held_of(int number) const { return *helds_[at(number)]; }
  /// The number of what `number` is with another layout, which may be there.
  int with_layout(int number, int layout) {
    const auto [known, is_new] = extended_.try_emplace({number, layout});
    if (is_new) {
      Held held = held_of(number);
      const auto place = std::lower_bound(held.begin() + 1, held.end(), layout);
      if (layout != held[0] && (place == held.end() || *place != layout)) held.insert(place, layout);
      known->second = number_of(held);
    }
    return known->second;
  }

  size_t slot(int tensor) const { return at(slots_[at(tensor)]); }
  void change(State& state, int tensor, int number) const {
    int& held = state.held[slot(tensor)];
    state.hash += hash_of(tensor, number) - hash_of(tensor, held);
    held = number;
  }

  void extend(int node) {
    const NodeUses& uses = uses_[at(node)];
    const auto candidates = static_cast<int>(problem_.nodes[at(node)].candidates.size());
    std::vector<size_t> read_at;
    for (const TensorUse& use : uses.read) read_at.push_back(slot(use.tensor));
    std::vector<Extension> extensions;
    for (size_t state = 0; state < states_.size(); ++state) {
      for (int candidate = 0; candidate < candidates; ++candidate) {
        double sum =
            states_[state].cost + std::min(problem_.nodes[at(node)].candidates[at(candidate)].cost, kMuch);
        for (size_t k = 0; k < uses.read.size(); ++k) {
          const auto [tensor, operand] = uses.read[k];
          const int to = layout_of(node, candidate, operand);
          const Held& held = held_of(states_[state].held[read_at[k]]);
          if (to == PlanProblem::kUnread || std::ranges::find(held, to) != held.end()) continue;
          const auto same = [&](size_t other) {
            return uses.read[other].tensor == tensor &&
                   layout_of(node, candidate, uses.read[other].operand) == to;
          };
          bool is_counted = false;  // a node may read a tensor twice
          for (size_t other = 0; other < k; ++other) is_counted = is_counted || same(other);
          if (!is_counted) sum += cost(tensor, held[0], to);
        }
        const int newest =
            uses.made.empty() ? PlanProblem::kUnread : layout_of(node, candidate, uses.made[0].operand);
        extensions.push_back({sum, state, candidate, newest});
      }
    }
    std::ranges::stable_sort(extensions, {}, &Extension::cost);
    // The best of every layout of what is new, then the cheapest.
    std::set<int> layouts;
    std::ranges::stable_partition(extensions, [&](const Extension& extension) {
      return layouts.size() < width_ && layouts.insert(extension.newest).second;
    });
    for (const TensorUse& made : uses.made) {
      slots_[at(made.tensor)] = static_cast<int>(live_.size());
      live_.push_back(made.tensor);
    }
    States next;
    for (const Extension& extension : extensions) {
      if (next.list.size() == width_) break;
      const State& before = states_[extension.state];
      State state{extension.cost, static_cast<int>(steps_.size()), {}, before.hash};
      state.held.reserve(live_.size());
      state.held = before.held;
      for (size_t k = 0; k < uses.read.size(); ++k) {
        const int to = layout_of(node, extension.candidate, uses.read[k].operand);
        if (to != PlanProblem::kUnread)
          change(state, uses.read[k].tensor, with_layout(state.held[read_at[k]], to));
      }
      for (const TensorUse& made : uses.made) {
        const int number = number_of({layout_of(node, extension.candidate, made.operand)});
        state.held.push_back(number);
        state.hash += hash_of(made.tensor, number);
      }
      if (next.add(std::move(state))) steps_.push_back({before.step, extension.candidate});
    }
    states_ = std::move(next.list);
  }

  /// Nobody reads a tensor any more: partial plans that differ in it alone are the same.
  void forget(int tensor) {
    const size_t index = slot(tensor);
    slots_[at(live_.back())] = static_cast<int>(index);
    live_[index] = live_.back();
    live_.pop_back();
    for (State& state : states_) {
      state.hash -= hash_of(tensor, state.held[index]);
      state.held[index] = state.held.back();
      state.held.pop_back();
    }
    std::ranges::stable_sort(states_, {}, &State::cost);
    States different;
    for (State& state : states_) different.add(std::move(state));
    states_ = std::move(different.list);
  }

  /// Nodes choose anew, one by one, with all others as they are.
  void improve(std::vector<int>& choice, const std::vector<int>& order) const {
    const auto conversions = [&](int tensor) {
      const PlanProblem::Tensor& of = problem_.tensors[at(tensor)];
      const int from = layout_of(of.maker.node, choice[at(of.maker.node)], of.maker.operand);
      std::set<int> wanted;
      for (const PlanProblem::Use& use : of.readers)
        wanted.insert(layout_of(use.node, choice[at(use.node)], use.operand));
      double sum = 0;
      for (const int to : wanted) {
        if (to != PlanProblem::kUnread) sum += cost(tensor, from, to);
      }
      return sum;
    };
    bool gains = true;
    for (int sweep = 0; sweep < kMostSweeps && gains; ++sweep) {
      gains = false;
      for (const int node : order) {
        std::set<int> tensors;
        for (const TensorUse& use : uses_[at(node)].made) tensors.insert(use.tensor);
        for (const TensorUse& use : uses_[at(node)].read) tensors.insert(use.tensor);
        const std::vector<PlanProblem::Candidate>& candidates = problem_.nodes[at(node)].candidates;
        const int before = choice[at(node)];
        int best = before;
        double least = std::numeric_limits<double>::infinity();
        const auto offer = [&](int candidate) {
          choice[at(node)] = candidate;
          double sum = std::min(candidates[at(candidate)].cost, kMuch);
          for (const int tensor : tensors) sum += conversions(tensor);
          if (sum >= least - 1e-9 * std::max(1.0, std::abs(sum))) return;
          least = sum;
          best = candidate;
        };
        offer(before);
        for (int candidate = 0; candidate < static_cast<int>(candidates.size()); ++candidate)
          offer(candidate);
        choice[at(node)] = best;
        gains = gains || best != before;
      }
    }
  }

  const PlanProblem& problem_;
  const ConversionCost& cost_;
  size_t width_;
  std::vector<NodeUses> uses_;
  std::vector<int> live_;             ///< tensors that are still read
  std::vector<int> slots_;            ///< by tensor: its place in live_
  std::vector<State> states_ = {{}};  ///< before the first node: nothing
  std::vector<Step> steps_;
  std::map<Held, int> numbers_;
  std::vector<const Held*> helds_;               ///< by number
  std::map<std::pair<int, int>, int> extended_;  ///< with_layout()
};

}  // namespace

std::vector<int> plan_by_beam(const PlanProblem& problem, const ConversionCost& cost,
                              const BeamOptions& options) {
  return Beam(problem, cost, options).run();
}

}  // namespace kodama::layout
