#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "scheduler/verify/conflicts.h"
#include "scheduler/verify/findings.h"
#include "scheduler/verify/verify.h"

/// A schedule has the structure of its program: what stands before an operation's block, loop or region comes
/// before it. So one walks through both, finds for every instruction the operation that it is, and looks at
/// each pair of operations of a block whose order has changed, or that are close.
///
/// A loop whose iterations overlap is code for those that begin, a loop (the kernel) and code for those that
/// end. In iteration i, operation k issues `interval` steps after it does in iteration i - 1; so where it
/// issues in iteration 0, found from the kernel and the code before it, says everything, and two operations
/// are a pair for every distance between their iterations at which they could be close.
namespace kodama::verify {

using scheduler::Block;
using scheduler::CountedLoop;
using scheduler::Node;
using scheduler::RegionNode;

namespace {

constexpr std::string_view kVerifySchedule = "verify_schedule";
constexpr std::array<HazardResource, 4> kForwards = {HazardResource::kAluForward, HazardResource::kMauForward,
                                                     HazardResource::kLbForward,
                                                     HazardResource::kMreadForward};

/// An operation with real operands, as it must stand in the schedule.
struct Placed {
  Instruction instruction;
  const std::string* origin = nullptr;
  std::vector<LoopedAccess> accesses = {};
  bool is_mv = false;
  bool is_wait = false;
  const std::vector<LoopedAccess>* awaited = nullptr;  ///< of a wait: what its transfer may touch
  std::array<bool, kForwards.size()> reads_forward{};
  std::array<bool, kForwards.size()> writes_forward{};
  // Of `accesses`, by HazardResource.
  uint32_t touched = 0;
  uint32_t written = 0;

  /// Whether some resource is one of both, and one of them writes it.
  bool may_meet(const Placed& other) const {
    return ((touched & other.written) | (written & other.touched)) != 0;
  }
};
static_assert(isa::kHazardResourceCount <= 32);

/// When something issues: an MV just before the step of its time.
struct Issue {
  int64_t time = 0;
  size_t order = 0;  ///< of statements with the same time
};

size_t hash_of(const Instruction& instruction) {
  size_t hash = static_cast<size_t>(instruction.opcode) * 31 + static_cast<size_t>(instruction.tag);
  for_each_operand(instruction, [&](const Operand& operand, bool) {
    hash = hash * 1000003 + static_cast<size_t>(operand.space) + static_cast<size_t>(operand.base) * 64;
  });
  return hash;
}

class ScheduleMatch {
 public:
  ScheduleMatch(const MachineProgram& program, const isa::Program& schedule, const isa::Chip& chip)
      : program_(program), schedule_(schedule), chip_(chip), longest_gap_(isa::longest_gap(chip)) {}

  void run() {
    survey(program_.body);
    Position at{schedule_.statements};
    match_nodes(program_.body, at);
    skip_nops(at);
    if (!at.at_end()) fail("the schedule goes on behind the last operation");
    for (size_t f = 0; f < kForwards.size(); ++f) {
      if (crosses_blocks_[f] && !same_at_ends_[f])
        fail(fmt::format("an operation reads {} of a block before, which ends with another result",
                         isa::hazard_resource_name(kForwards[f])));
    }
  }

 private:
  struct Position {
    const std::vector<Statement>& list;
    size_t next = 0;
    bool at_end() const { return next == list.size(); }
    const Statement& statement() const { return list[next]; }
  };

  [[noreturn]] void fail(const std::string& what) const {
    verify::fail(kVerifySchedule, fmt::format("program '{}': {}", program_.name, what));
  }

  // ---- operations with real operands

