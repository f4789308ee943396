#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_set>

#include "isa/error.h"
#include "scheduler/packing/packing_builtin.h"

/// The search places buffers by rising offset, each on top of what is placed below it in its lifetime. That
/// reaches every packing in which no buffer can be lowered, hence one if there is any. What is left to do at
/// a node is given by the buffers that are left and the least offset ("key") of each; two nodes that agree in
/// these are the same.
///
///  * Bound: at each moment, the buffers left, taken by rising key, are a queue in which each waits for its
///    key and the one before; where it ends is the least height there.
///  * Dominance: a buffer whose key is not below key + size of another one left need not come next; the other
///    one fits below it.
///  * Parts: where no buffer left is live at both of two neighbouring moments, what is left falls into parts
///    that are searched one after the other; one that fails ends the node.
///  * Reasons: each key has the set of placed buffers that it follows from, whatever the others do. A failure
///    joins the reasons of the keys that contradict each other, and the search goes back to the last buffer
///    that is among them: decisions about other times are not tried anew.
///  * Memory: nodes that were searched in vain are remembered, across restarts too.
///  * Restarts: short at first, each by another strategy.
namespace kodama::scheduler {
namespace {

using Clock = std::chrono::steady_clock;

enum class Outcome { kFound, kFailed, kLimit };

/// Where the search goes on: at the section with the fewest buffers that can come next, with the least room
/// above the bound, or the least product of both.
enum class Focus { kOptions, kRoom, kBoth };

/// What one restart does differently from others; any strategy is complete.
struct Strategy {
  Focus focus = Focus::kBoth;
  bool look_ahead = false;  ///< tries each buffer that can come next for one step; the least bounds win
  std::vector<int> rank;    ///< otherwise, the least rank wins
};

struct SearchLimits {
  int64_t nodes = 0;
  double seconds = 0;  ///< 0: none
};

int64_t gcd_of(const PackingProblem& problem) {
  int64_t unit = 0;
  for (const PackingBuffer& b : problem.buffers) {
    unit = std::gcd(unit, b.size);
    if (b.alignment != 1) unit = std::gcd(unit, b.alignment);
    if (b.fixed_offset) unit = std::gcd(unit, *b.fixed_offset);
  }
  return std::max<int64_t>(unit, 1);
}

/// 128 bits of a state; a false match would need a collision of both halves.
struct StateHash {
  uint64_t a = 0x243f6a8885a308d3ULL;
  uint64_t b = 0x13198a2e03707344ULL;
  void add(uint64_t value) {
    a = (a ^ value) * 0x9fb21c651e98df25ULL;
    a ^= a >> 29;
    b = (b + value) * 0xd6e8feb86659fd93ULL;
    b ^= b >> 32;
  }
  bool operator==(const StateHash&) const = default;
};
struct StateHasher {
  size_t operator()(const StateHash& h) const { return h.a; }
};

// Sweeps over the sections of a buffer's lifetime take most of the time: four sections at once.
using Lanes = int32_t __attribute__((vector_size(16)));

/// values[s] = max(values[s], key) + size
void stack_on(int32_t* values, int from, int to, int32_t key, int32_t size) {
  int s = from;
  const Lanes keys = {key, key, key, key};
  for (; s + 4 <= to; s += 4) {
    Lanes v;
    std::memcpy(&v, values + s, sizeof v);
    v = (v > keys ? v : keys) + size;
    std::memcpy(values + s, &v, sizeof v);
  }
  for (; s < to; ++s) values[s] = std::max(values[s], key) + size;
}

/// values[s] = min(values[s], value)
void lower_to(int32_t* values, int from, int to, int32_t value) {
  int s = from;
  const Lanes all = {value, value, value, value};
  for (; s + 4 <= to; s += 4) {
    Lanes v;
    std::memcpy(&v, values + s, sizeof v);
    v = v < all ? v : all;
    std::memcpy(values + s, &v, sizeof v);
  }
  for (; s < to; ++s) values[s] = std::min(values[s], value);
}

/// Buffers as the search sees them: sizes and offsets in units, time as indices of sections (moments between
/// which the set of live buffers doesn't matter).
class Search {
 public:
  Search(const PackingProblem& problem, int64_t unit, const SearchLimits& limits)
      : limits_(limits), start_(Clock::now()) {
    const int n = static_cast<int>(problem.buffers.size());
    capacity_ = static_cast<int32_t>(problem.capacity / unit);
    buffers_.resize(n);
    key_.assign(n, 0);
    offset_.assign(n, -1);
    rank_.assign(n, 0);
    words_ = static_cast<size_t>(n + 63) / 64;
    reasons_.assign(words_ * n, 0);
    why_.assign(words_, 0);
    for (int i = 0; i < n; ++i) {
      const PackingBuffer& b = problem.buffers[i];
      buffers_[i].size = static_cast<int32_t>(b.size / unit);
      buffers_[i].alignment = b.alignment == 1 ? 1 : static_cast<int32_t>(b.alignment / unit);
      if (b.fixed_offset) buffers_[i].fixed = static_cast<int32_t>(*b.fixed_offset / unit);
    }
    make_sections(problem);
    const PackingConflicts conflicts(problem);
    for (int i = 0; i < n; ++i) {
      int last = -1;
      for (const auto& conflict : conflicts.of(i)) {
        if (conflict.other != last) buffers_[i].conflicts.push_back(conflict.other);
        last = conflict.other;
      }
      std::sort(buffers_[i].conflicts.begin(), buffers_[i].conflicts.end());
      auto& list = buffers_[i].conflicts;
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
    // Of buffers that are the same but for their names, the first one comes first.
    std::vector<int> order(n);
    std::iota(order.begin(), order.end(), 0);
    const auto shape = [&](int i) {
      const Item& b = buffers_[i];
      return std::tie(b.begin, b.end, b.size, b.alignment, b.fixed, b.live);
    };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return shape(a) < shape(b); });
    for (int k = 0; k < n; ++k) {
      const bool same = k > 0 && shape(order[k - 1]) == shape(order[k]);
      buffers_[order[k]].shape = same ? buffers_[order[k - 1]].shape : order[k];
      if (same) buffers_[order[k]].twin = order[k - 1];
    }
  }

