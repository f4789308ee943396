#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "isa/costs.h"
#include "isa/error.h"
#include "scheduler/builtin_passes.h"
#include "scheduler/program_analysis.h"

/// Two schedulers on one machinery. Both go through the blocks in order and never move an operation out of
/// its block. Inside a block an operation may issue when
///
///  * its dependences allow: edges of a graph built from isa::accesses, with the distance of required_gap;
///  * every operation of the last steps (of whatever block) is far enough, by required_gap. This covers what
///    is no dependence but a conflict of ports, like a read of LM0 shortly after any write of LM0, and the
///    distances across the ends of blocks;
///  * the step is legal with it, by isa::issue_conflict.
///
/// "list" fills each step with the ready operations on the longest paths to the end of the block,
/// "sequential" gives each operation a step of its own. At the end of a loop body `nop`s are added only
/// as far as the last steps of the body and its first steps of the next iteration need them.
///
/// MVs are statements between steps and keep their order. Since they run on their own, what touches their
/// memories later waits for the `wait` on their tag; a wait stays behind all operations before it in the
/// program (it would hold them up), and every later operation that touches L2BM, PDM or DRAM stays behind it.
namespace kodama::scheduler {
namespace {

using isa::Access;
using isa::Agent;
using isa::HazardResource;
using isa::Instruction;
using isa::IssueGroup;
using isa::Operand;
using isa::Space;

constexpr int kResourceCount = static_cast<int>(HazardResource::kMreadForward) + 1;

bool is_forward(HazardResource resource) {
  return resource >= HazardResource::kAluForward;
}
bool is_transfer_memory(HazardResource resource) {
  return resource == HazardResource::kL2bm || resource == HazardResource::kDar ||
         resource == HazardResource::kDram || resource == HazardResource::kPdm;
}
/// Resources of which an access touches few units: indexed unit by unit. The others are lists of ranges.
bool is_word_indexed(HazardResource resource) {
  switch (resource) {
    case HazardResource::kMatX:
    case HazardResource::kMatY:
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

/// An access with the range of addresses it covers over all iterations of all loops around it.
struct TimedAccess {
  Access access;
  int64_t low = 0;
  int64_t high = 0;
  bool everywhere = false;  ///< the address is not known before run time

  bool ranges_meet(const TimedAccess& other) const {
    if (access.place >= 0 && other.access.place >= 0 && access.place != other.access.place) return false;
    return everywhere || other.everywhere || (low < other.high && other.low < high);
  }
};

TimedAccess make_timed(Access access, const std::vector<int64_t>& loop_counts) {
  TimedAccess timed;
  timed.everywhere = access.whole || access.length <= 0;
  while (!access.loop_strides.empty() && access.loop_strides.back() == 0) access.loop_strides.pop_back();
  const int used = std::clamp(access.cycles, 1, isa::kCyclesPerStep);
  timed.low = *std::min_element(access.begin.begin(), access.begin.begin() + used);
  timed.high = *std::max_element(access.begin.begin(), access.begin.begin() + used) + access.length;
  for (size_t d = 0; d < std::min(access.loop_strides.size(), loop_counts.size()); ++d) {
    const int64_t reach = access.loop_strides[d] * std::max<int64_t>(loop_counts[d] - 1, 0);
    (reach < 0 ? timed.low : timed.high) += reach;
  }
  timed.access = std::move(access);
  return timed;
}

/// Fixes the counter of the loop of depth `depth` (the innermost that still varies) to `counter`.
TimedAccess at_iteration(TimedAccess timed, size_t depth, int64_t counter) {
  Access& access = timed.access;
  if (access.loop_strides.size() <= depth) return timed;
  for (int64_t& begin : access.begin) begin += access.loop_strides[depth] * counter;
  access.loop_strides.resize(depth);
  while (!access.loop_strides.empty() && access.loop_strides.back() == 0) access.loop_strides.pop_back();
  return timed;
}

/// Distances between accesses. Where the ranges can't meet, only the conflict of ports is left, which does
/// not depend on the addresses.
class Distances {
 public:
  explicit Distances(const isa::Chip& chip)
      : chip_(chip), disjoint_(size_t{kResourceCount} * 4 * kAgentCount * kAgentCount, kUnknown) {
    const isa::HazardGaps& h = chip.hazard;
    longest_ =
        std::max({h.pe_gap(isa::kCyclesPerStep - 1, 0), h.mask_write_use, h.bar_write_use, h.forward,
                  h.matrix_write_read, h.pe_to_l1bm_read, h.turnaround, h.pe_to_l1bm_l2bm, h.l2bm_to_l1bm_pe,
                  h.l2bm_to_l1bm_l2bm, h.l1bm_to_l2bm_read, h.l1bm_to_l2bm_mv, h.l1bm_read_overwrite});
  }

  int64_t gap(const TimedAccess& first, const TimedAccess& second) const {
    if (first.access.resource != second.access.resource) return isa::kNoConstraint;
    if (first.ranges_meet(second)) return isa::required_gap(first.access, second.access, chip_);
    return disjoint_gap(first.access, second.access);
  }
  /// No pair of accesses needs more other steps in between.
  int64_t longest() const { return longest_; }

 private:
  static constexpr int64_t kUnknown = -100;
  static constexpr int kAgentCount = static_cast<int>(Agent::kMv) + 1;
  static size_t disjoint_index(const Access& first, const Access& second) {
    const auto who = [](const Access& a) { return 2 * static_cast<int>(a.agent) + (a.write ? 1 : 0); };
    return (static_cast<size_t>(first.resource) * 2 * kAgentCount + who(first)) * 2 * kAgentCount +
           who(second);
  }

  int64_t disjoint_gap(const Access& first, const Access& second) const {
    int64_t& known = disjoint_[disjoint_index(first, second)];
    if (known != kUnknown) return known;
    const auto far_access = [](const Access& like, int64_t begin) {
      Access access = like;
      access.whole = false;
      access.begin.fill(begin);
      access.length = 1;
      access.place = -1;
      access.active_cycles = 0b1111;
      access.loop_strides.clear();
      return access;
    };
    known = isa::required_gap(far_access(first, 0), far_access(second, 64), chip_);
    return known;
  }

  const isa::Chip& chip_;
  int64_t longest_ = 0;
  mutable std::vector<int64_t> disjoint_;  ///< by disjoint_index
};

/// Something issued: a step's instruction at `time`, or an MV just before the step at `time`.
struct Issued {
  int64_t time = 0;
  bool is_mv = false;
  std::vector<TimedAccess> accesses;
};

/// Other steps between two issued things.
int64_t steps_between(const Issued& first, int64_t time) {
  return time - first.time - (first.is_mv ? 0 : 1);
}

/// How much later than `time` something with these accesses must issue because of `first`.
int64_t missing_steps(const Issued& first, const std::vector<TimedAccess>& accesses, int64_t time,
                      const Distances& distances) {
  int64_t missing = 0;
  for (const TimedAccess& a : first.accesses) {
    for (const TimedAccess& b : accesses) {
      const int64_t gap = distances.gap(a, b);
      if (gap > 0) missing = std::max(missing, gap - steps_between(first, time));
    }
  }
  return missing;
}

// ---- ends of statement lists ----------------------------------------------------------------------------

int64_t step_count(const std::vector<isa::Statement>& statements) {
  int64_t steps = 0;
  for (const isa::Statement& statement : statements) {
    if (std::holds_alternative<isa::Step>(statement.kind)) ++steps;
    if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) steps += nop->count;
    if (const auto* loop = std::get_if<isa::Loop>(&statement.kind))
      steps += loop->count * step_count(loop->body);
  }
  return steps;
}

class Edges {
 public:
  Edges(const isa::Chip& chip, int64_t limit) : chip_(chip), limit_(limit) {}

  /// What issues in the first `limit` steps, times from 0. `counts` are the counts of the loops around.
  std::vector<Issued> head(const std::vector<isa::Statement>& statements,
                           std::vector<int64_t>& counts) const {
    return collect(statements, counts, true);
  }
  /// What issues in the last `limit` steps; the last step has time -1, an MV behind it time 0.
  std::vector<Issued> tail(const std::vector<isa::Statement>& statements,
                           std::vector<int64_t>& counts) const {
    return collect(statements, counts, false);
  }

 private:
  std::vector<Issued> collect(const std::vector<isa::Statement>& statements, std::vector<int64_t>& counts,
                              bool forward) const {
    std::vector<Issued> result;
    int64_t done = 0;  // steps walked over
    const size_t n = statements.size();
    for (size_t k = 0; k < n && done < limit_; ++k) {
      const isa::Statement& statement = statements[forward ? k : n - 1 - k];
      if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
        for (const Instruction& instruction : step->instructions) {
          result.push_back({forward ? done : -done - 1, false, timed(instruction, counts)});
        }
        ++done;
      } else if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
        done += nop->count;
      } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
        result.push_back({forward ? done : -done, true, timed(mv->instruction, counts)});
      } else if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
        const size_t depth = counts.size();
        counts.push_back(loop->count);
        const std::vector<Issued> body = collect(loop->body, counts, forward);
        counts.pop_back();
        const int64_t length = step_count(loop->body);
        for (int64_t i = 0; i < loop->count && done < limit_; ++i) {
          for (Issued issued : body) {
            issued.time += forward ? done : -done;
            for (TimedAccess& access : issued.accesses) {
              access = at_iteration(std::move(access), depth, forward ? i : loop->count - 1 - i);
            }
            result.push_back(std::move(issued));
          }
          if (length == 0) break;
          done += length;
        }
      }
    }
    return result;
  }

  std::vector<TimedAccess> timed(const Instruction& instruction, const std::vector<int64_t>& counts) const {
    std::vector<TimedAccess> result;
    for (Access& access : isa::accesses(instruction, chip_))
      result.push_back(make_timed(std::move(access), counts));
    return result;
  }

  const isa::Chip& chip_;
  int64_t limit_;
};

