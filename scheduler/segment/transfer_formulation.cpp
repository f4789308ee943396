/// The parts of a segment as a problem of transfer scheduling.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "isa/costs.h"
#include "isa/transfer_timeline.h"
#include "scheduler/problem/indexing.h"
#include "scheduler/segment/transfer_parts.h"

namespace kodama::scheduler {
namespace {

using isa::HazardResource;
using isa::Instruction;
using isa::Operand;

class Formulator {
 public:
  Formulator(const PartsAnalysis& analysis, std::span<const ProgramPart> parts, const isa::Chip& chip,
             int64_t most_lw)
      : analysis_(analysis), parts_(parts), chip_(chip), most_lw_(most_lw) {}

  Formulation run() {
    TransferProblem& problem = result_.problem;
    problem.name = parts_.empty() ? "" : parts_.front().name;
    problem.capacity = chip_.memory.l2bm_lw;
    problem.max_in_flight = chip_.transfer.max_in_flight;
    problem.issue_interval = isa::kCyclesPerStep * chip_.transfer.issue_interval_steps;
    for (const PartTask& task : analysis_.tasks) problem.task_cycles.push_back(task.cycles);
    result_.buffer_of_node.assign(analysis_.nodes.size(), -1);
    make_buffers();
    make_transfers();
    find_keeps();
    return std::move(result_);
  }

 private:
  void make_buffers() {
    std::map<int, std::vector<int>> free;  // by representative
    std::vector<std::vector<int>> pinned(parts_.size());
    std::set<int> pinned_buffers;
    for (size_t n = 0; n < analysis_.nodes.size(); ++n) {
      const int buffer = analysis_.buffer[n];
      if (analysis_.nodes[n].pinned) pinned_buffers.insert(buffer);
      free[buffer].push_back(static_cast<int>(n));
    }
    // So does a part that fills the memory: in pieces, it might find no room for what it needs at a time.
    most_ = fullest(free);
    for (const auto& [buffer, members] : free) {
      if (most_[analysis_.nodes[index(buffer)].part] > most_lw_) pinned_buffers.insert(buffer);
    }
    for (const int buffer : pinned_buffers) {
      std::vector<int>& list = pinned[index(analysis_.nodes[index(buffer)].part)];
      list.insert(list.end(), free[buffer].begin(), free[buffer].end());
      free.erase(buffer);
    }
    for (const auto& [buffer, members] : free) add_buffer(members, false);
    // Loops with transfers use one place again and again: what overlaps is one buffer.
    for (std::vector<int>& list : pinned) {
      std::ranges::sort(list, {}, [&](int n) { return analysis_.nodes[index(n)].low; });
      std::vector<int> together;
      int64_t high = 0;
      for (const int n : list) {
        if (!together.empty() && analysis_.nodes[index(n)].low >= high) {
          add_buffer(together, true);
          together.clear();
        }
        together.push_back(n);
        high = std::max(high, analysis_.nodes[index(n)].high);
      }
      if (!together.empty()) add_buffer(together, true);
    }
  }

  /// The most that each part's buffers, loaded as late as they may be, fill of the memory at a time.
  std::map<int, int64_t> fullest(const std::map<int, std::vector<int>>& buffers) const {
    std::map<int, std::map<int64_t, int64_t>> changes;  // of what is there, by part and position
    for (const auto& [buffer, members] : buffers) {
      int64_t low = INT64_MAX;
      int64_t high = 0;
      int64_t first = INT64_MAX;
      int64_t last = 0;
      for (const int n : members) {
        const L2bmNode& node = analysis_.nodes[index(n)];
        low = std::min(low, node.low);
        high = std::max(high, node.high);
        const int64_t at = node.task >= 0 ? node.task : analysis_.moves[index(node.transfer)].position;
        first = std::min(first, at);
        last = std::max(last, at);
      }
      auto& own = changes[analysis_.nodes[index(buffer)].part];
      own[first] += high - low;
      own[last + 1] -= high - low;
    }
    std::map<int, int64_t> most;
    for (const auto& [part, own] : changes) {
      int64_t there = 0;
      for (const auto& [at, change] : own) {
        there += change;
        most[part] = std::max(most[part], there);
      }
    }
    return most;
  }