  isa::Mask placed(isa::Mask mask) const {
    if (mask.kind != isa::Mask::Kind::kVirtual) return mask;
    mask.kind = isa::Mask::Kind::kRegister;
    mask.value = static_cast<uint8_t>(program_.values.at(static_cast<size_t>(mask.virtual_value)).address);
    mask.virtual_value = -1;
    return mask;
  }
  Operand placed(Operand operand) const {
    operand.mask = placed(operand.mask);
    std::vector<int64_t> strides;
    for (size_t d = 0; d < std::min(operand.loop_strides.size(), is_loop_.size()); ++d) {
      if (is_loop_[d]) strides.push_back(operand.loop_strides[d]);
    }
    while (!strides.empty() && strides.back() == 0) strides.pop_back();
    operand.loop_strides = std::move(strides);
    if (operand.space != Space::kVirtual) return operand;
    const scheduler::Value& value = program_.values.at(static_cast<size_t>(operand.value));
    operand.space = value.home;
    operand.value = -1;
    if (value.home == Space::kOmr) operand.width = isa::Width::kLong;
    if (value.home != Space::kT) {
      operand.base += value.address;
      return operand;
    }
    // T has no addresses: each cycle has its own words.
    operand.base = operand.stride = 0;
    operand.flat = false;
    operand.flat_addresses = {};
    operand.loop_strides.clear();
    return operand;
  }
  Placed placed(const scheduler::Operation& operation) const {
    Placed result{.instruction = operation.instruction, .origin = &operation.origin};
    Instruction& real = result.instruction;
    real.zero_flush = placed(real.zero_flush);
    for (Operand& operand : real.sources) operand = placed(std::move(operand));
    for (Operand& operand : real.destinations) operand = placed(std::move(operand));
    result.is_mv = is_mv(real);
    result.is_wait = is_wait(real);
    std::vector<isa::Access> all = isa::accesses(real, chip_);
    for (const isa::Access& access : all) {
      const auto found = std::ranges::find(kForwards, access.resource);
      if (found == kForwards.end()) continue;
      (access.write ? result.writes_forward
                    : result.reads_forward)[static_cast<size_t>(found - kForwards.begin())] = true;
    }
    result.accesses = looped_accesses(std::move(all), counts_, chip_);
    if (!reads_turnaround_) {
      std::erase_if(result.accesses, [](const LoopedAccess& each) {
        return each.access.resource == HazardResource::kTurnaround;
      });
    }
    for (const LoopedAccess& each : result.accesses) {
      const uint32_t bit = uint32_t{1} << static_cast<int>(each.access.resource);
      result.touched |= bit;
      if (each.access.write) result.written |= bit;
    }
    return result;
  }
  std::vector<Placed> placed(const Block& block) const {
    std::vector<Placed> result;
    result.reserve(block.operations.size());
    for (const scheduler::Operation& operation : block.operations) result.push_back(placed(operation));
    // A wait is for the last transfer of its tag; if none is in the block, for any that the program has.
    std::map<int8_t, const Placed*> last;
    for (Placed& each : result) {
      const int8_t tag = each.instruction.tag;
      if (each.is_mv) last[tag] = &each;
      if (!each.is_wait) continue;
      const auto in_block = last.find(tag);
      const auto anywhere = transfers_.find(tag);
      if (in_block != last.end()) {
        each.awaited = &in_block->second->accesses;
      } else if (anywhere != transfers_.end()) {
        each.awaited = &anywhere->second;
      }
    }
    return result;
  }

  /// What the transfers of each tag touch, anywhere in the program: their waits protect it. And whether
  /// anybody reads the turnaround register, which every transport to L1BM leaves its data in.
  void survey(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      if (const auto* region = std::get_if<RegionNode>(&node.kind)) survey(region->body);
      if (const auto* loop = std::get_if<CountedLoop>(&node.kind)) {
        enter(loop->count);
        survey(loop->body);
        leave(loop->count);
      }
      const auto* block = std::get_if<Block>(&node.kind);
      if (block == nullptr) continue;
      for (const scheduler::Operation& operation : block->operations) {
        for (const Operand& source : operation.instruction.sources)
          reads_turnaround_ = reads_turnaround_ || source.space == Space::kTurnaround;
        if (!is_mv(operation.instruction)) continue;
        std::vector<LoopedAccess>& touched = transfers_[operation.instruction.tag];
        for (LoopedAccess& access : placed(operation).accesses) touched.push_back(std::move(access));
      }
    }
  }
  /// Loops of one iteration have no counter in the schedule.
  void enter(int64_t count) {
    is_loop_.push_back(count > 1);
    if (count > 1) counts_.push_back(count);
  }
  void leave(int64_t count) {
    is_loop_.pop_back();
    if (count > 1) counts_.pop_back();
  }

