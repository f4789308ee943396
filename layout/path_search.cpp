#include "layout/path_search.h"

#include <algorithm>
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

}  // namespace

bool is_goal(const SlotState& state, const SlotState& goal) {
  for (size_t slot = 0; slot < state.size(); ++slot) {
    if (state[slot] != goal[slot] && !(goal[slot] == kNothing && state[slot] == kEverywhere)) return false;
  }
  return true;
}

Path find_path(const BitView& view, const SlotState& from, const SlotState& goal, int64_t most_states) {
  std::vector<Node> nodes;
  std::map<SlotState, int64_t> known;
  using Entry = std::pair<double, int64_t>;  // cost and estimate; node
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  nodes.push_back({from, 0, -1, {}, false});
  known[from] = 0;
  open.emplace(estimate(view, from, goal), 0);
  int64_t looked_at = 0;
  int64_t best_goal = -1;
  bool proven = false;
  while (!open.empty() && looked_at < most_states) {
    const auto [bound, at] = open.top();
    open.pop();
    Node& node = nodes[static_cast<size_t>(at)];
    if (node.done) continue;
    node.done = true;
    if (is_goal(node.state, goal)) {
      best_goal = at;
      proven = true;
      break;
    }
    ++looked_at;
    const SlotState state = node.state;
    const double cost = node.cost;
    for (Move& move : moves_from(view, state, goal)) {
      const double next_cost = cost + move.steps;
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
      if (is_goal(next.state, goal) &&
          (best_goal < 0 || next_cost < nodes[static_cast<size_t>(best_goal)].cost))
        best_goal = entry->second;
      open.emplace(next_cost + estimate(view, next.state, goal), entry->second);
      next.move = std::move(move);
    }
  }
  Path path;
  path.states = looked_at;
  path.proven = proven;
  if (best_goal < 0) return path;
  path.found = true;
  path.steps = nodes[static_cast<size_t>(best_goal)].cost;
  for (int64_t at = best_goal; nodes[static_cast<size_t>(at)].parent >= 0;
       at = nodes[static_cast<size_t>(at)].parent)
    path.moves.push_back(nodes[static_cast<size_t>(at)].move);
  std::ranges::reverse(path.moves);
  return path;
}

}  // namespace kodama::layout