  /// Independent parts of the whole problem.
  std::vector<std::vector<int>> parts() {
    std::vector<int> all(buffers_.size());
    std::iota(all.begin(), all.end(), 0);
    for (const int i : all) key_[i] = std::max(buffers_[i].fixed, 0);
    return split(all);
  }

  /// Searches one part.
  Outcome run(const std::vector<int>& part, const Strategy& strategy, int64_t budget) {
    strategy_ = strategy;
    for (const int i : part) {
      rank_[i] = strategy_.rank[i];
      key_[i] = std::max(buffers_[i].fixed, 0);
      std::fill_n(reason(i), words_, 0);
    }
    trail_.clear();
    old_reasons_.clear();
    budget_ = std::min(limits_.nodes, nodes_ + static_cast<int64_t>(part.size()) + budget);
    std::vector<int> members = part;
    if (!prepare(members)) return Outcome::kFailed;
    return search(std::move(members));
  }

  int64_t nodes() const { return nodes_; }
  bool exhausted() const { return nodes_ >= limits_.nodes || timed_out_; }
  bool timed_out() const { return timed_out_; }
  int32_t offset(int buffer) const { return offset_[buffer]; }

 private:
  struct Item {
    int32_t size = 0;
    int32_t alignment = 1;
    int32_t fixed = -1;
    int begin = 0, end = 0;                 ///< sections of the lifetime
    std::vector<std::pair<int, int>> live;  ///< sections in which it needs room
    std::vector<int> conflicts;
    int shape = -1;  ///< the same for buffers that differ only in name
    int twin = -1;   ///< the one of the same shape that comes before
  };

