#include "scheduler/optimizer/cluster_scheduling.h"

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>

#include "isa/error.h"

namespace kodama::scheduler {
namespace {

using isa::Access;
using isa::HazardResource;
using isa::IssueGroup;

bool is_local_memory(HazardResource resource) {
  return resource == HazardResource::kLm0 || resource == HazardResource::kLm1;
}

/// Whether the addresses meet, other than at the one port of LM.
bool meet(const Access& a, const Access& b, const isa::Chip& chip) {
  if (!is_local_memory(a.resource)) return isa::required_gap(a, b, chip) != isa::kNoConstraint;
  if (a.whole || b.whole) return true;
  const int64_t wrap = chip.memory.lm_words;
  for (int i = 0; i < a.cycles; ++i) {
    if ((a.active_cycles >> i & 1) == 0) continue;
    for (int j = 0; j < b.cycles; ++j) {
      if ((b.active_cycles >> j & 1) == 0) continue;
      const int64_t distance =
          ((b.begin[static_cast<size_t>(j)] - a.begin[static_cast<size_t>(i)]) % wrap + wrap) % wrap;
      if (distance < a.length || wrap - distance < b.length) return true;
    }
  }
  return false;
}
bool conflict(const Access& a, const Access& b, const isa::Chip& chip) {
  return a.resource == b.resource && (a.write || b.write) && meet(a, b, chip);
}

/// What two operations of different steps have to do with each other.
struct Relation {
  bool ordered = false;
  bool dar = false;
  int64_t gap = isa::kNoConstraint;  ///< ports included
};
Relation relation(const std::vector<Access>& first, const std::vector<Access>& second,
                  const isa::Chip& chip) {
  Relation result;
  for (const Access& a : first) {
    for (const Access& b : second) {
      if (a.resource != b.resource || (!a.write && !b.write)) continue;
      const int64_t gap = isa::required_gap(a, b, chip);
      if (gap == isa::kNoConstraint) continue;
      result.gap = std::max(result.gap, gap);
      if (result.ordered && a.resource != HazardResource::kDar) continue;
      if (!meet(a, b, chip)) continue;
      result.ordered = true;
      result.dar = result.dar || a.resource == HazardResource::kDar;
    }
  }
  return result;
}
int64_t time_difference(int64_t gap, bool first_is_mv, bool second_is_mv) {
  // An MV issues just before the step of its time: later than the steps before, not later than that step.
  if (second_is_mv) gap = std::max<int64_t>(gap, 0);
  return first_is_mv ? std::max<int64_t>(gap, 0) : gap + 1;
}

bool has_mask(const isa::Instruction& instruction) {
  return instruction.zero_flush.kind != isa::Mask::Kind::kNone ||
         std::ranges::any_of(instruction.destinations, [](const isa::Operand& destination) {
           return destination.mask.kind != isa::Mask::Kind::kNone;
         });
}

/// Sets of operations with fixed differences of times.
class TiedSets {
 public:
  explicit TiedSets(int n) : parent_(static_cast<size_t>(n)), offset_(static_cast<size_t>(n), 0) {
    for (int i = 0; i < n; ++i) parent_[static_cast<size_t>(i)] = i;
  }
  /// The set's representative, and the time after that of the representative.
  std::pair<int, int64_t> find(int i) const {
    int64_t offset = 0;
    while (parent_[static_cast<size_t>(i)] != i) {
      offset += offset_[static_cast<size_t>(i)];
      i = parent_[static_cast<size_t>(i)];
    }
    return {i, offset};
  }
  /// time(b) = time(a) + difference; false when that contradicts what is known.
  bool tie(int a, int b, int64_t difference) {
    const auto [root_a, offset_a] = find(a);
    const auto [root_b, offset_b] = find(b);
    if (root_a == root_b) return offset_b == offset_a + difference;
    parent_[static_cast<size_t>(root_b)] = root_a;
    offset_[static_cast<size_t>(root_b)] = offset_a + difference - offset_b;
    return true;
  }

