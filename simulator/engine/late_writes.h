#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "isa/chip.h"

/// What the memories above the L1Bs show while writes are on their way (`--hazards=stale`); StaleView does it
/// for an L1B's. L2BMs keep what writes of the last steps replaced; what a transfer writes waits for who
/// waits for its tag.
namespace kodama::simulator {

class LateWrites {
 public:
  explicit LateWrites(const isa::Chip& chip);

  /// Before a write of an L2BM by a step: `old` = what is there, from `base` on.
  void before_l2bm_write(int l2b, int64_t step, int64_t base, std::vector<uint64_t> old);
  /// Step `step` is the present one: forgets what nobody can see any longer.
  void forget_l2bm(int l2b, int64_t step);
  /// What a reader in step `step` that needs `gap` steps after a write sees at an address that holds `value`.
  uint64_t look_l2bm(int l2b, int64_t address, uint64_t value, int64_t step, int64_t gap) const;

  /// Room for the 16 LW that a transfer with this tag will write to `target`.
  uint64_t* add_transfer(int tag, uint64_t* target);
  static constexpr int kAllTags = -1;
  /// Writes what transfers with this tag left.
  void finish_transfers(int tag);
  /// What is kept of transfers, in LW.
  int64_t transfers_lw() const { return static_cast<int64_t>(transfers_.size() * sizeof(Chunk) / 8); }

 private:
  struct OldL2bm {
    int64_t step;
    int64_t base;
    std::vector<uint64_t> words;
  };
  struct Chunk {
    int tag;
    uint64_t* target;
    std::array<uint64_t, 16> data;
  };

  int64_t window_;  ///< steps after which a write is seen by all
  int64_t l2bm_lw_;
  std::vector<std::deque<OldL2bm>> old_l2bm_;  ///< by L2B
  std::vector<Chunk> transfers_;
};

}  // namespace kodama::simulator
