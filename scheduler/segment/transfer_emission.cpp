/// The program of a segment whose transfers are scheduled.
#include <algorithm>
#include <array>
#include <deque>
#include <span>
#include <vector>

#include "isa/costs.h"
#include "isa/error.h"
#include "scheduler/problem/indexing.h"
#include "scheduler/segment/transfer_parts.h"

namespace kodama::scheduler {
namespace {

using isa::HazardResource;
using isa::Instruction;
using isa::Operand;
using isa::Statement;
using Counters = std::vector<int64_t>;

/// Puts statements one after the other with the distances that they need (isa::required_gap).
class Joiner {
 public:
  explicit Joiner(const isa::Chip& chip) : chip_(chip), window_(isa::longest_gap(chip) + 1) {}

  std::vector<Statement> statements;

  /// Steps may have come closer to each other here.
  void distrust() { trusted_from_ = time_ + window_; }

  void begin_region(const std::string& name) { statements.push_back({isa::RegionMark{true, name}, 0}); }
  void end_region() { statements.push_back({isa::RegionMark{false, {}}, 0}); }

  /// Behind the statement that it stood behind before, on the same places.
  void append(Statement statement) { add(std::move(statement), Moved::kNot); }
  /// The same on other places of L2BM.
  void append_moved(Statement statement) { add(std::move(statement), Moved::kInL2bm); }
  /// What stood elsewhere before.
  void add(Statement statement) {
    const bool is_mv = std::holds_alternative<isa::Mv>(statement.kind);
    add(std::move(statement), is_mv ? Moved::kInTime : Moved::kNot);
  }

  /// Whether it is a step without a wait.
  static bool takes_wait(const Statement& statement) {
    if (const auto* nop = std::get_if<isa::Nop>(&statement.kind))
      return nop->count == 1 && nop->wait_tag == 0;
    const auto* step = std::get_if<isa::Step>(&statement.kind);
    return step != nullptr && std::ranges::none_of(step->instructions, is_wait);
  }
  /// Puts a wait beside a step that has none; a step issues when its wait is over.
  static bool beside(Statement& statement, int tag) {
    if (!takes_wait(statement)) return false;
    if (auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
      nop->wait_tag = static_cast<int8_t>(tag);
      return true;
    }
    Instruction wait;
    wait.opcode = isa::Opcode::kWait;
    wait.tag = static_cast<int8_t>(tag);
    std::get<isa::Step>(statement.kind).instructions.push_back(std::move(wait));
    return true;
  }

  /// Waits, the first of them for what was issued first. Each beside one of the last steps, in their order,
  /// where no MV would wait, too: of waits behind each other none takes a step then. Beside as many steps as
  /// there are waits, nothing behind them is later, as the one for the last transfer is beside the last step;
  /// a few steps further back, as some have a wait, it is by these few.
  void wait(std::span<const int> tags) {
    constexpr size_t kReach = 16;
    const size_t seen = std::min(free_steps_.size(), tags.size() + kReach);
    std::vector<size_t> steps;
    for (size_t k = free_steps_.size(); k-- > free_steps_.size() - seen && steps.size() < tags.size();) {
      if (takes_wait(statements[free_steps_[k]])) steps.push_back(free_steps_[k]);
    }
    const size_t beside_steps = steps.size();
    for (size_t k = 0; k < beside_steps; ++k) beside(statements[steps[beside_steps - 1 - k]], tags[k]);
    for (const int tag : tags.subspan(beside_steps)) add({isa::Nop{1, static_cast<int8_t>(tag)}, 0});
  }

 private:
  enum class Moved : uint8_t { kNot, kInL2bm, kInTime };
  struct TimedStep {
    int64_t time = 0;  ///< counted from the beginning of what it is in, or backwards from its end
    std::vector<isa::Access> accesses;
  };
  /// A statement that later ones may have to keep a distance to; few of them ever have.
  struct Recent {
    int64_t end = 0;
    size_t statement = 0;
    std::optional<std::vector<TimedStep>> tail = {};
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
      if (is_step || !backwards) {
        steps.push_back(
            {time, counters.empty() ? accesses(statement) : accesses(isa::resolved(statement, counters))});
      }
      if (!backwards && is_step) ++time;
    }
    return time < window_;
  }

