#include "simulator/engine/late_writes.h"

#include <algorithm>
#include <utility>

#include "simulator/engine/l1b.h"

namespace kodama::simulator {

LateWrites::LateWrites(const isa::Chip& chip)
    : window_(1 + std::max(chip.hazard.l1bm_to_l2bm_read, chip.hazard.l1bm_to_l2bm_mv)),
      l2bm_lw_(chip.memory.l2bm_lw),
      old_l2bm_(static_cast<size_t>(chip.l2b_count())) {}

void LateWrites::before_l2bm_write(int l2b, int64_t step, int64_t base, std::vector<uint64_t> old) {
  old_l2bm_[static_cast<size_t>(l2b)].push_back({step, base, std::move(old)});
}

void LateWrites::forget_l2bm(int l2b, int64_t step) {
  std::deque<OldL2bm>& old = old_l2bm_[static_cast<size_t>(l2b)];
  while (!old.empty() && step - old.front().step > window_) old.pop_front();
}

uint64_t LateWrites::look_l2bm(int l2b, int64_t address, uint64_t value, int64_t step, int64_t gap) const {
  const std::deque<OldL2bm>& old = old_l2bm_[static_cast<size_t>(l2b)];
  for (auto write = old.rbegin(); write != old.rend(); ++write) {
    if (step - write->step > gap) break;
    const int64_t offset = wrap(address - write->base, l2bm_lw_);
    if (offset < static_cast<int64_t>(write->words.size())) value = write->words[static_cast<size_t>(offset)];
  }
  return value;
}

uint64_t* LateWrites::add_transfer(int tag, uint64_t* target) {
  return transfers_.emplace_back(Chunk{tag, target, {}}).data.data();
}

void LateWrites::finish_transfers(int tag) {
  auto meant = [tag](const Chunk& chunk) { return tag == kAllTags || chunk.tag == tag; };
  for (const Chunk& chunk : transfers_) {
    if (meant(chunk)) std::copy(chunk.data.begin(), chunk.data.end(), chunk.target);
  }
  std::erase_if(transfers_, meant);
}

}  // namespace kodama::simulator
