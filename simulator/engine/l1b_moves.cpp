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
  const int stride = shape_.stride;
  for (int c = 0; c < 4; ++c) {
    uint32_t* out = rows + c * 4 * words_;
    for (int half = 0; half < layout.halves; ++half) {
      for (int pe = 0; pe < isa::kPePerMab; ++pe) {
        uint32_t* upper = out + 2 * half * words_ + pe * stride;
        uint32_t* lower = upper + words_;
        if (layout.blocks == 1) {
          const uint64_t value = area[layout.offset(c, half, 0, pe)];
          std::fill_n(upper, stride, static_cast<uint32_t>(value >> 32));
          std::fill_n(lower, stride, static_cast<uint32_t>(value));
          continue;
        }
        const auto set = [&](int m, uint64_t value) {
          upper[m] = static_cast<uint32_t>(value >> 32);
          lower[m] = static_cast<uint32_t>(value);
        };
        if (layout.mabs_per_block == 1 && op.rotation == 0) {
          const uint64_t* from = area + layout.offset(c, half, 0, pe);
          const int64_t step = layout.offset(c, half, 1, pe) - layout.offset(c, half, 0, pe);
          for (int m = 0; m < mabs_; ++m) set(m, from[step * m]);
          continue;
        }
        for (int m = 0; m < mabs_; ++m) {
          const int mab = (m - op.rotation + mabs_) % mabs_;
          set(m, area[layout.offset(c, half, mab / layout.mabs_per_block, pe)]);
        }
      }
    }
    const bool two = layout.halves == 2;
    result[c].word = {out, out + words_, two ? out + 2 * words_ : zero_row_,
                      two ? out + 3 * words_ : zero_row_};
  }
}

void L1b::sum_to_halves(const MicroOp& op, const CycleRows& source, uint64_t* data) const {
  const int stride = shape_.stride;
  std::array<uint64_t, 256> values;
  // Words w0..wf of the PEs, reduced in single precision, rounded to half by the last stage.
  const bool from_half = op.precision == Precision::kHalf;
  for (int c = 0; c < 4; ++c) {
    std::array<uint64_t, 16> sums;
    for (int k = 0; k < 16; ++k) {
      for (int mab = 0; mab < mabs_; ++mab) {
        const int lane = (k >> 2) * stride + mab;
        if (from_half) {
          const uint32_t word = source[c].word[(k & 3) >> 1][lane];
          values[mab] =
              isa::convert((k & 1) == 0 ? word >> 16 : word & 0xffff, isa::kHalfFormat, isa::kFloatFormat);
        } else {
          values[mab] = source[c].word[k & 3][lane];
        }
      }
      std::array<uint64_t, 64> stage;
      size_t count = 0;
      for (int m = 0; m < mabs_; m += 4) {
        stage[count++] = reduce_fadd_stage({values.data() + m, static_cast<size_t>(std::min(4, mabs_ - m))},
                                           isa::kFloatFormat, isa::kFloatFormat);
      }
      sums[k] = reduce_fadd_stage({stage.data(), count}, isa::kFloatFormat, isa::kHalfFormat);
    }
    for (int i = 0; i < 4; ++i) {
      data[4 * c + i] = sums[2 * i] << 48 | sums[2 * i + 1] << 32 | sums[8 + 2 * i] << 16 | sums[9 + 2 * i];
    }
  }
}

int64_t L1b::run_pe_to_l1bm(const MicroOp& op, const CycleRows& source, uint64_t* data) const {
  using Rule = isa::Movement::Rule;
  const isa::L1bmLayout layout = isa::l1bm_layout(*op.movement, op.destinations[0].width, *chip_);
  const Rule rule = op.movement->rule;
  if (rule == Rule::kHalfSum) {
    sum_to_halves(op, source, data);
    return layout.lw();
  }
  const int stride = shape_.stride;
  const int shared = layout.mabs_per_block;
  for (int c = 0; c < 4; ++c) {
    for (int half = 0; half < layout.halves; ++half) {
      for (int pe = 0; pe < isa::kPePerMab; ++pe) {
        const auto long_of = [&](int mab) {
          return long_at(source[c].word[2 * half], source[c].word[2 * half + 1], pe * stride + mab);
        };
        for (int block = 0; block < layout.blocks; ++block) {
          uint64_t& to = data[layout.offset(c, half, block, pe)];
          const int first = shared * block;
          if (rule == Rule::kReduced) {
            std::array<uint64_t, 256> values;
            for (int k = 0; k < shared; ++k) values[static_cast<size_t>(k)] = long_of(first + k);
            to = reduce_long_by_fours({values.data(), static_cast<size_t>(shared)}, op.reduce_op,
                                      op.precision);
          } else {
            to = long_of(first + (rule == Rule::kOneOf ? op.unit_number : 0));
          }
        }
      }
    }
  }
  return layout.lw();
}

}  // namespace kodama::simulator
