#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "isa/chip.h"
#include "isa/costs.h"
#include "isa/program.h"
#include "scheduler/segment/transfer_scheduling.h"

/// Runs the transfers of programs on marks for data. Internal to verify/.
namespace kodama::verify {

/// As errors of both of its files call the verifier.
inline constexpr std::string_view kVerifySegment = "verify_segment";

/// What a cell holds, as a mark of where it came from; kNothing: nobody has written it.
using CellMark = uint64_t;
inline constexpr CellMark kUnwritten = 0;

/// The largest number of LW in which everything is moved, by the instructions of all these programs: the size
/// of a cell.
int64_t common_cell_lw(const std::vector<const isa::Program*>& programs, const isa::Chip& chip);

/// A memory of marks. Cells that were never written hold `initial(cell)`.
class MarkMemory {
 public:
  MarkMemory(uint64_t name, bool starts_empty) : name_(name), starts_empty_(starts_empty) {}

  /// Cells from `first` on.
  void read(int64_t first, std::span<CellMark> marks) const;
  void write(int64_t first, std::span<const CellMark> marks);
  void forget() { pages_.clear(); }
  /// A cell that holds something here, but not the same there; -1: none. What nobody has written here may be
  /// anything there.
  int64_t difference(const MarkMemory& other) const;

 private:
  static constexpr int64_t kPage = 512;
  using Pages = std::map<int64_t, std::vector<CellMark>>;
  CellMark initial(int64_t cell) const;
  CellMark get(int64_t cell) const;
  int64_t difference_in(const Pages& pages, const MarkMemory& other) const;

  uint64_t name_;
  bool starts_empty_;
  Pages pages_;
};

/// Cells of a memory.
class CellSet {
 public:
  /// Puts `count` cells from `first` on into the set, or takes them out.
  void set(int64_t first, int64_t count, bool inside);
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [number, cells] : pages_) {
      for (int64_t k = 0; k < kPage; ++k) {
        if (cells[static_cast<size_t>(k)]) visit(number * kPage + k);
      }
    }
  }

 private:
  static constexpr int64_t kPage = 4096;
  std::map<int64_t, std::bitset<kPage>> pages_;
};

/// One run, with transfers done when they are issued. What the PEs write is marked by when they do; what they
/// read is noted. Loops that touch neither L2BM nor transfers are not run.
class SegmentRun {
 public:
  SegmentRun(const isa::Chip& chip, int64_t cell_lw);

  /// The parts one after the other, L2BM empty at the begin of each.
  void run_parts(const std::vector<scheduler::ProgramPart>& parts);
  /// Another program: InternalError when an instruction reads other data than its counterpart in `expected`,
  /// or memories end differently.
  void run_against(const isa::Program& program, const SegmentRun& expected);

 private:
  struct Range {
    isa::HazardResource memory = isa::HazardResource::kL2bm;
    int32_t place = 0;  ///< L2B or group; -1 = all
    int64_t begin = 0;
    int64_t length = 0;
    bool write = false;
  };
  /// What an instruction of a step found in L2BM.
  struct Reading {
    const std::string* part = nullptr;
    const isa::Instruction* instruction = nullptr;
    CellMark all = 0;                           ///< of all marks
    std::vector<CellMark> with_unwritten = {};  ///< the marks, where some are kUnwritten
  };

  std::vector<Range> ranges(const isa::Instruction& instruction, const std::vector<int64_t>& counters) const;
  bool matters(const isa::Loop& loop);
  void execute(const isa::Statement& statement, std::vector<int64_t>& counters);
  template <typename Visit>
  void for_each_memory(const Range& range, Visit&& visit);
  int64_t cells_of(isa::HazardResource memory) const;
  void check_inside(const Range& range) const;
  /// Calls visit(cell, count, k) for the cells of a range, k and behind of it, as far as they follow each
  /// other in the memory: L2BM goes on at its begin.
  template <typename Visit>
  void for_each_stretch(const Range& range, Visit&& visit) const;
  void read(const MarkMemory& memory, const Range& range, std::vector<CellMark>& marks) const;
  void write(MarkMemory& memory, const Range& range, std::span<const CellMark> marks) const;
  void take(const isa::Instruction& original, const std::vector<int64_t>& counters);
  void note(Reading reading, const std::vector<CellMark>& found);
  void transfer(const isa::Instruction& mv, const std::vector<int64_t>& counters);
  void note_scratch(const Range& written);
  void check_memories(const SegmentRun& expected) const;

  const isa::Chip& chip_;
  int64_t cell_lw_;
  const SegmentRun* expected_ = nullptr;  ///< of the run that is checked
  const std::string* part_ = nullptr;
  CellMark time_ = 0;
  std::vector<MarkMemory> l2bm_;
  std::vector<MarkMemory> dram_;
  std::vector<MarkMemory> pdm_;
  const std::vector<std::pair<int64_t, int64_t>>* scratch_ = nullptr;  ///< of the part that runs
  std::vector<CellSet> scratch_cells_;  ///< of each group's DRAM: written there last by a part whose scratch
                                        ///< it is
  std::vector<Reading> readings_;       ///< of run_parts
  size_t next_reading_ = 0;             ///< of run_against
  std::unordered_map<const isa::Loop*, bool> matters_;
};

}  // namespace kodama::verify
