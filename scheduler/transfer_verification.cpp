/// Verifier of transfer_scheduling.h. It reads only programs and the ISA's tables; nothing of the scheduling
/// is used.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <vector>

#include "isa/costs.h"
#include "isa/error.h"
#include "scheduler/transfer_scheduling.h"

namespace kodama::scheduler {
namespace {

using isa::HazardResource;
using isa::Instruction;
using isa::Operand;
using isa::Space;
using isa::Statement;

/// What a cell holds, as a mark of where it came from; kNothing: nobody has written it.
using Mark = uint64_t;
constexpr Mark kNothing = 0;

Mark mix(Mark a, Mark b) {
  uint64_t h = (a ^ 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL;
  h ^= h >> 32;
  h = (h ^ b) * 0xc4ceb9fe1a85ec53ULL;
  h ^= h >> 29;
  return h == kNothing ? 1 : h;
}

[[noreturn]] void fail(const std::string& what) {
  throw isa::InternalError("internal error found by verify_transfers: " + what);
}

struct Range {
  HazardResource memory = HazardResource::kL2bm;
  int32_t place = 0;  ///< L2B or group; -1 = all
  int64_t begin = 0;
  int64_t length = 0;
  bool write = false;
};

/// An instruction that touches L2BM, at given counters.
std::vector<Range> ranges(const Instruction& instruction, const isa::Chip& chip) {
  std::vector<Range> list;
  if (isa::issue_group(instruction) == isa::IssueGroup::kMv) {
    for (const isa::TransferPart& part : isa::transfer_parts(instruction, chip)) {
      HazardResource memory = HazardResource::kL2bm;
      if (part.port == isa::TransferPort::kGroupPath) continue;
      if (part.port == isa::TransferPort::kDram) memory = HazardResource::kDram;
      if (part.port == isa::TransferPort::kPdmRead || part.port == isa::TransferPort::kPdmWrite)
        memory = HazardResource::kPdm;
      if (part.indirect)
        list.push_back({memory, part.index, 0, chip.memory.dram_lw, part.write});
      else
        list.push_back({memory, part.index, part.address, part.lw, part.write});
    }
    return list;
  }
  for (const isa::Access& access : isa::accesses(instruction, chip)) {
    if (access.resource == HazardResource::kL2bm)
      list.push_back({HazardResource::kL2bm, access.place, access.begin[0], access.length, access.write});
  }
  return list;
}

/// A memory of marks. Cells that were never written hold `initial(cell)`.
class Memory {
 public:
  Memory(uint64_t name, bool starts_empty) : name_(name), starts_empty_(starts_empty) {}

  Mark get(int64_t cell) const {
    const auto page = pages_.find(cell / kPage);
    if (page != pages_.end()) return page->second[static_cast<size_t>(cell % kPage)];
    return initial(cell);
  }
  void set(int64_t cell, Mark mark) {
    auto [page, is_new] = pages_.try_emplace(cell / kPage);
    if (is_new) {
      page->second.resize(kPage);
      for (int64_t k = 0; k < kPage; ++k)
        page->second[static_cast<size_t>(k)] = initial(cell / kPage * kPage + k);
    }
    page->second[static_cast<size_t>(cell % kPage)] = mark;
  }
  void forget() { pages_.clear(); }
  /// The first cell in which another differs from what this one knows; -1: none.
  int64_t difference(const Memory& other) const {
    for (const auto& [number, cells] : pages_) {
      for (int64_t k = 0; k < kPage; ++k) {
        const int64_t cell = number * kPage + k;
        const Mark mark = cells[static_cast<size_t>(k)];
        if (mark != kNothing && other.get(cell) != mark) return cell;
      }
    }
    return -1;
  }

 private:
  static constexpr int64_t kPage = 512;
  Mark initial(int64_t cell) const { return starts_empty_ ? kNothing : mix(name_, static_cast<Mark>(cell)); }
  uint64_t name_;
  bool starts_empty_;
  std::map<int64_t, std::vector<Mark>> pages_;
};

/// Runs a program on marks. What the PEs write is marked by when they do; what they read is noted.
class Run {
 public:
  Run(const isa::Chip& chip, int64_t cell_lw) : chip_(chip), cell_lw_(cell_lw) {
    for (int l2b = 0; l2b < chip.l2b_count(); ++l2b) l2bm_.emplace_back(0, true);
    for (int group = 0; group < chip.groups; ++group) {
      dram_.emplace_back(2 * group + 1, false);
      pdm_.emplace_back(2 * group + 2, false);
    }
  }

  /// Nothing in L2BM is of use to what follows.
  void begin_part() {
    ++part_;
    for (Memory& memory : l2bm_) memory.forget();
  }
  void run(const std::vector<Statement>& statements) {
    std::vector<int64_t> counters;
    for (const Statement& statement : statements) execute(statement, counters);
  }
  /// As a chip does: transfers take their time, and nobody may touch what they use.
  bool checks_waits = false;

  /// By executed instruction that reads L2BM, in order: the marks it saw, one after the other.
  std::vector<Mark> seen;
  std::vector<size_t> seen_begin;
  struct Reader {
    int part = 0;
    const Instruction* instruction = nullptr;
  };
  std::vector<Reader> readers;  ///< the same
  /// Everything but transfers and waits, without addresses in L2BM, in order.
  std::vector<Mark> steps;

  std::string difference(const Run& other) const {
    for (size_t group = 0; group < dram_.size(); ++group) {
      const int64_t in_dram = dram_[group].difference(other.dram_[group]);
      if (in_dram >= 0) return fmt::format("DRAM of group {}, LW {}", group, in_dram * cell_lw_);
      const int64_t in_pdm = pdm_[group].difference(other.pdm_[group]);
      if (in_pdm >= 0) return fmt::format("PDM of group {}, LW {}", group, in_pdm * cell_lw_);
    }
    return {};
  }
  size_t in_flight() const { return in_flight_.size(); }

 private:
  struct InFlight {
    int tag;
    std::vector<Range> ranges;
  };

  /// Whether anything inside is about transfers or L2BM.
  bool matters(const isa::Loop& loop) {
    const auto [known, is_new] = matters_.try_emplace(&loop, false);
    if (!is_new) return known->second;
    bool any = false;
    for (const Statement& statement : loop.body) {
      if (const auto* inner = std::get_if<isa::Loop>(&statement.kind)) any = matters(*inner) || any;
      if (std::holds_alternative<isa::Mv>(statement.kind)) any = true;
      if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) any = any || nop->wait_tag > 0;
      if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
        for (const Instruction& instruction : step->instructions)
          any = any || isa::issue_group(instruction) == isa::IssueGroup::kWait || uses_l2bm(instruction);
      }
    }
    return matters_[&loop] = any;
  }
  static bool uses_l2bm(const Instruction& instruction) {
    const auto is_l2bm = [](const Operand& operand) { return operand.space == Space::kL2bm; };
    return std::ranges::any_of(instruction.sources, is_l2bm) ||
           std::ranges::any_of(instruction.destinations, is_l2bm);
  }

