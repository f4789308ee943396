#include "scheduler/verify/segment_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "isa/cancellation.h"
#include "scheduler/verify/findings.h"

namespace kodama::verify {

namespace {

CellMark mix(CellMark a, CellMark b) {
  uint64_t h = (a ^ 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL;
  h ^= h >> 32;
  h = (h ^ b) * 0xc4ceb9fe1a85ec53ULL;
  h ^= h >> 29;
  return h == kUnwritten ? 1 : h;
}

bool uses_l2bm(const Instruction& instruction) {
  bool uses = false;
  for_each_operand(instruction,
                   [&](const Operand& operand, bool) { uses = uses || operand.space == Space::kL2bm; });
  return uses;
}

Instruction resolve(Instruction instruction, const std::vector<int64_t>& counters) {
  for_each_operand(instruction, [&](Operand& operand, bool) {
    operand.base = isa::resolved_base(operand, counters);
    operand.loop_strides.clear();
  });
  return instruction;
}

class CellSize {
 public:
  explicit CellSize(const isa::Chip& chip) : chip_(chip), lw_(chip.memory.l2bm_lw) {}
  void visit(const std::vector<Statement>& statements) {
    for (const Statement& statement : statements) {
      if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) visit(loop->body);
      if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) take(mv->instruction);
      if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
        for (const Instruction& instruction : step->instructions) {
          if (uses_l2bm(instruction)) take(instruction);
        }
      }
    }
  }
  int64_t lw() const { return lw_; }

 private:
  void take(const Instruction& instruction) {
    for (const isa::Access& access : isa::accesses(instruction, chip_)) {
      if (!isa::is_transfer_memory(access.resource) || access.resource == HazardResource::kDar) continue;
      lw_ = std::gcd(std::gcd(lw_, access.begin[0]), access.length);
      for (const int64_t stride : access.loop_strides) lw_ = std::gcd(lw_, stride);
    }
  }
  const isa::Chip& chip_;
  int64_t lw_;
};

}  // namespace

int64_t common_cell_lw(const std::vector<const isa::Program*>& programs, const isa::Chip& chip) {
  CellSize size(chip);
  for (const isa::Program* program : programs) size.visit(program->statements);
  return size.lw();
}

// ---- memories --------------------------------------------------------------------------------------------

CellMark MarkMemory::initial(int64_t cell) const {
  return starts_empty_ ? kUnwritten : mix(name_, static_cast<CellMark>(cell));
}

CellMark MarkMemory::get(int64_t cell) const {
  const auto page = pages_.find(cell / kPage);
  return page != pages_.end() ? page->second[static_cast<size_t>(cell % kPage)] : initial(cell);
}

void MarkMemory::read(int64_t first, std::span<CellMark> marks) const {
  for (size_t done = 0; done < marks.size();) {
    const int64_t cell = first + static_cast<int64_t>(done);
    const size_t count = std::min(marks.size() - done, static_cast<size_t>(kPage - cell % kPage));
    if (const auto page = pages_.find(cell / kPage); page != pages_.end()) {
      std::copy_n(page->second.begin() + cell % kPage, count, marks.begin() + static_cast<int64_t>(done));
    } else {
      for (size_t k = 0; k < count; ++k) marks[done + k] = initial(cell + static_cast<int64_t>(k));
    }
    done += count;
  }
}

void MarkMemory::write(int64_t first, std::span<const CellMark> marks) {
  for (size_t done = 0; done < marks.size();) {
    const int64_t cell = first + static_cast<int64_t>(done);
    const size_t count = std::min(marks.size() - done, static_cast<size_t>(kPage - cell % kPage));
    auto [page, is_new] = pages_.try_emplace(cell / kPage);
    if (is_new) {
      page->second.resize(kPage);
      for (int64_t k = 0; k < kPage; ++k)
        page->second[static_cast<size_t>(k)] = initial(cell / kPage * kPage + k);
    }
    std::copy_n(marks.begin() + static_cast<int64_t>(done), count, page->second.begin() + cell % kPage);
    done += count;
  }
}

