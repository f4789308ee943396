#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <set>
#include <unordered_map>

#include "isa/cancellation.h"
#include "isa/parallel.h"
#include "scheduler/verify/findings.h"
#include "scheduler/verify/segment_run.h"
#include "scheduler/verify/verify.h"

namespace kodama::verify {

using scheduler::ProgramPart;
using scheduler::ScheduledParts;

namespace {

/// Equal in every field but the addresses in L2BM, whose contents SegmentRun looks at.
bool is_same_but_l2bm(const Instruction& a, const Instruction& b) {
  if (a == b) return true;
  if (a.opcode != b.opcode || a.sources.size() != b.sources.size() ||
      a.destinations.size() != b.destinations.size())
    return false;
  Instruction moved = b;
  const auto move = [](std::vector<Operand>& to, const std::vector<Operand>& from) {
    for (size_t k = 0; k < to.size(); ++k) {
      if (to[k].space == Space::kL2bm && from[k].space == Space::kL2bm) to[k].base = from[k].base;
    }
  };
  move(moved.sources, a.sources);
  move(moved.destinations, a.destinations);
  return a == moved;
}

/// Compares the statements of the parts with those of the segment, without running anything.
class StatementMatch {
 public:
  StatementMatch(const std::vector<ProgramPart>& parts, const ScheduledParts& segment, const isa::Chip& chip)
      : parts_(parts), segment_(segment), chip_(chip) {
    for (const ProgramPart& part : parts) {
      for (const Statement& statement : part.program.statements) {
        const auto* mv = std::get_if<isa::Mv>(&statement.kind);
        if (mv == nullptr) continue;
        transfers_.emplace(key_of(mv->instruction), &mv->instruction);
        if (is_store(mv->instruction)) {
          stores_.emplace(mv->instruction.destinations[0].base, &mv->instruction);
          largest_store_ = std::max(largest_store_, mv->instruction.size_lw);
        }
      }
    }
    for (const ProgramPart& part : parts) {
      for (const Statement& statement : part.program.statements) {
        const auto* mv = std::get_if<isa::Mv>(&statement.kind);
        if (mv != nullptr && is_load(mv->instruction)) add_pieces(mv->instruction);
      }
    }
  }

  void run() const {
    const std::vector<Statement>& statements = segment_.program.statements;
    if (segment_.begin.size() != parts_.size() + 1 || segment_.begin.front() != 0 ||
        !std::ranges::is_sorted(segment_.begin) || segment_.begin.back() != statements.size())
      fail("the parts' bounds are wrong");
    for (size_t p = 0; p < parts_.size(); ++p) match_part(p);
  }

 private:
  [[noreturn]] static void fail(const std::string& what) { verify::fail(kVerifySegment, what); }
  [[noreturn]] void fail_in(size_t part, const std::string& what) const {
    fail(fmt::format("part '{}': {}", parts_[part].name, what));
  }

  void match_part(size_t p) const {
    const auto statement = [&](size_t k) -> const Statement& { return segment_.program.statements[k]; };
    size_t at = segment_.begin[p];
    const size_t end = segment_.begin[p + 1];
    if (end < at + 2 || !is_mark(statement(at), {true, parts_[p].name}) ||
        !is_mark(statement(end - 1), {false, {}}))
      fail_in(p, "it is no region of its name");
    ++at;
    const std::vector<Statement>& list = parts_[p].program.statements;
    size_t next = 0;
    for (;;) {
      for (; next < list.size() && !stays(list[next]); ++next) {
      }
      for (; at + 1 < end && !stays(statement(at)); ++at) check_transfer(p, statement(at));
      if (next == list.size() || at + 1 == end) break;
      match(p, list[next++], statement(at++), false);
    }
    if (next < list.size() || at + 1 < end)
      fail_in(p, next < list.size() ? "steps are missing" : "there are more steps than in the part");
  }
  static bool is_mark(const Statement& statement, const isa::RegionMark& mark) {
    const auto* found = std::get_if<isa::RegionMark>(&statement.kind);
    return found != nullptr && *found == mark;
  }

  /// Outside of loops, transfers, waits and pauses come and go.
  static bool stays(const Statement& statement) {
    if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) return !isa::is_idle(*loop);
    if (const auto* step = std::get_if<isa::Step>(&statement.kind))
      return !std::ranges::all_of(step->instructions, is_wait);
    return !std::holds_alternative<isa::Mv>(statement.kind) &&
           !std::holds_alternative<isa::Nop>(statement.kind);
  }

