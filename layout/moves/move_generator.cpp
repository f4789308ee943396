#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <vector>

#include "layout/moves/move_emission.h"
#include "layout/moves/move_primitives.h"

namespace kodama::layout {
namespace {

/// Long words of a region beyond which no LM has room for it and anything else.
constexpr double kMostRegion = 1536;

/// Starts of transfers that nothing hides: of an exchange, there and, for the last blocks, back; of a way
/// through a PDM.
constexpr double kExchangeStarts = 2.5;
constexpr double kCollectStarts = 3.75;

/// Long words per PE up to which transpose-l2b is worth preparing for.
constexpr double kMostTransposed = 16;

/// Steps before anything else can happen: setting up T and masks, distances.
constexpr double kSetUp = 8;

class Generator {
 public:
  Generator(const BitView& view, const SlotState& state, const SlotState& goal)
      : view_(view),
        state_(state),
        goal_(goal),
        shape_(view.shape),
        lines_(view.address_bits(state)),
        n_(static_cast<double>(view.value_count(lines_))) {
    wanted_at_.assign(view.bits.size(), -1);
    for (size_t slot = 0; slot < goal.size(); ++slot) {
      if (goal[slot] >= 0) wanted_at_[static_cast<size_t>(goal[slot])] = static_cast<int>(slot);
    }
    lanes_ = static_cast<double>(int64_t{1} << shape_.lane_bits());
    l1bs_ = static_cast<double>(int64_t{1} << shape_.l1b);
    l2bs_ = static_cast<double>(int64_t{1} << shape_.l2b);
  }

  std::vector<Move> run() {
    matrix(shape_.first(Level::kPe), SlotShape::kPeBits, MoveKind::kMatrix);
    if (shape_.word > 0) matrix(0, shape_.word + SlotShape::kPeBits, MoveKind::kMatrixWords);
    const int end = shape_.first(Level::kPe) + shape_.lane_bits();
    for (int low = shape_.first(Level::kPe); low < end; ++low) skew(low, end - low);
    if (shape_.word == 1) {
      const std::vector<int> in = incoming(0, 1);
      if (in[0] >= 0) add(MoveKind::kWords, with(0, in), larger(with(0, in)) / 2);
    }
    deal_mab();
    gather(MoveKind::kGatherMab, shape_.first(Level::kMab), shape_.mab);
    gather(MoveKind::kGatherPe, shape_.first(Level::kPe), shape_.lane_bits());
    select();
    for (int slot = shape_.first(Level::kL1b); slot < shape_.first(Level::kL2b); ++slot) swap_l1b(slot);
    shuffle_l1b();
    gather_l1b();
    spread(MoveKind::kSpreadL1b, Level::kL1b, n_ / 2 + lanes_ * n_ / kDealLw);
    l2bs();
    transpose_l2b();
    collect_lanes();
    broadcast_l1b();
    deal_lanes();
    return std::move(moves_);
  }

 private:
  bool is_line(int bit) const { return bit >= 0 && (lines_ >> bit & 1) != 0; }

  void add(MoveKind kind, SlotState after, double steps, int slot = 0, std::vector<int> order = {}) {
    if (after == state_ || !is_useful(after)) return;
    moves_.push_back({kind, state_, std::move(after), slot, std::move(order), steps + kSetUp});
  }

  /// Whether a slot becomes right, or a bit that belongs into another slot is free to go there.
  bool is_useful(const SlotState& after) const {
    for (size_t slot = 0; slot < after.size(); ++slot) {
      if (after[slot] == state_[slot]) continue;
      if (after[slot] == goal_[slot] || after[slot] == kEverywhere) return true;
      const int left = state_[slot];
      if (left >= 0 && wanted_at_[static_cast<size_t>(left)] != static_cast<int>(slot) &&
          (wanted_at_[static_cast<size_t>(left)] >= 0 || goal_[slot] != kNothing || after[slot] == kNothing))
        return true;
      // Where nothing is yet: less for everything that follows.
      if (after[slot] >= 0 && state_[slot] == kNothing && shape_.level(static_cast<int>(slot)) == Level::kMab)
        return true;
      // On its way through the lanes to an L1B.
      if (after[slot] >= 0 && wanted_at_[static_cast<size_t>(after[slot])] >= shape_.first(Level::kL1b))
        return true;
    }
    return false;
  }