  void make_sections(const PackingProblem& problem) {
    const int n = static_cast<int>(problem.buffers.size());
    bool gaps = false;
    std::vector<std::pair<int64_t, bool>> events;  // time, is a start; ends come first
    for (const PackingBuffer& b : problem.buffers) {
      gaps = gaps || !b.gaps.empty();
      events.emplace_back(b.lower, true);
      events.emplace_back(b.upper, false);
      for (const PackingGap& gap : b.gaps) {
        events.emplace_back(gap.lower, false);
        events.emplace_back(gap.upper, true);
      }
    }
    std::sort(events.begin(), events.end());
    // Only sections between a start and an end matter: the others' live sets are parts of a neighbour's. With
    // gaps, every moment at which something changes begins one.
    std::vector<int64_t> starts;
    for (size_t i = 0; i < events.size(); ++i) {
      if (!events[i].second) continue;
      const bool last_of_run = i + 1 == events.size() || !events[i + 1].second;
      if (last_of_run) starts.push_back(events[i].first);
    }
    if (gaps) {
      starts.clear();
      for (const auto& [time, start] : events) starts.push_back(time);
    }
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    const auto section = [&](int64_t time) {
      return static_cast<int>(std::lower_bound(starts.begin(), starts.end(), time) - starts.begin());
    };
    sections_ = static_cast<int>(starts.size());
    top_.assign(sections_ + 1, 0);
    cover_.assign(sections_ + 1, 0);
    next_.assign(sections_ + 1, 0);
    for (int i = 0; i < n; ++i) {
      const PackingBuffer& b = problem.buffers[i];
      Item& item = buffers_[i];
      item.begin = section(b.lower);
      item.end = section(b.upper);
      int64_t from = b.lower;
      const auto add = [&](int64_t lower, int64_t upper) {
        if (lower < upper) item.live.emplace_back(section(lower), section(upper));
      };
      for (const PackingGap& gap : b.gaps) {
        // A window is taken for the whole buffer: packings stay right, proofs don't (the caller knows).
        if (gap.has_window && gap.window_lower < gap.window_upper) continue;
        add(from, gap.lower);
        from = gap.upper;
      }
      add(from, b.upper);
    }
  }

  int32_t align_up(int buffer, int32_t offset) const {
    const int32_t a = buffers_[buffer].alignment;
    return a == 1 ? offset : (offset + a - 1) / a * a;
  }

  /// The decisions from which it follows that buffer i can't be below its key, one bit for each placed
  /// buffer.
  uint64_t* reason(int i) { return reasons_.data() + words_ * static_cast<size_t>(i); }
  void join(uint64_t* to, const uint64_t* from) const {
    for (size_t w = 0; w < words_; ++w) to[w] |= from[w];
  }
  static void add(uint64_t* to, int decision) { to[decision / 64] |= uint64_t{1} << (decision % 64); }
  bool blamed(int decision) const { return (why_[decision / 64] >> (decision % 64) & 1) != 0; }

  /// Raises the key; the caller extends the reason. False if the buffer can't be that high.
  bool raise(int i, int32_t offset) {
    const int32_t raised = align_up(i, offset);
    if (buffers_[i].fixed >= 0 || raised + buffers_[i].size > capacity_) return false;
    trail_.emplace_back(i, key_[i]);
    old_reasons_.insert(old_reasons_.end(), reason(i), reason(i) + words_);
    key_[i] = raised;
    return true;
  }
  void undo(size_t mark) {
    while (trail_.size() > mark) {
      const int i = trail_.back().first;
      key_[i] = trail_.back().second;
      std::copy(old_reasons_.end() - static_cast<std::ptrdiff_t>(words_), old_reasons_.end(), reason(i));
      old_reasons_.resize(old_reasons_.size() - words_);
      trail_.pop_back();
    }
  }

  /// Raises what conflicts with b, which is placed. False, and why, if something doesn't fit above it.
  bool push_up(int b) {
    const int32_t top = offset_[b] + buffers_[b].size;
    for (const int j : buffers_[b].conflicts) {
      if (offset_[j] >= 0 || key_[j] >= top) continue;
      if (!raise(j, top)) {
        std::copy_n(reason(j), words_, why_.begin());
        add(why_.data(), b);
        return false;
      }
      add(reason(j), b);
    }
    return true;
  }

  /// Sorts the members by key and computes the bound. False: no packing.
  bool prepare(std::vector<int>& members) {
    // Nearly sorted already.
    for (size_t k = 1; k < members.size(); ++k) {
      const int i = members[k];
      size_t at = k;
      while (at > 0 && before(i, members[at - 1])) {
        members[at] = members[at - 1];
        --at;
      }
      members[at] = i;
    }
    int begin = sections_, end = 0;
    for (const int i : members) {
      begin = std::min(begin, buffers_[i].begin);
      end = std::max(end, buffers_[i].end);
    }
    std::fill(top_.begin() + begin, top_.begin() + end, 0);
    for (const int i : members) {
      const int32_t key = key_[i];
      const int32_t size = buffers_[i].size;
      for (const auto& [from, to] : buffers_[i].live) stack_on(top_.data(), from, to, key, size);
    }
    int worst = begin;
    for (int s = begin; s < end; ++s) {
      if (top_[s] > top_[worst]) worst = s;
    }
    if (top_[worst] <= capacity_) return true;
    explain(members, worst);
    return false;
  }