int64_t MarkMemory::difference_in(const Pages& pages, const MarkMemory& other) const {
  for (const auto& [number, cells] : pages) {
    for (int64_t cell = number * kPage; cell < (number + 1) * kPage; ++cell) {
      const CellMark mark = get(cell);
      if (mark != kUnwritten && other.get(cell) != mark) return cell;
    }
  }
  return -1;
}

int64_t MarkMemory::difference(const MarkMemory& other) const {
  const int64_t here = difference_in(pages_, other);
  return here >= 0 ? here : difference_in(other.pages_, other);
}

void CellSet::set(int64_t first, int64_t count, bool inside) {
  for (int64_t cell = first; cell < first + count;) {
    const int64_t number = cell / kPage, end = std::min(first + count, (number + 1) * kPage);
    if (!inside && !pages_.contains(number)) {
      cell = end;
      continue;
    }
    std::bitset<kPage>& page = pages_[number];
    for (; cell < end; ++cell) page[static_cast<size_t>(cell % kPage)] = inside;
  }
}

// ---- runs ------------------------------------------------------------------------------------------------

SegmentRun::SegmentRun(const isa::Chip& chip, int64_t cell_lw) : chip_(chip), cell_lw_(cell_lw) {
  for (int l2b = 0; l2b < chip.l2b_count(); ++l2b) l2bm_.emplace_back(0, true);
  for (int group = 0; group < chip.groups; ++group) {
    dram_.emplace_back(2 * group + 1, false);
    pdm_.emplace_back(2 * group + 2, false);
    scratch_cells_.emplace_back();
  }
}

void SegmentRun::run_parts(const std::vector<scheduler::ProgramPart>& parts) {
  std::vector<int64_t> counters;
  for (const scheduler::ProgramPart& part : parts) {
    part_ = &part.name;
    for (MarkMemory& memory : l2bm_) memory.forget();
    scratch_ = &part.scratch;
    for (const Statement& statement : part.program.statements) execute(statement, counters);
  }
  scratch_ = nullptr;
  // Whoever reads them finds what is wanted there; in the end it may be anything.
  for (size_t group = 0; group < dram_.size(); ++group) {
    scratch_cells_[group].for_each([&](int64_t cell) { dram_[group].write(cell, {&kUnwritten, 1}); });
  }
}

void SegmentRun::run_against(const isa::Program& program, const SegmentRun& expected) {
  expected_ = &expected;
  std::vector<int64_t> counters;
  for (const Statement& statement : program.statements) execute(statement, counters);
  if (next_reading_ != expected.readings_.size()) fail(kVerifySegment, "reads of L2BM are missing");
  check_memories(expected);
}

void SegmentRun::check_memories(const SegmentRun& expected) const {
  const auto compare = [&](const MarkMemory& wanted, const MarkMemory& found, std::string_view name,
                           size_t group) {
    const int64_t cell = wanted.difference(found);
    if (cell >= 0)
      fail(kVerifySegment,
           fmt::format("{} of group {}, LW {} ends with data of other origin", name, group, cell * cell_lw_));
  };
  for (size_t group = 0; group < dram_.size(); ++group) {
    compare(expected.dram_[group], dram_[group], "DRAM", group);
    compare(expected.pdm_[group], pdm_[group], "PDM", group);
  }
}

std::vector<SegmentRun::Range> SegmentRun::ranges(const Instruction& instruction,
                                                  const std::vector<int64_t>& counters) const {
  if (!counters.empty()) return ranges(resolve(instruction, counters), {});
  std::vector<Range> list;
  for (const isa::Access& access : isa::accesses(instruction, chip_)) {
    if (!isa::is_transfer_memory(access.resource) || access.resource == HazardResource::kDar) continue;
    Range range{access.resource, access.place, access.begin[0], access.length, access.write};
    if (access.whole) {
      range.begin = 0;
      range.length = chip_.memory.dram_lw;
    }
    list.push_back(range);
  }
  return list;
}