  void add_buffer(const std::vector<int>& members, bool is_pinned) {
    TransferProblem& problem = result_.problem;
    TransferProblem::Buffer buffer;
    int64_t low = INT64_MAX;
    int64_t high = 0;
    buffer.first_task = INT64_MAX;
    buffer.last_task = -1;
    const int part = analysis_.nodes[index(members.front())].part;
    for (const int n : members) {
      const L2bmNode& node = analysis_.nodes[index(n)];
      low = std::min(low, node.low);
      high = std::max(high, node.high);
      result_.buffer_of_node[index(n)] = static_cast<int>(problem.buffers.size());
      if (node.task < 0 && !is_pinned) continue;
      const int64_t task = node.task >= 0 ? node.task : analysis_.moves[index(node.transfer)].position;
      buffer.first_task = std::min(buffer.first_task, task);
      buffer.last_task = std::max(buffer.last_task, task);
    }
    if (buffer.last_task < 0) {  // nothing but transfers
      for (const int n : members) {
        const int64_t at = analysis_.moves[index(analysis_.nodes[index(n)].transfer)].position;
        buffer.first_task = std::min(buffer.first_task, at);
        buffer.last_task = std::max(buffer.last_task, at);
      }
    }
    if (is_pinned) {
      buffer.last_task = analysis_.part_end[index(part)];
      buffer.fixed_address = low;
    }
    buffer.name = fmt::format("{} $lc{}", parts_[index(part)].name, low);
    buffer.size = high - low;
    buffer.alignment = isa::kMvUnitLw;
    buffer.phase = low % isa::kMvUnitLw;
    problem.buffers.push_back(std::move(buffer));
    result_.lowest.push_back(low);
    members_.push_back(members);
  }

  void make_transfers() {
    TransferProblem& problem = result_.problem;
    const isa::TransferPorts ports(chip_);
    for (int p = 0; p < ports.count(); ++p) {
      const isa::TransferPart part = ports.part(p);
      problem.ports.push_back(fmt::format("{} {}", static_cast<int>(part.port), part.index));
      problem.queues.push_back(ports.group(part));
    }
    // A row must be opened first, in the worst case.
    const auto row_miss =
        static_cast<int64_t>(std::ceil(chip_.transfer.dram_row_miss_ns * chip_.clock_hz * 1e-9));
    for (const PartTransfer& move : analysis_.moves) {
      TransferProblem::Transfer transfer;
      transfer.buffer = result_.buffer_of_node[index(move.node)];
      transfer.text = fmt::format("{}: {} of {} LW", parts_[index(move.part)].name,
                                  move.is_load ? "load" : "store", move.mv->size_lw);
      transfer.is_load = move.is_load;
      transfer.latest = move.is_load ? first_use(move) : move.position;
      transfer.earliest =
          move.is_load && may_move(move) ? std::min(move.earliest, transfer.latest) : move.position;
      const auto ports_of = [&](const std::vector<Instruction>& mvs) {
        std::map<int, int64_t> cycles;
        for (const Instruction& mv : mvs) {
          for (const isa::TransferUse& use : isa::transfer_load(mv, chip_).uses) {
            const isa::TransferPart part{use.port, use.index, use.to, use.lw, 0, false, false};
            cycles[ports.number(part)] += static_cast<int64_t>(
                std::ceil(static_cast<double>(use.lw) / isa::transfer_rate(use.port, chip_)));
          }
        }
        std::vector<TransferProblem::PortUse> uses;
        for (const auto& [port, busy] : cycles) uses.push_back({port, busy});
        return uses;
      };
      transfer.after.assign(move.after.begin(), move.after.end());
      transfer.is_scratch = move.is_scratch;
      transfer.latency = isa::transfer_latency(isa::transfer_parts(*move.mv, chip_), chip_) + row_miss;
      transfer.uses = ports_of({*move.mv});
      const Detour detour = may_move(move) ? detour_of(move) : Detour{};
      if (detour.store >= 0) {
        const PartTransfer& store = analysis_.moves[index(detour.store)];
        const std::vector<Instruction> mvs = detoured(detour, *move.mv, store, 0);
        transfer.copy = {result_.buffer_of_node[index(store.node)],
                         isa::transfer_latency(isa::transfer_parts(mvs.front(), chip_), chip_),
                         ports_of(mvs)};
      }
      result_.detours.push_back(detour);
      problem.transfers.push_back(std::move(transfer));
    }
  }