  void keep_distance(const Statement& statement, bool only_in_l2bm) {
    Counters counters;
    int64_t time = 0;
    std::vector<TimedStep> head;
    collect(statement, counters, false, time, head);
    int64_t missing = 0;
    for (const TimedStep& later : head) {
      for (Recent& recent : recent_) {
        for (const TimedStep& first : tail(recent)) {
          const int64_t between = time_ + later.time - (recent.end - first.time) - 1;
          for (const isa::Access& a : first.accesses) {
            for (const isa::Access& b : later.accesses) {
              if (a.resource == b.resource && (!only_in_l2bm || a.resource == HazardResource::kL2bm))
                missing = std::max(missing, isa::required_gap(a, b, chip_) - between);
            }
          }
        }
      }
    }
    if (missing == 0) return;
    free_steps_.push_back(statements.size());
    statements.push_back({isa::Nop{missing, 0}, 0});
    time_ += missing;
  }

  const std::vector<TimedStep>& tail(Recent& recent) const {
    if (!recent.tail) {
      Counters counters;
      int64_t time = 0;
      collect(statements[recent.statement], counters, true, time, recent.tail.emplace());
    }
    return *recent.tail;
  }

  void add(Statement statement, Moved moved) {
    const bool is_mv = std::holds_alternative<isa::Mv>(statement.kind);
    const bool is_mark = std::holds_alternative<isa::RegionMark>(statement.kind);
    const bool is_close = moved == Moved::kInTime || (!is_mark && time_ < trusted_from_);
    if (is_close || moved == Moved::kInL2bm) keep_distance(statement, !is_close);
    if (is_mv || std::holds_alternative<isa::Loop>(statement.kind)) free_steps_.clear();
    if (!is_mv && !is_mark) {
      free_steps_.push_back(statements.size());
      time_ += isa::count(statement).steps;
      recent_.push_back({time_, statements.size(), {}});
      while (recent_.front().end < time_ - window_) recent_.pop_front();
    }
    statements.push_back(std::move(statement));
  }

  const isa::Chip& chip_;
  int64_t window_;
  int64_t time_ = 0;
  int64_t trusted_from_ = 0;
  std::deque<Recent> recent_;
  std::vector<size_t> free_steps_;  ///< statements behind the last MV and the last loop
};
class Emitter {
 public:
  Emitter(const PartsAnalysis& analysis, const Formulation& formulation, const TransferSchedule& schedule,
          std::span<const ProgramPart> parts, const isa::Chip& chip)
      : analysis_(analysis),
        formulation_(formulation),
        schedule_(schedule),
        parts_(parts),
        chip_(chip),
        joiner_(chip) {
    for (int tag = 1; tag <= isa::kMaxTransferTag; ++tag) {
      const bool is_kept =
          std::ranges::any_of(analysis.kept_tags, [&](const auto& tags) { return tags.contains(tag); });
      if (!is_kept) free_tags_.push_back(tag);
    }
  }

  ScheduledParts run() {
    isa::check_internal(!free_tags_.empty(), kTransferScheduling, "loops use all tags");
    const std::vector<int> order = issue_order(formulation_.problem, schedule_);
    auto next = order.begin();
    for (size_t t = 0; t < analysis_.tasks.size(); ++t) {
      // Between two parts nothing happens: what is issued there is issued in the first.
      const bool is_end = analysis_.tasks[t].kind == PartTask::Kind::kEnd;
      const int64_t last = static_cast<int64_t>(t) + (is_end && t + 1 < analysis_.tasks.size() ? 1 : 0);
      for (; next != order.end() && schedule_.issue[index(*next)] <= last; ++next) emit_move(*next);
      emit_task(analysis_.tasks[t]);
    }
    isa::check_internal(next == order.end(), kTransferScheduling, "transfers behind the last task");
    result_.begin.push_back(joiner_.statements.size());
    result_.program.statements = std::move(joiner_.statements);
    return std::move(result_);
  }

 private:
  struct InFlight {
    int tag = 0;
    std::vector<TransferRange> ranges;
  };

  int64_t shift(int node) const {
    const int buffer = formulation_.buffer_of_node[index(node)];
    return schedule_.address[index(buffer)] - formulation_.lowest[index(buffer)];
  }

