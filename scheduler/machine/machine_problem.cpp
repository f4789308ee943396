#include "scheduler/machine/machine_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "isa/error.h"

namespace kodama::scheduler {
namespace {

using isa::Access;
using isa::Agent;
using isa::HazardResource;
using isa::Instruction;

constexpr int64_t kUnknown = -100;
constexpr int kAgentCount = static_cast<int>(Agent::kMv) + 1;

/// Resources of which an access touches few units: indexed unit by unit. The others are lists of ranges.
bool is_word_indexed(HazardResource resource) {
  switch (resource) {
    case HazardResource::kL1bm:
    case HazardResource::kL2bm:
    case HazardResource::kDar:
    case HazardResource::kDram:
    case HazardResource::kPdm:
      return false;
    default:
      return true;
  }
}
bool is_active(const Access& access, int cycle) {
  return access.cycles == 1 || (access.active_cycles >> cycle & 1) != 0;
}

/// The same access at addresses of its own.
Access far_access(const Access& like, int64_t begin) {
  Access access = like;
  access.whole = false;
  access.begin.fill(begin);
  access.length = 1;
  access.place = -1;
  access.loop_strides.clear();
  return access;
}

TimedAccess make_timed(Access access, const std::vector<int64_t>& loop_counts, const isa::Chip& chip) {
  TimedAccess timed;
  if (access.whole &&
      (access.resource == HazardResource::kMatX || access.resource == HazardResource::kMatY)) {
    // All of its rows, of which each write replaces some.
    access.begin[0] = 0;
    access.length = isa::kMatrixRows;
    access.loop_strides.clear();
  } else {
    timed.everywhere = access.whole || access.length <= 0;
  }
  while (!access.loop_strides.empty() && access.loop_strides.back() == 0) access.loop_strides.pop_back();
  const int used = std::clamp(access.cycles, 1, isa::kCyclesPerStep);
  timed.low = *std::min_element(access.begin.begin(), access.begin.begin() + used);
  timed.high = *std::max_element(access.begin.begin(), access.begin.begin() + used) + access.length;
  for (size_t d = 0; d < std::min(access.loop_strides.size(), loop_counts.size()); ++d) {
    const int64_t reach = access.loop_strides[d] * std::max<int64_t>(loop_counts[d] - 1, 0);
    (reach < 0 ? timed.low : timed.high) += reach;
  }
  // Addresses that wrap may meet any others.
  const int64_t wrap = access.value >= 0 ? 0 : isa::wrap_size(access.resource, chip);
  if (wrap > 0 && (timed.low < 0 || timed.high > wrap)) timed.everywhere = true;
  timed.access = std::move(access);
  return timed;
}

/// What is known of words, by address: as std::unordered_map, which takes memory for each of them.
template <typename State>
class WordMap {
 public:
  State* find(int64_t word) {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[slot_of(word)];
    return slot.state < 0 ? nullptr : &states_[static_cast<size_t>(slot.state)];
  }
  State& operator[](int64_t word) {
    if (2 * (states_.size() + 1) > slots_.size()) grow();
    Slot& slot = slots_[slot_of(word)];
    if (slot.state < 0) {
      slot = {word, static_cast<int32_t>(states_.size())};
      states_.emplace_back();
    }
    return states_[static_cast<size_t>(slot.state)];
  }

 private:
  struct Slot {
    int64_t word = 0;
    int32_t state = -1;
  };

  /// The word's slot, or the free one that it would get.
  size_t slot_of(int64_t word) const {
    constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;
    size_t k = static_cast<size_t>((static_cast<uint64_t>(word) * kGoldenRatio) >> 32) & (slots_.size() - 1);
    while (slots_[k].state >= 0 && slots_[k].word != word) k = (k + 1) & (slots_.size() - 1);
    return k;
  }
  void grow() {
    constexpr size_t kFirst = 64;
    std::vector<Slot> old(std::max(kFirst, 2 * slots_.size()));  // a power of two
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.state >= 0) slots_[slot_of(slot.word)] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::deque<State> states_;
};

/// Finds the dependences of operations in their order.
class DependenceFinder {
 public:
  DependenceFinder(const std::vector<MachineOperation>& nodes, const Distances& distances,
                   const ForwardOrder& ordered_forward, std::vector<ScheduleProblem::Dependence>& found)
      : nodes_(nodes),
        distances_(distances),
        ordered_forward_(ordered_forward),
        found_(found),
        latency_(nodes.size(), kNoEdge) {}