  /// Why the bound failed at the section: the last buffer that waits for its key and those above it don't
  /// fit.
  void explain(const std::vector<int>& members, int section) {
    if (looking_) return;
    int32_t top = 0;
    std::fill(why_.begin(), why_.end(), 0);
    for (const int i : members) {
      if (!live_at(i, section)) continue;
      if (key_[i] >= top) std::fill(why_.begin(), why_.end(), 0);
      top = std::max(top, key_[i]) + buffers_[i].size;
      join(why_.data(), reason(i));
    }
  }

  bool live_at(int i, int section) const {
    for (const auto& [from, to] : buffers_[i].live) {
      if (from <= section && section < to) return true;
    }
    return false;
  }

  bool before(int a, int b) const { return key_[a] != key_[b] ? key_[a] < key_[b] : rank_[a] < rank_[b]; }

  std::vector<std::vector<int>> split(const std::vector<int>& members) {
    std::vector<std::vector<int>> groups;
    if (members.empty()) return groups;
    int begin = sections_, end = 0;
    for (const int i : members) {
      begin = std::min(begin, buffers_[i].begin);
      end = std::max(end, buffers_[i].end);
    }
    // cover_[s]: buffers live across the boundary before s.
    std::fill(cover_.begin() + begin, cover_.begin() + end + 1, 0);
    for (const int i : members) {
      ++cover_[buffers_[i].begin + 1];
      --cover_[buffers_[i].end];
    }
    int across = 0;
    int group = -1;
    bool open = false;
    for (int s = begin; s < end; ++s) {
      across += cover_[s];
      if (across == 0 || s == begin) {
        open = true;
      }
      if (open) {
        ++group;
        open = false;
      }
      top_[s] = group;  // borrowed
    }
    groups.resize(group + 1);
    for (const int i : members) groups[top_[buffers_[i].begin]].push_back(i);
    std::erase_if(groups, [](const auto& g) { return g.empty(); });
    return groups;
  }

  StateHash hash(const std::vector<int>& members) const {
    // Sorted by key and rank, and ranks change from run to run: the sum over members must not depend on it.
    StateHash result;
    for (const int i : members) {
      StateHash one;
      one.add(static_cast<uint64_t>(i));
      one.add(static_cast<uint64_t>(static_cast<uint32_t>(key_[i])));
      one.add(0x5851f42d4c957f2dULL);
      result.a += one.a;
      result.b += one.b;
    }
    return result;
  }

  bool out_of_budget() {
    if (nodes_ >= budget_) return true;
    if (limits_.seconds > 0 && (nodes_ & 255) == 0) {
      timed_out_ =
          timed_out_ || std::chrono::duration<double>(Clock::now() - start_).count() > limits_.seconds;
    }
    return timed_out_;
  }

  /// The members are prepared.
  Outcome search(std::vector<int> members) {
    ++nodes_;
    if (out_of_budget()) return Outcome::kLimit;
    const StateHash state = hash(members);
    if (failed_.count(state) != 0) {
      std::fill(why_.begin(), why_.end(), 0);
      for (const int i : members) join(why_.data(), reason(i));
      return Outcome::kFailed;
    }
    while (true) {
      const int b = choose(members);
      const size_t mark = trail_.size();
      offset_[b] = key_[b];
      const Outcome outcome = place(members, b);
      if (outcome == Outcome::kFound) return outcome;
      offset_[b] = -1;
      undo(mark);
      if (outcome == Outcome::kLimit) return outcome;
      if (!blamed(b)) break;  // fails wherever b is
      if (!lift_twins(members, b) || !prepare(members)) break;
    }
    if (failed_.size() < kMemory) failed_.insert(state);
    return Outcome::kFailed;
  }

