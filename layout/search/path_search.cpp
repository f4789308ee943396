#include "layout/search/path_search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <sstream>

#include "isa/cancellation.h"
#include "isa/error.h"
#include "layout/primitives/move_primitives.h"

namespace kodama::layout {
namespace {

/// Bits that a tensor may have.
constexpr int kMostBits = 64;

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
    isa::stop_if_cancelled();
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
      isa::stop_if_cancelled();
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

/// The primitives of a path, by which paths differ.
std::vector<const MovePrimitive*> sequence_of(const std::vector<Move>& moves) {
  std::vector<const MovePrimitive*> sequence;
  for (const Move& move : moves) sequence.push_back(move.primitive);
  return sequence;
}

/// Looks for cheaper ways between the states that a path goes through.
void shorten(const BitView& view, Path& path, int64_t most_lw) {
  constexpr size_t kLongest = 4;
  constexpr int64_t kMostStates = 50;
  for (size_t length = 2; length <= kLongest; ++length) {
    for (size_t first = 0; first + length <= path.moves.size(); ++first) {
      const auto begin = path.moves.begin() + static_cast<int64_t>(first);
      const auto end = begin + static_cast<int64_t>(length);
      double steps = 0;
      for (auto move = begin; move != end; ++move) steps += move->steps;
      const SlotState goal = std::prev(end)->after;
      Search other = search(view, begin->before, goal, most_lw, kMostStates, steps);
      path.states += other.path.states;
      if (!other.path.found || other.path.steps >= steps || other.path.moves.back().after != goal) continue;
      path.steps += other.path.steps - steps;
      const auto at = path.moves.erase(begin, end);
      path.moves.insert(at, other.path.moves.begin(), other.path.moves.end());
      first = static_cast<size_t>(-1);  // from the start again
    }
  }
}

/// What a move without replication does to the slots.
struct Change {
  std::vector<size_t> slots;
  BitMask in = 0;
  BitMask out = 0;
  bool is_plain = true;  ///< a bit for a bit in every slot
};
Change change_of(const Move& move) {
  Change change;
  for (size_t slot = 0; slot < move.before.size(); ++slot) {
    if (move.before[slot] == move.after[slot]) continue;
    change.slots.push_back(slot);
    change.is_plain = change.is_plain && move.before[slot] >= 0 && move.after[slot] >= 0;
    if (!change.is_plain) break;
    change.in |= BitMask{1} << move.after[slot];
    change.out |= BitMask{1} << move.before[slot];
  }
  return change;
}

/// Whether one of two neighbours could as well be on the other side of the other.
bool commute(const Move& one, const Move& other) {
  const Change a = change_of(one);
  const Change b = change_of(other);
  return a.is_plain && b.is_plain && (a.in & b.out) == 0 && (a.out & b.in) == 0 &&
         std::ranges::none_of(a.slots,
                              [&](size_t slot) { return std::ranges::find(b.slots, slot) != b.slots.end(); });
}
bool commutes_with(const Move& move, const std::vector<Move>& all, size_t begin, size_t end) {
  return std::all_of(all.begin() + static_cast<int64_t>(begin), all.begin() + static_cast<int64_t>(end),
                     [&](const Move& other) { return commute(move, other); });
}
bool goes_without_t(const Move& move) {
  return !move.primitive->overlap.uses_t;
}

void exchange_moves(Move& first, Move& second) {
  const SlotState end = second.after;
  const std::vector<size_t> slots = change_of(second).slots;
  second.before = second.after = first.before;
  for (const size_t slot : slots) second.after[slot] = end[slot];
  first.before = second.after;
  first.after = end;
  std::swap(first, second);
}

}  // namespace

std::optional<std::vector<Move>> overlapping_order(const std::vector<Move>& moves) {
  std::vector<Move> order = moves;
  const auto is_exchange = [](const Move& move) { return move.primitive->overlap.waits; };
  const auto first = std::ranges::find_if(order, is_exchange);
  if (first == order.end()) return std::nullopt;
  const size_t exchange = static_cast<size_t>(first - order.begin());
  bool changed = false;
  // Behind the first exchange as early as possible, but not past another one.
  for (size_t to = exchange + 1; to < order.size(); ++to) {
    for (size_t k = to; k < order.size() && !is_exchange(order[k]); ++k) {
      if (!goes_without_t(order[k]) || !commutes_with(order[k], order, to, k)) continue;
      for (size_t at = k; at > to; --at) exchange_moves(order[at - 1], order[at]);
      changed = changed || k != to;
      break;
    }
  }
  // And before it as late as possible.
  for (size_t to = exchange; to-- > 0;) {
    for (size_t k = to + 1; k-- > 0;) {
      if (!goes_without_t(order[k]) || !commutes_with(order[k], order, k + 1, to + 1)) continue;
      for (size_t at = k; at < to; ++at) exchange_moves(order[at], order[at + 1]);
      changed = changed || k != to;
      break;
    }
  }
  if (!changed) return std::nullopt;
  return order;
}

std::vector<Path> other_paths(const BitView& view, const SlotState& from, const SlotState& goal,
                              int64_t most_lw, const Path& best, size_t count) {
  constexpr size_t kWidth = 40;
  if (best.moves.empty() || count == 0) return {};
  const double limit = best.steps * kMostOver;
  struct Candidate {
    double rank = 0;
    double cost = 0;
    std::vector<Move> moves;
  };
  std::vector<Path> found;
  std::set<std::vector<const MovePrimitive*>> known{sequence_of(best.moves)};
  // Several ways to a state are gone on with, since what follows is the same for all.
  std::map<SlotState, std::vector<double>> ways;
  std::map<SlotState, std::vector<Move>> moves_of;
  std::vector<Candidate> front{{}};
  for (size_t depth = 0; depth <= best.moves.size() + 1 && !front.empty(); ++depth) {
    std::vector<Candidate> next;
    for (const Candidate& each : front) {
      const SlotState& state = each.moves.empty() ? from : each.moves.back().after;
      const auto [entry, is_new] = moves_of.try_emplace(state);
      if (is_new) entry->second = moves_from(view, state, goal);
      for (const Move& move : entry->second) {
        const double cost = each.cost + move.steps;
        if (cost > limit) continue;
        const bool there = is_goal(move.after, goal);
        if (!there && view.value_count(view.address_bits(move.after)) > most_lw) continue;
        Candidate candidate{cost, cost, each.moves};
        candidate.moves.push_back(move);
        if (there) {
          if (!known.insert(sequence_of(candidate.moves)).second) continue;
          Path& path = found.emplace_back();
          path.moves = std::move(candidate.moves);
          path.steps = cost;
          path.found = true;
          continue;
        }
        std::vector<double>& costs = ways[move.after];
        if (costs.size() >= count && *std::ranges::max_element(costs) <= cost) continue;
        costs.push_back(cost);
        candidate.rank += rough_estimate(view, move.after, goal);
        next.push_back(std::move(candidate));
      }
    }
    std::ranges::stable_sort(next, {}, &Candidate::rank);
    if (next.size() > kWidth) next.resize(kWidth);
    front = std::move(next);
  }
  std::ranges::stable_sort(found, {}, &Path::steps);
  if (found.size() > count) found.resize(count);
  return found;
}

std::string path_to_text(const Path& path) {
  std::string text =
      fmt::format("{} {} {} {}", path.states, path.proven ? 1 : 0, path.compared, path.moves.size());
  for (const Move& move : path.moves) {
    text += fmt::format(" {} {} {} {} {} {}", move.primitive->name, move.slot, move.slot_count, move.steps,
                        move.order.size(), fmt::join(move.order, " "));
    text += fmt::format(" {}", fmt::join(move.after, " "));
  }
  return text;
}

std::optional<Path> path_from_text(const BitView& view, const SlotState& from, const SlotState& goal,
                                   const std::string& text) {
  // What isn't there would be looked for in the view.
  const auto slots = static_cast<int>(from.size());
  const auto bits = static_cast<int>(view.bits.size());
  const auto is_content = [&](int content) {
    return content == kNothing || content == kEverywhere || (content >= 0 && content < bits);
  };
  std::istringstream in(text);
  Path path;
  int proven = 0;
  size_t count = 0;
  if (!(in >> path.states >> proven >> path.compared >> count) || proven < 0 || proven > 1)
    return std::nullopt;
  path.proven = proven != 0;
  SlotState state = from;
  for (size_t k = 0; k < count; ++k) {
    Move move;
    std::string name;
    size_t order_size = 0;
    if (!(in >> name >> move.slot >> move.slot_count >> move.steps >> order_size)) return std::nullopt;
    const auto primitive = std::ranges::find(move_primitives(), name, &MovePrimitive::name);
    if (primitive == move_primitives().end() || order_size > static_cast<size_t>(kMostBits) ||
        move.slot < 0 || move.slot_count < 0 || move.slot >= slots || move.slot_count > slots - move.slot)
      return std::nullopt;
    move.primitive = &*primitive;
    move.order.resize(order_size);
    for (int& bit : move.order) {
      if (!(in >> bit) || bit < -1 || bit >= bits) return std::nullopt;
    }
    move.before = state;
    for (size_t slot = 0; slot < state.size(); ++slot) {
      int content = 0;
      if (!(in >> content) || !is_content(content)) return std::nullopt;
      state[slot] = static_cast<int8_t>(content);
    }
    move.after = state;
    path.steps += move.steps;
    path.moves.push_back(std::move(move));
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
  if (!path.proven) shorten(view, path, most_lw);
  return path;
}

}  // namespace kodama::layout