 private:
  std::vector<int> parent_;
  std::vector<int64_t> offset_;
};

}  // namespace

int64_t least_time_difference(const std::vector<Access>& first, bool first_is_mv,
                              const std::vector<Access>& second, bool second_is_mv, const isa::Chip& chip) {
  const Relation found = relation(first, second, chip);
  return found.gap < 0 ? isa::kNoConstraint : time_difference(found.gap, first_is_mv, second_is_mv);
}

int64_t delay_behind(const std::vector<RecentOperation>& before,
                     const std::vector<RecentOperation>& operations, const isa::Chip& chip) {
  int64_t delay = 0;
  for (const RecentOperation& operation : operations) {
    for (const RecentOperation& recent : before) {
      const int64_t difference =
          least_time_difference(recent.accesses, recent.is_mv, operation.accesses, operation.is_mv, chip);
      if (difference >= 0) delay = std::max(delay, recent.time + difference - operation.time);
    }
  }
  return delay;
}

ClusterScheduler::ClusterScheduler(const StreamSegment& segment, const std::vector<RecentOperation>& before,
                                   const isa::Chip& chip, bool keep_distances)
    : segment_(segment), chip_(chip), n_(static_cast<int>(segment.operations.size())) {
  const auto n = static_cast<size_t>(n_);
  successors_.resize(n);
  predecessors_.resize(n);
  apart_.resize(n);
  earliest_.assign(n, 0);
  compatible_.assign(n * n, -1);
  for (const StreamOperation& operation : segment_.operations)
    groups_.push_back(isa::issue_group(operation.instruction));
  for (size_t k = 0; k < n; ++k) {
    const StreamOperation& operation = segment_.operations[k];
    for (const RecentOperation& recent : before) {
      const int64_t difference =
          least_time_difference(recent.accesses, recent.is_mv, operation.accesses, operation.is_mv, chip_);
      if (difference >= 0) earliest_[k] = std::max(earliest_[k], recent.time + difference);
    }
  }
  find_dependences();
  find_clusters(keep_distances);
  if (consistent_) find_heights();
}

void ClusterScheduler::find_dependences() {
  const auto& operations = segment_.operations;
  const auto add = [&](int from, int to, int64_t distance) {
    successors_[static_cast<size_t>(from)].push_back({to, distance});
    predecessors_[static_cast<size_t>(to)].push_back({from, distance});
  };
  std::vector<bool> touches(static_cast<size_t>(n_));
  for (int k = 0; k < n_; ++k) {
    touches[static_cast<size_t>(k)] =
        operations[static_cast<size_t>(k)].is_mv ||
        std::ranges::any_of(operations[static_cast<size_t>(k)].accesses,
                            [](const Access& a) { return isa::is_transfer_memory(a.resource); });
  }
  for (int j = 0; j < n_; ++j) {
    const StreamOperation& second = operations[static_cast<size_t>(j)];
    for (int i = 0; i < j; ++i) {
      const StreamOperation& first = operations[static_cast<size_t>(i)];
      const bool one_step = !first.is_mv && !second.is_mv && first.time == second.time;
      if (first.is_wait || second.is_wait) {
        // A wait holds up what stands beside it: it stays behind all that came before. What touches the
        // memories of transfers stays behind it.
        if (one_step) {
          const int wait = first.is_wait ? i : j;
          const int other = first.is_wait ? j : i;
          if (touches[static_cast<size_t>(other)]) add(wait, other, 0);
        } else if (second.is_wait) {
          add(i, j, first.is_wait ? 1 : 0);
        } else if (second.is_mv) {
          add(i, j, 1);
        } else if (touches[static_cast<size_t>(j)]) {
          add(i, j, 0);
        }
        continue;
      }
      if (one_step) {
        // All operands are read before anything is written.
        bool forward = false;
        bool backward = false;
        bool both = first.shares_masks && second.shares_masks;
        for (const Access& a : first.accesses) {
          for (const Access& b : second.accesses) {
            if (!conflict(a, b, chip_)) continue;
            both = both || (a.write && b.write);
            forward = forward || (!a.write && b.write);
            backward = backward || (a.write && !b.write);
          }
        }
        if (both || (forward && backward)) {
          bundled_.emplace_back(i, j);
        } else if (forward) {
          add(i, j, 0);
        } else if (backward) {
          add(j, i, 0);
        }
        continue;
      }
      const Relation found = relation(first.accesses, second.accesses, chip_);
      if (first.is_mv && second.is_mv) {
        // Transfers keep their order, and the pace at which the hardware starts them.
        const int64_t pace = std::min(second.time - first.time, chip_.transfer.issue_interval_steps);
        add(i, j, std::max<int64_t>({pace, found.gap, 0}));
      } else if (found.ordered) {
        int64_t distance = time_difference(found.gap, first.is_mv, second.is_mv);
        // Nobody knows what the DAR needs (section 6.2 of the ISA page): what the input gives it.
        if (found.dar) distance = std::max(distance, second.time - first.time);
        add(i, j, distance);
      } else if (!first.is_mv && !second.is_mv) {
        const Relation reverse = relation(second.accesses, first.accesses, chip_);
        const int64_t i_first = time_difference(found.gap, false, false);
        const int64_t j_first = time_difference(reverse.gap, false, false);
        if (i_first > 1 || j_first > 1) {
          apart_[static_cast<size_t>(i)].push_back({j, j_first, i_first});
          apart_[static_cast<size_t>(j)].push_back({i, i_first, j_first});
        }
      }
    }
  }
}

void ClusterScheduler::find_clusters(bool keep_distances) {
  const auto& operations = segment_.operations;
  TiedSets sets(n_);
  for (const auto& [a, b] : bundled_) consistent_ = consistent_ && sets.tie(a, b, 0);
  // Steps between the operations of a link: the same for all links between two steps of the input.
  std::map<std::pair<int64_t, int64_t>, int64_t> distances;
  const auto key = [&](const ForwardLink& link) {
    return std::pair(operations[static_cast<size_t>(link.producer)].time,
                     operations[static_cast<size_t>(link.consumer)].time);
  };
  for (const ForwardLink& link : segment_.links) {
    int64_t& distance = distances.try_emplace(key(link), 1).first->second;
    for (const Edge& edge : successors_[static_cast<size_t>(link.producer)]) {
      if (edge.to == link.consumer) distance = std::max(distance, edge.distance);
    }
    if (keep_distances) distance = key(link).second - key(link).first;
  }
  for (const ForwardLink& link : segment_.links) {
    consistent_ = consistent_ && sets.tie(link.producer, link.consumer, distances.at(key(link)));
  }
  if (!consistent_) return;

  // Clusters that depend on each other issue as one, at the distances of the input.
  for (bool changed = true; changed;) {
    changed = false;
    std::map<int, int> number;  // of the sets, by representative
    std::vector<int> cluster(static_cast<size_t>(n_));
    for (int k = 0; k < n_; ++k) {
      cluster[static_cast<size_t>(k)] =
          number.try_emplace(sets.find(k).first, static_cast<int>(number.size())).first->second;
    }
    const int count = static_cast<int>(number.size());
    std::vector<std::set<int>> to(static_cast<size_t>(count));
    for (int k = 0; k < n_; ++k) {
      for (const Edge& edge : successors_[static_cast<size_t>(k)]) {
        const int a = cluster[static_cast<size_t>(k)];
        const int b = cluster[static_cast<size_t>(edge.to)];
        if (a != b) to[static_cast<size_t>(a)].insert(b);
      }
    }
    // Whatever can't be taken off from the front or the back again and again is on or between cycles.
    std::vector<int> incoming(static_cast<size_t>(count), 0);
    for (const auto& targets : to) {
      for (const int b : targets) ++incoming[static_cast<size_t>(b)];
    }
    std::vector<int> ready;
    for (int a = 0; a < count; ++a) {
      if (incoming[static_cast<size_t>(a)] == 0) ready.push_back(a);
    }
    int taken = 0;
    std::vector<bool> is_taken(static_cast<size_t>(count));
    while (!ready.empty()) {
      const int a = ready.back();
      ready.pop_back();
      is_taken[static_cast<size_t>(a)] = true;
      ++taken;
      for (const int b : to[static_cast<size_t>(a)]) {
        if (--incoming[static_cast<size_t>(b)] == 0) ready.push_back(b);
      }
    }
    if (taken == count) break;
    if (!keep_distances) {
      consistent_ = false;  // the caller tries again with the distances of the input
      return;
    }
    // Ties the members of one cycle: from any cluster left, along clusters left, until one comes again.
    int at = 0;
    while (is_taken[static_cast<size_t>(at)]) ++at;
    // What is left may be behind a cycle: go backwards, every cluster left has a predecessor that is left.
    std::vector<std::vector<int>> from(static_cast<size_t>(count));
    for (int a = 0; a < count; ++a) {
      for (const int b : to[static_cast<size_t>(a)]) {
        if (!is_taken[static_cast<size_t>(a)]) from[static_cast<size_t>(b)].push_back(a);
      }
    }
    std::vector<int> path;
    std::vector<int> position(static_cast<size_t>(count), -1);
    while (position[static_cast<size_t>(at)] < 0) {
      position[static_cast<size_t>(at)] = static_cast<int>(path.size());
      path.push_back(at);
      at = from[static_cast<size_t>(at)].front();
    }
    std::vector<int> some(static_cast<size_t>(count), -1);  // a member of each cluster
    for (int k = 0; k < n_; ++k) some[static_cast<size_t>(cluster[static_cast<size_t>(k)])] = k;
    const int first = some[static_cast<size_t>(at)];
    for (size_t p = static_cast<size_t>(position[static_cast<size_t>(at)]); p < path.size(); ++p) {
      const int other = some[static_cast<size_t>(path[p])];
      sets.tie(first, other,
               operations[static_cast<size_t>(other)].time - operations[static_cast<size_t>(first)].time);
    }
    changed = true;
  }

  cluster_of_.assign(static_cast<size_t>(n_), -1);
  std::map<int, int> number;
  for (int k = 0; k < n_; ++k) {
    const auto [root, offset] = sets.find(k);
    const auto [entry, is_new] = number.try_emplace(root, static_cast<int>(clusters_.size()));
    if (is_new) clusters_.emplace_back();
    Cluster& cluster = clusters_[static_cast<size_t>(entry->second)];
    if (is_new) cluster.first = k;
    cluster.members.push_back(k);
    cluster.offsets.push_back(offset);
    cluster_of_[static_cast<size_t>(k)] = entry->second;
  }
  for (Cluster& cluster : clusters_) {
    const int64_t least = *std::ranges::min_element(cluster.offsets);
    for (int64_t& offset : cluster.offsets) offset -= least;
  }
  const auto offset_of = [&](int k) {
    const Cluster& cluster = clusters_[static_cast<size_t>(cluster_of_[static_cast<size_t>(k)])];
    const auto member = std::ranges::find(cluster.members, k);
    return cluster.offsets[static_cast<size_t>(member - cluster.members.begin())];
  };
  for (const ForwardLink& link : segment_.links) {
    Cluster& cluster = clusters_[static_cast<size_t>(cluster_of_[static_cast<size_t>(link.producer)])];
    for (int64_t t = offset_of(link.producer) + 1; t < offset_of(link.consumer); ++t)
      cluster.empty.push_back(t);
  }
  // Inside a cluster nothing can be moved any more: it must be right as it is.
  for (int k = 0; k < n_ && consistent_; ++k) {
    const int c = cluster_of_[static_cast<size_t>(k)];
    for (const Edge& edge : successors_[static_cast<size_t>(k)]) {
      if (cluster_of_[static_cast<size_t>(edge.to)] != c) continue;
      if (offset_of(edge.to) - offset_of(k) < edge.distance) consistent_ = false;
    }
    for (const Apart& apart : apart_[static_cast<size_t>(k)]) {
      if (cluster_of_[static_cast<size_t>(apart.other)] != c) continue;
      const int64_t after = offset_of(apart.other) - offset_of(k);
      if (after > 0 && after < apart.before_other) consistent_ = false;
    }
    const Cluster& cluster = clusters_[static_cast<size_t>(c)];
    for (size_t m = 0; m < cluster.members.size() && consistent_; ++m) {
      const int other = cluster.members[m];
      if (other == k || cluster.offsets[m] != offset_of(k)) continue;
      const bool mv = segment_.operations[static_cast<size_t>(k)].is_mv ||
                      segment_.operations[static_cast<size_t>(other)].is_mv;
      if (!mv && !compatible(k, other)) consistent_ = false;
    }
    for (const int64_t t : cluster.empty) {
      if (t == offset_of(k) && !segment_.operations[static_cast<size_t>(k)].is_mv) consistent_ = false;
    }
  }
}

void ClusterScheduler::find_heights() {
  // Ties are dependences in both directions; the height of a cluster is that of its start.
  height_.assign(static_cast<size_t>(n_), 0);
  std::vector<int> waiting(clusters_.size(), 0);
  std::vector<std::set<int>> from(clusters_.size());
  for (int k = 0; k < n_; ++k) {
    for (const Edge& edge : successors_[static_cast<size_t>(k)]) {
      const int a = cluster_of_[static_cast<size_t>(k)];
      const int b = cluster_of_[static_cast<size_t>(edge.to)];
      if (a != b) from[static_cast<size_t>(b)].insert(a);
    }
  }
  for (const auto& sources : from) {
    for (const int a : sources) ++waiting[static_cast<size_t>(a)];
  }
  std::vector<int> ready;
  for (size_t c = 0; c < clusters_.size(); ++c) {
    if (waiting[c] == 0) ready.push_back(static_cast<int>(c));
  }
  while (!ready.empty()) {
    const int c = ready.back();
    ready.pop_back();
    Cluster& cluster = clusters_[static_cast<size_t>(c)];
    for (size_t m = 0; m < cluster.members.size(); ++m) {
      const int k = cluster.members[m];
      const bool is_mv = segment_.operations[static_cast<size_t>(k)].is_mv;
      cluster.height = std::max(cluster.height, cluster.offsets[m] + (is_mv ? 0 : 1));
      for (const Edge& edge : successors_[static_cast<size_t>(k)]) {
        if (cluster_of_[static_cast<size_t>(edge.to)] == c) continue;
        const Cluster& other = clusters_[static_cast<size_t>(cluster_of_[static_cast<size_t>(edge.to)])];
        const auto member = std::ranges::find(other.members, edge.to);
        const int64_t inside = other.offsets[static_cast<size_t>(member - other.members.begin())];
        cluster.height = std::max(cluster.height, cluster.offsets[m] + edge.distance - inside + other.height);
      }
    }
    for (const int a : from[static_cast<size_t>(c)]) {
      if (--waiting[static_cast<size_t>(a)] == 0) ready.push_back(a);
    }
  }
  for (const Cluster& cluster : clusters_) {
    int64_t start = 0;
    for (size_t m = 0; m < cluster.members.size(); ++m)
      start = std::max(start, earliest_[static_cast<size_t>(cluster.members[m])] - cluster.offsets[m]);
    critical_path_ = std::max(critical_path_, start + cluster.height);
  }
}

bool ClusterScheduler::compatible(int a, int b) const {
  int8_t& known = compatible_[static_cast<size_t>(a) * static_cast<size_t>(n_) + static_cast<size_t>(b)];
  if (known >= 0) return known == 1;
  const StreamOperation& x = segment_.operations[static_cast<size_t>(a)];
  const StreamOperation& y = segment_.operations[static_cast<size_t>(b)];
  bool result = groups_[static_cast<size_t>(a)] != groups_[static_cast<size_t>(b)];
  // Where a mask statement is in force, an own mask beside it would lift it.
  if (result && segment_.has_block_mask && x.time != y.time)
    result = !has_mask(x.instruction) && !has_mask(y.instruction);
  if (result && !x.is_wait && !y.is_wait)
    result = isa::issue_conflict({x.instruction, y.instruction}, chip_).empty();
  known = result ? 1 : 0;
  compatible_[static_cast<size_t>(b) * static_cast<size_t>(n_) + static_cast<size_t>(a)] = known;
  return result;
}

struct ClusterScheduler::Filling {
  std::vector<std::vector<int>> steps;
  std::vector<bool> sealed;  ///< nothing may issue
  Times times;               ///< -1 = not yet
  std::vector<int> waiting_for;
};

int64_t ClusterScheduler::earliest_start(const Filling& filling, const Cluster& cluster) const {
  int64_t start = 0;
  const int c = cluster_of_[static_cast<size_t>(cluster.members[0])];
  for (size_t m = 0; m < cluster.members.size(); ++m) {
    const auto k = static_cast<size_t>(cluster.members[m]);
    start = std::max(start, earliest_[k] - cluster.offsets[m]);
    for (const Edge& edge : predecessors_[k]) {
      if (cluster_of_[static_cast<size_t>(edge.to)] == c) continue;
      start =
          std::max(start, filling.times[static_cast<size_t>(edge.to)] + edge.distance - cluster.offsets[m]);
    }
  }
  return start;
}

bool ClusterScheduler::fits(const Filling& filling, const Cluster& cluster, int64_t start, bool alone) const {
  const auto size = static_cast<int64_t>(filling.steps.size());
  for (const int64_t offset : cluster.empty) {
    if (start + offset < size && !filling.steps[static_cast<size_t>(start + offset)].empty()) return false;
  }
  for (size_t m = 0; m < cluster.members.size(); ++m) {
    const int k = cluster.members[m];
    if (segment_.operations[static_cast<size_t>(k)].is_mv) continue;
    const int64_t t = start + cluster.offsets[m];
    if (t < size) {
      if (filling.sealed[static_cast<size_t>(t)]) return false;
      const std::vector<int>& step = filling.steps[static_cast<size_t>(t)];
      if (alone && !step.empty()) return false;
      int matrix_units = 0;
      const auto is_matrix_unit = [&](int other) {
        const IssueGroup group = groups_[static_cast<size_t>(other)];
        return group == IssueGroup::kMauCalc || group == IssueGroup::kMauMwrite ||
               group == IssueGroup::kMauMread;
      };
      for (const int other : step) {
        if (!compatible(k, other)) return false;
        matrix_units += is_matrix_unit(other) ? 1 : 0;
      }
      if (matrix_units == 2 && is_matrix_unit(k)) return false;
    }
    for (const Apart& apart : apart_[static_cast<size_t>(k)]) {
      const int64_t other = filling.times[static_cast<size_t>(apart.other)];
      if (other < 0) continue;
      if (other < t && t - other < apart.after_other) return false;
      if (other > t && other - t < apart.before_other) return false;
    }
  }
  return true;
}

void ClusterScheduler::place(Filling& filling, int c, int64_t start) const {
  const Cluster& cluster = clusters_[static_cast<size_t>(c)];
  const auto reach = [&](int64_t t) {
    if (static_cast<int64_t>(filling.steps.size()) > t) return;
    filling.steps.resize(static_cast<size_t>(t) + 1);
    filling.sealed.resize(static_cast<size_t>(t) + 1);
  };
  for (size_t m = 0; m < cluster.members.size(); ++m) {
    const int k = cluster.members[m];
    const int64_t t = start + cluster.offsets[m];
    filling.times[static_cast<size_t>(k)] = t;
    if (!segment_.operations[static_cast<size_t>(k)].is_mv) {
      reach(t);
      filling.steps[static_cast<size_t>(t)].push_back(k);
    }
    for (const Edge& edge : successors_[static_cast<size_t>(k)]) {
      const int other = cluster_of_[static_cast<size_t>(edge.to)];
      if (other != c) --filling.waiting_for[static_cast<size_t>(other)];
    }
  }
  for (const int64_t offset : cluster.empty) {
    reach(start + offset);
    filling.sealed[static_cast<size_t>(start + offset)] = true;
  }
}

std::vector<int> ClusterScheduler::waits_before() const {
  const size_t count = clusters_.size();
  // Waits keep their order, so those before a cluster are as many as the last of them has before it.
  std::vector<int> waits(count, 0);
  std::vector<int> waiting_for(count, 0);
  std::vector<bool> is_wait(count);
  std::vector<size_t> ready;
  for (size_t k = 0; k < static_cast<size_t>(n_); ++k) {
    const int c = cluster_of_[k];
    if (segment_.operations[k].is_wait) is_wait[static_cast<size_t>(c)] = true;
    for (const Edge& edge : successors_[k]) {
      const int other = cluster_of_[static_cast<size_t>(edge.to)];
      if (other != c) ++waiting_for[static_cast<size_t>(other)];
    }
  }
  for (size_t c = 0; c < count; ++c) {
    if (waiting_for[c] == 0) ready.push_back(c);
  }
  for (size_t next = 0; next < ready.size(); ++next) {
    const size_t c = ready[next];
    if (is_wait[c]) ++waits[c];
    for (const int k : clusters_[c].members) {
      for (const Edge& edge : successors_[static_cast<size_t>(k)]) {
        const auto other = static_cast<size_t>(cluster_of_[static_cast<size_t>(edge.to)]);
        if (other == c) continue;
        waits[other] = std::max(waits[other], waits[c]);
        if (--waiting_for[other] == 0) ready.push_back(other);
      }
    }
  }
  return waits;
}

std::optional<ClusterScheduler::Times> ClusterScheduler::list(int variant, int64_t limit,
                                                              bool late_waits) const {
  const size_t count = clusters_.size();
  std::vector<double> urgency(count);  // smaller comes first
  std::mt19937_64 random(static_cast<uint64_t>(variant));
  for (size_t c = 0; c < count; ++c) {
    urgency[c] =
        variant == 1 ? static_cast<double>(clusters_[c].first) : -static_cast<double>(clusters_[c].height);
    // The library's distributions differ between libraries; this doesn't.
    if (variant > 1)
      urgency[c] += static_cast<double>(random() % 1000) / 1000 * static_cast<double>(1 + variant % 8);
  }
  Filling filling;
  filling.times.assign(static_cast<size_t>(n_), -1);
  filling.waiting_for.assign(count, 0);
  for (int k = 0; k < n_; ++k) {
    for (const Edge& edge : successors_[static_cast<size_t>(k)]) {
      const int other = cluster_of_[static_cast<size_t>(edge.to)];
      if (other != cluster_of_[static_cast<size_t>(k)]) ++filling.waiting_for[static_cast<size_t>(other)];
    }
  }
  std::vector<size_t> order(count);
  for (size_t c = 0; c < count; ++c) order[c] = c;
  std::ranges::stable_sort(order, {}, [&](size_t c) { return urgency[c]; });
  // With late waits: undone clusters by the number of waits before them, those of waits by one less.
  std::vector<int> waits;
  std::vector<int> free_work;
  std::vector<bool> holds(count);
  if (late_waits) {
    waits = waits_before();
    free_work.assign(static_cast<size_t>(n_) + 1, 0);
    for (size_t k = 0; k < static_cast<size_t>(n_); ++k) {
      if (segment_.operations[k].is_wait) holds[static_cast<size_t>(cluster_of_[k])] = true;
    }
    for (size_t c = 0; c < count; ++c) {
      if (!holds[c]) ++free_work[static_cast<size_t>(waits[c])];
    }
  }
  const auto is_held = [&](size_t c) {
    if (!holds[c]) return false;
    const auto before = free_work.begin();
    return std::any_of(before, before + waits[c], [](int left) { return left > 0; });
  };
  std::vector<int64_t> start(count, -1);  // known once all predecessors are placed
  size_t left = count;
  std::vector<bool> done(count);
  for (int64_t t = 0; left > 0; ++t) {
    if (t > limit) return std::nullopt;
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t& c : order) {
        if (done[c] || filling.waiting_for[c] > 0 || is_held(c)) continue;
        if (start[c] < 0) start[c] = earliest_start(filling, clusters_[c]);
        if (start[c] > t || !fits(filling, clusters_[c], t, false)) continue;
        place(filling, static_cast<int>(c), t);
        done[c] = true;
        if (late_waits && !holds[c]) --free_work[static_cast<size_t>(waits[c])];
        --left;
        progress = true;
      }
    }
    std::erase_if(order, [&](size_t c) { return done[c]; });
  }
  if (length(filling.times) > limit) return std::nullopt;
  return filling.times;
}