  /// The buffer to place next, of those that can start lowest: one that is live in the section where the
  /// search goes on (Focus).
  int choose(const std::vector<int>& members) {
    const int32_t lowest = key_[members.front()];
    size_t count = 0;
    int begin = sections_, end = 0;
    while (count < members.size() && key_[members[count]] == lowest) {
      begin = std::min(begin, buffers_[members[count]].begin);
      end = std::max(end, buffers_[members[count]].end);
      ++count;
    }
    std::fill(cover_.begin() + begin, cover_.begin() + end, 0);
    std::fill(next_.begin() + begin, next_.begin() + end, capacity_);
    for (size_t k = 0; k < members.size(); ++k) {
      const int32_t key = key_[members[k]];
      if (k < count && twin_is_left(members[k])) continue;
      for (const auto& [from, to] : buffers_[members[k]].live) {
        if (k < count) {
          for (int s = from; s < to; ++s) ++cover_[s];
        } else {
          lower_to(next_.data(), std::max(from, begin), std::min(to, end), key);
        }
      }
    }
    int best = begin;
    int64_t best_score = std::numeric_limits<int64_t>::max();
    for (int s = begin; s < end; ++s) {
      if (cover_[s] == 0) continue;
      const int64_t room = capacity_ - top_[s];
      // Where there is room for it, that none of them comes next is one more.
      const int64_t options = cover_[s] + (room >= next_[s] - lowest ? 1 : 0);
      int64_t score = 0;
      switch (strategy_.focus) {
        case Focus::kOptions:
          score = options * (int64_t{1} << 32) + room;
          break;
        case Focus::kRoom:
          score = room * 1000 + options;
          break;
        case Focus::kBoth:
          score = (room + capacity_ / 64) * options;
          break;
      }
      if (options == 1) score = -1;  // no choice: soonest
      if (score < best_score) {
        best_score = score;
        best = s;
      }
    }
    options_.clear();
    for (size_t k = 0; k < count; ++k) {
      if (twin_is_left(members[k])) continue;
      if (live_at(members[k], best)) options_.push_back(members[k]);
    }
    return strategy_.look_ahead && options_.size() > 1 ? look_ahead(members) : options_.front();
  }

  /// The option after which the bounds of all sections together are least. One that can't be next at all is
  /// taken at once: it fails at once, too, and is lifted.
  int look_ahead(const std::vector<int>& members) {
    int begin = sections_, end = 0;
    for (const int i : members) {
      begin = std::min(begin, buffers_[i].begin);
      end = std::max(end, buffers_[i].end);
    }
    int chosen = -1;
    int64_t least = 0;
    looking_ = true;
    for (const int i : options_) {
      const size_t mark = trail_.size();
      const int32_t top = key_[i] + buffers_[i].size;
      offset_[i] = key_[i];
      bool possible = push_up(i);
      int64_t sum = 0;
      if (possible) {
        rest_.clear();
        for (const int j : members) {
          if (j != i) rest_.push_back(j);
        }
        possible = prepare(rest_);
        for (const auto& [from, to] : buffers_[i].live) {
          for (int s = from; s < to; ++s) top_[s] = std::max(top_[s], top);
        }
        for (int s = begin; s < end; ++s) sum += top_[s];
      }
      offset_[i] = -1;
      undo(mark);
      if (!possible) {
        looking_ = false;
        return i;
      }
      if (chosen < 0 || sum < least) {
        chosen = i;
        least = sum;
      }
    }
    looking_ = false;
    return chosen;
  }

  /// Buffer b isn't where its key is, because of `excluded`; then it lies on another one that is left. False,
  /// and why, if there is none.
  bool lift(int b, const std::vector<uint64_t>& excluded) {
    int32_t support = std::numeric_limits<int32_t>::max();
    for (const int j : buffers_[b].conflicts) {
      if (offset_[j] >= 0) continue;
      const int32_t top = key_[j] + buffers_[j].size;
      if (top > key_[b]) support = std::min(support, top);
    }
    std::copy_n(reason(b), words_, why_.begin());
    join(why_.data(), excluded.data());
    for (const int j : buffers_[b].conflicts) {
      if (buffers_[j].size >= support) continue;  // too large to be a lower support, wherever it is
      if (offset_[j] >= 0) {
        add(why_.data(), j);
      } else {
        join(why_.data(), reason(j));
      }
    }
    if (support == std::numeric_limits<int32_t>::max() || !raise(b, support)) return false;
    std::copy(why_.begin(), why_.end(), reason(b));
    return true;
  }