  /// Waits for the transfers that meet these ranges; with a step, the last wait stands beside it. Behind a
  /// transfer a step may read a place that one shortly before has written, or the other way round: a transfer
  /// takes no step of its own, however long it is.
  void wait_for(const std::vector<TransferRange>& ranges, Statement* step = nullptr) {
    std::vector<int> tags;
    std::erase_if(in_flight_, [&](const InFlight& transfer) {
      const bool meets = std::ranges::any_of(transfer.ranges, [&](const TransferRange& a) {
        return std::ranges::any_of(ranges, [&](const TransferRange& b) { return conflict(a, b); });
      });
      if (meets) tags.push_back(transfer.tag);
      return meets;
    });
    if (!tags.empty()) joiner_.distrust();
    free_tags_.insert(free_tags_.end(), tags.begin(), tags.end());
    if (!tags.empty() && step != nullptr && Joiner::beside(*step, tags.back())) tags.pop_back();
    joiner_.wait(tags);
  }
  void finish_first() {
    joiner_.distrust();
    joiner_.wait(std::array{in_flight_.front().tag});
    free_tags_.push_back(in_flight_.front().tag);
    in_flight_.erase(in_flight_.begin());
  }

  /// Whether it is fetched in the background: nobody needs it before other tasks are done, and it doesn't
  /// wait for what these make.
  bool is_ahead(int transfer) const {
    const TransferProblem::Transfer& each = formulation_.problem.transfers[index(transfer)];
    return schedule_.issue[index(transfer)] < each.latest && each.after.empty();
  }

  void emit_move(int number) {
    const PartTransfer& move = analysis_.moves[index(number)];
    Instruction mv = *move.mv;
    Operand& operand = move.is_load ? mv.destinations[0] : mv.sources[0];
    operand.base += shift(move.node);
    std::vector<Instruction> mvs{mv};
    if (schedule_.copied[index(number)]) {
      const Detour& detour = formulation_.detours[index(number)];
      const PartTransfer& store = analysis_.moves[index(detour.store)];
      mvs = detoured(detour, mv, store, shift(store.node));
    }
    for (Instruction& each : mvs) {
      const std::vector<TransferRange> ranges = ranges_of(each, chip_);
      wait_for(ranges);
      if (free_tags_.empty()) finish_first();
      each.tag = static_cast<int8_t>(free_tags_.front());
      free_tags_.pop_front();
      // What somebody waits for comes before what is fetched ahead.
      if (!is_ahead(number)) each.priority = std::max<int8_t>(each.priority, 1);
      in_flight_.push_back({each.tag, ranges});
      joiner_.add({isa::Mv{std::move(each)}, move.line});
    }
  }

  void emit_task(const PartTask& task) {
    const std::string& name = parts_[index(task.part)].name;
    if (task.behind_removed) joiner_.distrust();
    if (task.kind == PartTask::Kind::kBegin) {
      result_.begin.push_back(joiner_.statements.size());
      joiner_.begin_region(name);
      joiner_.distrust();
      return;
    }
    if (task.kind == PartTask::Kind::kEnd) {
      if (index(task.part) + 1 == parts_.size()) {
        while (!in_flight_.empty()) finish_first();
      }
      joiner_.end_region();
      return;
    }
    std::vector<TransferRange> ranges = task.ranges;
    for (const int n : task.nodes) {
      const L2bmNode& node = analysis_.nodes[index(n)];
      ranges.push_back({HazardResource::kL2bm, -1, node.low + shift(n), node.high + shift(n), node.write});
    }
    Statement statement = *task.statement;
    rewrite(statement, *task.statement, analysis_.kept_tags[index(task.part)]);
    wait_for(ranges, &statement);
    // Buffers that lay beside each other may share a place now, and what is there already isn't waited for:
    // what one step writes the next one reads.
    if (task.nodes.empty() && task.ranges.empty()) {
      joiner_.append(std::move(statement));
    } else {
      joiner_.append_moved(std::move(statement));
    }
  }

