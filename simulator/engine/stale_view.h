#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "isa/chip.h"
#include "isa/costs.h"
#include "isa/instruction.h"

/// What an L1B's memories show while writes are on their way (`--hazards=stale`).
///
/// The engine writes at once. For as long as a write could still be invisible to somebody, this class keeps
/// what was there before; a reader that comes too early gets that instead. PE memories and T are looked at
/// cycle by cycle: a write in cycle i of a step is seen by a read in cycle j of a step d steps later when 4 d
/// + j - i > pe_write_complete_cycles. L1BM is looked at step by step, by who wrote and who reads. What has
/// one kind of reader and a distance in steps (masks, BARs, matrix registers, turnaround and forwarding
/// registers) is simply written late.
///
/// Example: `linc $lr0 $lr0` twice on mncore2, $lr0 = 5. The first writes 6 in each of cycles 0 to 3,
/// complete after 6 more; the second reads 4 to 7 cycles later. Only its cycle 3 sees a write, that of cycle
/// 0. So its cycles compute 6, 6, 6, 7, and $lr0 ends as 7; with one nop between, cycles 0 to 3 see the
/// writes of cycles 1 to 3 and all compute 7.
namespace kodama::simulator {

class StaleView {
 public:
  /// `lanes`: words of a row.
  StaleView(const isa::Chip& chip, int lanes);

  int64_t step() const { return step_; }
  /// `count` steps are over.
  void end_steps(int64_t count);

  /// Before a write of a row in a cycle of the present step: the row as it is.
  void before_write(isa::Space space, int cycle, int64_t address, const uint32_t* row);
  /// The same where each lane has its own address: addresses and words by lane.
  void before_write(isa::Space space, int cycle, std::vector<int64_t> addresses, std::vector<uint32_t> words);
  /// Replaces in `row`, what memory holds at the address, the lanes that a read in this cycle doesn't see
  /// yet.
  void look(isa::Space space, int cycle, int64_t address, uint32_t* row) const;
  void look(isa::Space space, int cycle, const std::vector<int64_t>& addresses, uint32_t* row) const;
  /// Whether some write to the space may be invisible.
  bool has_recent(isa::Space space) const;

  /// Before a write of L1BM by one side: `old` = what is there.
  void before_l1bm_write(isa::Agent writer, int64_t base, std::vector<uint64_t> old);
  /// What a reader sees at an address that holds `value`.
  uint64_t look_l1bm(isa::Agent reader, int64_t address, uint64_t value) const;

  /// Does it as soon as `gap` steps are between, now when that is the next step.
  void later(int64_t gap, std::function<void()> write);
  /// Everything is written.
  void finish();

 private:
  struct Row {
    int64_t step;
    int cycle;
    isa::Space space;
    int64_t address;                 ///< of all lanes, if `addresses` is empty
    std::vector<int64_t> addresses;  ///< by lane
    std::vector<uint32_t> words;
  };
  struct Block {
    int64_t step;
    isa::Agent writer;
    int64_t base;
    std::vector<uint64_t> words;
  };
  template <typename AddressOf>
  void look_back(isa::Space space, int cycle, AddressOf&& address_of, uint32_t* row) const;

  isa::HazardGaps hazard_;
  int64_t l1bm_lw_;
  int lanes_;
  int64_t window_;
  int64_t step_ = 0;
  std::deque<Row> rows_;
  std::deque<Block> blocks_;
  std::deque<std::pair<int64_t, std::function<void()>>> later_;  ///< step from which on it is visible
};

}  // namespace kodama::simulator