// ---- the dependence graph of a block --------------------------------------------------------------------

struct Dependence {
  int to = 0;
  int64_t latency = 0;  ///< least difference of times
};

struct GraphNode {
  Instruction instruction;
  const Operation* operation = nullptr;
  IssueGroup group = IssueGroup::kAlu;
  bool is_mv = false;
  bool is_wait = false;
  std::vector<TimedAccess> accesses;
  std::vector<Dependence> successors;
  int predecessors = 0;
  int64_t height = 0;  ///< longest path to the end of the block
};

class GraphBuilder {
 public:
  /// `ordered_forward[r]`: someone reads this forwarding register, so its writers keep their order.
  GraphBuilder(std::vector<GraphNode>& nodes, const Distances& distances,
               const std::array<bool, kResourceCount>& ordered_forward)
      : nodes_(nodes), distances_(distances), ordered_forward_(ordered_forward) {}

  void run() {
    for (int j = 0; j < static_cast<int>(nodes_.size()); ++j) {
      incoming_.clear();
      for (int a = 0; a < static_cast<int>(nodes_[j].accesses.size()); ++a) find_predecessors(j, a);
      if (nodes_[j].is_mv || nodes_[j].is_wait || touches_transfer_memory(nodes_[j])) order_transfers(j);
      for (const auto& [i, latency] : incoming_) {
        nodes_[i].successors.push_back({j, latency});
        ++nodes_[j].predecessors;
      }
      for (int a = 0; a < static_cast<int>(nodes_[j].accesses.size()); ++a) record(j, a);
    }
    for (int j = static_cast<int>(nodes_.size()); j-- > 0;) {
      for (const Dependence& edge : nodes_[j].successors) {
        nodes_[j].height = std::max(nodes_[j].height, edge.latency + nodes_[edge.to].height);
      }
    }
  }

