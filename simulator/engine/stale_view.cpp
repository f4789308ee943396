#include "simulator/engine/stale_view.h"

#include <algorithm>

namespace kodama::simulator {

using isa::Agent;
using isa::Space;

StaleView::StaleView(const isa::Chip& chip, int lanes)
    : hazard_(chip.hazard), l1bm_lw_(chip.memory.l1bm_lw), lanes_(lanes) {
  window_ = 1 + std::max({hazard_.pe_gap(isa::kCyclesPerStep - 1, 0), hazard_.pe_to_l1bm_read,
                          hazard_.pe_to_l1bm_l2bm, hazard_.l2bm_to_l1bm_pe, hazard_.l2bm_to_l1bm_l2bm});
}

void StaleView::end_steps(int64_t count) {
  step_ += count;
  while (!rows_.empty() && step_ - rows_.front().step > window_) rows_.pop_front();
  while (!blocks_.empty() && step_ - blocks_.front().step > window_) blocks_.pop_front();
  // Writes of one kind stand in their order; kinds are independent of each other.
  for (const auto& [step, write] : later_) {
    if (step <= step_) write();
  }
  std::erase_if(later_, [&](const auto& each) { return each.first <= step_; });
}

void StaleView::finish() {
  for (const auto& [step, write] : later_) write();
  later_.clear();
  rows_.clear();
  blocks_.clear();
}

void StaleView::before_write(Space space, int cycle, int64_t address, const uint32_t* row) {
  rows_.push_back({step_, cycle, space, address, {}, {row, row + lanes_}});
}
void StaleView::before_write(Space space, int cycle, std::vector<int64_t> addresses,
                             std::vector<uint32_t> words) {
  rows_.push_back({step_, cycle, space, 0, std::move(addresses), std::move(words)});
}

bool StaleView::has_recent(Space space) const {
  return std::ranges::any_of(rows_, [&](const Row& row) { return row.space == space; });
}

template <typename AddressOf>
void StaleView::look_back(Space space, int cycle, AddressOf&& address_of, uint32_t* row) const {
  // From the newest write back to the first one that is visible; what was before each is older still.
  for (auto write = rows_.rbegin(); write != rows_.rend(); ++write) {
    if (write->space != space || write->step == step_) continue;
    const int64_t distance = isa::kCyclesPerStep * (step_ - write->step) + cycle - write->cycle;
    if (distance > hazard_.pe_write_complete_cycles) continue;
    for (int lane = 0; lane < lanes_; ++lane) {
      const int64_t written =
          write->addresses.empty() ? write->address : write->addresses[static_cast<size_t>(lane)];
      if (written == address_of(lane)) row[lane] = write->words[static_cast<size_t>(lane)];
    }
  }
}

void StaleView::look(Space space, int cycle, int64_t address, uint32_t* row) const {
  look_back(
      space, cycle, [&](int /*lane*/) { return address; }, row);
}
void StaleView::look(Space space, int cycle, const std::vector<int64_t>& addresses, uint32_t* row) const {
  look_back(
      space, cycle, [&](int lane) { return addresses[static_cast<size_t>(lane)]; }, row);
}

void StaleView::before_l1bm_write(Agent writer, int64_t base, std::vector<uint64_t> old) {
  blocks_.push_back({step_, writer, base, std::move(old)});
}

uint64_t StaleView::look_l1bm(Agent reader, int64_t address, uint64_t value) const {
  for (auto write = blocks_.rbegin(); write != blocks_.rend(); ++write) {
    if (write->step == step_) continue;
    const int64_t offset = ((address - write->base) % l1bm_lw_ + l1bm_lw_) % l1bm_lw_;
    if (offset >= static_cast<int64_t>(write->words.size())) continue;
    if (step_ - write->step > isa::l1bm_read_gap(write->writer, reader, hazard_))
      break;  // this write is what it sees
    value = write->words[static_cast<size_t>(offset)];
  }
  return value;
}

void StaleView::later(int64_t gap, std::function<void()> write) {
  if (gap == 0) {
    write();
  } else {
    later_.emplace_back(step_ + 1 + gap, std::move(write));
  }
}

}  // namespace kodama::simulator