  Detour detour_of(const PartTransfer& load) const {
    const bool to_group = load.mv->opcode == isa::Opcode::kMvb2;
    if (!load.is_load || load.after.size() != 1 || load.after_loop ||
        (load.mv->opcode != isa::Opcode::kMvp && !to_group))
      return {};
    Detour detour;
    detour.store = *load.after.begin();
    const PartTransfer& store = analysis_.moves[index(detour.store)];
    const int buffer = result_.buffer_of_node[index(store.node)];
    if (buffer == result_.buffer_of_node[index(load.node)]) return {};
    const Operand& from = store.mv->destinations[0];
    const Operand& wanted = load.mv->sources[0];
    if (store.mv->opcode != isa::Opcode::kMvp || from.space != wanted.space || wanted.base < from.base ||
        wanted.base + load.mv->size_lw > from.base + store.mv->size_lw ||
        result_.problem.buffers[index(buffer)].fixed_address || !is_written_before_stores(buffer) ||
        has_loads(buffer))
      return {};
    // A store in one group has what a load takes from that group, a store in all groups what one takes from
    // any.
    const bool one_group = from.group >= 0 || store.mv->sources[0].group >= 0;
    if (one_group &&
        (wanted.group < 0 || wanted.group != from.group || store.mv->sources[0].group != from.group))
      return {};
    if (to_group && (one_group || load.mv->destinations[0].group >= 0)) return {};
    detour.copies = to_group ? chip_.l2b_per_group : 1;
    detour.group = wanted.group;
    detour.unit = std::max<int32_t>(store.mv->sources[0].unit, 0);
    detour.offset = wanted.base - from.base;
    return detour;
  }
  bool has_loads(int buffer) const {
    return std::ranges::any_of(members_[index(buffer)], [&](int n) {
      const int transfer = analysis_.nodes[index(n)].transfer;
      return transfer >= 0 && analysis_.moves[index(transfer)].is_load;
    });
  }

  /// The first task that reads, or writes, what a load brings; or the position of a transfer that does.
  int64_t first_use(const PartTransfer& move) const {
    const L2bmNode& own = analysis_.nodes[index(move.node)];
    const auto own_number = static_cast<int>(&move - analysis_.moves.data());
    int64_t first = INT64_MAX;
    for (const int n : members_[index(result_.buffer_of_node[index(move.node)])]) {
      const L2bmNode& node = analysis_.nodes[index(n)];
      const int64_t at = node.task >= 0 ? node.task : analysis_.moves[index(node.transfer)].position;
      const bool is_behind = node.task >= 0 ? at >= move.position : node.transfer > own_number;
      if (is_behind && meet(node, own)) first = std::min(first, at);
    }
    return first == INT64_MAX ? move.position : first;
  }
  static bool meet(const L2bmNode& a, const L2bmNode& b) {
    return (a.l2bs & b.l2bs) != 0 && a.low < b.high && b.low < a.high;
  }
  /// Whether nothing that comes before it touches its place in its buffer.
  bool may_move(const PartTransfer& move) const {
    const int buffer = result_.buffer_of_node[index(move.node)];
    if (result_.problem.buffers[index(buffer)].fixed_address) return false;
    const auto own_number = &move - analysis_.moves.data();
    const L2bmNode& own = analysis_.nodes[index(move.node)];
    return std::ranges::none_of(members_[index(buffer)], [&](int n) {
      const L2bmNode& node = analysis_.nodes[index(n)];
      const bool is_before = node.task >= 0 ? node.task < move.position : node.transfer < own_number;
      return n != move.node && is_before && meet(node, own);
    });
  }

  // -- what may stay

