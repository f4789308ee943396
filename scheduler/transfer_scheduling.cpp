#include "scheduler/transfer_scheduling.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/icl/interval_map.hpp>
#include <boost/pending/disjoint_sets.hpp>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "isa/costs.h"
#include "isa/error.h"
#include "isa/sequencer.h"
#include "isa/transfer_timeline.h"
#include "scheduler/builtin_passes.h"

namespace kodama::scheduler {
namespace {

using isa::HazardResource;
using isa::Instruction;
using isa::Operand;
using isa::Space;
using isa::Statement;
using Counters = std::vector<int64_t>;

constexpr const char* kPart = "transfer scheduling";
constexpr int kTags = 64;  // 0 is none

template <typename Number>
size_t index(Number value) {
  return static_cast<size_t>(value);
}

/// A part of an L2BM (`place`: L2B over the chip, -1 = all), or of a group's DRAM or PDM.
struct Range {
  HazardResource memory = HazardResource::kL2bm;
  int32_t place = -1;
  int64_t begin = 0;
  int64_t end = 0;
  bool write = false;
};
bool overlap(const Range& a, const Range& b) {
  return a.memory == b.memory && (a.place < 0 || b.place < 0 || a.place == b.place) && a.begin < b.end &&
         b.begin < a.end;
}
bool conflict(const Range& a, const Range& b) {
  return (a.write || b.write) && overlap(a, b);
}

/// Both ends of an MV.
std::vector<Range> ranges_of(const Instruction& mv, const isa::Chip& chip) {
  std::vector<Range> ranges;
  for (const isa::TransferPart& part : isa::transfer_parts(mv, chip)) {
    Range range{HazardResource::kL2bm, part.index, part.address, part.address + part.lw, part.write};
    switch (part.port) {
      case isa::TransferPort::kDram:
        range.memory = HazardResource::kDram;
        if (part.indirect) {
          range.begin = 0;
          range.end = chip.memory.dram_lw;
        }
        break;
      case isa::TransferPort::kPdmRead:
      case isa::TransferPort::kPdmWrite:
        range.memory = HazardResource::kPdm;
        break;
      case isa::TransferPort::kL2bmRead:
      case isa::TransferPort::kL2bmWrite:
        break;
      case isa::TransferPort::kGroupPath:
        continue;
    }
    ranges.push_back(range);
  }
  return ranges;
}

bool is_mv(const Instruction& instruction) {
  return isa::issue_group(instruction) == isa::IssueGroup::kMv;
}
bool is_wait(const Instruction& instruction) {
  return isa::issue_group(instruction) == isa::IssueGroup::kWait;
}

/// Tags of the MVs and waits in a loop.
void add_tags(const std::vector<Statement>& statements, std::set<int>& tags) {
  for (const Statement& statement : statements) {
    if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
      if (!isa::is_idle(*loop)) add_tags(loop->body, tags);
    } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
      tags.insert(mv->instruction.tag);
    } else if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
      if (nop->wait_tag > 0) tags.insert(nop->wait_tag);
    } else if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
      for (const Instruction& instruction : step->instructions) {
        if (is_wait(instruction)) tags.insert(instruction.tag);
      }
    }
  }
}

bool is_l2bm(const Operand& operand) {
  return operand.space == Space::kL2bm;
}

/// Calls visit(instruction) for what a statement, not a loop, does.
template <typename Visit>
void for_each_instruction(const Statement& statement, Visit&& visit) {
  if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
    for (const Instruction& instruction : step->instructions) visit(instruction);
  } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
    visit(mv->instruction);
  }
}

// ---- what the parts do ---------------------------------------------------------------------------------

/// An operand in L2BM: it always means the same buffer.
struct Node {
  int64_t low = INT64_MAX;  ///< hull of what it names
  int64_t high = 0;
  uint64_t l2bs = 0;  ///< bit q: of L2B q
  bool write = false;
  bool pinned = false;
  int part = 0;
  int64_t task = -1;  ///< that has it; -1: a transfer
  int transfer = -1;
};

/// What stays in its order: a step, loop, mark; or an MV that belongs to a loop.
struct Task {
  enum class Kind : uint8_t { kBegin, kEnd, kStatement } kind = Kind::kStatement;
  int part = 0;
  const Statement* statement = nullptr;
  int64_t cycles = 0;
  std::vector<int> nodes = {};
  std::vector<Range> ranges = {};  ///< of the MVs inside, outside L2BM
  bool has_transfers = false;      ///< a loop with MVs or waits, or a MV that belongs to one
  bool behind_removed = false;     ///< a step in front of it fell away
};

struct Move {
  int part = 0;
  const Instruction* mv = nullptr;
  int32_t line = 0;
  int64_t position = 0;  ///< before this task
  bool is_load = true;
  int node = -1;
  std::vector<Range> outside;  ///< its end in DRAM or PDM
  std::set<int> after;         ///< stores that write what it reads
  bool after_loop = false;     ///< a loop writes some of it
  int64_t earliest = 0;
};

