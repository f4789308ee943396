#include "layout/path_search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>

namespace kodama::layout {
namespace {

/// What a move costs at least: of the L2Bs, a transfer's start-up.
constexpr double kLeastMove = 8;
constexpr double kLeastTransfer = 50;

double estimate(const BitView& view, const SlotState& state, const SlotState& goal) {
  double least = 0;
  double transfer = 0;
  for (int slot = 0; slot < static_cast<int>(state.size()); ++slot) {
    const auto at = static_cast<size_t>(slot);
    if (state[at] == goal[at] || (goal[at] == kNothing && state[at] == kEverywhere)) continue;
    if (view.shape.level(slot) == Level::kL2b) {
      transfer = state[at] == kEverywhere ? transfer : kLeastTransfer;
      if (state[at] == kEverywhere) least = kLeastMove;
    } else {
      least = kLeastMove;
    }
  }
  return least + transfer;
}

struct Node {
  SlotState state;
  double cost = 0;
  int64_t parent = -1;
  Move move;
  bool done = false;
};

/// What is still to do, roughly: most moves make a few slots right. No lower bound.
double rough_estimate(const BitView& view, const SlotState& state, const SlotState& goal) {
  const double n = static_cast<double>(view.value_count(view.address_bits(state)));
  double sum = 0;
  for (int slot = 0; slot < static_cast<int>(state.size()); ++slot) {
    const auto at = static_cast<size_t>(slot);
    if (state[at] == goal[at] || (goal[at] == kNothing && state[at] == kEverywhere)) continue;
    const Level level = view.shape.level(slot);
    sum += level == Level::kL2b   ? kLeastTransfer + 8 * n
           : level == Level::kL1b ? 3 * (kLeastMove + n / 2)
                                  : 2 * kLeastMove + n / 2;
  }
  return 2 * sum;
}

struct Search {
  Path path;
  bool complete = false;  ///< nothing is left that could be cheaper
};

/// A*; with the rough estimate it only looks for some way.
Search search(const BitView& view, const SlotState& from, const SlotState& goal, int64_t most_lw,
              int64_t most_states, bool rough, double limit) {
  const auto left = [&](const SlotState& state) {
    return rough ? rough_estimate(view, state, goal) : estimate(view, state, goal);
  };
  std::vector<Node> nodes;
  std::map<SlotState, int64_t> known;
  using Entry = std::pair<double, int64_t>;  // cost and estimate; node
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  nodes.push_back({from, 0, -1, {}, false});
  known[from] = 0;
  open.emplace(left(from), 0);
  Search result;
  int64_t& looked_at = result.path.states;
  int64_t found = -1;
  while (!open.empty() && looked_at < most_states) {
    const int64_t at = open.top().second;
    open.pop();
    Node& node = nodes[static_cast<size_t>(at)];
    if (node.done) continue;
    node.done = true;
    if (is_goal(node.state, goal)) {
      found = at;
      break;
    }
    ++looked_at;
    const SlotState state = node.state;
    const double cost = node.cost;
    for (Move& move : moves_from(view, state, goal)) {
      const double next_cost = cost + move.steps;
      if (!rough && next_cost + left(move.after) >= limit) continue;
      if (view.value_count(view.address_bits(move.after)) > most_lw && !is_goal(move.after, goal)) continue;
      const auto [entry, is_new] = known.try_emplace(move.after, static_cast<int64_t>(nodes.size()));
      if (is_new) {
        nodes.push_back({move.after, next_cost, at, {}, false});
      } else if (nodes[static_cast<size_t>(entry->second)].cost <= next_cost) {
        continue;
      }
      Node& next = nodes[static_cast<size_t>(entry->second)];
      next.cost = next_cost;
      next.parent = at;
      next.done = false;
      open.emplace(next_cost + left(next.state), entry->second);
      next.move = std::move(move);
    }
  }
  result.complete = found >= 0 || open.empty();
  if (found < 0) return result;
  result.path.found = true;
  result.path.steps = nodes[static_cast<size_t>(found)].cost;
  for (int64_t at = found; nodes[static_cast<size_t>(at)].parent >= 0;
       at = nodes[static_cast<size_t>(at)].parent)
    result.path.moves.push_back(nodes[static_cast<size_t>(at)].move);
  std::ranges::reverse(result.path.moves);
  return result;
}

}  // namespace

bool is_goal(const SlotState& state, const SlotState& goal) {
  for (size_t slot = 0; slot < state.size(); ++slot) {
    if (state[slot] != goal[slot] && !(goal[slot] == kNothing && state[slot] == kEverywhere)) return false;
  }
  return true;
}

Path find_path(const BitView& view, const SlotState& from, const SlotState& goal, int64_t most_lw,
               int64_t most_states) {
  // Some way first, then everything that could be cheaper.
  const Search some = search(view, from, goal, most_lw, most_states, true, 0);
  const double limit = some.path.found ? some.path.steps : std::numeric_limits<double>::infinity();
  const Search best = search(view, from, goal, most_lw, most_states, false, limit);
  Path path = best.path.found ? best.path : some.path;
  path.states = some.path.states + best.path.states;
  path.proven = best.complete;
  return path;
}

}  // namespace kodama::layout