  static std::vector<const Instruction*> instructions(const isa::Step& step, bool with_waits) {
    std::vector<const Instruction*> result;
    for (const Instruction& instruction : step.instructions) {
      if (with_waits || !is_wait(instruction)) result.push_back(&instruction);
    }
    return result;
  }

  void match(size_t p, const Statement& wanted, const Statement& found, bool in_loop) const {
    if (wanted.kind.index() != found.kind.index())
      fail_in(p, "statements of other kinds, or in another order");
    if (const auto* loop = std::get_if<isa::Loop>(&wanted.kind)) {
      const auto& other = std::get<isa::Loop>(found.kind);
      if (loop->count != other.count || loop->body.size() != other.body.size())
        fail_in(p,
                fmt::format("a loop of {} iterations has {}, or other statements", loop->count, other.count));
      for (size_t k = 0; k < loop->body.size(); ++k) match(p, loop->body[k], other.body[k], true);
    } else if (const auto* step = std::get_if<isa::Step>(&wanted.kind)) {
      const auto list = instructions(*step, in_loop);
      const auto others = instructions(std::get<isa::Step>(found.kind), in_loop);
      if (list.size() != others.size())
        fail_in(p, fmt::format("a step has {} instructions instead of {}", others.size(), list.size()));
      for (size_t k = 0; k < list.size(); ++k) match(p, *list[k], *others[k]);
    } else if (const auto* mv = std::get_if<isa::Mv>(&wanted.kind)) {
      match(p, mv->instruction, std::get<isa::Mv>(found.kind).instruction);
    } else if (wanted.kind != found.kind) {
      fail_in(p, "a pause, wait or mark has changed");
    }
  }
  void match(size_t p, const Instruction& wanted, const Instruction& found) const {
    if (!is_same_but_l2bm(wanted, found))
      fail_in(
          p, fmt::format("'{}' is '{}', or has other fields or operands", describe(wanted), describe(found)));
  }

  /// A transfer outside of loops is one of the parts', or what one of them loads of one of their stores, with
  /// another place in L2BM, tag and priority; or it copies that from L2BM.
  void check_transfer(size_t p, const Statement& statement) const {
    const auto* mv = std::get_if<isa::Mv>(&statement.kind);
    if (mv == nullptr) return;
    const Instruction& found = mv->instruction;
    const auto [from, to] = transfers_.equal_range(key_of(found));
    if (std::any_of(from, to, [&](const auto& each) { return is_same_transfer(*each.second, found); }))
      return;
    if (!is_copy_in_l2bm(found) || !copies_.contains(copy_of(found)))
      fail_in(p, fmt::format("'{}' of {} LW, tag {}, is no transfer of the parts", describe(found),
                             found.size_lw, found.tag));
  }
  /// Transfers that may be the same have the same key.
  static int64_t key_of(const Instruction& mv) {
    int64_t key = mv.size_lw;
    for_each_operand(mv, [&](const Operand& operand, bool) {
      if (operand.space != Space::kL2bm) key = key * 1000003 + operand.base;
    });
    return key;
  }
  static bool is_same_transfer(const Instruction& wanted, Instruction found) {
    // What somebody waits for may come before what is fetched ahead.
    const int8_t raised = std::max<int8_t>(wanted.priority, 1);
    if (found.opcode != wanted.opcode || (found.priority != wanted.priority && found.priority != raised))
      return false;
    found.tag = wanted.tag;
    found.priority = wanted.priority;
    return is_same_but_l2bm(wanted, found);
  }
  static bool is_copy_in_l2bm(const Instruction& found) {
    if (found.opcode != isa::Opcode::kMvp || found.sources.size() != 1 || found.destinations.size() != 1 ||
        found.priority > 1)
      return false;
    const auto place = [](const Operand& like) {
      Operand operand;
      operand.space = Space::kL2bm;
      operand.group = like.group;
      operand.unit = like.unit;
      operand.base = like.base;
      return operand;
    };
    Instruction plain;
    plain.opcode = found.opcode;
    plain.size_lw = found.size_lw;
    plain.tag = found.tag;
    plain.priority = found.priority;
    plain.sources = {place(found.sources[0])};
    plain.destinations = {place(found.destinations[0])};
    return plain == found;
  }