 private:
  struct Reference {
    int node = 0;
    int access = 0;
  };
  struct WordState {
    std::optional<Reference> writer;
    std::vector<Reference> readers;  ///< since the write
  };
  /// Accesses with the same loop strides: their addresses differ by the same amount in every iteration.
  struct StrideClass {
    std::vector<int64_t> strides;
    bool everywhere = false;
    int64_t low = 0;
    int64_t high = 0;
    std::unordered_map<int64_t, WordState> words;
    std::vector<Reference> list;
  };

  const TimedAccess& at(const Reference& reference) const {
    return nodes_[reference.node].accesses[reference.access];
  }

  bool ignored(const TimedAccess& timed) const {
    const HazardResource resource = timed.access.resource;
    return is_forward(resource) && !ordered_forward_[static_cast<int>(resource)];
  }

  static bool touches_transfer_memory(const GraphNode& node) {
    return std::any_of(node.accesses.begin(), node.accesses.end(),
                       [](const TimedAccess& a) { return is_transfer_memory(a.access.resource); });
  }

  void add_edge(int i, int j, int64_t latency) {
    if (i == j) return;
    const auto [entry, is_new] = incoming_.emplace(i, latency);
    if (!is_new) entry->second = std::max(entry->second, latency);
  }

  /// Dependence of `second` on an earlier access it is known to meet.
  void depend(const Reference& first, const Reference& second) {
    const TimedAccess& a = at(first);
    const TimedAccess& b = at(second);
    if ((!a.access.write && !b.access.write) || !a.ranges_meet(b)) return;
    int64_t gap = std::max<int64_t>(distances_.gap(a, b), a.access.write ? 0 : isa::kSameStep);
    const GraphNode& from = nodes_[first.node];
    const GraphNode& to = nodes_[second.node];
    // An MV issues just before the step of its time: later than the steps before, not later than that step.
    if (to.is_mv) gap = std::max<int64_t>(gap, 0);
    add_edge(first.node, second.node, from.is_mv ? std::max<int64_t>(gap, 0) : gap + 1);
  }