  /// Address bits that may fill up slots: those that belong into the address before those that belong
  /// elsewhere, and last those of digits that have fewer values than their bits.
  std::vector<int> fillers(BitMask used) const {
    std::vector<int> fill;
    for (const bool uneven : {false, true}) {
      for (const bool elsewhere : {false, true}) {
        for (const int bit : bits_of(lines_ & ~used)) {
          const auto at = static_cast<size_t>(bit);
          const int64_t size = view_.digits[static_cast<size_t>(view_.bits[at].digit)].size;
          if ((wanted_at_[at] >= 0) == elsewhere && ((size & (size - 1)) != 0) == uneven) fill.push_back(bit);
        }
      }
    }
    return fill;
  }

  /// What may come into these slots: the bit that belongs there, if it is in the address; then bits that
  /// belong into the address anyhow (they have to make room, and nothing is lost by it); then bits that
  /// belong elsewhere; then nothing. With `ahead`, bits that belong into the slots of another level and
  /// get there from here come first.
  std::vector<int> incoming(int first, int count, const std::vector<int>& ahead = {},
                            bool empty = false) const {
    std::vector<int> chosen(static_cast<size_t>(count), -1);
    BitMask used = 0;
    for (int k = 0; k < count; ++k) {
      const auto at = static_cast<size_t>(k);
      int bit = at < ahead.size() ? ahead[at] : -1;
      if (!is_line(bit)) bit = goal_[static_cast<size_t>(first + k)];
      if (is_line(bit) && (used >> bit & 1) == 0) {
        chosen[at] = bit;
        used |= mask_of(bit);
      }
    }
    const std::vector<int> fill = fillers(used);
    size_t next = 0;
    for (int k = 0; k < count; ++k) {
      auto& bit = chosen[static_cast<size_t>(k)];
      if (bit >= 0 || next >= fill.size()) continue;
      // What has to go away entirely makes room for nothing.
      if (goal_[static_cast<size_t>(first + k)] == kNothing &&
          (empty || state_[static_cast<size_t>(first + k)] < 0))
        continue;
      bit = fill[next++];
    }
    return chosen;
  }

  SlotState with(int first, const std::vector<int>& bits) const {
    SlotState after = state_;
    for (size_t k = 0; k < bits.size(); ++k)
      after[static_cast<size_t>(first) + k] = static_cast<int8_t>(bits[k] >= 0 ? bits[k] : kNothing);
    return after;
  }
  double values(const SlotState& state) const {
    return static_cast<double>(view_.value_count(view_.address_bits(state)));
  }
  double larger(const SlotState& after) const { return std::max(n_, values(after)); }

  /// Whether a slot of the range holds a bit and should hold nothing.
  bool must_empty(int first, int count) const {
    for (int slot = first; slot < first + count; ++slot) {
      if (goal_[static_cast<size_t>(slot)] == kNothing && state_[static_cast<size_t>(slot)] >= 0) return true;
    }
    return false;
  }

  void matrix(int first, int count, MoveKind kind) {
    for (const bool empty : {false, true}) {
      if (empty && !must_empty(first, count)) continue;
      const std::vector<int> in = incoming(first, count, {}, empty);
      const double factor = kind == MoveKind::kMatrixWords && shape_.word == 2 ? 3.0 / 8 : 1.0 / 4;
      // Blocks are read and written whole.
      const double blocks = static_cast<double>(view_.value_count(lines_ & ~mask_of(in)));
      add(kind, with(first, in), std::max(std::exp2(count) * blocks, larger(with(first, in))) * factor);
    }
  }

  void skew(int first, int count) {
    for (const bool ahead : {false, true}) {
      std::vector<int> early;
      if (ahead) {
        // shuffle-l1b sends lanes 3 and up to the L1Bs.
        early.assign(static_cast<size_t>(count), -1);
        const int lane = shape_.first(Level::kPe) + 3;
        for (int k = 0; k < shape_.l1b; ++k) {
          if (lane + k >= first && lane + k < first + count)
            early[static_cast<size_t>(lane + k - first)] =
                std::max<int>(goal_[static_cast<size_t>(shape_.first(Level::kL1b) + k)], -1);
        }
        if (std::ranges::none_of(early, [&](int bit) { return is_line(bit); })) continue;
      }
      for (const bool empty : {false, true}) {
        if (empty && !must_empty(first, count)) continue;
        const std::vector<int> in = incoming(first, count, early, empty);
        const double rounds = std::exp2(count);
        // Places that hold nothing take part in the rounds, too.
        const double outer = static_cast<double>(view_.value_count(lines_ & ~mask_of(in)));
        if (rounds * outer > kMostRegion) continue;
        add(MoveKind::kSkew, with(first, in), rounds * (outer + 1) / 4 + rounds * std::ceil(outer / 4),
            first);
      }
    }
  }