bool SegmentRun::matters(const isa::Loop& loop) {
  const auto [known, is_new] = matters_.try_emplace(&loop, false);
  if (!is_new) return known->second;
  bool any = false;
  for (const Statement& statement : loop.body) {
    if (const auto* inner = std::get_if<isa::Loop>(&statement.kind)) any = matters(*inner) || any;
    if (std::holds_alternative<isa::Mv>(statement.kind)) any = true;
    if (const auto* step = std::get_if<isa::Step>(&statement.kind))
      any = any || std::ranges::any_of(step->instructions, uses_l2bm);
  }
  return matters_[&loop] = any;
}

void SegmentRun::execute(const Statement& statement, std::vector<int64_t>& counters) {
  if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
    if (isa::is_idle(*loop) || !matters(*loop)) return;
    counters.push_back(0);
    for (int64_t i = 0; i < loop->count; ++i) {
      counters.back() = i;
      isa::stop_if_cancelled();
      for (const Statement& inner : loop->body) execute(inner, counters);
    }
    counters.pop_back();
  } else if (const auto* mv = std::get_if<isa::Mv>(&statement.kind)) {
    transfer(mv->instruction, counters);
  } else if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
    for (const Instruction& instruction : step->instructions) {
      if (uses_l2bm(instruction)) take(instruction, counters);
    }
  }
}

template <typename Visit>
void SegmentRun::for_each_memory(const Range& range, Visit&& visit) {
  if (range.memory != HazardResource::kL2bm) {
    visit((range.memory == HazardResource::kDram ? dram_ : pdm_).at(static_cast<size_t>(range.place)));
    return;
  }
  for (size_t l2b = 0; l2b < l2bm_.size(); ++l2b) {
    if (range.place < 0 || static_cast<size_t>(range.place) == l2b) visit(l2bm_[l2b]);
  }
}

int64_t SegmentRun::cells_of(HazardResource memory) const {
  int64_t size = chip_.memory.l2bm_lw;
  if (memory == HazardResource::kDram) size = chip_.memory.dram_lw;
  if (memory == HazardResource::kPdm) size = chip_.memory.pdm_lw;
  return size / cell_lw_;
}

void SegmentRun::check_inside(const Range& range) const {
  const int64_t cells = cells_of(range.memory), begin = range.begin / cell_lw_;
  const int64_t count = range.length / cell_lw_;
  // L2BM goes on at its begin.
  const bool is_inside =
      range.memory == HazardResource::kL2bm ? count <= cells : begin >= 0 && begin <= cells - count;
  if (count > 0 && !is_inside)
    fail(kVerifySegment,
         fmt::format("a transfer of {} LW from LW {} on is not inside {}, which has {}", range.length,
                     range.begin, isa::hazard_resource_name(range.memory), cells * cell_lw_));
}

template <typename Visit>
void SegmentRun::for_each_stretch(const Range& range, Visit&& visit) const {
  const int64_t cells = cells_of(range.memory), count = range.length / cell_lw_;
  int64_t cell = (range.begin / cell_lw_ % cells + cells) % cells;
  for (int64_t k = 0; k < count; cell = 0) {
    const int64_t here = std::min(count - k, cells - cell);
    visit(cell, here, static_cast<size_t>(k));
    k += here;
  }
}

/// Behind those that are there.
void SegmentRun::read(const MarkMemory& memory, const Range& range, std::vector<CellMark>& marks) const {
  check_inside(range);
  const size_t before = marks.size();
  marks.resize(before + static_cast<size_t>(range.length / cell_lw_));
  for_each_stretch(range, [&](int64_t cell, int64_t count, size_t k) {
    memory.read(cell, std::span(marks).subspan(before + k, static_cast<size_t>(count)));
  });
}

void SegmentRun::write(MarkMemory& memory, const Range& range, std::span<const CellMark> marks) const {
  for_each_stretch(range, [&](int64_t cell, int64_t count, size_t k) {
    memory.write(cell, marks.subspan(k, static_cast<size_t>(count)));
  });
}

