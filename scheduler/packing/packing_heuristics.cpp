#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "scheduler/packing/packing_builtin.h"

namespace kodama::scheduler {
namespace {

/// A period in which a buffer occupies the same bytes, relative to its offset.
struct Extent {
  int64_t lower, upper;
  int64_t first, last;
};

std::vector<Extent> extents(const PackingBuffer& buffer) {
  std::vector<Extent> result;
  int64_t from = buffer.lower;
  for (const PackingGap& gap : buffer.gaps) {
    if (from < gap.lower) result.push_back({from, gap.lower, 0, buffer.size});
    if (gap.has_window && gap.window_lower < gap.window_upper) {
      result.push_back({gap.lower, gap.upper, gap.window_lower, gap.window_upper});
    }
    from = gap.upper;
  }
  if (from < buffer.upper) result.push_back({from, buffer.upper, 0, buffer.size});
  return result;
}

int64_t align_up(int64_t offset, int64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

using Range = std::pair<int64_t, int64_t>;  // open at both ends

/// Lowest aligned offset >= 0 in no forbidden range; with `best_fit`, in the tightest hole between them.
int64_t find_offset(std::vector<Range>& forbidden, int64_t alignment, bool best_fit) {
  std::sort(forbidden.begin(), forbidden.end());
  int64_t offset = 0;
  int64_t best = -1;
  int64_t best_hole = std::numeric_limits<int64_t>::max();
  for (const auto& [low, high] : forbidden) {
    if (low >= offset) {
      if (!best_fit) return offset;
      const int64_t hole = low - offset;  // what would be left free above the buffer
      if (hole < best_hole) {
        best_hole = hole;
        best = offset;
      }
    }
    if (high > offset) offset = align_up(high, alignment);
  }
  return best_fit && best >= 0 ? best : offset;
}

}  // namespace

PackingConflicts::PackingConflicts(const PackingProblem& problem) : conflicts_(problem.buffers.size()) {
  const int n = static_cast<int>(problem.buffers.size());
  std::vector<std::vector<Extent>> all(n);
  for (int i = 0; i < n; ++i) all[i] = extents(problem.buffers[i]);
  std::vector<int> by_start(n);
  std::iota(by_start.begin(), by_start.end(), 0);
  std::stable_sort(by_start.begin(), by_start.end(),
                   [&](int a, int b) { return problem.buffers[a].lower < problem.buffers[b].lower; });
  const auto add = [](std::vector<Conflict>& list, const Conflict& conflict) {
    for (auto it = list.rbegin(); it != list.rend() && it->other == conflict.other; ++it) {
      if (it->above == conflict.above && it->below == conflict.below) return;
    }
    list.push_back(conflict);
  };
  std::vector<int> active;
  for (const int i : by_start) {
    std::erase_if(active, [&](int j) { return problem.buffers[j].upper <= problem.buffers[i].lower; });
    for (const int j : active) {
      for (const Extent& a : all[i]) {
        for (const Extent& b : all[j]) {
          if (a.lower >= b.upper || b.lower >= a.upper) continue;
          add(conflicts_[i], {j, b.first - a.last, b.last - a.first});
          add(conflicts_[j], {i, a.first - b.last, a.last - b.first});
        }
      }
    }
    active.push_back(i);
  }
}

const std::vector<std::string>& packing_orders() {
  static const std::vector<std::string> orders = {"size", "area", "lifetime", "load", "start", "given"};
  return orders;
}

std::vector<int> packing_order(const PackingProblem& problem, const std::string& by) {
  const int n = static_cast<int>(problem.buffers.size());
  std::vector<double> load(n, 0);
  if (by == "load") {
    const PackingConflicts conflicts(problem);
    for (int i = 0; i < n; ++i) {
      load[i] = static_cast<double>(problem.buffers[i].size);
      for (const auto& conflict : conflicts.of(i)) {
        load[i] += static_cast<double>(problem.buffers[conflict.other].size);
      }
    }
  }
  std::vector<std::pair<double, double>> key(n);
  for (int i = 0; i < n; ++i) {
    const PackingBuffer& b = problem.buffers[i];
    const double size = static_cast<double>(b.size);
    const double lifetime = static_cast<double>(b.upper - b.lower);
    if (by == "size") key[i] = {size, lifetime};
    if (by == "area") key[i] = {size * lifetime, size};
    if (by == "lifetime") key[i] = {lifetime, size};
    if (by == "load") key[i] = {load[i], size * lifetime};
    if (by == "start") key[i] = {-static_cast<double>(b.lower), size};
    if (by == "given") key[i] = {0, 0};
  }
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key[a] > key[b]; });
  return order;
}