  /// What is excluded for b is excluded for those that are the same.
  bool lift_twins(const std::vector<int>& members, int b) {
    const int32_t key = key_[b];
    twins_.clear();
    for (const int i : members) {
      if (key_[i] == key && buffers_[i].shape == buffers_[b].shape) twins_.push_back(i);
    }
    excluded_ = why_;
    excluded_[b / 64] &= ~(uint64_t{1} << (b % 64));
    return std::all_of(twins_.begin(), twins_.end(), [&](int i) { return lift(i, excluded_); });
  }

  bool twin_is_left(int b) const {
    const int twin = buffers_[b].twin;
    return twin >= 0 && offset_[twin] < 0 && key_[twin] == key_[b];
  }

  Outcome place(const std::vector<int>& members, int b) {
    if (!push_up(b)) return Outcome::kFailed;
    std::vector<int> rest;
    rest.reserve(members.size());
    for (const int i : members) {
      if (i != b) rest.push_back(i);
    }
    if (rest.empty()) return Outcome::kFound;
    std::vector<std::vector<int>> groups = split(rest);
    for (auto& group : groups) {
      if (!prepare(group)) return Outcome::kFailed;
    }
    // Small parts fail or succeed soonest.
    std::stable_sort(groups.begin(), groups.end(),
                     [](const auto& x, const auto& y) { return x.size() < y.size(); });
    Outcome outcome = Outcome::kFound;
    for (size_t g = 0; g < groups.size() && outcome == Outcome::kFound; ++g) {
      if (groups.size() > 1) prepare(groups[g]);  // the bound of the part, which the choice looks at
      outcome = search(std::move(groups[g]));
    }
    if (outcome != Outcome::kFound) {
      for (const int i : rest) offset_[i] = -1;
    }
    return outcome;
  }

  static constexpr size_t kMemory = 4'000'000;

  SearchLimits limits_;
  Clock::time_point start_;
  int32_t capacity_ = 0;
  int sections_ = 0;
  std::vector<Item> buffers_;
  std::vector<int32_t> key_;
  std::vector<int32_t> offset_;
  std::vector<int> rank_;
  std::vector<int32_t> top_;
  std::vector<int> cover_;
  std::vector<int32_t> next_;
  bool looking_ = false;
  std::vector<int> options_, rest_, twins_;
  Strategy strategy_;
  std::vector<std::pair<int, int32_t>> trail_;
  size_t words_ = 0;
  std::vector<uint64_t> reasons_, old_reasons_;
  std::vector<uint64_t> why_, excluded_;  ///< of the last failure
  std::unordered_set<StateHash, StateHasher> failed_;
  int64_t nodes_ = 0;
  int64_t budget_ = 0;
  bool timed_out_ = false;
};

/// The first restarts use plain orders, later ones shuffle them a little.
Strategy strategy_of(const PackingProblem& problem, int restart, uint64_t seed) {
  static const std::vector<std::string> orders = {"area", "lifetime", "load", "size"};
  constexpr Focus kFocuses[] = {Focus::kBoth, Focus::kOptions, Focus::kRoom};
  const int n = static_cast<int>(problem.buffers.size());
  Strategy strategy;
  strategy.focus = kFocuses[restart % 3];
  strategy.look_ahead = restart / 3 % 2 == 1;
  std::vector<int> order = packing_order(problem, orders[static_cast<size_t>(restart) % orders.size()]);
  if (restart >= static_cast<int>(orders.size())) {
    PackingRandom random(seed + static_cast<uint64_t>(restart));
    std::vector<double> place(n);
    for (int p = 0; p < n; ++p) place[order[p]] = p + random.unit() * n * 0.25;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return place[a] < place[b]; });
  }
  strategy.rank.resize(n);
  for (int p = 0; p < n; ++p) strategy.rank[order[p]] = p;
  return strategy;
}

