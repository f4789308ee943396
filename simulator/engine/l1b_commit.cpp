#include <algorithm>
#include <cstring>
#include <utility>

#include "simulator/engine/l1b.h"

/// What a step writes at its end: results under their masks, in memories and in registers.
namespace kodama::simulator {
namespace {

using isa::Space;

}  // namespace

L1b::CycleMask L1b::cycle_mask(const isa::Mask& mask, int cycle) const {
  CycleMask result;
  result.double_long = mask.double_long;
  int pattern = 15;
  if (mask.kind == isa::Mask::Kind::kPattern) {
    pattern = mask.value;
  } else if (mask.kind == isa::Mask::Kind::kRegister && mask.value >= 16) {
    pattern = mask.value - 16;
  } else if (mask.kind == isa::Mask::Kind::kRegister && mask.value != 0) {
    result.kind = CycleMask::Kind::kLanes;
    result.lanes = masks_ + (mask.value * 4 + cycle) * words_;
    return result;
  }
  result.kind = (pattern >> (3 - cycle) & 1) != 0 ? CycleMask::Kind::kAll : CycleMask::Kind::kNone;
  return result;
}

void L1b::copy_masked(uint32_t* to, const uint32_t* from, int word, const CycleMask& mask) const {
  if (mask.kind == CycleMask::Kind::kAll || !mask.governs(word)) {
    kernels_->copy_rows(shape_, from, 1, to);
  } else if (mask.kind == CycleMask::Kind::kLanes) {
    kernels_->masked_copy(shape_, from, mask.lanes, mask.high(word), mask.low(word), false, to);
  }
}

void L1b::zero_flush(const MicroOp& op, CycleRows& result) const {
  uint32_t* rows = result_rows(op.unit);
  for (int c = 0; c < 4; ++c) {
    const CycleMask mask = cycle_mask(op.zero_flush, c);
    if (mask.kind == CycleMask::Kind::kAll) continue;
    for (int w = 0; w < 4; ++w) {
      if (!mask.governs(w)) continue;
      if (mask.kind == CycleMask::Kind::kNone) {
        result[c].word[w] = zero_row_;
        continue;
      }
      // Rows of the result may be shared between words and cycles: flush into fresh ones.
      uint32_t* out = rows + (16 + c * 4 + w) * words_;
      kernels_->masked_copy(shape_, result[c].word[w], mask.lanes, mask.high(w), mask.low(w), true, out);
      result[c].word[w] = out;
    }
  }
}

void L1b::commit_memory(const MicroOperand& destination, const isa::Mask& mask, const CycleRows& result,
                        const Counters& counters) {
  uint32_t* memory = memory_of(destination.space);
  const int width = isa::words(destination.width);
  const bool plain = has_plain_addresses(destination);
  const std::array<int64_t, 4> addresses =
      plain ? plain_addresses(destination, counters) : std::array<int64_t, 4>{};
  if (plain && !stale_ && mask.kind == isa::Mask::Kind::kNone) {
    for (int c = 0; c < 4; ++c) {
      const auto& words = result[c].word;
      uint32_t* to = row(memory, addresses[c]);
      int together = 1;
      while (together < width && words[together] == words[0] + together * words_) ++together;
      if (together == width) {
        kernels_->copy_rows(shape_, words[0], width, to);
        continue;
      }
      for (int w = 0; w < width; ++w) kernels_->copy_rows(shape_, words[w], 1, to + w * words_);
    }
    return;
  }
  const int64_t base = destination.resolve(counters);
  // An LM's one port is taken until the last of the step's writes is through.
  int last_cycle = 0;
  for (int c = 0; c < 4; ++c) {
    if (cycle_mask(mask, c).kind != CycleMask::Kind::kNone) last_cycle = c;
  }
  for (int c = 0; c < 4; ++c) {
    const CycleMask cycle = cycle_mask(mask, c);
    const int seen_after = isa::is_local_memory(destination.space) ? last_cycle : c;
    if (plain) {
      for (int w = 0; w < width; ++w) {
        const int64_t address = addresses[c] + w;
        if (stale_) stale_->before_write(destination.space, seen_after, address, row(memory, address));
        copy_masked(row(memory, address), result[c].word[w], w, cycle);
      }
      continue;
    }
    if (stale_) {
      for (int w = 0; w < width; ++w) {
        std::vector<int64_t> addresses(static_cast<size_t>(words_));
        std::vector<uint32_t> old(static_cast<size_t>(words_));
        for (int lane = 0; lane < words_; ++lane) {
          addresses[lane] = lane_address(destination, base, c, lane) + w;
          old[lane] = memory[addresses[lane] * words_ + lane];
        }
        stale_->before_write(destination.space, seen_after, std::move(addresses), std::move(old));
      }
    }
    for (int lane = 0; lane < words_; ++lane) {
      const int64_t address = lane_address(destination, base, c, lane);
      const int bits = cycle.bits(lane);
      for (int w = 0; w < width; ++w) {
        uint32_t allowed = ~uint32_t{0};
        if (cycle.governs(w)) {
          allowed = ((bits >> cycle.high(w) & 1) != 0 ? 0xffff0000u : 0) |
                    ((bits >> cycle.low(w) & 1) != 0 ? 0xffffu : 0);
        }
        uint32_t& word = memory[(address + w) * words_ + lane];
        word = (result[c].word[w][lane] & allowed) | (word & ~allowed);
      }
    }
  }
}

L1b::CommitPhase L1b::phase_of(Space destination) {
  switch (destination) {
    case Space::kOmr:
      return CommitPhase::kMasks;
    case Space::kT:
    case Space::kBar0:
    case Space::kBar1:
      return CommitPhase::kAddresses;
    default:
      return CommitPhase::kMemories;
  }
}

void L1b::commit(const PendingWrite& write, const Node& node, const Counters& counters, CommitPhase phase) {
  for (const MicroOperand& destination : write.op->destinations) {
    if (destination.space == Space::kNoWrite || phase_of(destination.space) != phase) continue;
    const isa::Mask& mask =
        node.own_masks ? destination.mask
                       : block_masks_[static_cast<size_t>(isa::mask_statement_bit(destination.space))];
    const CycleRows& result = *write.result;
    switch (destination.space) {
      case Space::kT:
        for (int c = 0; c < 4; ++c) {
          const CycleMask cycle = cycle_mask(mask, c);
          for (int w = 0; w < 4; ++w) {
            if (stale_) stale_->before_write(Space::kT, c, c * 4 + w, t_ + (c * 4 + w) * words_);
            copy_masked(t_ + (c * 4 + w) * words_, result[c].word[w], w, cycle);
          }
        }
        break;
      case Space::kOmr: {
        std::vector<uint8_t> entry(static_cast<size_t>(4 * words_));
        for (int c = 0; c < 4; ++c) {
          const CycleMask cycle = cycle_mask(mask, c);
          const uint8_t* flags = write.flags + c * words_;
          for (int i = 0; i < words_; ++i) {
            entry[c * words_ + i] = static_cast<uint8_t>(flags[i] & cycle.bits(i));
          }
        }
        uint8_t* to = masks_ + destination.resolve(counters) * 4 * words_;
        if (stale_) {
          stale_->later(chip_->hazard.mask_write_use,
                        [to, entry = std::move(entry)] { std::memcpy(to, entry.data(), entry.size()); });
        } else {
          std::memcpy(to, entry.data(), entry.size());
        }
        break;
      }
      case Space::kBar0:
      case Space::kBar1: {
        const int which = destination.space == Space::kBar1 ? 1 : 0;
        std::vector<std::pair<uint32_t, bool>> written(static_cast<size_t>(words_));
        for (int c = 0; c < 4; ++c) {
          const CycleMask cycle = cycle_mask(mask, c);
          for (int i = 0; i < words_; ++i) {
            // The 12 bits lie in the lower half of the upper word.
            if ((cycle.bits(i) >> cycle.low(0) & 1) != 0) written[i] = {result[c].word[0][i] & 0xfff, true};
          }
        }
        if (stale_) {
          stale_->later(chip_->hazard.bar_write_use, [this, which, written] { write_bar(which, written); });
        } else {
          write_bar(which, written);
        }
        break;
      }
      default:
        commit_memory(destination, mask, result, counters);
        break;
    }
  }
}

void L1b::write_bar(int which, const std::vector<std::pair<uint32_t, bool>>& written) {
  for (int i = 0; i < words_; ++i) {
    if (written[i].second) bar_[which][i] = written[i].first;
  }
  bar_used_[which] = std::any_of(bar_[which], bar_[which] + words_, [](uint32_t bar) { return bar != 0; });
}

void L1b::put_turnaround(const uint64_t* data, int64_t count) {
  if (!stale_) {
    std::memcpy(turnaround_, data, static_cast<size_t>(count) * 8);
    return;
  }
  stale_->later(chip_->hazard.turnaround,
                [to = turnaround_, copy = std::vector<uint64_t>(data, data + count)] {
                  std::memcpy(to, copy.data(), copy.size() * 8);
                });
}

void L1b::commit_l1bm(const PendingL1bm& write, const Counters& counters) {
  const MicroOperand& destination = write.op->destinations[0];
  if (!stale_ && write.data == next_turnaround_ && write.count == window_lw(*chip_)) {
    std::swap(turnaround_, next_turnaround_);
  } else {
    put_turnaround(write.data, write.count);
  }
  if (destination.space != Space::kL1bm) return;
  const int64_t size = chip_->memory.l1bm_lw;
  const int64_t base = wrap(destination.resolve(counters), size);
  const int64_t first = std::min(write.count, size - base);
  if (stale_) {
    std::vector<uint64_t> old(static_cast<size_t>(write.count));
    for (int64_t k = 0; k < write.count; ++k) old[k] = l1bm_[wrap(base + k, size)];
    stale_->before_l1bm_write(isa::Agent::kPeToL1bm, base, std::move(old));
  }
  std::memcpy(l1bm_ + base, write.data, static_cast<size_t>(first) * 8);
  for (int64_t k = first; k < write.count; ++k) l1bm_[wrap(base + k, size)] = write.data[k];
}

void L1b::put_forward(size_t index, size_t unit) {
  const uint8_t which = next_result_[unit];
  if (!stale_ || chip_->hazard.forward == 0) {
    forward_[index] = {Forward::Kind::kResult, static_cast<uint8_t>(unit), which};
    return;
  }
  std::vector<uint32_t> rows;
  for (const Rows& cycle : result_words_[unit][which]) {
    for (const uint32_t* word : cycle.word) rows.insert(rows.end(), word, word + words_);
  }
  stale_->later(chip_->hazard.forward, [this, index, rows = std::move(rows)] {
    stale_forward_[index] = rows;
    for (int c = 0; c < 4; ++c) {
      for (int w = 0; w < 4; ++w)
        stale_words_[index][c].word[w] = stale_forward_[index].data() + (c * 4 + w) * words_;
    }
    forward_[index].kind = Forward::Kind::kStale;
  });
}

}  // namespace kodama::simulator