  void gather(MoveKind kind, int first, int count) {
    SlotState after = state_;
    bool any = false;
    for (int slot = first; slot < first + count; ++slot) {
      any = any || after[static_cast<size_t>(slot)] != kEverywhere;
      after[static_cast<size_t>(slot)] = kEverywhere;
    }
    if (!any) return;
    const bool pairs = state_[static_cast<size_t>(shape_.first(Level::kMab))] >= 0;
    const double n = values(after);
    const double per_step = pairs ? 8 : 4;
    const double taken = kind == MoveKind::kGatherPe ? std::max(n, n_ * 4) / per_step : n / per_step;
    if (n <= 2048) add(kind, after, n_ / 4 + taken);
  }

  /// What the lanes of a range could hold so that transpose-l2b sends it to the right L2Bs: as much of it as
  /// is in the address. Nothing to do: empty.
  std::vector<int> before_transpose(int first, int count) const {
    const int k = shape_.lane_bits();
    if (shape_.l2b == 0 || shape_.l2b > k - 3 || n_ > kMostTransposed) return {};
    std::vector<int> ahead(static_cast<size_t>(count), -1);
    bool any = false;
    for (int j = 0; j < shape_.l2b; ++j) {
      const int bit = goal_[static_cast<size_t>(shape_.first(Level::kL2b) + j)];
      const int slot = shape_.first(Level::kPe) + k - shape_.l2b + j;
      if (!is_line(bit) || slot < first || slot >= first + count) continue;
      ahead[static_cast<size_t>(slot - first)] = bit;
      any = true;
    }
    return any ? ahead : std::vector<int>{};
  }

  void deal_mab() {
    const int first = shape_.first(Level::kMab);
    for (int slot = first; slot < first + shape_.mab; ++slot) {
      if (state_[static_cast<size_t>(slot)] != kNothing) return;
    }
    deal_mab(incoming(first, shape_.mab));
    const std::vector<int> ahead = before_transpose(first, shape_.mab);
    if (!ahead.empty()) deal_mab(ahead);
  }
  void deal_mab(std::vector<int> in) {
    const int first = shape_.first(Level::kMab);
    // Bits that could stay in the address go along: the MABs are there.
    BitMask used = mask_of(in);
    for (int& bit : in) {
      if (bit >= 0) continue;
      for (const int other : bits_of(lines_ & ~used)) {
        bit = other;
        used |= mask_of(other);
        break;
      }
    }
    const SlotState after = with(first, in);
    add(MoveKind::kDealMab, after, larger(after) / 4 + values(after) / 4);
  }

  void spread(MoveKind kind, Level level, double steps) {
    SlotState after = state_;
    for (int slot = shape_.first(level); slot < shape_.first(level) + shape_.count(level); ++slot) {
      if (state_[static_cast<size_t>(slot)] != kNothing) return;
      after[static_cast<size_t>(slot)] = kEverywhere;
    }
    add(kind, after, steps);
  }

  void select() {
    for (const bool for_transpose : {false, true}) {
      const int lane = shape_.first(Level::kPe);
      const std::vector<int> ahead =
          for_transpose ? before_transpose(lane, shape_.lane_bits()) : std::vector<int>{};
      if (for_transpose && ahead.empty()) return;
      SlotState after = state_;
      bool any = false;
      BitMask used = mask_of(ahead);
      for (int slot = shape_.word; slot < shape_.count(); ++slot) {
        const auto at = static_cast<size_t>(slot);
        if (state_[at] != kEverywhere) continue;
        int bit = goal_[at];
        if (for_transpose && slot >= lane && slot < lane + shape_.lane_bits()) {
          bit = ahead[static_cast<size_t>(slot - lane)];
        } else if (is_line(bit) && (used >> bit & 1) != 0) {
          continue;
        }
        if (!is_line(bit)) continue;
        after[at] = static_cast<int8_t>(bit);
        any = true;
      }
      if (any) add(MoveKind::kSelect, after, values(after) / 4);
    }
  }

  void swap_l1b(int slot) {
    const int first = slot;
    const std::vector<int> in = incoming(first, 1);
    const SlotState after = with(first, in);
    const double n = larger(after);
    add(MoveKind::kSwapL1b, after, std::max(n / 2, lanes_ * n / kBlockLw) + kSetUp / 2, slot);
  }

