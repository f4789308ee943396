/// What the parts of a segment do: tasks, transfers, and which operands in L2BM mean the same buffer.
#include <fmt/format.h>

#include <algorithm>
#include <boost/icl/interval_map.hpp>
#include <map>

#include "isa/error.h"
#include "scheduler/problem/indexing.h"
#include "scheduler/segment/transfer_parts.h"

namespace kodama::scheduler {
namespace {

using isa::HazardResource;
using isa::Instruction;
using isa::Operand;
using isa::Space;
using isa::Statement;
using Counters = std::vector<int64_t>;

bool is_mv(const Instruction& instruction) {
  return isa::issue_group(instruction) == isa::IssueGroup::kMv;
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

/// A load or store that can be waited for.
bool is_plain(const Instruction& mv) {
  if (mv.tag == 0 || mv.sources.size() != 1 || mv.destinations.size() != 1) return false;
  const Space from = mv.sources[0].space;
  const Space to = mv.destinations[0].space;
  const auto is_outside = [](Space space) { return space == Space::kDram || space == Space::kPdm; };
  return (is_outside(from) && to == Space::kL2bm) || (from == Space::kL2bm && is_outside(to));
}

/// Tags of loops, and of transfers that stay where they are: their waits do, too.
std::set<int> kept_tags_of(const ProgramPart& part) {
  std::set<int> kept;
  for (const Statement& statement : part.program.statements) {
    if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
      if (!isa::is_idle(*loop)) add_tags(loop->body, kept);
    } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
      if (!is_plain(mv->instruction)) kept.insert(mv->instruction.tag);
    }
  }
  return kept;
}

/// Those that are scheduled.
size_t count_moves(const ProgramPart& part) {
  const std::set<int> kept = kept_tags_of(part);
  return static_cast<size_t>(std::ranges::count_if(part.program.statements, [&](const Statement& statement) {
    const auto* mv = std::get_if<isa::Mv>(&statement.kind);
    return mv != nullptr && !kept.contains(mv->instruction.tag);
  }));
}

class Analyzer : private PartsAnalysis {
 public:
  Analyzer(std::span<const ProgramPart> parts, const isa::Chip& chip)
      : parts_(parts), chip_(chip), content_(index(chip.l2b_count())) {
    for (size_t k = 0; k < parts.size(); ++k) find_tasks(parts[k], static_cast<int>(k));
  }
  size_t task_count() const { return tasks.size(); }

  PartsAnalysis run(bool has_scratch) {
    find_uses();
    find_sources();
    if (has_scratch) find_scratch();
    split_loads();
    for (size_t n = 0; n < nodes.size(); ++n) buffer.push_back(buffer_of(static_cast<int>(n)));
    return std::move(static_cast<PartsAnalysis&>(*this));
  }

 private:
  /// The node that stands for all that mean the same buffer.
  int buffer_of(int node) {
    while (parent_[index(node)] != node) {
      parent_[index(node)] = parent_[index(parent_[index(node)])];
      node = parent_[index(node)];
    }
    return node;
  }
  void join(int a, int b) {
    a = buffer_of(a);
    b = buffer_of(b);
    if (a != b) parent_[index(std::max(a, b))] = std::min(a, b);
  }

  int new_node() {
    const auto number = static_cast<int>(nodes.size());
    nodes.emplace_back();
    nodes.back().part = part_;
    parent_.push_back(number);
    return number;
  }
  /// Of the operand in L2BM of an instruction that stays where it is.
  int node(const InstructionPlace& place) {
    const auto [known, is_new] = node_of.try_emplace(place);
    if (is_new) known->second = new_node();
    return known->second;
  }