  void run() {
    for (int j = 0; j < static_cast<int>(nodes_.size()); ++j) {
      incoming_.clear();
      const MachineOperation& node = nodes_[static_cast<size_t>(j)];
      for (int a = 0; a < static_cast<int>(node.accesses.size()); ++a) find_predecessors(j, a);
      if (node.is_mv || node.is_wait || touches_transfer_memory(node)) order_transfers(j);
      std::ranges::sort(incoming_);
      for (const int i : incoming_)
        found_.push_back({i, j, std::exchange(latency_[static_cast<size_t>(i)], kNoEdge), 0});
      for (int a = 0; a < static_cast<int>(node.accesses.size()); ++a) record(j, a);
    }
  }

 private:
  static constexpr int64_t kNoEdge = INT64_MIN;

  struct Reference {
    int node = 0;
    int access = 0;
    bool operator==(const Reference&) const = default;
  };
  /// Mostly few.
  using References = boost::container::small_vector<Reference, 2>;
  struct WordState {
    /// The last of each agent: what an earlier one wrote may have to wait longer for a reader.
    References writers;
    References readers;  ///< since the write
  };
  /// With what tells, before its access is looked at, that most are looked at in vain.
  struct Listed {
    Reference reference;
    int64_t begin = 0;
    int64_t end = 0;
    uint64_t places = 0;  ///< bit p: place p; the last bit: any of those from there on
    bool write = false;
    /// Whether an access to these addresses and places may depend on it.
    bool meets(const Listed& later) const {
      return (write || later.write) && begin < later.end && later.begin < end && (places & later.places) != 0;
    }
  };
  static constexpr uint64_t kAllPlaces = ~uint64_t{0};
  static constexpr int32_t kLastPlace = 63;
  /// Accesses with the same loop strides: their addresses differ by the same amount in every iteration.
  struct StrideClass {
    std::vector<int64_t> strides;
    bool everywhere = false;
    int64_t low = 0;
    int64_t high = 0;
    WordMap<WordState> words;
    std::vector<Listed> list;
  };

  Listed listed(const Reference& reference) const {
    const Access& access = at(reference).access;
    const int64_t begin = access.begin[0];
    const uint64_t place = uint64_t{1} << std::clamp(access.place, 0, kLastPlace);
    return {reference, begin, begin + access.length, access.place < 0 ? kAllPlaces : place, access.write};
  }
  const TimedAccess& at(const Reference& reference) const {
    return nodes_[static_cast<size_t>(reference.node)].accesses[static_cast<size_t>(reference.access)];
  }

  bool ignored(const TimedAccess& timed) const {
    const HazardResource resource = timed.access.resource;
    return isa::is_forwarding_register(resource) && !ordered_forward_[static_cast<size_t>(resource)];
  }

  static bool touches_transfer_memory(const MachineOperation& node) {
    return std::any_of(node.accesses.begin(), node.accesses.end(),
                       [](const TimedAccess& a) { return isa::is_transfer_memory(a.access.resource); });
  }

  void add_edge(int i, int j, int64_t latency) {
    if (i == j) return;
    int64_t& known = latency_[static_cast<size_t>(i)];
    if (known == kNoEdge) incoming_.push_back(i);
    known = std::max(known, latency);
  }