  void shuffle_l1b() {
    const int nb = shape_.l1b;
    if (nb == 0 || nb > 3 || shape_.lane_bits() > 6 || shape_.lane_bits() < 3 + nb) return;
    const int k = shape_.lane_bits();
    const int lane = shape_.first(Level::kPe);
    const std::vector<int> l1b = contents(state_, shape_.first(Level::kL1b), nb);
    // The new upper lanes: some come from the lines in front (few lanes), the others are free.
    std::vector<int> order;
    BitMask used = 0;
    const auto pick = [&](int slot, bool from_lines) {
      const int bit = goal_[static_cast<size_t>(slot)];
      const bool there = is_line(bit) || (!from_lines && std::ranges::find(l1b, bit) != l1b.end());
      if (bit >= 0 && there && (used >> bit & 1) == 0) {
        used |= mask_of(bit);
        return bit;
      }
      if (!from_lines) {
        // What was the L1B fills up; it belongs to the lanes or has to pass them.
        for (const int other : l1b) {
          if (other >= 0 && (used >> other & 1) == 0) {
            used |= mask_of(other);
            return other;
          }
        }
      }
      for (const bool elsewhere : {false, true}) {
        for (const int other : bits_of(lines_ & ~used)) {
          if ((wanted_at_[static_cast<size_t>(other)] >= 0) != elsewhere) continue;
          used |= mask_of(other);
          return other;
        }
      }
      return -1;
    };
    // Lanes 3 … of the result are: lanes 3 + nb … and lines in front, up to six bits in all, then free ones.
    const int kept_lanes = std::max(0, std::min(k, 6) - 3 - nb);
    int slot = lane + 3 + kept_lanes;
    for (int position = k; position < 6; ++position, ++slot)
      order.push_back(pick(std::min(slot, lane + k - 1), true));
    for (; slot < lane + k; ++slot) order.push_back(pick(slot, false));
    const ShuffleBits bits = shuffle_bits(view_, state_, order);
    SlotState after = state_;
    for (int j = 0; j < nb; ++j) {
      const int bit = bits.up[static_cast<size_t>(3 + j)];
      after[static_cast<size_t>(shape_.first(Level::kL1b) + j)] =
          static_cast<int8_t>(bit >= 0 ? bit : kNothing);
    }
    for (int j = 0; j < k; ++j) {
      const int bit = bits.down[static_cast<size_t>(j)];
      after[static_cast<size_t>(lane + j)] = static_cast<int8_t>(bit >= 0 ? bit : kNothing);
    }
    const double n = larger(after);
    double full = 1;
    for (const int bit : l1b) full *= bit >= 0 ? 2 : 1;
    add(MoveKind::kShuffleL1b, after,
        n_ / 4 + values(after) / 4 + std::max(1.0, lanes_ * n_ / kBlockLw) * full +
            std::max(1.0, lanes_ * n / kDealLw),
        0, order);
  }

  void gather_l1b() {
    const int nb = shape_.l1b;
    const int k = shape_.lane_bits();
    if (nb == 0 || k < 3) return;
    SlotState after = state_;
    const std::vector<int> l1b = contents(state_, shape_.first(Level::kL1b), nb);
    const std::vector<int> lane_bits = contents(state_, shape_.first(Level::kPe), k);
    std::vector<int> dealt(lane_bits.begin(), lane_bits.begin() + 3);
    dealt.insert(dealt.end(), l1b.begin(), l1b.end());
    dealt.insert(dealt.end(), lane_bits.begin() + 3, lane_bits.end());
    bool any = false;
    for (int j = 0; j < nb; ++j) {
      int8_t& slot = after[static_cast<size_t>(shape_.first(Level::kL1b) + j)];
      any = any || slot >= 0;
      slot = kEverywhere;
    }
    if (!any) return;
    for (int j = 0; j < k; ++j) {
      const int bit = dealt[static_cast<size_t>(j)];
      after[static_cast<size_t>(shape_.first(Level::kPe) + j)] =
          static_cast<int8_t>(bit >= 0 ? bit : kNothing);
    }
    const double n = values(after);
    if (n <= 2048)
      add(MoveKind::kGatherL1b, after,
          n_ / 4 + lanes_ * n_ / kDealLw + l1bs_ * lanes_ * n_ / kBlockLw + n / 4);
  }