  void execute(const Statement& statement, std::vector<int64_t>& counters) {
    if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
      if (isa::is_idle(*loop)) return;
      if (!matters(*loop)) {
        steps.push_back(mark_of(*loop));
        return;
      }
      counters.push_back(0);
      for (int64_t i = 0; i < loop->count; ++i) {
        counters.back() = i;
        for (const Statement& inner : loop->body) execute(inner, counters);
      }
      counters.pop_back();
    } else if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) {
      if (nop->wait_tag > 0) wait(nop->wait_tag);
    } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
      transfer(resolve(mv->instruction, counters));
    } else if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
      // A wait holds its step.
      for (const Instruction& instruction : step->instructions) {
        if (isa::issue_group(instruction) == isa::IssueGroup::kWait) wait(instruction.tag);
      }
      for (const Instruction& instruction : step->instructions) {
        if (isa::issue_group(instruction) == isa::IssueGroup::kWait) continue;
        steps.push_back(mark_of(instruction, counters));
        if (uses_l2bm(instruction)) take(instruction, counters);
      }
    }
  }

  static Instruction resolve(Instruction instruction, const std::vector<int64_t>& counters) {
    for (auto* operands : {&instruction.sources, &instruction.destinations}) {
      for (Operand& operand : *operands) {
        operand.base = isa::resolved_base(operand, counters);
        operand.loop_strides.clear();
      }
    }
    return instruction;
  }

  /// Instructions as they are, addresses in L2BM left out.
  Mark mark_of(const Instruction& instruction, const std::vector<int64_t>& counters) const {
    Mark mark = mix(static_cast<Mark>(instruction.opcode), static_cast<Mark>(instruction.precision));
    for (const auto* operands : {&instruction.sources, &instruction.destinations}) {
      for (const Operand& operand : *operands) {
        mark = mix(mark, static_cast<Mark>(operand.space));
        if (operand.space == Space::kL2bm) continue;
        mark = mix(mark, static_cast<Mark>(isa::resolved_base(operand, counters)));
        mark = mix(mark, static_cast<Mark>(operand.stride));
        mark = mix(mark, static_cast<Mark>(operand.width));
        mark = mix(mark, static_cast<Mark>(operand.mask.value) * 4 + static_cast<Mark>(operand.mask.kind));
      }
    }
    return mark;
  }
  Mark mark_of(const isa::Loop& loop) const {
    Mark mark = mix(1, static_cast<Mark>(loop.count));
    for (const Statement& statement : loop.body) {
      if (const auto* inner = std::get_if<isa::Loop>(&statement.kind)) mark = mix(mark, mark_of(*inner));
      if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
        for (const Instruction& instruction : step->instructions) mark = mix(mark, mark_of(instruction, {}));
      }
    }
    return mark;
  }

  void check(const std::vector<Range>& touched, const Instruction& who) const {
    if (!checks_waits) return;
    for (const InFlight& transfer : in_flight_) {
      for (const Range& a : transfer.ranges) {
        for (const Range& b : touched) {
          const bool same = a.memory == b.memory && (a.place < 0 || b.place < 0 || a.place == b.place);
          if (same && (a.write || b.write) && a.begin < b.begin + b.length && b.begin < a.begin + a.length)
            fail(fmt::format("'{}' touches {} {} to {}, which the transfer of tag {} uses",
                             isa::mnemonic(who), isa::hazard_resource_name(a.memory), b.begin,
                             b.begin + b.length, transfer.tag));
        }
      }
    }
  }

  void wait(int tag) {
    std::erase_if(in_flight_, [&](const InFlight& transfer) { return transfer.tag == tag; });
  }

  template <typename Visit>
  void for_each_memory(const Range& range, Visit&& visit) {
    if (range.memory != HazardResource::kL2bm) {
      visit((range.memory == HazardResource::kDram ? dram_ : pdm_)[static_cast<size_t>(range.place)]);
      return;
    }
    for (size_t l2b = 0; l2b < l2bm_.size(); ++l2b) {
      if (range.place < 0 || static_cast<size_t>(range.place) == l2b) visit(l2bm_[l2b]);
    }
  }
  int64_t wrapped(const Range& range, int64_t cell) const {
    return range.memory == HazardResource::kL2bm ? cell % (chip_.memory.l2bm_lw / cell_lw_) : cell;
  }

  /// An instruction of a step.
  void take(const Instruction& original, const std::vector<int64_t>& counters) {
    ++time_;
    const Instruction instruction = resolve(original, counters);
    const std::vector<Range> touched = ranges(instruction, chip_);
    check(touched, instruction);
    for (const Range& range : touched) {
      if (!range.write) {
        seen_begin.push_back(seen.size());
        readers.push_back({part_, &original});
      }
      for_each_memory(range, [&](Memory& memory) {
        for (int64_t k = 0; k < range.length / cell_lw_; ++k) {
          const int64_t cell = wrapped(range, range.begin / cell_lw_ + k);
          if (range.write) {
            memory.set(cell, mix(time_, static_cast<Mark>(k)));
          } else {
            seen.push_back(memory.get(cell));
          }
        }
      });
    }
  }

  void transfer(const Instruction& mv) {
    const std::vector<Range> touched = ranges(mv, chip_);
    check(touched, mv);
    std::vector<Range> from;
    std::vector<Range> to;
    for (const Range& range : touched) (range.write ? to : from).push_back(range);
    // Copies move cells as they are; of what others make only the whole is known.
    const auto source_of = [&](size_t r) -> std::optional<size_t> {
      if (mv.opcode == isa::Opcode::kMvp) return r;
      if (mv.opcode == isa::Opcode::kMvb) return 0;
      if (mv.opcode != isa::Opcode::kMvb2) return std::nullopt;
      const int32_t group = to[r].place / chip_.l2b_per_group;
      for (size_t k = 0; k < from.size(); ++k) {
        if (from[k].place == group) return k;
      }
      return std::nullopt;
    };
    Mark whole = mix(static_cast<Mark>(mv.opcode), 0);
    std::vector<std::vector<Mark>> data;
    for (const Range& range : from) {
      data.emplace_back();
      for_each_memory(range, [&](Memory& memory) {
        for (int64_t k = 0; k < range.length / cell_lw_; ++k) {
          data.back().push_back(memory.get(wrapped(range, range.begin / cell_lw_ + k)));
          whole = mix(whole, data.back().back());
        }
      });
    }
    for (size_t r = 0; r < to.size(); ++r) {
      const std::optional<size_t> source = source_of(r);
      for_each_memory(to[r], [&](Memory& memory) {
        for (int64_t k = 0; k < to[r].length / cell_lw_; ++k) {
          const Mark mark =
              source ? data.at(*source).at(static_cast<size_t>(k)) : mix(whole, static_cast<Mark>(k));
          memory.set(wrapped(to[r], to[r].begin / cell_lw_ + k), mark);
        }
      });
    }
    if (std::ranges::any_of(in_flight_, [&](const InFlight& other) { return other.tag == mv.tag; }) &&
        checks_waits)
      fail(fmt::format("tag {} of '{}' belongs to a transfer that nobody has waited for", mv.tag,
                       isa::mnemonic(mv)));
    in_flight_.push_back({mv.tag, touched});
  }

  const isa::Chip& chip_;
  int64_t cell_lw_;
  int part_ = -1;
  Mark time_ = 0;
  std::vector<Memory> l2bm_;
  std::vector<Memory> dram_;
  std::vector<Memory> pdm_;
  std::vector<InFlight> in_flight_;
  std::unordered_map<const isa::Loop*, bool> matters_;
};