  /// Dependence of `second` on an earlier access it is known to meet, mostly in several words that follow one
  /// another.
  void depend(const Reference& first, const Reference& second) {
    if (last_pair_ == std::pair(first, second)) return;
    last_pair_ = {first, second};
    const TimedAccess& a = at(first);
    const TimedAccess& b = at(second);
    if ((!a.access.write && !b.access.write) || !a.ranges_meet(b)) return;
    int64_t gap = std::max<int64_t>(distances_.gap(a, b), a.access.write ? 0 : isa::kSameStep);
    const MachineOperation& from = nodes_[static_cast<size_t>(first.node)];
    const MachineOperation& to = nodes_[static_cast<size_t>(second.node)];
    // An MV issues just before the step of its time: later than the steps before, not later than that step.
    if (to.is_mv) gap = std::max<int64_t>(gap, 0);
    add_edge(first.node, second.node, from.is_mv ? std::max<int64_t>(gap, 0) : gap + 1);
  }

  template <typename Condition>
  static void erase_if(References& list, const Condition& condition) {
    list.erase(std::remove_if(list.begin(), list.end(), condition), list.end());
  }

  template <typename Visit>
  static void for_each_word(const Access& access, Visit&& visit) {
    for (int cycle = 0; cycle < access.cycles; ++cycle) {
      if (!is_active(access, cycle)) continue;
      for (int64_t w = 0; w < access.length; ++w) visit(access.begin[static_cast<size_t>(cycle)] + w);
    }
  }

  StrideClass& class_of(const TimedAccess& timed) {
    auto& classes = classes_[static_cast<size_t>(timed.access.resource)];
    for (StrideClass& candidate : classes) {
      if (candidate.everywhere == timed.everywhere &&
          (timed.everywhere || candidate.strides == timed.access.loop_strides)) {
        return candidate;
      }
    }
    classes.push_back({timed.access.loop_strides, timed.everywhere, timed.low, timed.high, {}, {}});
    return classes.back();
  }

  void find_predecessors(int node, int access) {
    const Reference self{node, access};
    const TimedAccess& timed = at(self);
    if (ignored(timed)) return;
    StrideClass& own = class_of(timed);
    for (StrideClass& other : classes_[static_cast<size_t>(timed.access.resource)]) {
      if (&other == &own) continue;
      if (!timed.everywhere && !other.everywhere && (timed.high <= other.low || other.high <= timed.low))
        continue;
      for (const Listed& earlier : other.list) {
        if (timed.ranges_meet(at(earlier.reference))) depend(earlier.reference, self);
      }
    }
    if (timed.everywhere) {
      for (const Listed& earlier : own.list) depend(earlier.reference, self);
    } else if (is_word_indexed(timed.access.resource)) {
      for_each_word(timed.access, [&](int64_t word) {
        const WordState* state = own.words.find(word);
        if (state == nullptr) return;
        for (const Reference& writer : state->writers) depend(writer, self);
        if (!timed.access.write) return;
        for (const Reference& reader : state->readers) depend(reader, self);
      });
    } else {
      const Listed later = listed(self);
      for (const Listed& earlier : own.list) {
        if (earlier.meets(later)) depend(earlier.reference, self);
      }
    }
  }

  void record(int node, int access) {
    const Reference self{node, access};
    const TimedAccess& timed = at(self);
    if (ignored(timed)) return;
    StrideClass& own = class_of(timed);
    own.low = std::min(own.low, timed.low);
    own.high = std::max(own.high, timed.high);
    const bool by_word = !timed.everywhere && is_word_indexed(timed.access.resource);
    if (timed.access.write && !by_word) {
      // Whoever meets one of these later, at a place of this write, also meets the write, which is ordered
      // behind them.
      const Listed later = listed(self);
      const uint64_t places =
          timed.access.place < 0 || timed.access.place < kLastPlace ? later.places : uint64_t{0};
      std::erase_if(own.list, [&](Listed& earlier) {
        const bool is_covered =
            timed.everywhere || (later.begin <= earlier.begin && earlier.end <= later.end);
        if (earlier.reference.node == node || !is_covered || (earlier.places & places) == 0) return false;
        if (earlier.write && at(earlier.reference).access.agent != timed.access.agent) return false;
        earlier.places &= ~places;
        return earlier.places == 0;
      });
    }
    own.list.push_back(listed(self));
    if (!by_word) return;
    for_each_word(timed.access, [&](int64_t word) {
      WordState& state = own.words[word];
      if (timed.access.write) {
        // Reads of the same operation come before its writes.
        erase_if(state.readers, [&](const Reference& reader) { return reader.node != node; });
        erase_if(state.writers,
                 [&](const Reference& writer) { return at(writer).access.agent == timed.access.agent; });
        state.writers.push_back(self);
      } else {
        state.readers.push_back(self);
      }
    });
  }

