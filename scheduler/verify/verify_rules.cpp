#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>

#include "isa/cancellation.h"
#include "scheduler/verify/findings.h"
#include "scheduler/verify/verify.h"

/// Distances in a program with loops, for all iterations, without running them. One walks through a loop's
/// body with its counter at a number, or unknown:
///
///   - the first iterations one by one, as many as distances reach back, behind what came before the loop;
///   - one iteration that stands for all others: its counter is any number from there on, and before it come
///     those whose counters are one less, two less, ...;
///   - the last iterations, only to remember what the code behind the loop follows.
///
/// Two accesses close to each other then have addresses that are numbers, plus multiples of unknown counters.
/// Where these multiples are equal, the difference is a number. Where not, the range of the difference often
/// says that they never meet; else every value that the counters may have is tried, and if these are too
/// many, they count as overlapping. Transfers under way are looked at in the same way, however long ago they
/// were issued.
namespace kodama::verify {

using isa::Access;

namespace {

constexpr std::string_view kVerifyRules = "verify_rules";
/// Values of unknown counters that are tried for a pair of accesses.
constexpr int64_t kMostTried = int64_t{1} << 16;

/// The counter of a loop around: a number, or one that is unknown, and a number.
struct Counter {
  int64_t number = 0;
  bool is_unknown = false;
  int64_t least = 0;  ///< of what is unknown
  int64_t most = 0;
};

using CountersAt = std::shared_ptr<const std::vector<Counter>>;

/// An access with addresses that are numbers plus, for each unknown counter, a multiple.
struct Touch {
  Access access;        ///< strides are those of unknown counters alone
  CountersAt counters;  ///< of the loops around, when it happened
  int64_t time = 0;     ///< of its step; of an MV, of the step behind it
  bool is_mv = false;
  const Instruction* instruction = nullptr;
};

class RuleWalk {
 public:
  RuleWalk(const isa::Chip& chip, Forwards forwards)
      : chip_(chip), forwards_are_kept_(forwards == Forwards::kKept), window_(isa::longest_gap(chip) + 1) {}

  void run(const isa::Program& program) {
    walk(program.statements);
    if (!under_way_.empty())
      fail(fmt::format("the transfer of tag {} is under way at the end", under_way_.begin()->first));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    verify::fail(kVerifyRules, regions_.empty() ? what : fmt::format("{} (in {})", what, regions_.back()));
  }