  static bool has_ends(const Instruction& mv) {
    return mv.sources.size() == 1 && mv.destinations.size() == 1;
  }
  static bool is_load(const Instruction& mv) {
    return has_ends(mv) && mv.sources[0].space == Space::kDram && mv.destinations[0].space == Space::kL2bm;
  }
  static bool is_store(const Instruction& mv) {
    return has_ends(mv) && mv.sources[0].space == Space::kL2bm && mv.destinations[0].space == Space::kDram;
  }
  /// What a load takes of every store, as a load and as a copy; where stores overlap, what it takes between
  /// any of their bounds.
  void add_pieces(const Instruction& load) {
    const Operand& wanted = load.sources[0];
    const int64_t wanted_end = wanted.base + load.size_lw;
    std::vector<const Instruction*> stores;
    std::set<int64_t> bounds;
    for (auto it = stores_.upper_bound(wanted.base - largest_store_);
         it != stores_.end() && it->first < wanted_end; ++it) {
      const int64_t end = it->first + it->second->size_lw;
      if (end <= wanted.base) continue;
      stores.push_back(it->second);
      bounds.insert({std::max(wanted.base, it->first), std::min(wanted_end, end)});
    }
    for (const Instruction* store : stores) {
      const int64_t from = store->destinations[0].base;
      const auto last = bounds.upper_bound(from + store->size_lw);
      for (auto begin = bounds.lower_bound(from); begin != last; ++begin) {
        for (auto end = std::next(begin); end != last; ++end) add_piece(load, *store, *begin, *end);
      }
    }
  }
  /// What it takes of one, from address `begin` to `end`.
  void add_piece(const Instruction& load, const Instruction& store, int64_t begin, int64_t end) {
    const Operand& wanted = load.sources[0];
    Instruction& piece = pieces_.emplace_back(load);
    piece.size_lw = end - begin;
    for (Operand* operand : {&piece.sources[0], &piece.destinations[0]}) operand->base += begin - wanted.base;
    transfers_.emplace(key_of(piece), &piece);
    Copy copy{end - begin, wanted.group, std::max<int8_t>(store.sources[0].unit, 0),
              load.destinations[0].group, load.destinations[0].unit};
    // A load to all L2Bs of a group is a copy to each.
    const bool to_group = load.opcode == isa::Opcode::kMvb2;
    for (int l2b = 0; l2b < (to_group ? chip_.l2b_per_group : 1); ++l2b) {
      if (to_group) copy.to_unit = static_cast<int8_t>(l2b);
      copies_.insert(copy);
    }
  }
  /// Between L2Bs.
  struct Copy {
    int64_t lw = 0;
    int8_t from_group = 0, from_unit = 0, to_group = 0, to_unit = 0;
    auto operator<=>(const Copy&) const = default;
  };
  static Copy copy_of(const Instruction& mv) {
    const Operand& from = mv.sources[0];
    const Operand& to = mv.destinations[0];
    return {mv.size_lw, from.group, from.unit, to.group, to.unit};
  }

  const std::vector<ProgramPart>& parts_;
  const ScheduledParts& segment_;
  const isa::Chip& chip_;
  std::multimap<int64_t, const Instruction*> stores_;  ///< to DRAM, by address
  int64_t largest_store_ = 0;
  std::deque<Instruction> pieces_;  ///< of loads
  std::set<Copy> copies_;
  std::unordered_multimap<int64_t, const Instruction*> transfers_;  ///< of the parts, outside of loops
};

}  // namespace

void verify_segment(const std::vector<ProgramPart>& parts, const ScheduledParts& segment,
                    const isa::Chip& chip) {
  // Data is compared only of statements that match. That says one of the checks to another, which begins
  // later.
  std::promise<bool> matches;
  const auto match = [&] {
    try {
      StatementMatch(parts, segment, chip).run();
    } catch (...) {
      matches.set_value(false);
      throw;
    }
    matches.set_value(true);
  };
  const auto compare = [&] {
    std::vector<const isa::Program*> programs{&segment.program};
    for (const ProgramPart& part : parts) programs.push_back(&part.program);
    const int64_t cell_lw = common_cell_lw(programs, chip);
    SegmentRun expected(chip, cell_lw);
    expected.run_parts(parts);
    // Who is cancelled before it begins says nothing.
    std::future<bool> answer = matches.get_future();
    while (answer.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready)
      isa::stop_if_cancelled();
    if (answer.get()) SegmentRun(chip, cell_lw).run_against(segment.program, expected);
  };
  const auto check_rules = [&] { verify_rules(segment.program, chip); };
  const std::array<std::function<void()>, 3> checks = {match, compare, check_rules};
  isa::for_each_in_parallel(checks.size(), [&](size_t k) { checks.at(k)(); });
}

}  // namespace kodama::verify