std::vector<int64_t> place_in_order(const PackingProblem& problem, const PackingConflicts& conflicts,
                                    const std::vector<int>& order, bool best_fit) {
  std::vector<int64_t> offsets(problem.buffers.size(), -1);
  std::vector<Range> forbidden;
  const auto collect = [&](int buffer) {
    forbidden.clear();
    for (const auto& conflict : conflicts.of(buffer)) {
      const int64_t other = offsets[conflict.other];
      if (other >= 0) forbidden.emplace_back(other + conflict.above, other + conflict.below);
    }
  };
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (!problem.buffers[i].fixed_offset) continue;
    const int64_t offset = *problem.buffers[i].fixed_offset;
    collect(static_cast<int>(i));
    for (const auto& [low, high] : forbidden) {
      if (low < offset && offset < high) return {};
    }
    offsets[i] = offset;
  }
  for (const int i : order) {
    if (offsets[i] >= 0) continue;
    collect(i);
    offsets[i] = find_offset(forbidden, problem.buffers[i].alignment, best_fit);
  }
  return offsets;
}

std::vector<int64_t> place_on_skyline(const PackingProblem& problem, const PackingConflicts& conflicts) {
  // Only the order comes from the skyline; the placement knows fixed offsets, windows and alignments.
  const int n = static_cast<int>(problem.buffers.size());
  std::vector<int64_t> top(n, 0);
  std::vector<bool> placed(n, false);
  const std::vector<int> preference = packing_order(problem, "area");
  std::vector<int> order;
  for (int step = 0; step < n; ++step) {
    int next = -1;
    for (const int i : preference) {
      if (!placed[i] && (next < 0 || top[i] < top[next])) next = i;
    }
    placed[next] = true;
    order.push_back(next);
    for (const auto& conflict : conflicts.of(next)) {
      const PackingBuffer& other = problem.buffers[conflict.other];
      top[conflict.other] =
          std::max(top[conflict.other], align_up(top[next] + problem.buffers[next].size, other.alignment));
    }
  }
  return place_in_order(problem, conflicts, order);
}