std::optional<ClusterScheduler::Times> ClusterScheduler::plain() const {
  Filling filling;
  filling.times.assign(static_cast<size_t>(n_), -1);
  filling.waiting_for.assign(clusters_.size(), 0);
  for (int k = 0; k < n_; ++k) {
    for (const Edge& edge : successors_[static_cast<size_t>(k)]) {
      const int other = cluster_of_[static_cast<size_t>(edge.to)];
      if (other != cluster_of_[static_cast<size_t>(k)]) ++filling.waiting_for[static_cast<size_t>(other)];
    }
  }
  std::vector<size_t> order(clusters_.size());
  for (size_t c = 0; c < order.size(); ++c) order[c] = c;
  std::ranges::stable_sort(
      order, {}, [&](size_t c) { return segment_.operations[static_cast<size_t>(clusters_[c].first)].time; });
  int64_t end = 0;
  while (!order.empty()) {
    const auto next = std::ranges::find_if(order, [&](size_t c) { return filling.waiting_for[c] == 0; });
    if (next == order.end()) return std::nullopt;
    const Cluster& cluster = clusters_[*next];
    int64_t t = std::max(end, earliest_start(filling, cluster));
    const int64_t give_up = t + 1000;
    while (!fits(filling, cluster, t, false)) {
      if (++t > give_up) return std::nullopt;
    }
    place(filling, static_cast<int>(*next), t);
    for (size_t m = 0; m < cluster.members.size(); ++m) {
      const bool is_mv = segment_.operations[static_cast<size_t>(cluster.members[m])].is_mv;
      end = std::max(end, t + cluster.offsets[m] + (is_mv ? 0 : 1));
    }
    order.erase(next);
  }
  return filling.times;
}