  void find_tasks(const ProgramPart& part, int number) {
    const std::set<int>& kept = kept_tags.emplace_back(kept_tags_of(part));
    tasks.push_back({.kind = PartTask::Kind::kBegin, .part = number});
    bool removed = false;
    for (const Statement& statement : part.program.statements) {
      PartTask task{.part = number, .statement = &statement, .behind_removed = removed};
      if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
        if (isa::is_idle(*loop)) continue;
        std::set<int> tags;
        add_tags(loop->body, tags);
        task.has_transfers = !tags.empty();
        task.cycles = isa::kCyclesPerStep * isa::count(statement).steps;
      } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
        if (!kept.contains(mv->instruction.tag)) {
          moves.push_back({.part = number,
                           .mv = &mv->instruction,
                           .line = statement.line,
                           .position = static_cast<int64_t>(tasks.size()),
                           .is_load = is_l2bm(mv->instruction.destinations[0])});
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
      tasks.push_back(std::move(task));
    }
    part_end.push_back(std::ssize(tasks));
    tasks.push_back({.kind = PartTask::Kind::kEnd, .part = number, .behind_removed = removed});
  }

  /// What tasks and transfers do in L2BM, in their order.
  void find_uses() {
    size_t next = 0;
    for (size_t t = 0; t < tasks.size(); ++t) {
      for (; next < moves.size() && moves[next].position == static_cast<int64_t>(t); ++next)
        read_move(static_cast<int>(next));
      PartTask& task = tasks[t];
      if (task.kind == PartTask::Kind::kBegin) {
        part_ = task.part;
        for (std::vector<int>& content : content_) content.assign(index(chip_.memory.l2bm_lw), -1);
      } else if (task.kind == PartTask::Kind::kStatement) {
        read_task(task, static_cast<int64_t>(t));
      }
    }
  }

  void read_move(int number) {
    PartTransfer& move = moves[index(number)];
    const Instruction& mv = *move.mv;
    move.node = new_node();
    nodes[index(move.node)].transfer = number;
    for (const TransferRange& range : ranges_of(mv, chip_)) {
      if (range.memory == HazardResource::kL2bm) {
        touch(move.node, range.place, range.begin, range.end - range.begin, range.write);
      } else {
        move.outside.push_back(range);
      }
    }
  }

  void read_task(PartTask& task, int64_t number) {
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
  const L2bmUse& l2bm_use(const Instruction& instruction, const InstructionPlace& place, PartTask& task,
                          int64_t number) {
    const auto [known, is_new] = uses_.try_emplace(place);
    if (!is_new) return known->second;
    L2bmUse& use = known->second;
    for (const auto* operands : {&instruction.sources, &instruction.destinations}) {
      for (const Operand& operand : *operands) {
        if (!is_l2bm(operand)) continue;
        isa::check_internal(use.operand == nullptr, kTransferScheduling, "'{}' has two operands in L2BM",
                            isa::mnemonic(instruction));
        use.operand = &operand;
      }
    }
    if (use.operand == nullptr) return use;
    use.node = node(place);
    nodes[index(use.node)].task = number;
    task.nodes.push_back(use.node);
    for (const isa::Access& access : isa::accesses(instruction, chip_)) {
      if (access.resource == HazardResource::kL2bm) use.access = access;
    }
    return use;
  }

  /// Loops without transfers: all iterations, as far as they touch L2BM.
  void read_statement(const Statement& statement, Counters& counters, PartTask& task, int64_t number) {
    if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
      if (isa::is_idle(*loop) || !loop_touches_l2bm(*loop)) return;
      counters.push_back(0);
      for (int64_t i = 0; i < loop->count; ++i) {
        counters.back() = i;
        for (const Statement& inner : loop->body) read_statement(inner, counters, task, number);
      }
      counters.pop_back();
      return;
    }
    InstructionPlace place{&statement, 0};
    for_each_instruction(statement, [&](const Instruction& instruction) {
      const L2bmUse& use = l2bm_use(instruction, place, task, number);
      ++place.number;
      if (use.operand == nullptr) return;
      touch(use.node, use.access.place, isa::resolved_base(*use.operand, counters), use.access.length,
            use.access.write);
    });
  }
  bool loop_touches_l2bm(const isa::Loop& loop) {
    const auto [known, is_new] = touching_.try_emplace(&loop, false);
    if (!is_new) return known->second;
    bool touches = false;
    for (const Statement& statement : loop.body) {
      if (const auto* inner = std::get_if<isa::Loop>(&statement.kind))
        touches = loop_touches_l2bm(*inner) || touches;
      for_each_instruction(
          statement, [&](const Instruction& instruction) { touches = touches || touches_l2bm(instruction); });
    }
    return touching_[&loop] = touches;
  }