PackingSolution solve(const PackingProblem& problem, const SearchLimits& limits, int64_t restarts,
                      int64_t first_budget, uint64_t seed, int64_t improve_steps) {
  const PackingConflicts conflicts(problem);
  std::vector<int64_t> best;
  int64_t placed = 0;
  const auto keep = [&](std::vector<int64_t> offsets) {
    placed += static_cast<int64_t>(offsets.size());
    if (offsets.empty()) return;
    if (best.empty() || packing_height(problem, offsets) < packing_height(problem, best)) {
      best = std::move(offsets);
    }
  };
  for (const std::string& by : packing_orders()) {
    keep(place_in_order(problem, conflicts, packing_order(problem, by)));
    if (best.empty()) {
      PackingSolution result = finish_packing(problem, {}, placed, "");
      result.status = PackingStatus::kInfeasible;
      result.message = "two fixed offsets contradict each other";
      return result;
    }
    if (packing_height(problem, best) <= problem.capacity) {
      return finish_packing(problem, best, placed, "first fit by " + by);
    }
  }
  PackingSolution result = finish_packing(problem, best, placed, "");
  if (result.status == PackingStatus::kInfeasible) return result;

  const bool windows =
      std::any_of(problem.buffers.begin(), problem.buffers.end(), [](const PackingBuffer& b) {
        return std::any_of(b.gaps.begin(), b.gaps.end(), [](const PackingGap& g) {
          return g.has_window && g.window_lower < g.window_upper;
        });
      });
  const int64_t unit = gcd_of(problem);
  if (problem.capacity / unit > std::numeric_limits<int32_t>::max() / 4) {
    throw isa::UnsupportedError(
        fmt::format("{}: the exact packer counts up to {} units of {} bytes (the largest divisor of all "
                    "sizes), the capacity is "
                    "{}; use the packer 'improve'",
                    problem.name, std::numeric_limits<int32_t>::max() / 4, unit, problem.capacity));
  }

  Search search(problem, unit, limits);
  const std::vector<std::vector<int>> parts = search.parts();
  std::vector<bool> done(parts.size(), false);
  std::vector<int64_t> offsets(problem.buffers.size(), 0);
  size_t open = parts.size();
  bool infeasible = false;
  int64_t budget = first_budget;
  int used = 0;
  for (int restart = 0; restart < restarts && open > 0 && !infeasible && !search.exhausted(); ++restart) {
    const Strategy strategy = strategy_of(problem, restart, seed);
    used = restart + 1;
    for (size_t p = 0; p < parts.size() && !infeasible; ++p) {
      if (done[p]) continue;
      const bool last = restart + 1 == restarts;
      const Outcome outcome = search.run(parts[p], strategy, last ? limits.nodes : budget);
      if (outcome == Outcome::kFailed) infeasible = true;
      if (outcome != Outcome::kFound) continue;
      done[p] = true;
      --open;
      for (const int i : parts[p]) offsets[i] = static_cast<int64_t>(search.offset(i)) * unit;
    }
    if (restart % 6 == 5) budget += budget / 8;
  }
  result.nodes = placed + search.nodes();
  if (open == 0) {
    return finish_packing(problem, offsets, result.nodes, fmt::format("search, {} restarts", used - 1));
  }
  if (infeasible && !windows) {
    result.status = PackingStatus::kInfeasible;
    result.message = "searched exhaustively";
    return result;
  }
  // At least a low packing.
  int64_t improved = 0;
  keep(improve_order(problem, conflicts, packing_order(problem, "size"), improve_steps, seed, &improved));
  result = finish_packing(problem, best, result.nodes + improved,
                          search.timed_out() ? "time limit" : "node limit");
  if (result.status == PackingStatus::kSolved) result.message = "improved first fit";
  return result;
}

}  // namespace

Packer exact_packer() {
  Packer packer;
  packer.name = "exact";
  packer.description = "first fit, then branch and bound with restarts; proves infeasibility";
  packer.options = {
      {"nodes", "500000", "limit of the search's nodes"},
      {"restarts", "400", "runs of the search, each by another order"},
      {"budget", "100",
       "nodes of the first runs beyond one per buffer; later ones have more, the last has what is left"},
      {"seed", "1", "of the random orders"},
      {"improve", "500", "if it gives up: steps of the packer 'improve'"},
      {"seconds", "0", "time limit (0: none); a result that depends on it is always \"gave up\""}};
  packer.run = [packer](const PackingProblem& problem, const passes::PassOptions& options) {
    const auto whole = [&](std::string_view name, int64_t least) {
      return passes::integer_option(options, passes::declared_option(packer.options, name), least);
    };
    SearchLimits limits;
    limits.nodes = whole("nodes", 0);
    limits.seconds = static_cast<double>(whole("seconds", 0));
    return solve(problem, limits, whole("restarts", 1), whole("budget", 1),
                 static_cast<uint64_t>(whole("seed", 0)), whole("improve", 0));
  };
  return packer;
}

}  // namespace kodama::scheduler