  void l2bs() {
    const int first = shape_.first(Level::kL2b);
    if (shape_.l2b == 0) return;
    const TransferSteps& transfer = view_.transfer;
    // All slots that aren't right, and each alone.
    std::vector<std::vector<int>> choices;
    std::vector<int> wrong;
    for (int k = 0; k < shape_.l2b; ++k) {
      const auto slot = static_cast<size_t>(first + k);
      if (state_[slot] != goal_[slot]) wrong.push_back(k);
    }
    if (!wrong.empty()) choices.push_back(wrong);
    // Bit by bit: few transfers, each with its start-up.
    if (wrong.size() > 1 && n_ <= 64) {
      for (const int k : wrong) choices.push_back({k});
    }
    for (const auto& slots : choices) {
      SlotState after = state_;
      BitMask used = 0;
      std::vector<int> open;
      for (const int k : slots) {
        const auto slot = static_cast<size_t>(first + k);
        const int bit = goal_[slot];
        if (is_line(bit)) {
          after[slot] = static_cast<int8_t>(bit);
          used |= mask_of(bit);
        } else {
          open.push_back(k);
        }
      }
      const std::vector<int> fill = fillers(used);
      size_t next = 0;
      int changed = static_cast<int>(slots.size() - open.size());
      for (const int k : open) {
        const auto slot = static_cast<size_t>(first + k);
        if (state_[slot] < 0 && goal_[slot] < 0) continue;
        const bool leave_empty = goal_[slot] == kNothing || next >= fill.size();
        after[slot] = static_cast<int8_t>(leave_empty ? kNothing : fill[next++]);
        ++changed;
      }
      if (changed == 0) continue;
      const double n = larger(after);
      const double line_lw = lanes_ * l1bs_;
      const double transfers = std::exp2(changed) * l2bs_;
      const double rounds = 1 - 1 / std::exp2(changed);
      add(MoveKind::kExchangeL2b, after,
          n / 4 +
              std::max({rounds * line_lw * n / transfer.lw_per_step, 2 * lanes_ * n / kDealLw,
                        transfer.issue * rounds * transfers}) +
              kExchangeStarts * transfer.start);
    }
    SlotState all = state_;
    double copies = 1;
    bool any = false;
    for (int k = 0; k < shape_.l2b; ++k) {
      int8_t& slot = all[static_cast<size_t>(first + k)];
      if (slot >= 0) copies *= 2;
      any = any || slot != kEverywhere;
      slot = kEverywhere;
    }
    const double n = values(all);
    if (any && n <= 2048 && copies > 1) {
      add(MoveKind::kGatherL2b, all,
          n_ / 4 + n / 4 + lanes_ * (n_ + n) / kDealLw + lanes_ * l1bs_ * n / transfer.lw_per_step +
              kCollectStarts * transfer.start);
    }
    spread(MoveKind::kSpreadL2b, Level::kL2b,
           n_ / 2 + 2 * lanes_ * n_ / kDealLw + 2 * lanes_ * l1bs_ * n_ / transfer.lw_per_step +
               kCollectStarts * transfer.start);
  }

  /// Runs of lanes that are to hold nothing, all of them, and all upper lanes.
  void collect_lanes() {
    const int first = shape_.first(Level::kPe);
    const int end = first + shape_.lane_bits();
    std::set<SlotState> results;
    SlotState all = state_;
    for (int low = first; low < end; ++low) {
      const auto lowest = static_cast<size_t>(low);
      if (state_[lowest] >= 0 && goal_[lowest] == kNothing) all[lowest] = kNothing;
      SlotState after = state_;
      bool to_empty = true;
      for (int high = low; high < end; ++high) {
        const auto slot = static_cast<size_t>(high);
        if (state_[slot] == kEverywhere) break;
        to_empty = to_empty && goal_[slot] == kNothing;
        after[slot] = kNothing;
        if (state_[slot] >= 0 && (to_empty || high + 1 == end)) results.insert(after);
      }
    }
    results.insert(all);
    for (const SlotState& after : results) {
      const double n = values(after);
      if (n <= kMostRegion) add(MoveKind::kCollectLanes, after, n_ / 4 + n / 4);
    }
  }