  /// Copies between L2B q of a group and the group's memory, one for every group or for one.
  struct Copy {
    int64_t l2bm = 0;
    int64_t outside = 0;
    int64_t lw = 0;
    std::vector<std::pair<int32_t, int32_t>> ends;  ///< group and L2B
    HazardResource memory = HazardResource::kDram;
  };
  std::optional<Copy> copy_of(const PartTransfer& move) const {
    if (move.mv->opcode != isa::Opcode::kMvp) return std::nullopt;
    Copy copy;
    copy.lw = move.mv->size_lw;
    const std::vector<TransferRange> ends = ranges_of(*move.mv, chip_);  // source and destination in turn
    for (size_t k = 0; k + 1 < ends.size(); k += 2) {
      const TransferRange& l2bm = ends[move.is_load ? k + 1 : k];
      const TransferRange& outside = ends[move.is_load ? k : k + 1];
      copy.l2bm = l2bm.begin;
      copy.outside = outside.begin;
      copy.memory = outside.memory;
      copy.ends.emplace_back(outside.place, l2bm.place);
    }
    return copy;
  }

  /// Where buffer `later` must lie, counted from buffer `earlier`, so that what the one stores is what the
  /// other loads.
  struct Link {
    int earlier = 0;
    int later = 0;
    int64_t distance = 0;
    int load = 0;
  };

  /// A load of what a store has taken out of the same L2Bs.
  std::optional<Link> link_of(int number) const {
    const PartTransfer& load = analysis_.moves[index(number)];
    const std::optional<Copy> to = copy_of(load);
    if (!to) return std::nullopt;
    for (const int other : load.after) {
      const PartTransfer& store = analysis_.moves[index(other)];
      const std::optional<Copy> from = copy_of(store);
      if (!from || from->memory != to->memory || from->ends != to->ends || to->outside < from->outside ||
          to->outside + to->lw > from->outside + from->lw || load.after.size() > 1 || load.after_loop)
        continue;
      Link link;
      link.earlier = result_.buffer_of_node[index(store.node)];
      link.later = result_.buffer_of_node[index(load.node)];
      const int64_t in_earlier =
          from->l2bm - result_.lowest[index(link.earlier)] + to->outside - from->outside;
      const int64_t in_later = to->l2bm - result_.lowest[index(link.later)];
      link.distance = in_earlier - in_later;
      link.load = number;
      return link;
    }
    return std::nullopt;
  }

  void find_keeps() {
    TransferProblem& problem = result_.problem;
    const size_t count = problem.buffers.size();
    // A buffer whose loads are all of what was stored, and that nobody writes otherwise.
    std::vector<std::vector<int>> loads(count);
    std::vector<bool> keeps_all(count, true);
    std::vector<Link> links;
    for (size_t k = 0; k < analysis_.moves.size(); ++k) {
      const PartTransfer& move = analysis_.moves[k];
      const int buffer = result_.buffer_of_node[index(move.node)];
      if (!move.is_load) continue;
      loads[index(buffer)].push_back(static_cast<int>(k));
      const std::optional<Link> link = link_of(static_cast<int>(k));
      if (link && link->earlier != buffer) {
        links.push_back(*link);
      } else {
        keeps_all[index(buffer)] = false;
      }
    }
    for (size_t b = 0; b < count; ++b) {
      if (problem.buffers[b].fixed_address) keeps_all[b] = false;
      if (loads[b].empty()) continue;
      for (const int n : members_[b]) {
        const L2bmNode& node = analysis_.nodes[index(n)];
        if (node.task >= 0 && node.write) keeps_all[b] = false;
      }
    }
    // Groups of buffers, each at its distance from the first.
    std::vector<int> group(count);
    std::vector<int64_t> place(count, 0);
    std::iota(group.begin(), group.end(), 0);
    std::vector<std::vector<int>> members(count);
    for (size_t b = 0; b < count; ++b) members[b] = {static_cast<int>(b)};
    std::vector<bool> is_bad(count, false);
    std::vector<std::vector<int>> saved(count);
    for (const Link& link : links) {
      if (!keeps_all[index(link.later)] || problem.buffers[index(link.earlier)].fixed_address ||
          !is_written_before_stores(link.earlier))
        continue;
      const int a = group[index(link.earlier)];
      const int b = group[index(link.later)];
      const int64_t wanted = place[index(link.earlier)] + link.distance;
      if (a == b) {
        if (place[index(link.later)] != wanted) is_bad[index(a)] = true;
      } else {
        const int64_t shift = wanted - place[index(link.later)];
        for (const int member : members[index(b)]) {
          place[index(member)] += shift;
          group[index(member)] = a;
        }
        members[index(a)].insert(members[index(a)].end(), members[index(b)].begin(), members[index(b)].end());
        members[index(b)].clear();
        saved[index(a)].insert(saved[index(a)].end(), saved[index(b)].begin(), saved[index(b)].end());
        saved[index(b)].clear();
        is_bad[index(a)] = is_bad[index(a)] || is_bad[index(b)];
      }
      saved[index(a)].push_back(link.load);
    }
    for (size_t g = 0; g < count; ++g) {
      if (members[g].size() < 2 || is_bad[g] || !is_consistent(members[g], place, loads)) continue;
      TransferProblem::Keep keep;
      int64_t low = INT64_MAX;
      for (const int b : members[g]) low = std::min(low, place[index(b)]);
      for (const int b : members[g]) {
        keep.members.push_back({b, place[index(b)] - low});
        keep.size = std::max(keep.size, place[index(b)] - low + problem.buffers[index(b)].size);
      }
      // All at addresses that fit one another.
      const auto phase = [&](const TransferProblem::Keep::Member& member) {
        const TransferProblem::Buffer& buffer = problem.buffers[index(member.buffer)];
        return ((buffer.phase - member.offset) % buffer.alignment + buffer.alignment) % buffer.alignment;
      };
      if (std::ranges::any_of(keep.members,
                              [&](const auto& m) { return phase(m) != phase(keep.members[0]); }))
        continue;
      keep.saved = saved[g];
      problem.keeps.push_back(std::move(keep));
    }
  }