std::vector<int64_t> improve_order(const PackingProblem& problem, const PackingConflicts& conflicts,
                                   std::vector<int> order, int64_t steps, uint64_t seed, int64_t* placed) {
  PackingRandom random(seed);
  const int n = static_cast<int>(order.size());
  std::vector<int64_t> best = place_in_order(problem, conflicts, order);
  if (placed != nullptr) *placed += n;
  if (best.empty()) return best;
  // Below the height, the bytes x lifetime above the capacity tell two packings apart.
  const auto cost = [&](const std::vector<int64_t>& offsets) {
    double excess = 0;
    for (int i = 0; i < n; ++i) {
      const PackingBuffer& b = problem.buffers[i];
      const int64_t over = offsets[i] + b.size - problem.capacity;
      if (over > 0) excess += static_cast<double>(std::min(over, b.size)) + static_cast<double>(over) * 0.25;
    }
    return excess;
  };
  std::vector<int64_t> current = best;
  double current_cost = cost(current);
  int64_t best_height = packing_height(problem, best);
  for (int64_t step = 0; step < steps && best_height > problem.capacity; ++step) {
    std::vector<int> sticking;
    for (int p = 0; p < n; ++p) {
      const int i = order[p];
      if (current[i] + problem.buffers[i].size > problem.capacity) sticking.push_back(p);
    }
    if (sticking.empty()) break;
    std::vector<int> trial = order;
    const int moves = static_cast<int>(random.between(1, 2));
    for (int m = 0; m < moves; ++m) {
      int from = sticking[random.below(static_cast<int64_t>(sticking.size()))];
      if (random.below(4) == 0) from = static_cast<int>(random.below(n));
      const int to = from == 0
                         ? static_cast<int>(random.below(n))
                         : static_cast<int>(random.below(4) == 0 ? random.below(n) : random.below(from));
      const int buffer = trial[from];
      trial.erase(trial.begin() + from);
      trial.insert(trial.begin() + to, buffer);
    }
    std::vector<int64_t> offsets = place_in_order(problem, conflicts, trial);
    if (placed != nullptr) *placed += n;
    const double trial_cost = cost(offsets);
    const int64_t height = packing_height(problem, offsets);
    if (height < best_height) {
      best_height = height;
      best = offsets;
    }
    if (trial_cost <= current_cost || random.below(200) == 0) {
      current_cost = trial_cost;
      current = std::move(offsets);
      order = std::move(trial);
    }
  }
  return best;
}

namespace {

Packer fit_packer(std::string name, std::string hole, bool best_fit) {
  Packer packer;
  packer.name = std::move(name);
  packer.description = fmt::format("one buffer after the other, each in the {} hole that takes it", hole);
  packer.options = {
      {"order", "size", "size, area, lifetime, load (falling), start (rising) or given (as they come)"}};
  packer.run = [packer, best_fit](const PackingProblem& problem, const passes::PassOptions& options) {
    const std::string& by = passes::choice_option(options, packer.options[0], packing_orders());
    return finish_packing(
        problem, place_in_order(problem, PackingConflicts(problem), packing_order(problem, by), best_fit),
        static_cast<int64_t>(problem.buffers.size()),
        fmt::format("{} fit by {}", best_fit ? "best" : "first", by));
  };
  return packer;
}

}  // namespace

Packer first_fit_packer() {
  return fit_packer("first-fit", "lowest", false);
}

Packer best_fit_packer() {
  return fit_packer("best-fit", "tightest", true);
}

Packer skyline_packer() {
  Packer packer;
  packer.name = "skyline";
  packer.description = "next is always the buffer that can start lowest on top of the placed ones";
  packer.run = [](const PackingProblem& problem, const passes::PassOptions&) {
    return finish_packing(problem, place_on_skyline(problem, PackingConflicts(problem)),
                          static_cast<int64_t>(problem.buffers.size()), "skyline");
  };
  return packer;
}

Packer improve_packer() {
  Packer packer;
  packer.name = "improve";
  packer.description = "first fit, its order changed step by step: what sticks out moves forward";
  packer.options = {{"order", "size", "the order to begin with, as for first-fit"},
                    {"steps", "2000", "changes of the order"},
                    {"seed", "1", "of the random choices"}};
  packer.run = [packer](const PackingProblem& problem, const passes::PassOptions& options) {
    const std::string& by = passes::choice_option(options, packer.options[0], packing_orders());
    const int64_t steps = passes::integer_option(options, packer.options[1], 0);
    const int64_t seed = passes::integer_option(options, packer.options[2], 0);
    int64_t placed = 0;
    std::vector<int64_t> offsets =
        improve_order(problem, PackingConflicts(problem), packing_order(problem, by), steps,
                      static_cast<uint64_t>(seed), &placed);
    return finish_packing(problem, std::move(offsets), placed, "improved first fit");
  };
  return packer;
}

}  // namespace kodama::scheduler