class Analysis {
 public:
  Analysis(const std::vector<ProgramPart>& parts, const isa::Chip& chip)
      : chip_(chip), content_(index(chip.l2b_count())) {
    for (size_t k = 0; k < parts.size(); ++k) read_part(parts[k], static_cast<int>(k));
    find_sources();
  }

  std::vector<Task> tasks;
  std::vector<Move> moves;
  std::vector<Node> nodes;
  std::unordered_map<const Operand*, int> node_of;
  std::vector<std::set<int>> kept_tags;  ///< by part: of loops, whose waits stay where they are
  std::vector<int64_t> part_end;         ///< by part: its last task

  /// The node that stands for all that mean the same buffer.
  int buffer_of(int node) {
    while (parent_[index(node)] != node) {
      parent_[index(node)] = parent_[index(parent_[index(node)])];
      node = parent_[index(node)];
    }
    return node;
  }

 private:
  void join(int a, int b) {
    a = buffer_of(a);
    b = buffer_of(b);
    if (a != b) parent_[index(std::max(a, b))] = std::min(a, b);
  }

  int node(const Operand& operand) {
    const auto [known, is_new] = node_of.try_emplace(&operand, static_cast<int>(nodes.size()));
    if (is_new) {
      nodes.emplace_back();
      nodes.back().part = part_;
      parent_.push_back(known->second);
    }
    return known->second;
  }

