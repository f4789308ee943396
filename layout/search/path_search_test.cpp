#include "layout/search/path_search.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "isa/rounds_test_util.h"
#include "layout/primitives/move_primitives.h"
#include "layout/search/random_problem.h"

namespace kodama::layout {
namespace {

const isa::Chip& chip() {
  static const isa::Chip mncore2 = isa::find_chip("mncore2");
  return mncore2;
}
BitView view_of(const char* from, const char* to, const Lengths& lengths, int bits) {
  return *bit_view(Layout::parse(from), Layout::parse(to), lengths, bits, chip());
}
/// The left operand of a matrix product to the right one.
BitView operands() {
  return view_of("((8_L2B:1, 8_L1B:1, 16_MAB:1), (128:1, 4_PE:1, 2_W:1))@LM0",
                 "((128:1, 4_PE:1, 2_W:1), (8_L2B:1, 8_L1B:1, 16_MAB:1))@LM1", {1024, 1024}, 32);
}
void expect_chain(const BitView& view, const std::vector<Move>& moves) {
  SlotState state = view.from.slots;
  for (const Move& move : moves) {
    EXPECT_EQ(move.before, state);
    state = move.after;
  }
  EXPECT_TRUE(is_goal(state, view.to.slots));
}

TEST(PathSearch, PathsAreReadBack) {
  const BitView view = operands();
  const Path path = find_path(view, view.from.slots, view.to.slots, 1024);
  ASSERT_TRUE(path.found);
  expect_chain(view, path.moves);
  const auto again = path_from_text(view, view.from.slots, view.to.slots, path_to_text(path));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(path_to_text(*again), path_to_text(path));
  expect_chain(view, again->moves);
  EXPECT_FALSE(path_from_text(view, view.from.slots, view.to.slots, "3 1 1 0").has_value());
  EXPECT_FALSE(path_from_text(view, view.from.slots, view.to.slots, "3 1 1 1 none").has_value());
  // A bit that the view doesn't have, in any of the moves.
  const std::string text = path_to_text(path);
  for (size_t at = text.find(' '); at != std::string::npos; at = text.find(' ', at + 1)) {
    std::string wrong = text;
    wrong.insert(at + 1, "77");
    const auto found = path_from_text(view, view.from.slots, view.to.slots, wrong);
    if (!found) continue;
    for (const Move& move : found->moves)
      EXPECT_TRUE(std::ranges::all_of(move.after,
                                      [&](int8_t bit) { return bit < static_cast<int>(view.bits.size()); }));
  }
}

TEST(PathSearch, OtherPathsAreOtherSequencesTheCheapestFirst) {
  const BitView view = operands();
  const Path best = find_path(view, view.from.slots, view.to.slots, 1024);
  const std::vector<Path> others = other_paths(view, view.from.slots, view.to.slots, 1024, best, 5);
  ASSERT_EQ(others.size(), 5U);
  std::set<std::vector<const MovePrimitive*>> sequences;
  double steps = 0;
  const auto add = [&](const Path& path) {
    std::vector<const MovePrimitive*> sequence;
    double sum = 0;
    for (const Move& move : path.moves) {
      sequence.push_back(move.primitive);
      sum += move.steps;
    }
    EXPECT_NEAR(sum, path.steps, 1e-6);
    expect_chain(view, path.moves);
    return sequences.insert(sequence).second;
  };
  EXPECT_TRUE(add(best));
  for (const Path& other : others) {
    EXPECT_TRUE(add(other));
    EXPECT_LE(steps, other.steps);
    EXPECT_LE(other.steps, kMostOver * best.steps);
    steps = other.steps;
  }
  EXPECT_TRUE(other_paths(view, view.from.slots, view.to.slots, 1024, best, 0).empty());
}

TEST(PathSearch, LanesOnBothSidesOfThoseThatStayAreCollectedAtOnce) {
  const BitView view =
      view_of("((4_MAB:4), (4_MAB:1), (4_PE:1))@LM0", "((4:1), (4_MAB:1), (4:4))@LM1", {4, 4, 4}, 64);
  const Path path = find_path(view, view.from.slots, view.to.slots, 1024);
  EXPECT_TRUE(path.proven);
  ASSERT_EQ(path.moves.size(), 1U);
  EXPECT_EQ(path.moves[0].primitive->name, "collect");
  expect_chain(view, path.moves);
}

TEST(PathSearch, SwapsComeNextToTheExchange) {
  const BitView view = operands();
  const Path path = find_path(view, view.from.slots, view.to.slots, 1024);
  const auto order = overlapping_order(path.moves);
  ASSERT_TRUE(order.has_value());
  expect_chain(view, *order);
  const auto is = [](const char* name) {
    return [name](const Move& move) { return move.primitive->name == name; };
  };
  const auto exchange = std::ranges::find_if(*order, is("exchange-l2b"));
  const auto skew = std::ranges::find_if(*order, is("skew"));
  ASSERT_NE(exchange, order->end());
  ASSERT_NE(skew, order->end());
  // Between them, where they were behind the skew.
  EXPECT_EQ(std::count_if(exchange, skew, is("swap-l1b")), 3);
  EXPECT_FALSE(overlapping_order(*order).has_value());
}

/// The cheapest sum of steps from one state to another, by going through all states in the order of their
/// cost, without an estimate, a limit, or a path to begin with. Infinity: there is no way; nothing: there are
/// more states than `most`.
std::optional<double> cheapest(const BitView& view, int64_t most_lw, size_t most) {
  std::map<SlotState, double> cost;
  std::set<std::pair<double, SlotState>> open;
  cost[view.from.slots] = 0;
  open.emplace(0, view.from.slots);
  while (!open.empty()) {
    const auto [now, state] = *open.begin();
    open.erase(open.begin());
    if (is_goal(state, view.to.slots)) return now;
    for (const Move& move : moves_from(view, state, view.to.slots)) {
      if (view.value_count(view.address_bits(move.after)) > most_lw && !is_goal(move.after, view.to.slots))
        continue;
      const auto [known, is_new] = cost.try_emplace(move.after, now + move.steps);
      if (!is_new && known->second <= now + move.steps) continue;
      open.erase({known->second, move.after});
      known->second = now + move.steps;
      open.emplace(known->second, move.after);
      if (cost.size() > most) return std::nullopt;
    }
  }
  return std::numeric_limits<double>::infinity();
}

TEST(PathSearch, WhatIsProvenIsWhatExhaustiveSearchFinds) {
  constexpr int64_t kMostLw = 256;
  constexpr size_t kMostStates = 1500;
  const isa::Chip tiny = isa::find_chip("tiny");
  int proven = 0;
  int long_ones = 0;
  const int problems = isa::rounds(150, 300);
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(problems); ++seed) {
    const isa::Chip& of = seed % 2 == 0 ? chip() : tiny;
    const ConversionProblem problem = random_problem(seed, of, 64);
    const auto view = bit_view(problem.from, problem.to, problem.lengths, problem.element_bits, of);
    if (!view) continue;
    const std::optional<double> least = cheapest(*view, kMostLw, kMostStates);
    if (!least) continue;
    SCOPED_TRACE(fmt::format("seed {}: {} to {}", seed, problem.from.to_string(), problem.to.to_string()));
    const Path path = find_path(*view, view->from.slots, view->to.slots, kMostLw);
    EXPECT_EQ(path.found || is_goal(view->from.slots, view->to.slots), std::isfinite(*least));
    if (!path.found) continue;
    expect_chain(*view, path.moves);
    EXPECT_GE(path.steps, *least - 1e-6);
    if (!path.proven) continue;
    EXPECT_NEAR(path.steps, *least, 1e-6);
    ++proven;
    if (path.moves.size() > 1) ++long_ones;
  }
  EXPECT_GT(proven, problems / 5);
  EXPECT_GT(long_ones, problems / 15);
}

TEST(PathSearch, WithoutAnExchangeNothingIsReordered) {
  const BitView view = view_of("((8_L1B:1, 16_MAB:1, 64:1), (8_L2B:1, 4_PE:1))@LM0",
                               "((64:1, 8_L1B:1, 16_MAB:1), (8_L2B:1, 4_PE:1))@LM1", {8192, 32}, 64);
  EXPECT_FALSE(overlapping_order(find_path(view, view.from.slots, view.to.slots, 1024).moves).has_value());
}

}  // namespace
}  // namespace kodama::layout