  /// Addresses of L2BM; and no waits but for the tags of loops.
  void rewrite(Statement& statement, const Statement& original, const std::set<int>& kept) {
    if (auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
      const auto& from = std::get<isa::Loop>(original.kind);
      for (size_t k = 0; k < loop->body.size(); ++k) rewrite(loop->body[k], from.body[k], kept);
    } else if (auto* step = std::get_if<isa::Step>(&statement.kind)) {
      const auto goes = [&](const Instruction& instruction) {
        return is_wait(instruction) && !kept.contains(instruction.tag);
      };
      for (size_t k = 0; k < step->instructions.size(); ++k) {
        if (!touches_l2bm(step->instructions[k])) continue;
        const auto node = analysis_.node_of.find({&original, k});
        const int64_t by = node == analysis_.node_of.end() ? 0 : shift(node->second);
        if (by != 0) move_operand(step->instructions.own()[k], by);
      }
      if (std::ranges::any_of(step->instructions, goes)) std::erase_if(step->instructions.own(), goes);
    }
  }
  static void move_operand(Instruction& instruction, int64_t by) {
    for (std::vector<Operand>* operands : {&instruction.sources, &instruction.destinations}) {
      for (Operand& operand : *operands) {
        if (is_l2bm(operand)) operand.base += by;
      }
    }
  }

  const PartsAnalysis& analysis_;
  const Formulation& formulation_;
  const TransferSchedule& schedule_;
  const std::span<const ProgramPart> parts_;
  const isa::Chip& chip_;
  Joiner joiner_;
  std::deque<int> free_tags_;
  std::vector<InFlight> in_flight_;
  ScheduledParts result_;
};

}  // namespace

ScheduledParts emit_parts(const PartsAnalysis& analysis, const Formulation& formulation,
                          const TransferSchedule& schedule, std::span<const ProgramPart> parts,
                          const isa::Chip& chip) {
  return Emitter(analysis, formulation, schedule, parts, chip).run();
}

ScheduledParts emit_plain(std::span<const ProgramPart> parts, const isa::Chip& chip) {
  Joiner joiner(chip);
  ScheduledParts result;
  for (const ProgramPart& part : parts) {
    result.begin.push_back(joiner.statements.size());
    joiner.begin_region(part.name);
    joiner.distrust();
    for (const Statement& statement : part.program.statements) joiner.append(statement);
    joiner.end_region();
  }
  result.begin.push_back(joiner.statements.size());
  result.program.statements = std::move(joiner.statements);
  return result;
}

namespace {

/// Tags of the MVs that nobody has waited for.
void collect_open_tags(const std::vector<Statement>& statements, std::set<int>& open) {
  for (const Statement& statement : statements) {
    if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
      if (!isa::is_idle(*loop)) collect_open_tags(loop->body, open);
    } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
      open.insert(mv->instruction.tag);
    } else if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
      open.erase(nop->wait_tag);
    } else if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
      for (const Instruction& instruction : step->instructions) {
        if (is_wait(instruction)) open.erase(instruction.tag);
      }
    }
  }
}

}  // namespace

ScheduledParts join_parts(ScheduledParts first, ScheduledParts second, const isa::Chip& chip) {
  Joiner joiner(chip);
  ScheduledParts result;
  const auto append = [&](ScheduledParts& each) {
    std::vector<Statement> statements = std::move(each.program.statements);
    auto begin = each.begin.begin();
    for (size_t k = 0; k < statements.size(); ++k) {
      for (; begin != each.begin.end() && *begin == k; ++begin)
        result.begin.push_back(joiner.statements.size());
      joiner.append(std::move(statements[k]));
    }
  };
  // The second begins with nothing under way: the first's last region ends when its transfers are over.
  std::set<int> open;
  collect_open_tags(first.program.statements, open);
  open.erase(0);
  append(first);
  if (!open.empty()) {
    isa::check_internal(std::holds_alternative<isa::RegionMark>(joiner.statements.back().kind),
                        kTransferScheduling, "a segment doesn't end with a region");
    joiner.statements.pop_back();
    joiner.wait(std::vector<int>(open.begin(), open.end()));
    joiner.end_region();
  }
  joiner.distrust();
  append(second);
  result.begin.push_back(joiner.statements.size());
  result.program.statements = std::move(joiner.statements);
  return result;
}

}  // namespace kodama::scheduler