int64_t ClusterScheduler::length(const Times& times) const {
  int64_t length = 0;
  for (int k = 0; k < n_; ++k) {
    const bool is_mv = segment_.operations[static_cast<size_t>(k)].is_mv;
    length = std::max(length, times[static_cast<size_t>(k)] + (is_mv ? 0 : 1));
  }
  return length;
}

StepBounds ClusterScheduler::bounds() const {
  StepBounds bounds;
  bounds.critical_path = critical_path_;
  std::map<IssueGroup, int64_t> units;
  // Writes to a space in one step: one. Reads: as many as agree in all addresses.
  std::map<isa::Space, int64_t> writes;
  std::map<isa::Space, std::set<std::vector<int64_t>>> reads;
  for (int k = 0; k < n_; ++k) {
    const StreamOperation& operation = segment_.operations[static_cast<size_t>(k)];
    if (operation.is_mv) continue;
    ++units[groups_[static_cast<size_t>(k)]];
    for (const isa::Operand& source : operation.instruction.sources) {
      if (!isa::is_pe_memory(source.space)) continue;
      std::vector<int64_t> address{static_cast<int64_t>(source.width), source.j, source.t_indirect};
      for (int c = 0; c < isa::kCyclesPerStep; ++c) address.push_back(source.address(c));
      reads[source.space].insert(std::move(address));
    }
    for (const isa::Operand& destination : operation.instruction.destinations) {
      if (isa::is_pe_memory(destination.space) || destination.space == isa::Space::kT ||
          destination.space == isa::Space::kOmr)
        ++writes[destination.space];
    }
  }
  for (const auto& [group, uses] : units) {
    if (uses > bounds.unit) {
      bounds.unit = uses;
      bounds.unit_name = isa::issue_group_name(group);
    }
  }
  const auto port = [&](std::string_view what, isa::Space space, int64_t uses) {
    if (uses <= bounds.port) return;
    bounds.port = uses;
    bounds.port_name = fmt::format("{} of {}", what, isa::space_name(space));
  };
  for (const auto& [space, uses] : writes) port("writes", space, uses);
  for (const auto& [space, addresses] : reads) port("reads", space, static_cast<int64_t>(addresses.size()));
  bounds.steps = std::max({bounds.critical_path, bounds.unit, bounds.port});
  return bounds;
}

}  // namespace kodama::scheduler
