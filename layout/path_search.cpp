#include "layout/path_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <sstream>

#include "isa/error.h"

namespace kodama::layout {
namespace {

/// What a move costs at least; one between L2Bs, two transfers' start-up besides.
constexpr double kLeastMove = 8;
double least_transfer(const BitView& view) {
  return 2 * view.transfer.start;
}

double estimate(const BitView& view, const SlotState& state, const SlotState& goal) {
  double least = 0;
  double transfer = 0;
  for (int slot = 0; slot < static_cast<int>(state.size()); ++slot) {
    const auto at = static_cast<size_t>(slot);
    if (state[at] == goal[at] || (goal[at] == kNothing && state[at] == kEverywhere)) continue;
    if (view.shape.level(slot) == Level::kL2b) {
      transfer = state[at] == kEverywhere ? transfer : least_transfer(view);
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
    sum += level == Level::kL2b   ? least_transfer(view) + 8 * n
           : level == Level::kL1b ? 3 * (kLeastMove + n / 2)
                                  : 2 * kLeastMove + n / 2;
  }
  return 2 * sum;
}

struct Search {
  Path path;
  bool complete = false;  ///< nothing is left that could be cheaper
};

/// A*; paths of `limit` steps or more aren't followed.
Search search(const BitView& view, const SlotState& from, const SlotState& goal, int64_t most_lw,
              int64_t most_states, double limit) {
  const auto left = [&](const SlotState& state) { return estimate(view, state, goal); };
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
      if (next_cost + left(move.after) >= limit) continue;
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

/// Some way to the goal: of every number of moves, only the states that look nearest are gone on from.
Path beam(const BitView& view, const SlotState& from, const SlotState& goal, int64_t most_lw, size_t width) {
  constexpr int kMostMoves = 16;
  struct Candidate {
    double rank = 0;
    double cost = 0;
    SlotState state;
    std::vector<Move> moves;
  };
  Path best;
  std::vector<Candidate> front{{0, 0, from, {}}};
  std::map<SlotState, double> seen;
  seen[from] = 0;
  for (int depth = 0; depth < kMostMoves && !front.empty(); ++depth) {
    std::vector<Candidate> next;
    for (const Candidate& each : front) {
      ++best.states;
      for (Move& move : moves_from(view, each.state, goal)) {
        const double cost = each.cost + move.steps;
        if (best.found && cost >= best.steps) continue;
        const bool there = is_goal(move.after, goal);
        if (!there && view.value_count(view.address_bits(move.after)) > most_lw) continue;
        const auto [known, is_new] = seen.try_emplace(move.after, cost);
        if (!is_new && known->second <= cost) continue;
        known->second = cost;
        Candidate candidate{cost + rough_estimate(view, move.after, goal), cost, move.after, each.moves};
        candidate.moves.push_back(std::move(move));
        if (there) {
          best.found = true;
          best.steps = cost;
          best.moves = candidate.moves;
        } else {
          next.push_back(std::move(candidate));
        }
      }
    }
    std::ranges::stable_sort(next, {}, &Candidate::rank);
    if (next.size() > width) next.resize(width);
    front = std::move(next);
  }
  return best;
}

}  // namespace

std::string path_to_text(const BitView& view, const SlotState& from, const SlotState& goal,
                         const Path& path) {
  std::string text = fmt::format("{} {} {}", path.states, path.proven ? 1 : 0, path.moves.size());
  SlotState state = from;
  for (const Move& move : path.moves) {
    const std::vector<Move> moves = moves_from(view, state, goal);
    const auto found = std::ranges::find_if(moves, [&](const Move& each) {
      return each.after == move.after && each.steps == move.steps && each.kind == move.kind;
    });
    isa::check_internal(found != moves.end(), "path search", "a move that isn't there");
    text += fmt::format(" {}", found - moves.begin());
    state = move.after;
  }
  return text;
}

std::optional<Path> path_from_text(const BitView& view, const SlotState& from, const SlotState& goal,
                                   const std::string& text) {
  std::istringstream in(text);
  Path path;
  int proven = 0;
  size_t count = 0;
  if (!(in >> path.states >> proven >> count)) return std::nullopt;
  path.proven = proven != 0;
  SlotState state = from;
  for (size_t k = 0; k < count; ++k) {
    size_t number = 0;
    std::vector<Move> moves = moves_from(view, state, goal);
    if (!(in >> number) || number >= moves.size()) return std::nullopt;
    path.steps += moves[number].steps;
    state = moves[number].after;
    path.moves.push_back(std::move(moves[number]));
  }
  path.found = is_goal(state, goal);
  if (!path.found) return std::nullopt;
  return path;
}

bool is_goal(const SlotState& state, const SlotState& goal) {
  for (size_t slot = 0; slot < state.size(); ++slot) {
    if (state[slot] != goal[slot] && !(goal[slot] == kNothing && state[slot] == kEverywhere)) return false;
  }
  return true;
}

Path find_path(const BitView& view, const SlotState& from, const SlotState& goal, int64_t most_lw,
               int64_t most_states) {
  // Some way first, then everything that could be cheaper.
  constexpr size_t kWidth = 60;
  constexpr size_t kLargeWidth = 600;
  Path some = is_goal(from, goal) ? Path{} : beam(view, from, goal, most_lw, kWidth);
  if (!some.found && !is_goal(from, goal)) some = beam(view, from, goal, most_lw, kLargeWidth);
  const double limit = some.found ? some.steps : std::numeric_limits<double>::infinity();
  const Search best = search(view, from, goal, most_lw, most_states, limit);
  Path path = best.path.found ? best.path : some;
  path.states = some.states + best.path.states;
  path.proven = best.complete;
  return path;
}

}  // namespace kodama::layout