  template <typename Visit>
  static void for_each_word(const Access& access, Visit&& visit) {
    for (int cycle = 0; cycle < access.cycles; ++cycle) {
      if (!is_active(access, cycle)) continue;
      for (int64_t w = 0; w < access.length; ++w) visit(access.begin[cycle] + w);
    }
  }

  StrideClass& class_of(const TimedAccess& timed) {
    auto& classes = classes_[static_cast<int>(timed.access.resource)];
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
    for (StrideClass& other : classes_[static_cast<int>(timed.access.resource)]) {
      if (&other == &own) continue;
      if (!timed.everywhere && !other.everywhere && (timed.high <= other.low || other.high <= timed.low))
        continue;
      for (const Reference& reference : other.list) {
        if (timed.ranges_meet(at(reference))) depend(reference, self);
      }
    }
    if (timed.everywhere) {
      for (const Reference& reference : own.list) depend(reference, self);
    } else if (is_word_indexed(timed.access.resource)) {
      for_each_word(timed.access, [&](int64_t word) {
        const auto state = own.words.find(word);
        if (state == own.words.end()) return;
        if (state->second.writer) depend(*state->second.writer, self);
        if (!timed.access.write) return;
        for (const Reference& reader : state->second.readers) depend(reader, self);
      });
    } else {
      for (const Reference& reference : own.list) {
        const Access& first = at(reference).access;
        if (first.begin[0] < timed.access.begin[0] + timed.access.length &&
            timed.access.begin[0] < first.begin[0] + first.length) {
          depend(reference, self);
        }
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
      // Whoever meets one of these later also meets this write, which is ordered behind them.
      std::erase_if(own.list, [&](const Reference& reference) {
        const int32_t place = at(reference).access.place;
        if (reference.node == node || (timed.access.place >= 0 && timed.access.place != place)) return false;
        if (timed.everywhere) return true;
        const Access& first = at(reference).access;
        return timed.access.begin[0] <= first.begin[0] &&
               first.begin[0] + first.length <= timed.access.begin[0] + timed.access.length;
      });
    }
    own.list.push_back(self);
    if (!by_word) return;
    for_each_word(timed.access, [&](int64_t word) {
      WordState& state = own.words[word];
      if (timed.access.write) {
        // Reads of the same operation come before its writes.
        std::erase_if(state.readers, [&](const Reference& reader) { return reader.node != node; });
        state.writer = self;
      } else {
        state.readers.push_back(self);
      }
    });
  }

  void order_transfers(int j) {
    const GraphNode& node = nodes_[j];
    if (node.is_wait) {
      for (int i = 0; i < j; ++i) add_edge(i, j, nodes_[i].is_wait ? 1 : 0);
      waits_.push_back(j);
      return;
    }
    if (!waits_.empty()) add_edge(waits_.back(), j, 1);  // earlier waits are before the last one
    if (node.is_mv) {
      if (last_mv_) add_edge(*last_mv_, j, 0);
      last_mv_ = j;
    }
  }

  std::vector<GraphNode>& nodes_;
  const Distances& distances_;
  const std::array<bool, kResourceCount>& ordered_forward_;
  std::array<std::deque<StrideClass>, kResourceCount> classes_;
  std::map<int, int64_t> incoming_;
  std::vector<int> waits_;
  std::optional<int> last_mv_;
};

// ---- steps ----------------------------------------------------------------------------------------------

bool same_cycle_addresses(const Operand& a, const Operand& b) {
  if (a.width != b.width || a.j != b.j || a.t_indirect != b.t_indirect) return false;
  for (int cycle = 0; cycle < isa::kCyclesPerStep; ++cycle) {
    if (a.address(cycle) != b.address(cycle)) return false;
  }
  const size_t depth = std::max(a.loop_strides.size(), b.loop_strides.size());
  for (size_t d = 0; d < depth; ++d) {
    const int64_t x = d < a.loop_strides.size() ? a.loop_strides[d] : 0;
    const int64_t y = d < b.loop_strides.size() ? b.loop_strides[d] : 0;
    if (x != y) return false;
  }
  return true;
}

/// Rules 6 to 8 for every iteration: addresses that agree in one iteration must agree in all, which
/// isa::issue_conflict, made for single steps, does not ask.
bool ports_agree(const Instruction& a, const Instruction& b) {
  const auto is_lm = [](Space space) { return space == Space::kLm0 || space == Space::kLm1; };
  for (const Operand& x : a.sources) {
    if (!isa::is_pe_memory(x.space)) continue;
    for (const Operand& y : b.sources) {
      if (x.space == y.space && !same_cycle_addresses(x, y)) return false;
    }
  }
  for (const auto& [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    for (const Operand& x : from->sources) {
      if (!is_lm(x.space)) continue;
      for (const Operand& y : to->destinations) {
        if (x.space == y.space && !same_cycle_addresses(x, y)) return false;
      }
    }
  }
  return true;
}

// ---- the walk over the program --------------------------------------------------------------------------

enum class Strategy : uint8_t { kSequential, kList };

class ProgramScheduler {
 public:
  ProgramScheduler(const MachineProgram& program, const isa::Chip& chip, Strategy strategy,
                   int64_t candidates)
      : program_(program),
        chip_(chip),
        strategy_(strategy),
        candidates_(candidates),
        distances_(chip),
        edges_(chip, distances_.longest() + 1) {}

  isa::Program run() {
    find_forward_reads(program_.body);
    isa::Program result;
    result.source_name = program_.name;
    schedule_nodes(program_.body, {}, result.statements);
    return result;
  }

 private:
  using Statements = std::vector<isa::Statement>;

  void find_forward_reads(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      if (const auto* loop = std::get_if<CountedLoop>(&node.kind)) find_forward_reads(loop->body);
      if (const auto* region = std::get_if<RegionNode>(&node.kind)) find_forward_reads(region->body);
      const auto* block = std::get_if<Block>(&node.kind);
      if (block == nullptr) continue;
      std::array<bool, kResourceCount> written{};
      for (const Operation& operation : block->operations) {
        const std::vector<Access> list = isa::accesses(operation.instruction, chip_);
        for (const Access& access : list) {
          const int r = static_cast<int>(access.resource);
          if (is_forward(access.resource) && access.value < 0 && !access.write && !written[r]) {
            forward_crosses_blocks_[r] = true;
          }
        }
        for (const Access& access : list) {
          if (access.value < 0 && access.write) written[static_cast<int>(access.resource)] = true;
        }
      }
    }
  }

  static void append_nops(Statements& out, int64_t count) {
    if (count <= 0) return;
    if (!out.empty()) {
      if (auto* nop = std::get_if<isa::Nop>(&out.back().kind); nop != nullptr && nop->wait_tag == 0) {
        nop->count += count;
        return;
      }
    }
    out.push_back({isa::Nop{count, 0}});
  }

  /// What issued shortly before the end of `out`, as seen from the next step (time 0).
  std::vector<Issued> recent(const Statements& out, const std::vector<Issued>& before) {
    std::vector<Issued> result = edges_.tail(out, counts_);
    const int64_t steps = step_count(out);
    for (Issued issued : before) {
      issued.time -= steps;
      if (issued.time >= -distances_.longest() - 1) result.push_back(std::move(issued));
    }
    return result;
  }

  /// `before`: what issued shortly before the first of these nodes, times relative to it.
  void schedule_nodes(const std::vector<Node>& nodes, const std::vector<Issued>& before, Statements& out) {
    for (const Node& node : nodes) {
      if (const auto* block = std::get_if<Block>(&node.kind)) {
        schedule_block(*block, recent(out, before), out);
      } else if (const auto* region = std::get_if<RegionNode>(&node.kind)) {
        out.push_back({isa::RegionMark{true, region->name}});
        Statements inner;
        schedule_nodes(region->body, recent(out, before), inner);
        std::move(inner.begin(), inner.end(), std::back_inserter(out));
        out.push_back({isa::RegionMark{false, region->name}});
      } else {
        schedule_loop(std::get<CountedLoop>(node.kind), recent(out, before), out);
      }
    }
  }

  void schedule_loop(const CountedLoop& loop, const std::vector<Issued>& before, Statements& out) {
    if (loop.count <= 0) return;
    kept_.push_back(loop.count > 1);
    if (loop.count == 1) {
      Statements inner;
      schedule_nodes(loop.body, before, inner);
      std::move(inner.begin(), inner.end(), std::back_inserter(out));
      kept_.pop_back();
      return;
    }
    const size_t depth = counts_.size();
    isa::check_internal(depth < isa::kMaxLoopDepth, "scheduler", "loops nested deeper than {}",
                        isa::kMaxLoopDepth);
    counts_.push_back(loop.count);
    isa::Loop result;
    result.count = loop.count;
    // What the code before the loop leaves pending is waited for before it, not in every iteration.
    schedule_nodes(loop.body, {}, result.body);
    const std::vector<Issued> first = edges_.head(result.body, counts_);
    int64_t entry_nops = 0;
    for (const Issued& next : first) {
      std::vector<TimedAccess> accesses = next.accesses;
      for (TimedAccess& timed : accesses) timed = at_iteration(std::move(timed), depth, 0);
      for (const Issued& issued : before) {
        entry_nops = std::max(entry_nops, missing_steps(issued, accesses, next.time, distances_));
      }
    }
    append_nops(out, entry_nops);
    // The back edge: the end of one iteration against the beginning of the next.
    const std::vector<Issued> last = edges_.tail(result.body, counts_);
    int64_t nops = 0;
    for (const Issued& next : first) {
      std::vector<TimedAccess> accesses = next.accesses;
      for (TimedAccess& timed : accesses) {
        if (timed.access.loop_strides.size() <= depth) continue;
        for (int64_t& begin : timed.access.begin) begin += timed.access.loop_strides[depth];
      }
      for (const Issued& issued : last) {
        nops = std::max(nops, missing_steps(issued, accesses, next.time, distances_));
      }
    }
    append_nops(result.body, nops);
    counts_.pop_back();
    kept_.pop_back();
    if (!result.body.empty()) out.push_back({std::move(result)});
  }

  void drop_flattened_loops(Instruction& instruction) const {
    const auto drop = [&](Operand& operand) {
      std::vector<int64_t> strides;
      for (size_t d = 0; d < std::min(operand.loop_strides.size(), kept_.size()); ++d) {
        if (kept_[d]) strides.push_back(operand.loop_strides[d]);
      }
      while (!strides.empty() && strides.back() == 0) strides.pop_back();
      operand.loop_strides = std::move(strides);
    };
    std::for_each(instruction.sources.begin(), instruction.sources.end(), drop);
    std::for_each(instruction.destinations.begin(), instruction.destinations.end(), drop);
  }

  std::vector<GraphNode> make_nodes(const Block& block) const {
    std::vector<GraphNode> nodes;
    nodes.reserve(block.operations.size());
    std::array<bool, kResourceCount> ordered = forward_crosses_blocks_;
    for (const Operation& operation : block.operations) {
      GraphNode node;
      node.operation = &operation;
      node.instruction = resolve(operation.instruction, program_);
      drop_flattened_loops(node.instruction);
      node.group = isa::issue_group(node.instruction);
      node.is_mv = node.group == IssueGroup::kMv;
      node.is_wait = node.group == IssueGroup::kWait;
      for (Access& access : isa::accesses(node.instruction, chip_)) {
        if (is_forward(access.resource) && !access.write) ordered[static_cast<int>(access.resource)] = true;
        node.accesses.push_back(make_timed(std::move(access), counts_));
      }
      if (!node.is_mv && !node.is_wait) {
        const std::string conflict = isa::issue_conflict({node.instruction}, chip_);
        isa::check_internal(conflict.empty(), "scheduler", "'{}' can't issue: {}",
                            scheduler::to_string(operation, program_), conflict);
      }
      nodes.push_back(std::move(node));
    }
    GraphBuilder(nodes, distances_, ordered).run();
    return nodes;
  }

  /// A block being filled, step by step.
  struct Filling {
    std::vector<GraphNode> nodes;
    std::vector<int> waiting_for;   ///< unscheduled predecessors
    std::vector<int64_t> earliest;  ///< by scheduled predecessors
    std::vector<int64_t> time;      ///< -1 = not yet
    std::vector<std::vector<int>> steps;
    std::vector<std::vector<int>> mvs;          ///< before the step of the same index
    std::deque<std::pair<Issued, int>> window;  ///< recent, with node (-1: of earlier blocks)
  };

  void schedule_block(const Block& block, std::vector<Issued> before, Statements& out) {
    if (block.operations.empty()) return;
    Filling filling;
    filling.nodes = make_nodes(block);
    const size_t n = filling.nodes.size();
    filling.waiting_for.resize(n);
    filling.earliest.assign(n, 0);
    filling.time.assign(n, -1);
    for (size_t k = 0; k < n; ++k) filling.waiting_for[k] = filling.nodes[k].predecessors;
    for (Issued& issued : before) filling.window.emplace_back(std::move(issued), -1);
    if (strategy_ == Strategy::kSequential) {
      fill_sequentially(filling);
    } else {
      fill_by_list(filling);
    }
    emit(filling, out);
  }

  /// Steps that are missing between what issued and node k at time t.
  int64_t missing(const Filling& filling, int k, int64_t t) const {
    int64_t result = 0;
    for (const auto& [issued, node] : filling.window) {
      if (issued.time == t && !issued.is_mv) continue;  // order within a step is the graph's affair
      result = std::max(result, missing_steps(issued, filling.nodes[k].accesses, t, distances_));
    }
    return result;
  }

  bool joins(const Filling& filling, int k, int64_t t) const {
    const GraphNode& node = filling.nodes[k];
    if (static_cast<int64_t>(filling.steps.size()) <= t || filling.steps[t].empty()) return true;
    std::vector<Instruction> step;
    for (const int other : filling.steps[t]) {
      if (!ports_agree(filling.nodes[other].instruction, node.instruction)) return false;
    }
    for (const int other : filling.steps[t]) step.push_back(filling.nodes[other].instruction);
    step.push_back(node.instruction);
    return isa::issue_conflict(step, chip_).empty();
  }

  template <typename Ready>
  void place(Filling& filling, int k, int64_t t, Ready&& ready) const {
    const GraphNode& node = filling.nodes[k];
    filling.time[k] = t;
    auto& slots = node.is_mv ? filling.mvs : filling.steps;
    if (static_cast<int64_t>(slots.size()) <= t) slots.resize(t + 1);
    slots[t].push_back(k);
    while (!filling.window.empty() && filling.window.front().first.time < t - distances_.longest() - 1) {
      filling.window.pop_front();
    }
    filling.window.emplace_back(Issued{t, node.is_mv, node.accesses}, k);
    for (const Dependence& edge : node.successors) {
      filling.earliest[edge.to] = std::max(filling.earliest[edge.to], t + edge.latency);
      if (--filling.waiting_for[edge.to] == 0) ready(edge.to);
    }
  }

  void fill_sequentially(Filling& filling) const {
    int64_t t = 0;
    for (int k = 0; k < static_cast<int>(filling.nodes.size()); ++k) {
      t = std::max(t, filling.earliest[k]);
      for (int64_t more = missing(filling, k, t); more > 0; more = missing(filling, k, t)) t += more;
      place(filling, k, t, [](int) {});
      if (!filling.nodes[k].is_mv) ++t;
    }
  }

  void fill_by_list(Filling& filling) const {
    const int n = static_cast<int>(filling.nodes.size());
    using Key = std::tuple<int64_t, int, int>;
    std::set<Key> later;                        // by earliest time
    std::map<IssueGroup, std::set<Key>> ready;  // by falling height, then program order
    const auto make_ready = [&](int k) { later.emplace(filling.earliest[k], 0, k); };
    for (int k = 0; k < n; ++k) {
      if (filling.waiting_for[k] == 0) make_ready(k);
    }
    int placed = 0;
    for (int64_t t = 0; placed < n; ++t) {
      std::set<IssueGroup> used;
      for (bool progress = true; progress;) {
        progress = false;
        while (!later.empty() && std::get<0>(*later.begin()) <= t) {
          const int k = std::get<2>(*later.begin());
          later.erase(later.begin());
          ready[filling.nodes[k].group].emplace(-filling.nodes[k].height, k, k);
        }
        // Groups in the order of their most urgent operations.
        std::vector<std::pair<Key, IssueGroup>> order;
        for (const auto& [group, set] : ready) {
          if (!set.empty() && used.count(group) == 0) order.emplace_back(*set.begin(), group);
        }
        std::sort(order.begin(), order.end());
        for (const auto& [key, group] : order) {
          auto& set = ready[group];
          int64_t tried = 0;
          for (auto it = set.begin(); it != set.end() && tried < candidates_; ++tried) {
            const int k = std::get<2>(*it);
            const bool is_mv = filling.nodes[k].is_mv;
            if (missing(filling, k, t) > 0 || (!is_mv && !joins(filling, k, t))) {
              ++it;
              continue;
            }
            it = set.erase(it);
            place(filling, k, t, make_ready);
            ++placed;
            progress = true;
            if (is_mv) continue;
            used.insert(group);
            break;
          }
        }
      }
    }
  }

  void emit(Filling& filling, Statements& out) const {
    const size_t times = std::max(filling.steps.size(), filling.mvs.size());
    for (size_t t = 0; t < times; ++t) {
      if (t < filling.mvs.size()) {
        std::sort(filling.mvs[t].begin(), filling.mvs[t].end());
        for (const int k : filling.mvs[t]) out.push_back({isa::Mv{std::move(filling.nodes[k].instruction)}});
      }
      if (t >= filling.steps.size()) {
        if (t + 1 < times) append_nops(out, 1);
        continue;
      }
      const std::vector<int>& step = filling.steps[t];
      if (step.empty()) {
        append_nops(out, 1);
      } else if (step.size() == 1 && filling.nodes[step[0]].is_wait) {
        out.push_back({isa::Nop{1, filling.nodes[step[0]].instruction.tag}});
      } else {
        isa::Step result;
        for (const int k : step) result.instructions.push_back(std::move(filling.nodes[k].instruction));
        out.push_back({std::move(result)});
      }
    }
  }

  const MachineProgram& program_;
  const isa::Chip& chip_;
  Strategy strategy_;
  int64_t candidates_;
  Distances distances_;
  Edges edges_;
  std::vector<int64_t> counts_;  ///< of the kept loops around
  std::vector<bool> kept_;       ///< by source depth: not flattened
  std::array<bool, kResourceCount> forward_crosses_blocks_{};
};

constexpr std::string_view kCandidatesOption = "list-candidates";
constexpr std::string_view kCandidatesDefault = "32";

int64_t candidates_option(const PassOptions& options) {
  const auto found = options.find(std::string(kCandidatesOption));
  const std::string_view text = found == options.end() ? kCandidatesDefault : std::string_view(found->second);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) {
    throw isa::UserError(
        fmt::format("option {}: found '{}', allowed: a positive integer", kCandidatesOption, text));
  }
  return value;
}

}  // namespace

InstructionScheduler list_scheduling_pass() {
  return {"list",
          "critical-path list scheduling, several operations per step",
          {{std::string(kCandidatesOption), std::string(kCandidatesDefault),
            "ready operations of one issue group tried per step"}},
          [](const MachineProgram& program, const isa::Chip& chip, const PassOptions& options) {
            return ProgramScheduler(program, chip, Strategy::kList, candidates_option(options)).run();
          }};
}

InstructionScheduler sequential_pass() {
  return {"sequential",
          "one operation per step in program order",
          {},
          [](const MachineProgram& program, const isa::Chip& chip, const PassOptions&) {
            return ProgramScheduler(program, chip, Strategy::kSequential, 1).run();
          }};
}

}  // namespace kodama::scheduler