  /// What is stored is complete: no task writes into the buffer behind its first store.
  bool is_written_before_stores(int buffer) const {
    int64_t first_store = INT64_MAX;
    int64_t last_write = -1;
    for (const int n : members_[index(buffer)]) {
      const L2bmNode& node = analysis_.nodes[index(n)];
      if (node.task >= 0 && node.write) last_write = std::max(last_write, node.task);
      if (node.task < 0) {
        const PartTransfer& move = analysis_.moves[index(node.transfer)];
        if (!move.is_load) first_store = std::min(first_store, move.position);
      }
    }
    return last_write < first_store;
  }

  /// Members that tasks write don't share places; all loads of the others are saved, or come first.
  bool is_consistent(const std::vector<int>& members, const std::vector<int64_t>& place,
                     const std::vector<std::vector<int>>& loads) const {
    const auto& buffers = result_.problem.buffers;
    for (const int a : members) {
      for (const int b : members) {
        if (a >= b || !loads[index(a)].empty() || !loads[index(b)].empty()) continue;
        if (place[index(a)] < place[index(b)] + buffers[index(b)].size &&
            place[index(b)] < place[index(a)] + buffers[index(a)].size)
          return false;
      }
    }
    return true;
  }

  const PartsAnalysis& analysis_;
  const std::span<const ProgramPart> parts_;
  const isa::Chip& chip_;
  int64_t most_lw_;
  Formulation result_;
  std::vector<std::vector<int>> members_;  ///< by buffer: nodes
  std::map<int, int64_t> most_;            ///< LW that a part's buffers have at a time
};

}  // namespace

std::vector<isa::Instruction> detoured(const Detour& detour, const isa::Instruction& load,
                                       const PartTransfer& store, int64_t shift) {
  std::vector<isa::Instruction> mvs;
  for (int copy = 0; copy < detour.copies; ++copy) {
    isa::Instruction mv = load;
    mv.opcode = isa::Opcode::kMvp;
    mv.sources[0] = store.mv->sources[0];
    mv.sources[0].base += detour.offset + shift;
    mv.sources[0].group = static_cast<int8_t>(detour.group);
    mv.sources[0].unit = static_cast<int8_t>(detour.unit);
    if (detour.copies > 1) mv.destinations[0].unit = static_cast<int8_t>(copy);
    mvs.push_back(std::move(mv));
  }
  return mvs;
}

Formulation formulate(const PartsAnalysis& analysis, std::span<const ProgramPart> parts,
                      const isa::Chip& chip, int64_t most_lw) {
  return Formulator(analysis, parts, chip, most_lw).run();
}

}  // namespace kodama::scheduler