  void order_transfers(int j) {
    const MachineOperation& node = nodes_[static_cast<size_t>(j)];
    if (node.is_wait) {
      // What is ordered before the wait before this one is before this one, too.
      const auto before = std::find_if(waits_.rbegin(), waits_.rend(), [&](int wait) {
        return node.is_early || !nodes_[static_cast<size_t>(wait)].is_early;
      });
      for (int i = before == waits_.rend() ? 0 : *before; i < j; ++i) {
        const MachineOperation& earlier = nodes_[static_cast<size_t>(i)];
        if (!node.is_early || earlier.is_mv || earlier.is_wait || touches_transfer_memory(earlier))
          add_edge(i, j, earlier.is_wait ? 1 : 0);
      }
      waits_.push_back(j);
      return;
    }
    if (!waits_.empty()) add_edge(waits_.back(), j, 1);  // earlier waits are before the last one
    if (node.is_mv) {
      if (last_mv_) add_edge(*last_mv_, j, 0);
      last_mv_ = j;
    }
  }

  const std::vector<MachineOperation>& nodes_;
  const Distances& distances_;
  const ForwardOrder& ordered_forward_;
  std::vector<ScheduleProblem::Dependence>& found_;
  std::array<std::deque<StrideClass>, isa::kHazardResourceCount> classes_;
  std::vector<int> incoming_;     ///< operations that the present one depends on
  std::vector<int64_t> latency_;  ///< by operation: from it to the present one
  std::vector<int> waits_;
  std::optional<int> last_mv_;
  std::pair<Reference, Reference> last_pair_{{-1, -1}, {-1, -1}};  ///< that was looked at
};

/// The least number of iterations, 1 or more, after which `second` meets what `first` touched; 0 = never.
/// Outer counters are the same for both.
int64_t iterations_between(const TimedAccess& first, const TimedAccess& second, size_t depth) {
  const Access& a = first.access;
  const Access& b = second.access;
  if (!a.write && !b.write) return 0;
  if (!first.ranges_meet(second)) return 0;
  if (first.everywhere || second.everywhere || a.loop_strides != b.loop_strides) return 1;
  const int64_t stride = depth < a.loop_strides.size() ? a.loop_strides[depth] : 0;
  int64_t least = 0;
  for (int c = 0; c < a.cycles; ++c) {
    if (!is_active(a, c)) continue;
    for (int d = 0; d < b.cycles; ++d) {
      if (!is_active(b, d)) continue;
      // They overlap when `low` < stride * iterations < `high`.
      const int64_t apart = a.begin[static_cast<size_t>(c)] - b.begin[static_cast<size_t>(d)];
      int64_t low = apart - b.length;
      int64_t high = apart + a.length;
      int64_t step = stride;
      if (step < 0) {
        step = -step;
        std::swap(low, high);
        low = -low;
        high = -high;
      }
      int64_t iterations = 1;
      if (step == 0) {
        if (low >= 0 || high <= 0) continue;
      } else {
        if (low >= 0) iterations = std::max<int64_t>(low / step + 1, 1);
        if (step * iterations <= low || step * iterations >= high) continue;
      }
      if (least == 0 || iterations < least) least = iterations;
    }
  }
  return least;
}

/// Numbers for keys.
class Numbers {
 public:
  int64_t of(const std::string& text) {
    return numbers_.try_emplace(text, static_cast<int64_t>(numbers_.size())).first->second;
  }

