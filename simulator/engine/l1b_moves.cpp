#include <algorithm>

#include "isa/move_places.h"
#include "simulator/engine/l1b.h"

/// L1BM instructions: from L1BM or turnaround register to PEs, and back with reductions.
namespace kodama::simulator {

using isa::Precision;
using isa::Space;

void L1b::run_l1bm_to_pe(const MicroOp& op, const Counters& counters, Scratch& scratch,
                         CycleRows& result) const {
  const MicroOperand& source = op.sources[0];
  const isa::L1bmLayout layout = isa::l1bm_layout(*op.movement, source.width, *chip_);
  const int64_t window = window_lw(*chip_);
  const uint64_t* area = turnaround_;
  if (source.space == Space::kL1bm) {
    const int64_t size = chip_->memory.l1bm_lw;
    const int64_t base = wrap(source.resolve(counters), size);
    area = l1bm_ + base;
    if (base + window > size || stale_) {
      uint64_t* copy = scratch.l1bm_window();
      for (int64_t i = 0; i < window; ++i) {
        const int64_t address = wrap(base + i, size);
        copy[i] = stale_ ? stale_->look_l1bm(isa::Agent::kL1bmToPe, address, l1bm_[address]) : l1bm_[address];
      }
      area = copy;
    }
  }
  uint32_t* rows = result_rows(op.unit);
  for (int c = 0; c < 4; ++c) {
    uint32_t* out = rows + c * 4 * words_;
    for (int half = 0; half < layout.halves; ++half) {
      uint32_t* upper = out + 2 * half * words_;
      longs_to_rows(layout, area, c, half, op.rotation, upper, upper + words_);
    }
    const bool two = layout.halves == 2;
    result[c].word = {out, out + words_, two ? out + 2 * words_ : zero_row_,
                      two ? out + 3 * words_ : zero_row_};
  }
}

/// Whether every MAB has four LW of its own, side by side, and rows have no padding.
bool L1b::is_dealt(const isa::L1bmLayout& layout) const {
  return layout.mabs_per_block == 1 && layout.halves == 1 && !layout.one_for_all_pes &&
         mabs_ == shape_.stride;
}

void L1b::longs_to_rows(const isa::L1bmLayout& layout, const uint64_t* area, int cycle, int half,
                        int rotation, uint32_t* upper, uint32_t* lower) const {
  const int stride = shape_.stride;
  const int shared = layout.mabs_per_block;
  const auto offset = [&](int block, int pe) { return layout.offset(cycle, half, block, pe); };
  if (is_dealt(layout) && rotation == 0) {
    kernels_->deal_longs(shape_, area + offset(0, 0), upper, lower);
    return;
  }
  if (layout.blocks == 1 || (shared % 4 == 0 && rotation == 0 && mabs_ == stride)) {
    const int64_t block_step = layout.blocks == 1 ? 0 : offset(1, 0) - offset(0, 0);
    kernels_->spread_longs(shape_, area + offset(0, 0), offset(0, 1) - offset(0, 0), block_step,
                           layout.blocks == 1 ? stride : shared, upper, lower);
    return;
  }
  for (int pe = 0; pe < isa::kPePerMab; ++pe, upper += stride, lower += stride) {
    for (int m = 0; m < mabs_; ++m) {
      const uint64_t value = area[offset((m - rotation + mabs_) % mabs_ / shared, pe)];
      upper[m] = static_cast<uint32_t>(value >> 32);
      lower[m] = static_cast<uint32_t>(value);
    }
  }
}

void L1b::sum_to_halves(const MicroOp& op, const CycleRows& source, Scratch& scratch, uint64_t* data) const {
  // Words w0..wf of the PEs, reduced in single precision, rounded to half by the last stage.
  const bool from_half = op.precision == Precision::kHalf;
  uint32_t* rows = scratch.rows();
  for (int c = 0; c < 4; ++c) {
    std::array<const uint32_t*, 4> words = source[c].word;
    if (from_half) {
      for (int w = 0; w < 4; w += 2) {
        uint32_t* wide = rows + w * words_;
        kernels_->widen_half(shape_, source[c].word[w / 2], wide, wide + words_);
        words[w] = wide;
        words[w + 1] = wide + words_;
      }
    }
    std::array<uint64_t, 16> sums;  // [PE][word]
    for (int w = 0; w < 4; ++w) {
      std::array<uint32_t, isa::kPePerMab> of_pes;
      sum_row(words[w], true, of_pes);
      for (size_t pe = 0; pe < of_pes.size(); ++pe) sums[4 * pe + w] = of_pes[pe];
    }
    for (int i = 0; i < 4; ++i) {
      data[4 * c + i] = sums[2 * i] << 48 | sums[2 * i + 1] << 32 | sums[8 + 2 * i] << 16 | sums[9 + 2 * i];
    }
  }
}

void L1b::sum_row(const uint32_t* row, bool to_half, std::array<uint32_t, isa::kPePerMab>& sums) const {
  const isa::FloatFormat format = to_half ? isa::kHalfFormat : isa::kFloatFormat;
  std::array<uint32_t, 4 * kRowGranule> stage;
  if (mabs_ == kRowGranule) {
    kernels_->sum_fours[0](row, words_, stage.data());
    // The kernel takes four times as many.
    std::fill(stage.begin() + kRowGranule, stage.end(), 0);
    std::array<uint32_t, kRowGranule> all;
    kernels_->sum_fours[to_half](stage.data(), static_cast<int>(stage.size()), all.data());
    std::copy_n(all.begin(), sums.size(), sums.begin());
    return;
  }
  for (int pe = 0; pe < isa::kPePerMab; ++pe) {
    std::array<uint64_t, 256> values;
    std::array<uint64_t, 64> fours;
    std::copy_n(row + pe * shape_.stride, mabs_, values.begin());
    size_t count = 0;
    for (int m = 0; m < mabs_; m += 4) {
      fours[count++] = reduce_fadd_stage({values.data() + m, static_cast<size_t>(std::min(4, mabs_ - m))},
                                         isa::kFloatFormat, isa::kFloatFormat);
    }
    sums[static_cast<size_t>(pe)] =
        static_cast<uint32_t>(reduce_fadd_stage({fours.data(), count}, isa::kFloatFormat, format));
  }
}

bool L1b::sum_floats(const isa::L1bmLayout& layout, const CycleRows& source, uint64_t* data) const {
  if (mabs_ != kRowGranule) return false;
  const int shared = layout.mabs_per_block;
  if (shared != 4 && shared != kRowGranule) return false;
  constexpr int kFours = kRowGranule / 4;  // of a PE
  // Both words of the LW of four cycles.
  std::array<uint32_t, 8 * 4 * kFours> fours;
  std::array<uint32_t, 8 * 4> all;
  for (int half = 0; half < layout.halves; ++half) {
    for (int c = 0; c < 4; ++c) {
      for (int w = 0; w < 2; ++w)
        kernels_->sum_fours[0](source[c].word[2 * half + w], words_, fours.data() + (2 * c + w) * 4 * kFours);
    }
    if (shared == kRowGranule)
      kernels_->sum_fours[0](fours.data(), static_cast<int>(fours.size()), all.data());
    const uint32_t* sums = shared == kRowGranule ? all.data() : fours.data();
    const int row = isa::kPePerMab * layout.blocks;
    for (int c = 0; c < 4; ++c) {
      for (int k = 0; k < row; ++k) {
        const uint32_t* upper = sums + 2 * c * row + k;
        data[layout.offset(c, half, k % layout.blocks, k / layout.blocks)] = long_at(upper, upper + row, 0);
      }
    }
  }
  return true;
}

int64_t L1b::run_pe_to_l1bm(const MicroOp& op, const CycleRows& source, Scratch& scratch,
                            uint64_t* data) const {
  using Rule = isa::Movement::Rule;
  const isa::L1bmLayout layout = isa::l1bm_layout(*op.movement, op.destinations[0].width, *chip_);
  const Rule rule = op.movement->rule;
  if (rule == Rule::kHalfSum) {
    sum_to_halves(op, source, scratch, data);
    return layout.lw();
  }
  if (rule == Rule::kReduced && op.reduce_op == isa::ReduceOp::kFadd && op.precision == Precision::kFloat &&
      sum_floats(layout, source, data))
    return layout.lw();
  const int stride = shape_.stride;
  const int shared = layout.mabs_per_block;
  for (int c = 0; c < 4; ++c) {
    for (int half = 0; half < layout.halves; ++half) {
      if (is_dealt(layout) && rule != Rule::kReduced) {
        kernels_->collect_longs(shape_, source[c].word[2 * half], source[c].word[2 * half + 1],
                                data + layout.offset(c, half, 0, 0));
        continue;
      }
      const uint32_t* upper = source[c].word[2 * half];
      const uint32_t* lower = source[c].word[2 * half + 1];
      const int chosen = rule == Rule::kOneOf ? op.unit_number : 0;
      for (int pe = 0; pe < isa::kPePerMab; ++pe) {
        for (int block = 0; block < layout.blocks; ++block) {
          uint64_t& to = data[layout.offset(c, half, block, pe)];
          const int first = pe * stride + shared * block;
          if (rule != Rule::kReduced) {
            to = long_at(upper, lower, first + chosen);
            continue;
          }
          std::array<uint64_t, 256> values;
          for (int k = 0; k < shared; ++k) values[static_cast<size_t>(k)] = long_at(upper, lower, first + k);
          to = reduce_long_by_fours({values.data(), static_cast<size_t>(shared)}, op.reduce_op, op.precision);
        }
      }
    }
  }
  return layout.lw();
}

}  // namespace kodama::simulator