  // ---- structure

  static void skip_nops(Position& at) {
    for (; !at.at_end(); ++at.next) {
      const auto* nop = std::get_if<isa::Nop>(&at.statement().kind);
      if (nop == nullptr || nop->wait_tag > 0) return;
    }
  }
  template <typename Kind>
  const Kind* next_as(Position& at) const {
    skip_nops(at);
    return at.at_end() ? nullptr : std::get_if<Kind>(&at.statement().kind);
  }

  void match_nodes(const std::vector<Node>& nodes, Position& at) {
    for (const Node& node : nodes) {
      if (const auto* block = std::get_if<Block>(&node.kind)) {
        match_block(*block, at);
      } else if (const auto* region = std::get_if<RegionNode>(&node.kind)) {
        expect_mark({true, region->name}, at);
        match_nodes(region->body, at);
        expect_mark({false, {}}, at);
      } else {
        match_loop(std::get<CountedLoop>(node.kind), at);
      }
    }
  }
  void expect_mark(const isa::RegionMark& mark, Position& at) {
    const auto* found = next_as<isa::RegionMark>(at);
    if (found == nullptr || *found != mark)
      fail(fmt::format("a mark is missing, the {} of region '{}'", mark.begin ? "begin" : "end", mark.name));
    ++at.next;
  }

  static bool is_empty(const std::vector<Node>& nodes) {
    return std::ranges::all_of(nodes, [](const Node& node) {
      if (const auto* block = std::get_if<Block>(&node.kind)) return block->operations.empty();
      const auto* loop = std::get_if<CountedLoop>(&node.kind);
      return loop != nullptr && (loop->count <= 0 || is_empty(loop->body));
    });
  }

  void match_loop(const CountedLoop& loop, Position& at) {
    if (loop.count <= 0) return;
    enter(loop.count);
    if (loop.count == 1) {
      match_nodes(loop.body, at);
    } else if (!is_empty(loop.body)) {
      const auto* found = next_as<isa::Loop>(at);
      if (found != nullptr && found->count == loop.count) {
        ++at.next;
        Position inside{found->body};
        match_nodes(loop.body, inside);
        skip_nops(inside);
        if (!inside.at_end()) fail("a loop goes on behind its last operation");
      } else {
        match_overlapping(loop, at);
      }
    } else if (next_as<isa::Loop>(at) != nullptr && std::get<isa::Loop>(at.statement().kind).body.empty()) {
      ++at.next;
    }
    leave(loop.count);
  }

  // ---- blocks

  /// Which operation an instruction is: equal in every field, and not found before. Of several equal ones the
  /// first: which of them is which makes no difference.
  class Unmatched {
   public:
    explicit Unmatched(const std::vector<Placed>& operations) : operations_(operations) {
      for (size_t k = 0; k < operations.size(); ++k) {
        Equal* const known = find(operations[k].instruction);
        if (known != nullptr) {
          known->operations.push_back(k);
        } else {
          by_hash_[hash_of(operations[k].instruction)].push_back({{k}, 0});
        }
      }
    }
    std::optional<size_t> take(const Instruction& instruction) {
      Equal* const known = find(instruction);
      if (known == nullptr || known->taken == known->operations.size()) return std::nullopt;
      return known->operations[known->taken++];
    }

