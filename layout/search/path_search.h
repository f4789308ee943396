#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "layout/algebra/bits.h"
#include "layout/moves/move_primitive.h"

/// The cheapest sequence of move primitives between two states: A* over the slots (layout/algebra/bits.h).
///
/// A state is what every slot holds; the order of address bits costs nothing, since every primitive that
/// reads or writes addresses can do so in any order. Edges are the moves of moves_from with their steps. The
/// estimate of what is still to come is the least that any move costs which changes a level that is wrong.
/// The graph is made as it is walked; equal costs are taken in the order in which they were found, so the
/// same problem always gives the same path.
namespace kodama::layout {

struct Path {
  std::vector<Move> moves;
  double steps = 0;    ///< sum of the moves' estimates
  int64_t states = 0;  ///< that were looked at
  /// No sequence of moves through states that were allowed has a smaller sum of estimates. Of the cycles of
  /// its program nothing is proven.
  bool proven = false;
  bool found = false;
  int64_t compared = 1;  ///< programs among which this path's has the fewest cycles (conversion.h)
};

/// Looks at `most_states` states at most, and at none with more than `most_lw` long words per PE, but for the
/// two ends.
Path find_path(const BitView& view, const SlotState& from, const SlotState& goal, int64_t most_lw,
               int64_t most_states = 3000);

/// Other sequences of primitives from one state to the other, `count` at most, of those that the search comes
/// by the cheapest first. None is estimated at more than kMostOver of `best`, which find_path has found. Not
/// all that there are: of every number of moves, only some states are gone on from.
inline constexpr double kMostOver = 1.3;
std::vector<Path> other_paths(const BitView& view, const SlotState& from, const SlotState& goal,
                              int64_t most_lw, const Path& best, size_t count);

/// A path as text that `path_from_text` reads back.
std::string path_to_text(const Path& path);
/// Nothing when the text isn't a path between these states, or names what the view doesn't have. `proven` and
/// `states` are believed, as only the search itself could tell: the cache's key names the version of the
/// search and all that it depends on, and its entries have checksums.
std::optional<Path> path_from_text(const BitView& view, const SlotState& from, const SlotState& goal,
                                   const std::string& text);

/// The same moves in an order in which more of them overlap: an exchange between L2Bs takes turns with what
/// comes before and after it, unless both need T. So moves without T are brought next to it, past those
/// with T that move other bits. Nothing if that changes nothing.
std::optional<std::vector<Move>> overlapping_order(const std::vector<Move>& moves);

/// Whether a tensor in `state` is in `goal`: slots where nothing is wanted may hold copies.
bool is_goal(const SlotState& state, const SlotState& goal);

}  // namespace kodama::layout