/// The largest unit in which everything is moved.
class CellSize {
 public:
  explicit CellSize(const isa::Chip& chip) : chip_(chip), lw_(chip.memory.l2bm_lw) {}
  void visit(const std::vector<Statement>& statements) {
    for (const Statement& statement : statements) {
      if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) visit(loop->body);
      if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) take(mv->instruction);
      if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
        for (const Instruction& instruction : step->instructions) take(instruction);
      }
    }
  }
  int64_t lw() const { return lw_; }

 private:
  void take(const Instruction& instruction) {
    bool touches = isa::issue_group(instruction) == isa::IssueGroup::kMv;
    for (const auto* operands : {&instruction.sources, &instruction.destinations}) {
      for (const Operand& operand : *operands) touches = touches || operand.space == Space::kL2bm;
    }
    if (!touches) return;
    for (const Range& range : ranges(instruction, chip_))
      lw_ = std::gcd(std::gcd(lw_, range.begin), range.length);
    for (const auto* operands : {&instruction.sources, &instruction.destinations}) {
      for (const Operand& operand : *operands) {
        if (operand.space != Space::kL2bm && operand.space != Space::kDram && operand.space != Space::kPdm)
          continue;
        for (const int64_t stride : operand.loop_strides) lw_ = std::gcd(lw_, stride);
      }
    }
  }
  const isa::Chip& chip_;
  int64_t lw_;
};

}  // namespace