   private:
    struct Equal {
      std::vector<size_t> operations;
      size_t taken = 0;
    };
    Equal* find(const Instruction& instruction) {
      const auto found = by_hash_.find(hash_of(instruction));
      if (found == by_hash_.end()) return nullptr;
      for (Equal& each : found->second) {
        if (operations_[each.operations.front()].instruction == instruction) return &each;
      }
      return nullptr;
    }
    const std::vector<Placed>& operations_;
    std::unordered_map<size_t, std::vector<Equal>> by_hash_;
  };

  void match_block(const Block& block, Position& at) {
    if (block.operations.empty()) return;
    const std::vector<Placed> operations = placed(block);
    Unmatched unmatched(operations);
    std::vector<Issue> issue(operations.size());
    size_t found = 0;
    int64_t time = 0;
    const auto match = [&](const Instruction& instruction) {
      const std::optional<size_t> operation = unmatched.take(instruction);
      if (!operation)
        fail(
            fmt::format("step {} behind the begin of a block: '{}' is no operation of the block, or is "
                        "there once too often",
                        time, describe(instruction)));
      issue[*operation] = {time, found++};
    };
    for (; found < operations.size(); ++at.next) {
      if (at.at_end()) fail(missing_text(operations, found));
      const Statement& statement = at.statement();
      if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
        for (const Instruction& instruction : step->instructions) match(instruction);
        ++time;
      } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
        match(mv->instruction);
      } else if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
        if (nop->wait_tag > 0) match(wait_for(nop->wait_tag));
        time += nop->count;
      } else {
        fail(missing_text(operations, found));
      }
    }
    check_order(operations, issue);
    check_forwards(operations, issue);
  }
  static std::string missing_text(const std::vector<Placed>& operations, size_t found) {
    return fmt::format("a block has {} operations, of which {} are there; it begins with '{}'",
                       operations.size(), found,
                       describe(operations.front().instruction, *operations.front().origin));
  }

  /// All pairs whose order has changed, or that are closer than any distance asks for.
  void check_order(const std::vector<Placed>& operations, const std::vector<Issue>& issue) const {
    std::multimap<int64_t, size_t> earlier;  // of those that come before in the program: by time
    for (size_t b = 0; b < operations.size(); ++b) {
      for (auto it = earlier.lower_bound(issue[b].time - longest_gap_ - 1); it != earlier.end(); ++it)
        check_pair(operations[it->second], issue[it->second], operations[b], issue[b],
                   operations[b].accesses);
      earlier.emplace(issue[b].time, b);
    }
  }

  /// `a` comes first in the program.
  void check_pair(const Placed& a, const Issue& at, const Placed& b, const Issue& bt,
                  const std::vector<LoopedAccess>& b_accesses) const {
    const int64_t between = bt.time - at.time - (a.is_mv ? 0 : 1);
    const auto report = [&](const std::string& what) {
      fail(fmt::format("'{}' after '{}': {}", describe(b.instruction, *b.origin),
                       describe(a.instruction, *a.origin), what));
    };
    if (a.is_wait || b.is_wait) {
      if (b.is_wait) {
        const bool own = a.is_mv && a.instruction.tag == b.instruction.tag;
        if (own && (bt.time < at.time || (bt.time == at.time && bt.order < at.order)))
          report("the wait comes before its transfer");
        return;
      }
      const bool same_tag = b.is_mv && b.instruction.tag == a.instruction.tag;
      const bool depends = same_tag || (a.awaited != nullptr && meet(*a.awaited, b_accesses, chip_));
      const bool is_behind = b.is_mv ? bt.time > at.time : bt.time >= at.time;
      if (depends && !is_behind) report("it comes before the wait for what it touches");
      return;
    }
    if (!a.may_meet(b)) return;
    const int64_t gap = verify::required_gap(a.accesses, b_accesses, chip_);
    if (gap == isa::kNoConstraint) return;
    if (a.is_mv && b.is_mv) {
      if (bt.order < at.order) report("transfers that touch the same have changed their order");
    } else if (gap == isa::kSameStep ? (b.is_mv ? bt.time <= at.time : bt.time < at.time) : between < gap) {
      report(
          fmt::format("{} other steps are needed in between, found {}", std::max<int64_t>(gap, 0), between));
    }
  }

  // ---- forwarding registers

  static constexpr int64_t kBefore = -1;  ///< a result of what came before the block

  void check_forwards(const std::vector<Placed>& operations, const std::vector<Issue>& issue) {
    std::vector<size_t> by_time(operations.size());
    for (size_t k = 0; k < by_time.size(); ++k) by_time[k] = k;
    std::ranges::sort(by_time, {}, [&](size_t k) { return std::pair{issue[k].time, issue[k].order}; });
    for (size_t f = 0; f < kForwards.size(); ++f) {
      std::vector<int64_t> expected(operations.size(), kBefore);
      int64_t last = kBefore;
      for (size_t k = 0; k < operations.size(); ++k) {
        expected[k] = last;
        if (operations[k].writes_forward[f]) last = static_cast<int64_t>(k);
      }
      int64_t found = kBefore;
      for (size_t k = 0; k < by_time.size();) {
        // What a step reads is what the steps before it have left.
        const int64_t time = issue[by_time[k]].time;
        int64_t written = found;
        for (; k < by_time.size() && issue[by_time[k]].time == time; ++k) {
          const Placed& operation = operations[by_time[k]];
          if (operation.reads_forward[f]) check_forward(operations, by_time[k], f, expected, found);
          if (operation.writes_forward[f]) written = static_cast<int64_t>(by_time[k]);
        }
        found = written;
      }
      same_at_ends_[f] = same_at_ends_[f] && found == last;
    }
  }
  void check_forward(const std::vector<Placed>& operations, size_t reader, size_t f,
                     const std::vector<int64_t>& expected, int64_t found) {
    if (expected[reader] == kBefore) crosses_blocks_[f] = true;
    if (expected[reader] != found) report_forward(operations, reader, f);
  }
  [[noreturn]] void report_forward(const std::vector<Placed>& operations, size_t reader, size_t f) const {
    fail(fmt::format("'{}' finds another result in {} than in sequential order",
                     describe(operations[reader].instruction, *operations[reader].origin),
                     isa::hazard_resource_name(kForwards[f])));
  }

  // ---- loops whose iterations overlap

  /// An instruction with the counter of its innermost loop replaced by one that began `shift` later, or, in
  /// code outside of the loop, fixed to `shift`.
  Instruction in_iteration(Instruction instruction, int64_t shift, bool outside) const {
    const size_t depth = counts_.size() - 1;
    for_each_operand(instruction, [&](Operand& operand, bool) {
      if (operand.loop_strides.size() <= depth) return;
      operand.base += operand.loop_strides[depth] * shift;
      if (!outside) return;
      operand.loop_strides.resize(depth);
      while (!operand.loop_strides.empty() && operand.loop_strides.back() == 0)
        operand.loop_strides.pop_back();
    });
    return instruction;
  }

  /// Code without loops: the instructions of each step.
  using Steps = std::vector<std::vector<const Instruction*>>;

  /// Appends a statement; false if it is another kind of code.
  static bool append(const Statement& statement, Steps& steps) {
    if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
      std::vector<const Instruction*>& own = steps.emplace_back();
      for (const Instruction& instruction : step->instructions) own.push_back(&instruction);
      return true;
    }
    const auto* nop = std::get_if<isa::Nop>(&statement.kind);
    if (nop == nullptr || nop->wait_tag > 0) return false;
    // A loop's own code has no long pauses: what can't be is not worth the memory.
    if (nop->count > kLongestPause) return false;
    steps.resize(steps.size() + static_cast<size_t>(nop->count));
    return true;
  }
  static size_t instruction_count(const Steps& steps) {
    size_t count = 0;
    for (const auto& step : steps) count += step.size();
    return count;
  }
  /// Takes an instruction out of a step.
  static bool remove(std::vector<const Instruction*>& step, const Instruction& instruction) {
    const auto found =
        std::ranges::find_if(step, [&](const Instruction* each) { return *each == instruction; });
    if (found == step.end()) return false;
    step.erase(found);
    return true;
  }

  void match_overlapping(const CountedLoop& loop, Position& at) {
    const Block* block = nullptr;
    for (const Node& node : loop.body) {
      const auto* found = std::get_if<Block>(&node.kind);
      if (found != nullptr && found->operations.empty()) continue;
      if (found == nullptr || block != nullptr) fail("a loop of several blocks is no loop in the schedule");
      block = found;
    }
    const std::vector<Placed> operations = placed(*block);
    const size_t n = operations.size();
    if (std::ranges::any_of(operations, [](const Placed& each) { return each.is_mv || each.is_wait; }))
      fail("iterations of a loop with transfers overlap");

    Steps before;
    Steps kernel;
    Steps after;
    for (; !at.at_end() && append(at.statement(), before); ++at.next) {
    }
    const auto* steady = at.at_end() ? nullptr : std::get_if<isa::Loop>(&at.statement().kind);
    if (steady == nullptr) fail(fmt::format("a loop of {} iterations is missing", loop.count));
    ++at.next;
    if (!std::ranges::all_of(steady->body, [&](const Statement& each) { return append(each, kernel); }) ||
        instruction_count(kernel) != n || steady->count > loop.count)
      fail(fmt::format("a loop of {} iterations of {} operations has another one in its place", loop.count,
                       n));
    // Steps up to the last instruction; nops behind it are of what follows.
    const size_t wanted = n * static_cast<size_t>(loop.count - steady->count);
    if (instruction_count(before) > wanted) fail("operations of a loop are there too often");
    while (instruction_count(before) + instruction_count(after) < wanted) {
      if (at.at_end() || !append(at.statement(), after)) fail("operations of a loop are missing behind it");
      ++at.next;
    }

    // Of each instruction of the kernel, what it is in its iteration 0, and when.
    const auto interval = static_cast<int64_t>(kernel.size());
    const auto lead = static_cast<int64_t>(before.size());
    std::vector<std::pair<int64_t, Instruction>> found;
    for (int64_t tau = 0; tau < interval; ++tau) {
      for (const Instruction* instruction : kernel[static_cast<size_t>(tau)]) {
        // Iterations of it that have issued before the loop.
        int64_t ahead = 0;
        for (int64_t time = lead + tau - interval; time >= 0; time -= interval) {
          if (!remove(before[static_cast<size_t>(time)], in_iteration(*instruction, -ahead - 1, true))) break;
          ++ahead;
        }
        found.emplace_back(lead + tau - ahead * interval, in_iteration(*instruction, -ahead, false));
        // Behind the loop: as often as iterations are left.
        for (int64_t left = 0; left < loop.count - steady->count - ahead; ++left) {
          const auto step = static_cast<size_t>(tau + left * interval);
          if (step >= after.size() ||
              !remove(after[step], in_iteration(*instruction, steady->count + left, true)))
            fail(fmt::format("'{}' of iteration {} is not where it has to be behind the loop",
                             describe(*instruction), ahead + steady->count + left));
        }
      }
    }
    // Which operations they are; of equal ones, in their order.
    std::ranges::stable_sort(found, {}, [](const auto& each) { return each.first; });
    Unmatched unmatched(operations);
    std::vector<Issue> issue(n);
    for (const auto& [time, instruction] : found) {
      const std::optional<size_t> k = unmatched.take(instruction);
      if (!k)
        fail(fmt::format("'{}' in a loop is no operation of it, in none of its iterations",
                         describe(instruction)));
      issue[*k] = {time, *k};
    }
    if (instruction_count(before) + instruction_count(after) > 0)
      fail("there are instructions beside a loop that belong to none of its iterations");
    check_overlap(operations, issue, interval, loop.count);
    check_overlapping_forwards(operations, issue, interval);
  }

  void check_overlap(const std::vector<Placed>& operations, const std::vector<Issue>& issue, int64_t interval,
                     int64_t count) const {
    const size_t depth = counts_.size() - 1;
    for (size_t b = 0; b < operations.size(); ++b) {
      std::vector<LoopedAccess> accesses = operations[b].accesses;
      for (int64_t later = 0; later < count; ++later) {
        const int64_t time = issue[b].time + later * interval;
        bool any = false;
        for (size_t a = 0; a < operations.size(); ++a) {
          if (time - issue[a].time - 1 >= longest_gap_) continue;
          any = true;
          if (later > 0 || a < b) check_pair(operations[a], issue[a], operations[b], {time, b}, accesses);
        }
        if (!any) break;
        accesses = shifted(std::move(accesses), depth, 1);
      }
    }
  }

  void check_overlapping_forwards(const std::vector<Placed>& operations, const std::vector<Issue>& issue,
                                  int64_t interval) {
    const auto n = static_cast<int64_t>(operations.size());
    const auto time = [&](int64_t k) { return issue[static_cast<size_t>(k)].time; };
    const auto writes = [&](int64_t k, size_t f) {
      return operations[static_cast<size_t>(k)].writes_forward[f];
    };
    for (size_t f = 0; f < kForwards.size(); ++f) {
      int64_t last = kBefore;  // of the body in its order
      int64_t latest = kBefore;
      for (int64_t k = 0; k < n; ++k) {
        if (!writes(k, f)) continue;
        last = k;
        if (latest == kBefore || time(k) > time(latest)) latest = k;
      }
      same_at_ends_[f] = same_at_ends_[f] && last == latest;
      int64_t in_order = kBefore;
      for (int64_t k = 0; k < n; ++k) {
        if (operations[static_cast<size_t>(k)].reads_forward[f]) {
          // The writer, and when it issues in the iteration whose result is meant.
          const bool of_last_iteration = in_order == kBefore;
          if (of_last_iteration) crosses_blocks_[f] = true;
          const int64_t writer = of_last_iteration ? last : in_order;
          const int64_t written =
              writer == kBefore ? INT64_MIN : time(writer) - (of_last_iteration ? interval : 0);
          bool is_right = written < time(k);
          for (int64_t other = 0; other < n && is_right; ++other) {
            if (!writes(other, f)) continue;
            // The last time before the read, in any iteration; and in the first one, if there is none before.
            const int64_t back =
                (time(k) - 1 - time(other)) / interval - ((time(k) - 1 - time(other)) % interval < 0 ? 1 : 0);
            is_right =
                time(other) + back * interval <= written && (!of_last_iteration || time(other) >= time(k));
          }
          if (!is_right) report_forward(operations, static_cast<size_t>(k), f);
        }
        if (writes(k, f)) in_order = k;
      }
    }
  }

  static constexpr int64_t kLongestPause = int64_t{1} << 20;

  const MachineProgram& program_;
  const isa::Program& schedule_;
  const isa::Chip& chip_;
  int64_t longest_gap_;
  std::vector<bool> is_loop_;    ///< by depth in the program: whether the schedule has a counter for it
  std::vector<int64_t> counts_;  ///< of those
  std::map<int8_t, std::vector<LoopedAccess>> transfers_;  ///< by tag
  bool reads_turnaround_ = false;
  std::array<bool, kForwards.size()> crosses_blocks_{};  ///< somebody reads what a block before left
  std::array<bool, kForwards.size()> same_at_ends_{true, true, true, true};
};

}  // namespace

void verify_schedule(const MachineProgram& program, const isa::Program& schedule, const isa::Chip& chip) {
  ScheduleMatch(program, schedule, chip).run();
  verify_rules(schedule, chip, Forwards::kKept);
}

}  // namespace kodama::verify