void SegmentRun::take(const Instruction& original, const std::vector<int64_t>& counters) {
  ++time_;
  std::vector<CellMark> marks;
  for (const Range& range : ranges(original, counters)) {
    marks.clear();
    CellMark number = 0;  // L2Bs get different data
    for_each_memory(range, [&](MarkMemory& memory) {
      if (!range.write) return read(memory, range, marks);
      check_inside(range);
      const CellMark written = mix(time_, number++);
      marks.resize(static_cast<size_t>(range.length / cell_lw_));
      for (size_t k = 0; k < marks.size(); ++k) marks[k] = mix(written, static_cast<CellMark>(k));
      write(memory, range, marks);
    });
    if (!range.write) note({.part = part_, .instruction = &original}, marks);
  }
}

void SegmentRun::note(Reading reading, const std::vector<CellMark>& found) {
  for (const CellMark mark : found) reading.all = mix(reading.all, mark);
  if (expected_ == nullptr) {
    if (std::ranges::find(found, kUnwritten) != found.end()) reading.with_unwritten = found;
    readings_.push_back(std::move(reading));
    return;
  }
  const size_t number = next_reading_++;
  if (number >= expected_->readings_.size())
    fail(kVerifySegment, "there are more reads of L2BM than in the parts");
  const Reading& wanted = expected_->readings_[number];
  bool is_same = wanted.all == reading.all;
  if (!wanted.with_unwritten.empty()) {
    // What nobody has written may be anything.
    is_same = std::ranges::equal(wanted.with_unwritten, found, [](CellMark expected, CellMark mark) {
      return expected == kUnwritten || expected == mark;
    });
  }
  if (!is_same)
    fail(kVerifySegment,
         fmt::format("part '{}': '{}' (read number {} of L2BM, from $lc{} in its part) gets other data",
                     *wanted.part, isa::mnemonic(*wanted.instruction), number,
                     wanted.instruction->sources.at(0).base));
}

void SegmentRun::note_scratch(const Range& written) {
  const bool is_scratch = std::ranges::any_of(*scratch_, [&](const auto& each) {
    return each.first <= written.begin && written.begin + written.length <= each.second;
  });
  scratch_cells_.at(static_cast<size_t>(written.place))
      .set(written.begin / cell_lw_, written.length / cell_lw_, is_scratch);
}

void SegmentRun::transfer(const Instruction& mv, const std::vector<int64_t>& counters) {
  std::vector<Range> from;
  std::vector<Range> to;
  for (const Range& range : ranges(mv, counters)) (range.write ? to : from).push_back(range);
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
  CellMark whole = mix(mix(static_cast<CellMark>(mv.opcode), static_cast<CellMark>(mv.reduce_op)),
                       static_cast<CellMark>(mv.precision));
  std::vector<std::vector<CellMark>> data;
  for (const Range& range : from) {
    std::vector<CellMark>& marks = data.emplace_back();
    for_each_memory(range, [&](const MarkMemory& memory) { read(memory, range, marks); });
    for (const CellMark mark : marks) whole = mix(whole, mark);
  }
  std::vector<CellMark> made;
  for (size_t r = 0; r < to.size(); ++r) {
    check_inside(to[r]);
    const auto cells = static_cast<size_t>(to[r].length / cell_lw_);
    const std::optional<size_t> source = source_of(r);
    isa::check_internal(!source || (*source < data.size() && data[*source].size() >= cells), kVerifySegment,
                        "'{}' writes more than it reads", isa::mnemonic(mv));
    made.resize(source ? 0 : cells);
    for (size_t k = 0; k < made.size(); ++k)
      made[k] = mix(mix(whole, static_cast<CellMark>(r)), static_cast<CellMark>(k));
    for_each_memory(to[r], [&](MarkMemory& memory) {
      write(memory, to[r], std::span(source ? data[*source] : made).first(cells));
    });
    if (scratch_ != nullptr && to[r].memory == HazardResource::kDram) note_scratch(to[r]);
  }
}

}  // namespace kodama::verify