  void read_part(const ProgramPart& part, int number) {
    part_ = number;
    for (std::vector<int>& content : content_) content.assign(index(chip_.memory.l2bm_lw), -1);
    std::set<int>& kept = kept_tags.emplace_back();
    for (const Statement& statement : part.program.statements) {
      if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
        if (!isa::is_idle(*loop)) add_tags(loop->body, kept);
      } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
        if (!is_plain(mv->instruction)) kept.insert(mv->instruction.tag);
      }
    }
    add_task({.kind = Task::Kind::kBegin});
    bool removed = false;
    for (const Statement& statement : part.program.statements) {
      Task task{.statement = &statement, .behind_removed = removed};
      if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
        if (isa::is_idle(*loop)) continue;
        std::set<int> tags;
        add_tags(loop->body, tags);
        task.has_transfers = !tags.empty();
        task.cycles = isa::kCyclesPerStep * isa::count({"", {statement}}).steps;
      } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
        if (!kept.contains(mv->instruction.tag)) {
          add_move(mv->instruction, statement.line);
          continue;
        }
        task.has_transfers = true;
      } else if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
        if (nop->wait_tag > 0 && !kept.contains(nop->wait_tag)) {
          removed = true;
          continue;
        }
        task.cycles = isa::kCyclesPerStep * nop->count;
      } else if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
        if (std::ranges::all_of(step->instructions, [&](const Instruction& instruction) {
              return is_wait(instruction) && !kept.contains(instruction.tag);
            })) {
          removed = true;
          continue;
        }
        task.cycles = isa::kCyclesPerStep;
      } else if (!std::holds_alternative<isa::RegionMark>(statement.kind)) {
        throw isa::UnsupportedError(fmt::format(
            "part '{}', line {}: transfers can't be scheduled across mask, d, r and q statements; choose "
            "on-demand transfers",
            part.name, statement.line));
      }
      removed = false;
      const int64_t number_of_task = add_task(std::move(task));
      read_task(tasks[index(number_of_task)], number_of_task);
    }
    part_end.push_back(add_task({.kind = Task::Kind::kEnd, .behind_removed = removed}));
  }
  int64_t add_task(Task task) {
    task.part = part_;
    tasks.push_back(std::move(task));
    return static_cast<int64_t>(tasks.size()) - 1;
  }

  /// A load or store that can be waited for.
  static bool is_plain(const Instruction& mv) {
    if (mv.tag == 0 || mv.sources.size() != 1 || mv.destinations.size() != 1) return false;
    const Space from = mv.sources[0].space;
    const Space to = mv.destinations[0].space;
    const auto is_outside = [](Space space) { return space == Space::kDram || space == Space::kPdm; };
    return (is_outside(from) && to == Space::kL2bm) || (from == Space::kL2bm && is_outside(to));
  }

  void add_move(const Instruction& mv, int32_t line) {
    Move move;
    move.part = part_;
    move.mv = &mv;
    move.line = line;
    move.position = static_cast<int64_t>(tasks.size());
    move.is_load = is_l2bm(mv.destinations[0]);
    move.node = node(move.is_load ? mv.destinations[0] : mv.sources[0]);
    nodes[index(move.node)].transfer = static_cast<int>(moves.size());
    for (const Range& range : ranges_of(mv, chip_)) {
      if (range.memory == HazardResource::kL2bm) {
        touch(move.node, range.place, range.begin, range.end - range.begin, range.write);
      } else {
        move.outside.push_back(range);
      }
    }
    moves.push_back(std::move(move));
  }

  void read_task(Task& task, int64_t number) {
    if (task.has_transfers) {
      read_hulls(task, number);
      return;
    }
    Counters counters;
    read_statement(*task.statement, counters, task, number);
  }

  /// What an instruction of a step does in L2BM.
  struct L2bmUse {
    int node = -1;
    const Operand* operand = nullptr;
    isa::Access access;
  };
  const L2bmUse& l2bm_use(const Instruction& instruction, Task& task, int64_t number) {
    const auto [known, is_new] = uses_.try_emplace(&instruction);
    if (!is_new) return known->second;
    L2bmUse& use = known->second;
    for (const auto* operands : {&instruction.sources, &instruction.destinations}) {
      for (const Operand& operand : *operands) {
        if (!is_l2bm(operand)) continue;
        isa::check_internal(use.operand == nullptr, kPart, "'{}' has two operands in L2BM",
                            isa::mnemonic(instruction));
        use.operand = &operand;
      }
    }
    if (use.operand == nullptr) return use;
    use.node = node(*use.operand);
    nodes[index(use.node)].task = number;
    task.nodes.push_back(use.node);
    for (const isa::Access& access : isa::accesses(instruction, chip_)) {
      if (access.resource == HazardResource::kL2bm) use.access = access;
    }
    return use;
  }

  /// Loops without transfers: all iterations, as far as they touch L2BM.
  void read_statement(const Statement& statement, Counters& counters, Task& task, int64_t number) {
    if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
      if (isa::is_idle(*loop) || !touches_l2bm(*loop)) return;
      counters.push_back(0);
      for (int64_t i = 0; i < loop->count; ++i) {
        counters.back() = i;
        for (const Statement& inner : loop->body) read_statement(inner, counters, task, number);
      }
      counters.pop_back();
      return;
    }
    for_each_instruction(statement, [&](const Instruction& instruction) {
      const L2bmUse& use = l2bm_use(instruction, task, number);
      if (use.operand == nullptr) return;
      touch(use.node, use.access.place, isa::resolved_base(*use.operand, counters), use.access.length,
            use.access.write);
    });
  }
  bool touches_l2bm(const isa::Loop& loop) {
    const auto [known, is_new] = touching_.try_emplace(&loop, false);
    if (!is_new) return known->second;
    bool touches = false;
    for (const Statement& statement : loop.body) {
      if (const auto* inner = std::get_if<isa::Loop>(&statement.kind))
        touches = touches_l2bm(*inner) || touches;
      for_each_instruction(statement, [&](const Instruction& instruction) {
        touches = touches || std::ranges::any_of(instruction.sources, is_l2bm) ||
                  std::ranges::any_of(instruction.destinations, is_l2bm);
      });
    }
    return touching_[&loop] = touches;
  }

  /// Loops with transfers, and transfers that belong to them: everything they may touch, at any time.
  void read_hulls(Task& task, int64_t number) {
    struct Hull {
      int node;
      Range range;
    };
    std::vector<Hull> hulls;
    Counters counts;
    const auto reach = [&](const Operand& operand, Range& range) {
      for (size_t d = 0; d < std::min(counts.size(), operand.loop_strides.size()); ++d) {
        const int64_t way = operand.loop_strides[d] * (counts[d] - 1);
        (way < 0 ? range.begin : range.end) += way;
      }
    };
    const auto visit = [&](const auto& self, const Statement& statement) -> void {
      if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
        if (isa::is_idle(*loop)) return;
        counts.push_back(loop->count);
        for (const Statement& inner : loop->body) self(self, inner);
        counts.pop_back();
        return;
      }
      for_each_instruction(statement, [&](const Instruction& instruction) {
        if (!is_mv(instruction)) {
          const L2bmUse& use = l2bm_use(instruction, task, number);
          if (use.operand == nullptr) return;
          Range range{HazardResource::kL2bm, use.access.place, use.operand->base,
                      use.operand->base + use.access.length, use.access.write};
          reach(*use.operand, range);
          hulls.push_back({use.node, range});
          return;
        }
        for (Range range : ranges_of(instruction, chip_)) {
          const Operand& operand = range.write ? instruction.destinations[0] : instruction.sources[0];
          reach(operand, range);
          if (range.memory != HazardResource::kL2bm) {
            task.ranges.push_back(range);
            continue;
          }
          const int own = node(operand);
          if (nodes[index(own)].task < 0) {
            nodes[index(own)].task = number;
            task.nodes.push_back(own);
          }
          hulls.push_back({own, range});
        }
      });
    };
    visit(visit, *task.statement);
    for (const bool write : {false, true, false}) {
      for (const Hull& hull : hulls) {
        if (hull.range.write != write) continue;
        nodes[index(hull.node)].pinned = true;
        // What was there may stay there.
        touch(hull.node, hull.range.place, hull.range.begin, hull.range.end - hull.range.begin, false);
        if (write)
          touch(hull.node, hull.range.place, hull.range.begin, hull.range.end - hull.range.begin, true);
      }
    }
  }

  void touch(int number, int32_t place, int64_t begin, int64_t length, bool write) {
    Node& node = nodes[index(number)];
    const int64_t size = chip_.memory.l2bm_lw;
    if (begin < 0 || begin + length > size) {  // wraps
      node.pinned = true;
      begin = 0;
      length = size;
    }
    node.low = std::min(node.low, begin);
    node.high = std::max(node.high, begin + length);
    node.write = node.write || write;
    const int32_t first = place < 0 ? 0 : place;
    const int32_t last = place < 0 ? chip_.l2b_count() - 1 : place;
    for (int32_t l2b = first; l2b <= last; ++l2b) {
      node.l2bs |= uint64_t{1} << l2b;
      std::vector<int>& content = content_[index(l2b)];
      int known = -1;
      for (int64_t at = begin; at < begin + length; ++at) {
        int& cell = content[index(at)];
        if (write) {
          cell = number;
        } else if (cell >= 0 && cell != known) {
          known = cell;
          join(number, cell);
        }
      }
    }
  }

  /// What loads depend on outside L2BM.
  void find_sources() {
    // 0 is nothing; transfers count from 1, the parts of loops downwards from -1.
    using Map = boost::icl::interval_map<int64_t, int>;
    std::map<std::pair<HazardResource, int32_t>, Map> writers;
    const auto write = [&](const Range& range, int who) {
      if (range.write)
        writers[{range.memory, range.place}].set(
            {boost::icl::interval<int64_t>::right_open(range.begin, range.end), who});
    };
    size_t next = 0;
    for (size_t t = 0; t <= tasks.size(); ++t) {
      for (; next < moves.size() && moves[next].position == static_cast<int64_t>(t); ++next) {
        Move& move = moves[next];
        for (const Range& range : move.outside) {
          if (range.write) {
            write(range, static_cast<int>(next) + 1);
            continue;
          }
          const auto found = writers.find({range.memory, range.place});
          if (found == writers.end()) continue;
          const auto [first, last] =
              found->second.equal_range(boost::icl::interval<int64_t>::right_open(range.begin, range.end));
          for (auto each = first; each != last; ++each) {
            if (each->second > 0) {
              const int store = each->second - 1;
              move.after.insert(store);
              move.earliest = std::max(move.earliest, moves[index(store)].position);
            } else {
              // Its waits are behind it, but in its part.
              move.after_loop = true;
              const int part = -1 - each->second;
              move.earliest =
                  std::max(move.earliest, part == move.part ? move.position : part_end[index(part)]);
            }
          }
        }
      }
      if (t == tasks.size()) break;
      for (const Range& range : tasks[t].ranges) write(range, -1 - tasks[t].part);
    }
  }

  const isa::Chip& chip_;
  int part_ = 0;
  std::vector<std::vector<int>> content_;  ///< by L2B and address: the node that wrote it
  std::vector<int> parent_;
  std::unordered_map<const Instruction*, L2bmUse> uses_;
  std::unordered_map<const isa::Loop*, bool> touching_;
};