 private:
  std::map<std::string, int64_t> numbers_;
};

/// Uses of the step, and classes of the accesses to LM, whose port a write keeps longer than its step.
void add_uses(ScheduleProblem& problem, const std::vector<MachineOperation>& operations,
              const Distances& distances, size_t loops) {
  const std::vector<isa::StepResource>& all = isa::step_resources();
  std::vector<int> numbers(all.size(), -1);  // of those that are used
  std::vector<Numbers> keys(all.size());
  std::map<std::tuple<HazardResource, bool, uint8_t>, int> classes;
  std::vector<Access> examples;
  for (size_t k = 0; k < operations.size(); ++k) {
    const MachineOperation& operation = operations[k];
    ScheduleProblem::Operation& target = problem.operations[k];
    for (const isa::StepUse& use : isa::step_uses(operation.instruction)) {
      const auto resource = static_cast<size_t>(use.resource);
      if (numbers[resource] < 0) {
        numbers[resource] = static_cast<int>(problem.resources.size());
        problem.resources.push_back({all[resource].name, all[resource].capacity});
      }
      const int64_t key = use.key.empty() ? -1 : keys[resource].of(use.key);
      target.uses.push_back({numbers[resource], key, key >= 0 && use.is_invariant(loops)});
    }
    for (const TimedAccess& timed : operation.accesses) {
      const Access& access = timed.access;
      if (access.resource != HazardResource::kLm0 && access.resource != HazardResource::kLm1) continue;
      const auto [known, is_new] = classes.try_emplace({access.resource, access.write, access.active_cycles},
                                                       static_cast<int>(classes.size()));
      if (is_new) {
        examples.push_back(access);
        problem.classes.push_back(fmt::format("{} of {}, cycles {:04b}", access.write ? "write" : "read",
                                              isa::hazard_resource_name(access.resource),
                                              access.active_cycles));
      }
      if (std::ranges::find(target.classes, known->second) == target.classes.end())
        target.classes.push_back(known->second);
    }
  }
  for (size_t first = 0; first < examples.size(); ++first) {
    for (size_t second = 0; second < examples.size(); ++second) {
      if (examples[first].resource != examples[second].resource) continue;
      const int64_t gap = isa::required_gap(far_access(examples[first], 0), far_access(examples[second], 64),
                                            distances.chip());
      if (gap > 0) problem.separations.push_back({static_cast<int>(first), static_cast<int>(second), gap});
    }
  }
}

void add_operations(ScheduleProblem& problem, const std::vector<MachineOperation>& operations,
                    const isa::Chip& chip) {
  for (const MachineOperation& operation : operations) {
    if (!operation.is_mv && !operation.is_wait) {
      const std::string conflict = isa::issue_conflict({operation.instruction}, chip);
      isa::check_internal(conflict.empty(), "scheduler", "'{}' can't issue: {}",
                          isa::mnemonic(operation.instruction), conflict);
    }
    ScheduleProblem::Operation& added = problem.operations.emplace_back();
    added.text = operation.text;
    added.takes_step = !operation.is_mv;
  }
}

}  // namespace

std::vector<TimedAccess> timed_accesses(const Instruction& instruction, const isa::Chip& chip,
                                        const std::vector<int64_t>& loop_counts) {
  std::vector<TimedAccess> result;
  for (Access& access : isa::accesses(instruction, chip))
    result.push_back(make_timed(std::move(access), loop_counts, chip));
  return result;
}

TimedAccess at_iteration(TimedAccess timed, size_t depth, int64_t counter) {
  Access& access = timed.access;
  if (access.loop_strides.size() <= depth) return timed;
  for (int64_t& begin : access.begin) begin += access.loop_strides[depth] * counter;
  access.loop_strides.resize(depth);
  while (!access.loop_strides.empty() && access.loop_strides.back() == 0) access.loop_strides.pop_back();
  return timed;
}

Distances::Distances(const isa::Chip& chip)
    : chip_(chip),
      longest_(isa::longest_gap(chip)),
      disjoint_(size_t{isa::kHazardResourceCount} * 4 * kAgentCount * kAgentCount, kUnknown) {}

int64_t Distances::gap(const TimedAccess& first, const TimedAccess& second) const {
  if (first.access.resource != second.access.resource) return isa::kNoConstraint;
  if (first.ranges_meet(second)) return isa::required_gap(first.access, second.access, chip_);
  return disjoint_gap(first.access, second.access);
}

int64_t Distances::disjoint_gap(const Access& first, const Access& second) const {
  const auto who = [](const Access& a) { return 2 * static_cast<size_t>(a.agent) + (a.write ? 1 : 0); };
  const size_t index =
      (static_cast<size_t>(first.resource) * 2 * kAgentCount + who(first)) * 2 * kAgentCount + who(second);
  int64_t& known = disjoint_[index];
  if (known != kUnknown) return known;
  const auto whole_step = [](Access access) {
    access.active_cycles = 0b1111;
    return access;
  };
  known = isa::required_gap(whole_step(far_access(first, 0)), whole_step(far_access(second, 64)), chip_);
  return known;
}

MachineOperation make_machine_operation(Instruction instruction, std::string text, const isa::Chip& chip,
                                        const std::vector<int64_t>& loop_counts) {
  MachineOperation operation;
  const isa::IssueGroup group = isa::issue_group(instruction);
  operation.is_mv = group == isa::IssueGroup::kMv;
  operation.is_wait = group == isa::IssueGroup::kWait;
  operation.accesses = timed_accesses(instruction, chip, loop_counts);
  operation.instruction = std::move(instruction);
  operation.text = std::move(text);
  return operation;
}

ScheduleProblem block_problem(std::string name, const std::vector<MachineOperation>& operations,
                              const Distances& distances, const ForwardOrder& ordered_forward) {
  ScheduleProblem problem;
  problem.name = std::move(name);
  add_operations(problem, operations, distances.chip());
  add_uses(problem, operations, distances, 0);
  DependenceFinder(operations, distances, ordered_forward, problem.dependences).run();
  return problem;
}

ScheduleProblem loop_problem(std::string name, const std::vector<MachineOperation>& operations,
                             const Distances& distances, const ForwardOrder& ordered_forward, size_t depth) {
  ScheduleProblem problem;
  problem.name = std::move(name);
  problem.is_loop = true;
  add_operations(problem, operations, distances.chip());
  add_uses(problem, operations, distances, depth + 1);
  DependenceFinder(operations, distances, ordered_forward, problem.dependences).run();
  std::map<std::tuple<int, int, int64_t>, int64_t> carried;  // from, to, iterations
  for (int i = 0; i < static_cast<int>(operations.size()); ++i) {
    for (int j = 0; j < static_cast<int>(operations.size()); ++j) {
      for (const TimedAccess& a : operations[static_cast<size_t>(i)].accesses) {
        const HazardResource resource = a.access.resource;
        if (isa::is_forwarding_register(resource) && !ordered_forward[static_cast<size_t>(resource)])
          continue;
        for (const TimedAccess& b : operations[static_cast<size_t>(j)].accesses) {
          if (b.access.resource != resource) continue;
          const int64_t iterations = iterations_between(a, b, depth);
          if (iterations == 0) continue;
          TimedAccess later = b;
          if (depth < later.access.loop_strides.size() && a.access.loop_strides == b.access.loop_strides) {
            for (int64_t& begin : later.access.begin) begin += later.access.loop_strides[depth] * iterations;
          }
          const int64_t gap = std::max<int64_t>(isa::required_gap(a.access, later.access, distances.chip()),
                                                a.access.write ? 0 : isa::kSameStep);
          int64_t& distance = carried.try_emplace({i, j, iterations}, gap + 1).first->second;
          distance = std::max(distance, gap + 1);
        }
      }
    }
  }
  for (const auto& [key, distance] : carried)
    problem.dependences.push_back({std::get<0>(key), std::get<1>(key), distance, std::get<2>(key)});
  return problem;
}

}  // namespace kodama::scheduler
