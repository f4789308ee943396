#include "layout/plan/beam.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
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
  /// Of a state by a candidate; of those that cost the same the one that was found first is the better.
  struct Extension {
    double cost;
    uint32_t state, candidate;
    auto operator<=>(const Extension&) const = default;
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

  /// What the reads of a node cost, by the layouts that its candidates want. There are few of them, and few
  /// in which the tensors were made, for all the states and candidates.
  class ReadCosts {
   public:
    ReadCosts(const Beam& beam, int node) : beam_(beam) {
      const NodeUses& uses = beam.uses_[at(node)];
      const size_t candidates = beam.problem_.nodes[at(node)].candidates.size();
      for (size_t k = 0; k < uses.read.size(); ++k) {
        const auto [tensor, operand] = uses.read[k];
        Read& read = reads_.emplace_back(Read{tensor, beam.slot(tensor), {}, {}, {}, {}});
        for (size_t c = 0; c < candidates; ++c) {
          const int to = beam.layout_of(node, static_cast<int>(c), operand);
          // A node may read a tensor twice.
          const bool is_free =
              to == PlanProblem::kUnread ||
              std::any_of(reads_.begin(), reads_.end() - 1, [&](const Read& other) {
                return other.tensor == tensor && other.wish[c] >= 0 && other.wanted[at(other.wish[c])] == to;
              });
          if (is_free) {
            read.wish.push_back(-1);
            continue;
          }
          const auto known = std::ranges::find(read.wanted, to);
          read.wish.push_back(static_cast<int>(known - read.wanted.begin()));
          if (known == read.wanted.end()) read.wanted.push_back(to);
        }
      }
    }

    /// From now on costs are of this state.
    void look_at(const State& state) {
      for (Read& read : reads_) {
        const Held& held = beam_.held_of(state.held[read.slot]);
        std::vector<double>& known = read.known[held[0]];
        known.resize(read.wanted.size(), -1);
        read.now.resize(read.wanted.size());
        for (size_t w = 0; w < read.wanted.size(); ++w) {
          const int to = read.wanted[w];
          const bool is_there = std::ranges::find(held, to) != held.end();
          if (!is_there && known[w] < 0) known[w] = beam_.cost(read.tensor, held[0], to);
          read.now[w] = is_there ? 0 : known[w];
        }
      }
    }
    /// `sum` with the reads of a candidate.
    double add_to(double sum, size_t candidate) const {
      for (const Read& read : reads_) {
        if (read.wish[candidate] >= 0) sum += read.now[at(read.wish[candidate])];
      }
      return sum;
    }

   private:
    struct Read {
      int tensor;
      size_t slot;
      std::vector<int> wanted;  ///< layouts
      std::vector<int> wish;    ///< by candidate: of `wanted`; -1: nothing, or what another read pays for
      std::map<int, std::vector<double>>
          known;                ///< by the layout that it was made in: as `wanted`; -1: not asked
      std::vector<double> now;  ///< as `wanted`, of the state
    };
    const Beam& beam_;
    std::vector<Read> reads_;
  };

  void extend(int node) {
    const NodeUses& uses = uses_[at(node)];
    const std::vector<PlanProblem::Candidate>& candidates = problem_.nodes[at(node)].candidates;
    std::vector<size_t> read_at;
    for (const TensorUse& use : uses.read) read_at.push_back(slot(use.tensor));
    std::vector<int> newest;
    for (size_t c = 0; c < candidates.size(); ++c)
      newest.push_back(uses.made.empty() ? PlanProblem::kUnread
                                         : layout_of(node, static_cast<int>(c), uses.made[0].operand));
    ReadCosts reads(*this, node);
    std::vector<Extension> extensions;
    extensions.reserve(states_.size() * candidates.size());
    std::map<int, Extension> best_of;  // by the layout of what is new
    for (size_t state = 0; state < states_.size(); ++state) {
      reads.look_at(states_[state]);
      for (size_t c = 0; c < candidates.size(); ++c) {
        const double sum = reads.add_to(states_[state].cost + std::min(candidates[c].cost, kMuch), c);
        extensions.push_back({sum, static_cast<uint32_t>(state), static_cast<uint32_t>(c)});
        const auto [best, is_new] = best_of.try_emplace(newest[c], extensions.back());
        if (!is_new && sum < best->second.cost) best->second = extensions.back();
      }
    }
    // The best of every layout of what is new, then the cheapest.
    std::vector<Extension> first;
    for (const auto& [layout, extension] : best_of) first.push_back(extension);
    std::ranges::sort(first);
    first.resize(std::min(first.size(), width_));
    std::ranges::make_heap(extensions, std::greater());
    size_t taken = 0;
    const auto next_best = [&]() -> std::optional<Extension> {
      if (taken < first.size()) return first[taken++];
      while (!extensions.empty()) {
        std::ranges::pop_heap(extensions, std::greater());
        const Extension extension = extensions.back();
        extensions.pop_back();
        if (!std::ranges::binary_search(first, extension)) return extension;
      }
      return std::nullopt;
    };
    for (const TensorUse& made : uses.made) {
      slots_[at(made.tensor)] = static_cast<int>(live_.size());
      live_.push_back(made.tensor);
    }
    States next;
    while (next.list.size() < width_) {
      const std::optional<Extension> extension = next_best();
      if (!extension) break;
      const auto candidate = static_cast<int>(extension->candidate);
      const State& before = states_[extension->state];
      State state{extension->cost, static_cast<int>(steps_.size()), {}, before.hash};
      state.held.reserve(live_.size());
      state.held = before.held;
      for (size_t k = 0; k < uses.read.size(); ++k) {
        const int to = layout_of(node, candidate, uses.read[k].operand);
        if (to != PlanProblem::kUnread)
          change(state, uses.read[k].tensor, with_layout(state.held[read_at[k]], to));
      }
      for (const TensorUse& made : uses.made) {
        const int number = number_of({layout_of(node, candidate, made.operand)});
        state.held.push_back(number);
        state.hash += hash_of(made.tensor, number);
      }
      if (next.add(std::move(state))) steps_.push_back({before.step, candidate});
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