  /// Loops with transfers, and transfers that belong to them: everything they may touch, at any time.
  void read_hulls(PartTask& task, int64_t number) {
    struct Hull {
      int node;
      TransferRange range;
    };
    std::vector<Hull> hulls;
    Counters counts;
    const auto reach = [&](const Operand& operand, TransferRange& range) {
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
      InstructionPlace next{&statement, 0};
      for_each_instruction(statement, [&](const Instruction& instruction) {
        const InstructionPlace place = next;
        ++next.number;
        if (!is_mv(instruction)) {
          const L2bmUse& use = l2bm_use(instruction, place, task, number);
          if (use.operand == nullptr) return;
          TransferRange range{HazardResource::kL2bm, use.access.place, use.operand->base,
                              use.operand->base + use.access.length, use.access.write};
          reach(*use.operand, range);
          hulls.push_back({use.node, range});
          return;
        }
        for (TransferRange range : ranges_of(instruction, chip_)) {
          const Operand& operand = range.write ? instruction.destinations[0] : instruction.sources[0];
          reach(operand, range);
          if (range.memory != HazardResource::kL2bm) {
            task.ranges.push_back(range);
            continue;
          }
          const int own = node(place);
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
    L2bmNode& node = nodes[index(number)];
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
    const auto write = [&](const TransferRange& range, int who) {
      if (range.write)
        writers[{range.memory, range.place}].set(
            {boost::icl::interval<int64_t>::right_open(range.begin, range.end), who});
    };
    size_t next = 0;
    sources_.resize(moves.size());
    for (size_t t = 0; t <= tasks.size(); ++t) {
      for (; next < moves.size() && moves[next].position == static_cast<int64_t>(t); ++next) {
        PartTransfer& move = moves[next];
        for (const TransferRange& range : move.outside) {
          std::vector<Source> stored;
          if (range.write) {
            write(range, static_cast<int>(next) + 1);
            continue;
          }
          const auto found = writers.find({range.memory, range.place});
          if (found == writers.end()) continue;
          const auto [first, last] =
              found->second.equal_range(boost::icl::interval<int64_t>::right_open(range.begin, range.end));
          for (auto each = first; each != last; ++each) {
            const int64_t begin = std::max(each->first.lower(), range.begin);
            stored.push_back(
                {begin - range.begin, std::min(each->first.upper(), range.end) - begin, each->second - 1});
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
          // Pieces are the same in all groups, or there are none.
          if (&range != &move.outside.front() && stored != sources_[next]) stored.clear();
          sources_[next] = std::move(stored);
        }
      }
      if (t == tasks.size()) break;
      for (const TransferRange& range : tasks[t].ranges) write(range, -1 - tasks[t].part);
    }
  }

  /// What is in the parts' scratch memory, and no loop with transfers reads.
  void find_scratch() {
    std::vector<TransferRange> of_loops;
    for (const PartTask& task : tasks)
      of_loops.insert(of_loops.end(), task.ranges.begin(), task.ranges.end());
    const auto is_scratch = [&](const PartTransfer& move, const TransferRange& range) {
      return range.memory == HazardResource::kDram &&
             std::ranges::any_of(
                 parts_[index(move.part)].scratch,
                 [&](const auto& each) { return each.first <= range.begin && range.end <= each.second; }) &&
             std::ranges::none_of(of_loops, [&](const auto& other) { return conflict(range, other); });
    };
    for (PartTransfer& move : moves) {
      move.is_scratch = !move.is_load && std::ranges::all_of(move.outside, [&](const TransferRange& range) {
        return is_scratch(move, range);
      });
    }
  }

  /// A load of what several stores have stored becomes as many, each of which may come from where its store
  /// does.
  void split_loads() {
    std::vector<PartTransfer> all;
    std::vector<int> place;  // by transfer
    for (size_t k = 0; k < moves.size(); ++k) {
      place.push_back(static_cast<int>(all.size()));
      if (!may_split(k)) {
        all.push_back(std::move(moves[k]));
        continue;
      }
      for (const Source& source : sources_[k]) {
        PartTransfer piece = moves[k];
        Instruction& mv = pieces.emplace_back(*piece.mv);
        mv.size_lw = source.lw;
        mv.sources[0].base += source.offset;
        mv.destinations[0].base += source.offset;
        piece.mv = &mv;
        for (TransferRange& range : piece.outside) {
          range.begin += source.offset;
          range.end = range.begin + source.lw;
        }
        piece.after = {source.store};
        piece.earliest = std::max<int64_t>(1, moves[index(source.store)].position);
        all.push_back(std::move(piece));
      }
    }
    moves = std::move(all);
    for (PartTransfer& move : moves) {
      std::set<int> after;
      for (const int store : move.after) after.insert(place[index(store)]);
      move.after = std::move(after);
    }
    for (L2bmNode& node : nodes) {
      if (node.transfer >= 0) node.transfer = place[index(node.transfer)];
    }
  }
  bool may_split(size_t number) const {
    const PartTransfer& move = moves[number];
    const std::vector<Source>& list = sources_[number];
    if (!move.is_load || list.size() < 2 || move.after_loop ||
        (move.mv->opcode != isa::Opcode::kMvp && move.mv->opcode != isa::Opcode::kMvb2))
      return false;
    int64_t end = 0;
    for (const Source& source : list) {
      if (source.offset != end || source.lw % isa::kMvUnitLw != 0) return false;
      end += source.lw;
    }
    return end == move.mv->size_lw;
  }

  /// Of a load: LW behind the first, how many, and the store that they come from.
  struct Source {
    int64_t offset = 0, lw = 0;
    int store = -1;
    bool operator==(const Source&) const = default;
  };

  const std::span<const ProgramPart> parts_;
  const isa::Chip& chip_;
  int part_ = 0;
  std::vector<std::vector<Source>> sources_;  ///< by transfer
  std::vector<std::vector<int>> content_;     ///< by L2B and address: the node that wrote it
  std::vector<int> parent_;
  std::unordered_map<InstructionPlace, L2bmUse, InstructionPlaceHash> uses_;
  std::unordered_map<const isa::Loop*, bool> touching_;
};

}  // namespace

bool conflict(const TransferRange& a, const TransferRange& b) {
  return (a.write || b.write) && a.memory == b.memory && (a.place < 0 || b.place < 0 || a.place == b.place) &&
         a.begin < b.end && b.begin < a.end;
}

std::vector<TransferRange> ranges_of(const Instruction& mv, const isa::Chip& chip) {
  std::vector<TransferRange> ranges;
  for (const isa::TransferPart& part : isa::transfer_parts(mv, chip)) {
    TransferRange range{HazardResource::kL2bm, part.index, part.address, part.address + part.lw, part.write};
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

std::optional<PartsAnalysis> analyze_parts(std::span<const ProgramPart> parts, const isa::Chip& chip,
                                           const PlanLimits& limits, bool has_scratch) {
  // Of a whole segment, which is far too long, nothing else is looked at.
  size_t moves = 0;
  for (const ProgramPart& part : parts) moves += count_moves(part);
  if (moves > limits.moves) return std::nullopt;
  Analyzer analyzer(parts, chip);
  if (analyzer.task_count() > limits.tasks) return std::nullopt;
  PartsAnalysis analysis = analyzer.run(has_scratch);
  if (analysis.moves.size() > limits.moves) return std::nullopt;  // there are more where loads are split
  return analysis;
}

}  // namespace kodama::scheduler