// ---- the problem ---------------------------------------------------------------------------------------

/// A load of what a store before it takes out may copy it from where the store does.
struct Detour {
  int store = -1;      ///< -1: there is none
  int32_t group = -1;  ///< of the source; -1: each group has its own
  int32_t unit = 0;
  int64_t offset = 0;  ///< from the store's address in L2BM
};

struct Formulation {
  TransferProblem problem;
  std::vector<int> buffer_of_node;  ///< by node; its buffer in the problem
  std::vector<int64_t> lowest;      ///< by buffer: its address in the parts
  std::vector<Detour> detours;      ///< by transfer
};

/// Its source in L2BM, whose buffer has moved by `shift`.
Operand detoured(const Detour& detour, const Move& store, int64_t shift) {
  Operand source = store.mv->sources[0];
  source.base += detour.offset + shift;
  source.group = static_cast<int8_t>(detour.group);
  source.unit = static_cast<int8_t>(detour.unit);
  return source;
}

class Formulator {
 public:
  /// `direct`: loads copy from L2BM what was stored from there.
  Formulator(Analysis& analysis, const std::vector<ProgramPart>& parts, const isa::Chip& chip, bool direct)
      : analysis_(analysis), parts_(parts), chip_(chip), direct_(direct) {}

  Formulation run() {
    TransferProblem& problem = result_.problem;
    problem.name = parts_.empty() ? "" : parts_.front().name;
    problem.capacity = chip_.memory.l2bm_lw;
    problem.max_in_flight = chip_.transfer.max_in_flight;
    problem.issue_interval = isa::kCyclesPerStep * chip_.transfer.issue_interval_steps;
    for (const Task& task : analysis_.tasks) problem.task_cycles.push_back(task.cycles);
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
      const int buffer = analysis_.buffer_of(static_cast<int>(n));
      if (analysis_.nodes[n].pinned) pinned_buffers.insert(buffer);
      free[buffer].push_back(static_cast<int>(n));
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

  void add_buffer(const std::vector<int>& members, bool is_pinned) {
    TransferProblem& problem = result_.problem;
    TransferProblem::Buffer buffer;
    int64_t low = INT64_MAX;
    int64_t high = 0;
    buffer.first_task = INT64_MAX;
    buffer.last_task = -1;
    const int part = analysis_.nodes[index(members.front())].part;
    for (const int n : members) {
      const Node& node = analysis_.nodes[index(n)];
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
    }
    // A row must be opened first, in the worst case.
    const auto row_miss =
        static_cast<int64_t>(std::ceil(chip_.transfer.dram_row_miss_ns * chip_.clock_hz * 1e-9));
    for (const Move& move : analysis_.moves) {
      TransferProblem::Transfer transfer;
      transfer.buffer = result_.buffer_of_node[index(move.node)];
      transfer.text = fmt::format("{}: {} of {} LW", parts_[index(move.part)].name,
                                  move.is_load ? "load" : "store", move.mv->size_lw);
      transfer.is_load = move.is_load;
      transfer.latest = move.is_load ? first_use(move) : move.position;
      transfer.earliest =
          move.is_load && may_move(move) ? std::min(move.earliest, transfer.latest) : move.position;
      const Detour detour = direct_ && may_move(move) ? detour_of(move) : Detour{};
      Instruction mv = *move.mv;
      if (detour.store >= 0) {
        const Move& store = analysis_.moves[index(detour.store)];
        transfer.source = result_.buffer_of_node[index(store.node)];
        mv.sources[0] = detoured(detour, store, 0);
      } else {
        transfer.after.assign(move.after.begin(), move.after.end());
      }
      result_.detours.push_back(detour);
      transfer.latency =
          isa::transfer_latency(isa::transfer_parts(mv, chip_), chip_) + (detour.store >= 0 ? 0 : row_miss);
      for (const isa::TransferUse& use : isa::transfer_load(mv, chip_).uses) {
        const isa::TransferPart part{use.port, use.index, use.to, use.lw, 0, false, false};
        transfer.uses.push_back(
            {ports.number(part), static_cast<int64_t>(std::ceil(static_cast<double>(use.lw) /
                                                                isa::transfer_rate(use.port, chip_)))});
      }
      problem.transfers.push_back(std::move(transfer));
    }
  }

  Detour detour_of(const Move& load) const {
    if (!load.is_load || load.after.size() != 1 || load.after_loop || load.mv->opcode != isa::Opcode::kMvp)
      return {};
    Detour detour;
    detour.store = *load.after.begin();
    const Move& store = analysis_.moves[index(detour.store)];
    const int buffer = result_.buffer_of_node[index(store.node)];
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
  int64_t first_use(const Move& move) const {
    const Node& own = analysis_.nodes[index(move.node)];
    const auto own_number = static_cast<int>(&move - analysis_.moves.data());
    int64_t first = INT64_MAX;
    for (const int n : members_[index(result_.buffer_of_node[index(move.node)])]) {
      const Node& node = analysis_.nodes[index(n)];
      const int64_t at = node.task >= 0 ? node.task : analysis_.moves[index(node.transfer)].position;
      const bool is_behind = node.task >= 0 ? at >= move.position : node.transfer > own_number;
      if (is_behind && meet(node, own)) first = std::min(first, at);
    }
    return first == INT64_MAX ? move.position : first;
  }
  static bool meet(const Node& a, const Node& b) {
    return (a.l2bs & b.l2bs) != 0 && a.low < b.high && b.low < a.high;
  }
  /// Whether nothing that comes before it touches its place in its buffer.
  bool may_move(const Move& move) const {
    const int buffer = result_.buffer_of_node[index(move.node)];
    if (result_.problem.buffers[index(buffer)].fixed_address) return false;
    const auto own_number = &move - analysis_.moves.data();
    const Node& own = analysis_.nodes[index(move.node)];
    return std::ranges::none_of(members_[index(buffer)], [&](int n) {
      const Node& node = analysis_.nodes[index(n)];
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
  std::optional<Copy> copy_of(const Move& move) const {
    if (move.mv->opcode != isa::Opcode::kMvp) return std::nullopt;
    Copy copy;
    copy.lw = move.mv->size_lw;
    const std::vector<Range> ends = ranges_of(*move.mv, chip_);  // source and destination in turn
    for (size_t k = 0; k + 1 < ends.size(); k += 2) {
      const Range& l2bm = ends[move.is_load ? k + 1 : k];
      const Range& outside = ends[move.is_load ? k : k + 1];
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
    const Move& load = analysis_.moves[index(number)];
    const std::optional<Copy> to = copy_of(load);
    if (!to) return std::nullopt;
    for (const int other : load.after) {
      const Move& store = analysis_.moves[index(other)];
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
      const Move& move = analysis_.moves[k];
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
        const Node& node = analysis_.nodes[index(n)];
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
      const Node& node = analysis_.nodes[index(n)];
      if (node.task >= 0 && node.write) last_write = std::max(last_write, node.task);
      if (node.task < 0) {
        const Move& move = analysis_.moves[index(node.transfer)];
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

  Analysis& analysis_;
  const std::vector<ProgramPart>& parts_;
  const isa::Chip& chip_;
  Formulation result_;
  bool direct_;
  std::vector<std::vector<int>> members_;  ///< by buffer: nodes
};

// ---- the program ---------------------------------------------------------------------------------------

/// Puts statements one after the other with the distances that they need (isa::required_gap).
class Joiner {
 public:
  explicit Joiner(const isa::Chip& chip) : chip_(chip), window_(isa::longest_gap(chip) + 1) {}

  std::vector<Statement> statements;

  /// Steps may have come closer to each other here.
  void distrust() { trusted_from_ = time_ + window_; }

  void mark(bool begin, const std::string& name) { statements.push_back({isa::RegionMark{begin, name}, 0}); }

  void add(Statement statement) {
    const bool is_mv = std::holds_alternative<isa::Mv>(statement.kind);
    const bool takes_time = !is_mv && !std::holds_alternative<isa::RegionMark>(statement.kind);
    if (is_mv || (takes_time && time_ < trusted_from_)) keep_distance(statement);
    if (is_mv) {
      last_step_.reset();
    } else if (takes_time) {
      last_step_ = statements.size();
      remember_tail(statement);
      time_ += isa::count({"", {statement}}).steps;
      std::erase_if(recent_, [&](const Recent& each) { return each.time < time_ - window_; });
    }
    statements.push_back(std::move(statement));
  }

  /// Puts a wait beside a step that has none; a step issues when its wait is over.
  static bool beside(Statement& statement, int tag) {
    if (auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
      if (nop->count != 1 || nop->wait_tag > 0) return false;
      nop->wait_tag = static_cast<int8_t>(tag);
      return true;
    }
    auto* step = std::get_if<isa::Step>(&statement.kind);
    if (step == nullptr || std::ranges::any_of(step->instructions, is_wait)) return false;
    Instruction wait;
    wait.opcode = isa::Opcode::kWait;
    wait.tag = static_cast<int8_t>(tag);
    step->instructions.push_back(std::move(wait));
    return true;
  }

  /// Beside the last step, where there is one and no MV would wait, too.
  void wait(int tag) {
    if (last_step_ && beside(statements[*last_step_], tag)) return;
    add({isa::Nop{1, static_cast<int8_t>(tag)}, 0});
  }

 private:
  struct Recent {
    int64_t time = 0;
    std::vector<isa::Access> accesses;
  };
  struct TimedStep {
    int64_t time = 0;  ///< counted from the beginning of what it is in, or backwards from its end
    std::vector<isa::Access> accesses;
  };

  std::vector<isa::Access> accesses(const Statement& statement) const {
    std::vector<isa::Access> all;
    for_each_instruction(statement, [&](const Instruction& instruction) {
      for (isa::Access& access : isa::accesses(instruction, chip_)) {
        if (!isa::is_forwarding_register(access.resource)) all.push_back(std::move(access));
      }
    });
    return all;
  }

  /// The first (or last) steps of a statement, as many as distances reach; returns false when it has enough.
  bool collect(const Statement& statement, Counters& counters, bool backwards, int64_t& time,
               std::vector<TimedStep>& steps) const {
    if (time >= window_) return false;
    if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
      if (isa::is_idle(*loop)) return true;
      counters.push_back(0);
      bool more = true;
      for (int64_t i = 0; i < loop->count && more; ++i) {
        counters.back() = backwards ? loop->count - 1 - i : i;
        for (size_t k = 0; k < loop->body.size() && more; ++k) {
          const size_t at = backwards ? loop->body.size() - 1 - k : k;
          more = collect(loop->body[at], counters, backwards, time, steps);
        }
      }
      counters.pop_back();
      return more;
    }
    if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
      time += nop->count;
    } else {
      const bool is_step = std::holds_alternative<isa::Step>(statement.kind);
      if (backwards && is_step) ++time;
      if (is_step || !backwards) steps.push_back({time, accesses(isa::resolved(statement, counters))});
      if (!backwards && is_step) ++time;
    }
    return time < window_;
  }

  void keep_distance(const Statement& statement) {
    Counters counters;
    int64_t time = 0;
    std::vector<TimedStep> head;
    collect(statement, counters, false, time, head);
    int64_t missing = 0;
    for (const TimedStep& later : head) {
      for (const Recent& first : recent_) {
        const int64_t between = time_ + later.time - first.time - 1;
        for (const isa::Access& a : first.accesses) {
          for (const isa::Access& b : later.accesses) {
            if (a.resource == b.resource)
              missing = std::max(missing, isa::required_gap(a, b, chip_) - between);
          }
        }
      }
    }
    if (missing == 0) return;
    last_step_ = statements.size();
    statements.push_back({isa::Nop{missing, 0}, 0});
    time_ += missing;
  }

  void remember_tail(const Statement& statement) {
    Counters counters;
    int64_t time = 0;
    std::vector<TimedStep> tail;
    collect(statement, counters, true, time, tail);
    const int64_t end = time_ + isa::count({"", {statement}}).steps;
    for (TimedStep& step : tail) recent_.push_back({end - step.time, std::move(step.accesses)});
  }

  const isa::Chip& chip_;
  int64_t window_;
  int64_t time_ = 0;
  int64_t trusted_from_ = 0;
  std::deque<Recent> recent_;
  std::optional<size_t> last_step_;  ///< number of the last statement, if it is a step and no MV is behind it
};

class Emitter {
 public:
  Emitter(Analysis& analysis, const Formulation& formulation, const TransferSchedule& schedule,
          const std::vector<ProgramPart>& parts, const isa::Chip& chip)
      : analysis_(analysis),
        formulation_(formulation),
        schedule_(schedule),
        parts_(parts),
        chip_(chip),
        joiner_(chip) {
    for (int tag = 1; tag < kTags; ++tag) {
      const bool is_kept =
          std::ranges::any_of(analysis.kept_tags, [&](const auto& tags) { return tags.contains(tag); });
      if (!is_kept) free_tags_.push_back(tag);
    }
  }

  ScheduledParts run() {
    isa::check_internal(!free_tags_.empty(), kPart, "loops use all tags");
    const std::vector<int> order = issue_order(formulation_.problem, schedule_);
    auto next = order.begin();
    for (size_t t = 0; t < analysis_.tasks.size(); ++t) {
      // What is fetched before the first part belongs to it.
      if (t == 0) emit_task(analysis_.tasks[t]);
      for (; next != order.end() && schedule_.issue[index(*next)] == static_cast<int64_t>(t); ++next)
        emit_move(*next);
      if (t > 0) emit_task(analysis_.tasks[t]);
    }
    isa::check_internal(next == order.end(), kPart, "transfers behind the last task");
    result_.begin.push_back(joiner_.statements.size());
    result_.program.statements = std::move(joiner_.statements);
    return std::move(result_);
  }

 private:
  struct InFlight {
    int tag = 0;
    std::vector<Range> ranges;
  };

  int64_t shift(int node) const {
    const int buffer = formulation_.buffer_of_node[index(node)];
    return schedule_.address[index(buffer)] - formulation_.lowest[index(buffer)];
  }

  /// Waits for the transfers that meet these ranges; with a step, the last wait stands beside it.
  void wait_for(const std::vector<Range>& ranges, Statement* step = nullptr) {
    std::vector<int> tags;
    std::erase_if(in_flight_, [&](const InFlight& transfer) {
      const bool meets = std::ranges::any_of(transfer.ranges, [&](const Range& a) {
        return std::ranges::any_of(ranges, [&](const Range& b) { return conflict(a, b); });
      });
      if (meets) tags.push_back(transfer.tag);
      return meets;
    });
    for (size_t k = 0; k < tags.size(); ++k) {
      free_tags_.push_back(tags[k]);
      const bool is_last = k + 1 == tags.size();
      if (!is_last || step == nullptr || !Joiner::beside(*step, tags[k])) joiner_.wait(tags[k]);
    }
  }
  void finish_first() {
    joiner_.wait(in_flight_.front().tag);
    free_tags_.push_back(in_flight_.front().tag);
    in_flight_.erase(in_flight_.begin());
  }

  /// Whether it is fetched in the background: nobody needs it before other tasks are done, and it doesn't
  /// wait for what these make.
  bool is_ahead(int transfer) const {
    const TransferProblem::Transfer& each = formulation_.problem.transfers[index(transfer)];
    return schedule_.issue[index(transfer)] < each.latest && each.after.empty() && each.source < 0;
  }

  void emit_move(int number) {
    const Move& move = analysis_.moves[index(number)];
    Instruction mv = *move.mv;
    Operand& operand = move.is_load ? mv.destinations[0] : mv.sources[0];
    operand.base += shift(move.node);
    if (const Detour& detour = formulation_.detours[index(number)]; detour.store >= 0) {
      const Move& store = analysis_.moves[index(detour.store)];
      mv.sources[0] = detoured(detour, store, shift(store.node));
    }
    const std::vector<Range> ranges = ranges_of(mv, chip_);
    wait_for(ranges);
    if (free_tags_.empty()) finish_first();
    mv.tag = static_cast<int8_t>(free_tags_.front());
    free_tags_.pop_front();
    // What somebody waits for comes before what is fetched ahead.
    if (!is_ahead(number)) mv.priority = std::max<int8_t>(mv.priority, 1);
    in_flight_.push_back({mv.tag, ranges});
    joiner_.add({isa::Mv{std::move(mv)}, move.line});
  }

  void emit_task(const Task& task) {
    const std::string& name = parts_[index(task.part)].name;
    if (task.behind_removed) joiner_.distrust();
    if (task.kind == Task::Kind::kBegin) {
      result_.begin.push_back(joiner_.statements.size());
      joiner_.mark(true, name);
      joiner_.distrust();
      return;
    }
    if (task.kind == Task::Kind::kEnd) {
      if (index(task.part) + 1 == parts_.size()) {
        while (!in_flight_.empty()) finish_first();
      }
      joiner_.mark(false, name);
      return;
    }
    std::vector<Range> ranges = task.ranges;
    for (const int n : task.nodes) {
      const Node& node = analysis_.nodes[index(n)];
      ranges.push_back({HazardResource::kL2bm, -1, node.low + shift(n), node.high + shift(n), node.write});
    }
    Statement statement = *task.statement;
    rewrite(statement, *task.statement, analysis_.kept_tags[index(task.part)]);
    wait_for(ranges, &statement);
    joiner_.add(std::move(statement));
  }

  /// Addresses of L2BM; and no waits but for the tags of loops.
  void rewrite(Statement& statement, const Statement& original, const std::set<int>& kept) {
    if (auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
      const auto& from = std::get<isa::Loop>(original.kind);
      for (size_t k = 0; k < loop->body.size(); ++k) rewrite(loop->body[k], from.body[k], kept);
    } else if (auto* step = std::get_if<isa::Step>(&statement.kind)) {
      const auto& from = std::get<isa::Step>(original.kind);
      for (size_t k = 0; k < step->instructions.size(); ++k)
        move_operands(step->instructions[k], from.instructions[k]);
      std::erase_if(step->instructions, [&](const Instruction& instruction) {
        return is_wait(instruction) && !kept.contains(instruction.tag);
      });
    }
  }
  void move_operands(Instruction& instruction, const Instruction& from) {
    for (size_t k = 0; k < from.sources.size(); ++k) move_operand(instruction.sources[k], from.sources[k]);
    for (size_t k = 0; k < from.destinations.size(); ++k)
      move_operand(instruction.destinations[k], from.destinations[k]);
  }
  void move_operand(Operand& operand, const Operand& from) {
    if (!is_l2bm(from)) return;
    const auto node = analysis_.node_of.find(&from);
    if (node != analysis_.node_of.end()) operand.base += shift(node->second);
  }

  Analysis& analysis_;
  const Formulation& formulation_;
  const TransferSchedule& schedule_;
  const std::vector<ProgramPart>& parts_;
  const isa::Chip& chip_;
  Joiner joiner_;
  std::deque<int> free_tags_;
  std::vector<InFlight> in_flight_;
  ScheduledParts result_;
};

/// One part after the other, each as it is.
ScheduledParts as_they_are(const std::vector<ProgramPart>& parts, const isa::Chip& chip) {
  Joiner joiner(chip);
  ScheduledParts result;
  for (const ProgramPart& part : parts) {
    result.begin.push_back(joiner.statements.size());
    joiner.mark(true, part.name);
    joiner.distrust();
    for (const Statement& statement : part.program.statements) joiner.add(statement);
    joiner.mark(false, part.name);
  }
  result.begin.push_back(joiner.statements.size());
  result.program.statements = std::move(joiner.statements);
  return result;
}

}  // namespace

ScheduledParts schedule_transfers(const std::vector<ProgramPart>& parts, const isa::Chip& chip,
                                  const TransferChoice& choice) {
  const TransferScheduler& scheduler = find_transfer_scheduler(choice.scheduler);
  ScheduledParts plain = as_they_are(parts, chip);
  if (scheduler.leaves_programs) return plain;
  Analysis analysis(parts, chip);
  ScheduledParts best = std::move(plain);
  int64_t best_cycles = isa::predict_cycles(best.program, chip).total();
  for (const bool direct : {true, false}) {
    const Formulation formulation = Formulator(analysis, parts, chip, direct).run();
    check_problem(formulation.problem);
    std::optional<TransferSchedule> schedule;
    run_blaming("transfer scheduler", scheduler, [&] {
      schedule = scheduler.run(formulation.problem, choice.options);
      if (!schedule) return;
      const std::string fault = schedule_fault(formulation.problem, *schedule);
      if (!fault.empty())
        throw isa::InternalError(fmt::format(
            "internal error found by schedule_fault: transfer scheduler '{}': {}", scheduler.name, fault));
    });
    if (!schedule) continue;
    if (choice.observe) choice.observe(formulation.problem, *schedule);
    ScheduledParts found = Emitter(analysis, formulation, *schedule, parts, chip).run();
    const int64_t cycles = isa::predict_cycles(found.program, chip).total();
    if (cycles >= best_cycles) continue;
    best = std::move(found);
    best_cycles = cycles;
  }
  return best;
}

}  // namespace kodama::scheduler