  void walk(const std::vector<Statement>& statements) {
    for (const Statement& statement : statements) {
      isa::stop_if_cancelled();
      if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
        walk_loop(*loop);
      } else if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
        if (nop->wait_tag > 0) wait(nop->wait_tag);
        time_ += nop->count;
      } else if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
        take(*step);
      } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
        issue(mv->instruction);
      } else if (const auto* mark = std::get_if<isa::RegionMark>(&statement.kind)) {
        if (mark->begin) {
          regions_.push_back(mark->name);
        } else if (!regions_.empty()) {
          regions_.pop_back();
        }
      } else {
        fail("a program of the compiler consists of steps, nops, MVs, loops and region marks only");
      }
    }
  }

  /// Steps of a list of statements, as far as they matter here.
  int64_t steps(const std::vector<Statement>& statements) const {
    int64_t sum = 0;
    for (const Statement& statement : statements) {
      if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
        if (loop->count > 0) sum += std::min(steps(loop->body), window_) * std::min(loop->count, window_);
      } else if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
        sum += nop->count;
      } else if (std::holds_alternative<isa::Step>(statement.kind)) {
        ++sum;
      }
      if (sum >= window_) return window_;
    }
    return sum;
  }

  void walk_loop(const isa::Loop& loop) {
    if (isa::is_idle(loop)) return;
    const int64_t own = std::max<int64_t>(steps(loop.body), 1);
    // Iterations that distances reach over.
    const int64_t reach = (window_ + own - 1) / own;
    const int64_t first = std::min(loop.count, reach);
    const CountersAt outside = counters_;
    const size_t depth = outside->size();
    for (int64_t i = 0; i < first; ++i) walk_iteration(loop, depth, {i});
    if (loop.count > first) {
      const bool checks = checks_;
      recent_.clear();
      for (int64_t back = reach; back >= 0; --back) {
        checks_ = checks && back == 0;
        walk_iteration(loop, depth, {-back, true, reach, loop.count - 1});
      }
      checks_ = false;
      recent_.clear();
      for (int64_t back = reach; back >= 1; --back) walk_iteration(loop, depth, {loop.count - back});
      checks_ = checks;
    }
    counters_ = outside;
    if (is_in_loop()) return;
    accesses_.clear();
    issued_.clear();
  }
  void walk_iteration(const isa::Loop& loop, size_t depth, const Counter& counter) {
    std::vector<Counter> counters = *counters_;
    counters.resize(depth);
    counters.push_back(counter);
    counters_ = std::make_shared<const std::vector<Counter>>(std::move(counters));
    walk(loop.body);
  }

  // ---- steps

  void take(const isa::Step& step) {
    check_issue(step);
    check_forwards(step);
    std::vector<Touch> touched;
    // A wait holds its step.
    for (const Instruction& instruction : step.instructions) {
      if (!is_wait(instruction)) continue;
      if (instruction != wait_for(instruction.tag)) fail("a wait has more than a tag");
      wait(instruction.tag);
    }
    for (const Instruction& instruction : step.instructions) {
      if (is_wait(instruction)) continue;
      check_alignment(instruction);
      for (Touch& touch : touches(instruction, false)) touched.push_back(std::move(touch));
    }
    check_distances(touched);
    check_transfers(touched);
    remember(std::move(touched));
    ++time_;
  }

  /// Of what moves between L1BM and L2BM, in every iteration.
  void check_alignment(const Instruction& instruction) {
    bool has_l2bm = false, is_aligned = true;
    for_each_operand(instruction, [&](const Operand& operand, bool) {
      has_l2bm = has_l2bm || operand.space == Space::kL2bm;
      if (operand.space != Space::kL2bm && operand.space != Space::kL1bm) return;
      is_aligned = is_aligned && operand.base % isa::kL2bmAlignmentLw == 0;
      for (const int64_t stride : operand.loop_strides)
        is_aligned = is_aligned && stride % isa::kL2bmAlignmentLw == 0;
    });
    if (has_l2bm && !is_aligned)
      fail(fmt::format("'{}': addresses of L1BM and L2BM are no multiples of {}", describe(instruction),
                       isa::kL2bmAlignmentLw));
  }

  // ---- transfers

  void issue(const Instruction& mv) {
    std::vector<Touch> touched = touches(mv, true);
    check_distances(touched);
    check_transfers(touched);
    std::vector<Touch>& own = under_way_[mv.tag];
    if (checks_ && (mv.tag <= 0 || !own.empty()))
      fail(fmt::format("tag {} of '{}' is none, or belongs to a transfer that nobody has waited for", mv.tag,
                       describe(mv)));
    own = touched;
    remember(std::move(touched));
  }
  void wait(int8_t tag) { under_way_.erase(tag); }

  void check_transfers(const std::vector<Touch>& touched) const {
    if (!checks_ || under_way_.empty()) return;
    for (const Touch& second : touched) {
      if (!isa::is_transfer_memory(second.access.resource)) continue;
      for (const auto& [tag, transfer] : under_way_) {
        for (const Touch& first : transfer) {
          if (first.access.resource != second.access.resource ||
              exact_gap(first, second, isa::kNoConstraint) == isa::kNoConstraint)
            continue;
          fail(fmt::format("'{}' touches {} of the transfer '{}' of tag {}, which nobody has waited for",
                           describe(*second.instruction), isa::hazard_resource_name(first.access.resource),
                           describe(*first.instruction), tag));
        }
      }
    }
  }

  /// For all iterations at once: operands that share a place have the same address in all of them, or count
  /// as different.
  void check_issue(const isa::Step& step) {
    if (is_in_loop() && !issued_.try_emplace(&step).second) return;
    const std::string conflict = isa::issue_conflict(step.instructions, chip_);
    if (!conflict.empty()) fail(conflict);
  }

  /// What stands in none comes once, and there is much of it: nothing of it is remembered.
  bool is_in_loop() const { return !counters_->empty(); }

  const std::vector<Access>& accesses(const Instruction& instruction) {
    if (!is_in_loop()) return once_ = isa::accesses(instruction, chip_);
    const auto [known, is_new] = accesses_.try_emplace(&instruction);
    if (is_new) known->second = isa::accesses(instruction, chip_);
    return known->second;
  }

  std::vector<Touch> touches(const Instruction& instruction, bool mv) {
    std::vector<Touch> result;
    for (const Access& access : accesses(instruction)) {
      if (isa::is_forwarding_register(access.resource)) continue;
      Touch touch{access, counters_, time_, mv, &instruction};
      std::vector<int64_t>& strides = touch.access.loop_strides;
      strides.resize(std::min(strides.size(), counters_->size()));
      for (size_t d = 0; d < strides.size(); ++d) {
        const Counter& counter = (*counters_)[d];
        for (int64_t& begin : touch.access.begin) begin += strides[d] * counter.number;
        if (!counter.is_unknown) strides[d] = 0;
      }
      while (!strides.empty() && strides.back() == 0) strides.pop_back();
      result.push_back(std::move(touch));
    }
    return result;
  }

  // ---- distances

  void remember(std::vector<Touch> touched) {
    for (Touch& touch : touched) {
      std::deque<Touch>& own = recent_[touch.access.resource];
      while (!own.empty() && own.front().time < time_ - window_) own.pop_front();
      own.push_back(std::move(touch));
    }
  }

  void check_distances(const std::vector<Touch>& touched) const {
    if (!checks_) return;
    for (const Touch& second : touched) {
      const auto recent = recent_.find(second.access.resource);
      if (recent == recent_.end()) continue;
      for (const Touch& first : recent->second) {
        const int64_t between = second.time - first.time - (first.is_mv ? 0 : 1);
        if (between >= window_) continue;
        const int64_t needed = exact_gap(first, second, between);
        if (needed <= between) continue;
        fail(fmt::format("{} after '{}' needs {} other steps before '{}', found {}",
                         isa::hazard_resource_name(first.access.resource), describe(*first.instruction),
                         needed, describe(*second.instruction), between));
      }
    }
  }

  struct Span {
    int64_t low = 0;
    int64_t high = 0;
    void add(int64_t factor, const Counter& counter) {
      low += std::min(factor * counter.least, factor * counter.most);
      high += std::max(factor * counter.least, factor * counter.most);
    }
  };
  static Span addresses(const Touch& touch) {
    Span span{touch.access.begin[0], touch.access.begin[0]};
    for (size_t d = 0; d < touch.access.loop_strides.size(); ++d)
      span.add(touch.access.loop_strides[d], (*touch.counters)[d]);
    return span;
  }
  /// Whether two accesses, of memories that have one range per access, never meet: by the ranges of their
  /// addresses and of the difference of these.
  bool are_apart(const Touch& first, const Touch& second) const {
    if (first.access.cycles != 1 || second.access.cycles != 1) return false;
    const int64_t wrap = isa::wrap_size(first.access.resource, chip_);
    for (const Touch* touch : {&first, &second}) {
      const Span span = addresses(*touch);
      if (wrap > 0 && (span.low < 0 || span.high + touch->access.length > wrap)) return false;
    }
    Span apart{second.access.begin[0] - first.access.begin[0],
               second.access.begin[0] - first.access.begin[0]};
    const auto stride = [](const Touch& touch, size_t d) {
      return d < touch.access.loop_strides.size() ? touch.access.loop_strides[d] : 0;
    };
    for (size_t d = 0; d < std::max(first.counters->size(), second.counters->size()); ++d) {
      const int64_t factor = stride(second, d) - stride(first, d);
      if (factor != 0) apart.add(factor, counter_of(first, second, d));
    }
    return apart.low >= first.access.length || apart.high <= -second.access.length;
  }
  /// The unknown counter number d of one of two accesses; if of both, it is the same.
  static const Counter& counter_of(const Touch& first, const Touch& second, size_t d) {
    const std::vector<Counter>& own = *second.counters;
    return d < own.size() && own[d].is_unknown ? own[d] : (*first.counters)[d];
  }

  /// The largest gap over all values of the counters that the two have different multiples of; any that is
  /// more than `between` will do.
  int64_t exact_gap(const Touch& first, const Touch& second, int64_t between) const {
    const int64_t taken_as_overlapping = isa::required_gap(first.access, second.access, chip_);
    if (taken_as_overlapping <= between || first.access.whole || second.access.whole ||
        first.access.loop_strides == second.access.loop_strides)
      return taken_as_overlapping;
    if (are_apart(first, second)) return isa::kNoConstraint;
    std::vector<size_t> different;
    int64_t values = 1;
    const auto stride = [](const Touch& touch, size_t d) {
      return d < touch.access.loop_strides.size() ? touch.access.loop_strides[d] : 0;
    };
    for (size_t d = 0; d < std::max(first.counters->size(), second.counters->size()); ++d) {
      if (stride(first, d) == stride(second, d)) continue;
      const Counter& counter = counter_of(first, second, d);
      different.push_back(d);
      const int64_t count = counter.most - counter.least + 1;
      if (count > kMostTried / values) return taken_as_overlapping;
      values *= count;
    }
    int64_t largest = isa::kNoConstraint;
    for (int64_t number = 0; number < values && largest <= between; ++number) {
      Access a = first.access;
      Access b = second.access;
      int64_t rest = number;
      for (const size_t d : different) {
        const Counter& counter = counter_of(first, second, d);
        const int64_t value = counter.least + rest % (counter.most - counter.least + 1);
        rest /= counter.most - counter.least + 1;
        for (int64_t& begin : a.begin) begin += stride(first, d) * value;
        for (int64_t& begin : b.begin) begin += stride(second, d) * value;
      }
      // What is left is equal for both.
      a.loop_strides.clear();
      b.loop_strides.clear();
      largest = std::max(largest, isa::required_gap(a, b, chip_));
    }
    return largest;
  }

  // ---- forwarding registers

  struct Forward {
    bool is_written = false;
    bool is_undefined = false;  ///< a step without the unit came after it
  };

  void check_forwards(const isa::Step& step) {
    std::array<bool, isa::kHazardResourceCount> written{};
    for (const Instruction& instruction : step.instructions) {
      for (const Access& access : accesses(instruction)) {
        if (!isa::is_forwarding_register(access.resource)) continue;
        const auto r = static_cast<size_t>(access.resource);
        if (access.write) {
          written[r] = true;
        } else if (checks_ && !forwards_are_kept_ &&
                   (!forwards_[r].is_written || forwards_[r].is_undefined)) {
          fail(fmt::format("'{}' reads {}, which holds no result", describe(instruction),
                           isa::hazard_resource_name(access.resource)));
        }
      }
    }
    for (size_t r = 0; r < forwards_.size(); ++r) {
      if (written[r]) {
        forwards_[r] = {true, false};
      } else if (!forwards_are_kept_) {
        forwards_[r].is_undefined = true;
      }
    }
  }

  const isa::Chip& chip_;
  bool forwards_are_kept_;
  int64_t window_;
  bool checks_ = true;
  int64_t time_ = 0;
  CountersAt counters_ = std::make_shared<const std::vector<Counter>>();
  std::map<HazardResource, std::deque<Touch>> recent_;
  std::map<int8_t, std::vector<Touch>> under_way_;  ///< transfers by tag
  std::vector<std::string> regions_;                ///< around, outermost first
  std::array<Forward, isa::kHazardResourceCount> forwards_{};
  // Of the outermost loop that is walked now.
  std::unordered_map<const Instruction*, std::vector<Access>> accesses_;
  std::unordered_map<const isa::Step*, bool> issued_;
  std::vector<Access> once_;  ///< of an instruction outside of loops
};

}  // namespace

void verify_rules(const isa::Program& program, const isa::Chip& chip, Forwards forwards) {
  RuleWalk(chip, forwards).run(program);
}

}  // namespace kodama::verify