void verify_transfers(const std::vector<ProgramPart>& parts, const ScheduledParts& scheduled,
                      const isa::Chip& chip) {
  if (scheduled.begin.size() != parts.size() + 1 || scheduled.begin.front() != 0 ||
      !std::ranges::is_sorted(scheduled.begin) ||
      scheduled.begin.back() != scheduled.program.statements.size())
    fail("the parts' bounds are wrong");
  CellSize cells(chip);
  for (const ProgramPart& part : parts) cells.visit(part.program.statements);
  cells.visit(scheduled.program.statements);

  Run expected(chip, cells.lw());
  for (const ProgramPart& part : parts) {
    expected.begin_part();
    expected.run(part.program.statements);
  }
  Run found(chip, cells.lw());
  found.checks_waits = true;
  found.run(scheduled.program.statements);
  if (found.in_flight() > 0) fail("a transfer is under way at the end");
  if (expected.steps != found.steps) fail("the steps are not those of the parts, in their order");
  if (expected.seen_begin != found.seen_begin) fail("reads of L2BM have other sizes");
  for (size_t k = 0; k < expected.seen.size(); ++k) {
    // What nobody has written may be anything.
    if (expected.seen[k] == kNothing || expected.seen[k] == found.seen[k]) continue;
    const auto behind = std::ranges::upper_bound(expected.seen_begin, k);
    const auto number = static_cast<size_t>(behind - expected.seen_begin.begin() - 1);
    const Run::Reader& reader = expected.readers[number];
    fail(
        fmt::format("part '{}': '{}' (read number {} of L2BM, from $lc{} in its part) gets other data, from "
                    "LW {} of it on",
                    parts[static_cast<size_t>(reader.part)].name, isa::mnemonic(*reader.instruction), number,
                    reader.instruction->sources.at(0).base,
                    static_cast<int64_t>(k - expected.seen_begin[number]) * cells.lw()));
  }
  const std::string difference = expected.difference(found);
  if (!difference.empty()) fail(difference + " ends with data of other origin");
}

}  // namespace kodama::scheduler