  /// Lanes that hold nothing, each run of them as a whole.
  void deal_lanes() {
    constexpr int kMostDealt = 4;
    const int first = shape_.first(Level::kPe);
    const int end = first + shape_.lane_bits();
    for (int low = first; low < end; ++low) {
      if (state_[static_cast<size_t>(low)] != kNothing) continue;
      int high = low;
      while (high < end && high - low < kMostDealt && state_[static_cast<size_t>(high)] == kNothing) ++high;
      const std::vector<int> in = incoming(low, high - low);
      if (std::ranges::any_of(in, [](int bit) { return bit < 0; })) continue;
      const SlotState after = with(low, in);
      const double rounds = std::exp2(high - low);
      const size_t count = moves_.size();
      add(MoveKind::kDealLanes, after, n_ / 4 + rounds * std::ceil(values(after) / 4), low);
      if (moves_.size() > count) moves_.back().slot_count = high - low;
      low = high;
    }
  }

  void broadcast_l1b() {
    SlotState after = state_;
    double copies = 1;
    for (int slot = shape_.first(Level::kL1b); slot < shape_.first(Level::kL2b); ++slot) {
      if (state_[static_cast<size_t>(slot)] >= 0) copies *= 2;
      after[static_cast<size_t>(slot)] = kEverywhere;
    }
    const double n = values(after);
    if (n > 2048) return;
    add(MoveKind::kBroadcastL1b, after, n_ / 4 + copies * std::max(1.0, lanes_ * n_ / kBlockLw) + n / 4);
  }

  /// Through the PDMs: few transfers, which take long for many long words.
  void transpose_l2b() {
    constexpr int kMostBits = 13;
    const int first = shape_.first(Level::kL2b);
    const int line_bits = std::popcount(lines_);
    const int all = shape_.lane_bits() + shape_.l1b + line_bits;
    const int l2b = shape_.l2b;
    if (l2b == 0 || shape_.lane_bits() < 3 || all > kMostBits || all - l2b < 4) return;
    if (line_bits < l2b && line_bits + shape_.lane_bits() - 3 < l2b) return;
    // The uppermost lines choose the L2B.
    const int chosen = std::min(l2b, line_bits);
    std::vector<int> upper(static_cast<size_t>(chosen), -1);
    BitMask used = 0;
    for (int k = 0; k < chosen; ++k) {
      const int bit = goal_[static_cast<size_t>(first + l2b - chosen + k)];
      if (!is_line(bit)) continue;
      upper[static_cast<size_t>(k)] = bit;
      used |= mask_of(bit);
    }
    const std::vector<int> fill = fillers(used);
    size_t next = 0;
    for (int& bit : upper) {
      if (bit < 0 && next < fill.size()) bit = fill[next++];
    }
    std::vector<int> order = bits_of(lines_ & ~mask_of(upper));
    order.insert(order.end(), upper.begin(), upper.end());
    const TransposeBits bits = transpose_bits(shape_, state_, order);
    SlotState after = state_;
    const auto set = [&](int slot, int bit) {
      after[static_cast<size_t>(slot)] = static_cast<int8_t>(bit >= 0 ? bit : kNothing);
    };
    for (int k = 0; k < l2b; ++k) set(first + k, bits.up[bits.up.size() - static_cast<size_t>(l2b - k)]);
    for (int k = 0; k < 3; ++k) set(shape_.first(Level::kPe) + k, bits.down[static_cast<size_t>(k)]);
    for (int k = 0; k < shape_.l1b; ++k)
      set(shape_.first(Level::kL1b) + k, bits.down[static_cast<size_t>(3 + k)]);
    for (int k = 3; k < shape_.lane_bits(); ++k)
      set(shape_.first(Level::kPe) + k, bits.down[static_cast<size_t>(shape_.l1b + k)]);
    const double groups = std::exp2(view_.transfer.group_bits);
    const double per_group = l2bs_ / groups;
    const double through_pdm = std::exp2(all) * per_group / view_.transfer.lw_per_step;
    add(MoveKind::kTransposeL2b, after,
        n_ / 4 + values(after) / 4 + 2 * lanes_ * larger(after) / kDealLw + 2 * through_pdm +
            2 * view_.transfer.start + view_.transfer.issue * (groups + per_group - 2),
        0, order);
  }

  const BitView& view_;
  const SlotState& state_;
  const SlotState& goal_;
  const SlotShape& shape_;
  BitMask lines_;
  double n_;
  double lanes_ = 0;
  double l1bs_ = 0;
  double l2bs_ = 0;
  std::vector<int> wanted_at_;
  std::vector<Move> moves_;
};

}  // namespace

std::vector<Move> moves_from(const BitView& view, const SlotState& state, const SlotState& goal) {
  return Generator(view, state, goal).run();
}

}  // namespace kodama::layout
