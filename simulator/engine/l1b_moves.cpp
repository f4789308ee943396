#include <algorithm>

#include "simulator/engine/l1b.h"

/// L1BM instructions: from L1BM or turnaround register to PEs, and back with reductions.
namespace kodama::simulator {
namespace {

using isa::Opcode;
using isa::Precision;
using isa::Space;
using isa::Width;

}  // namespace

void L1b::run_l1bm_to_pe(const MicroOp& op, const Counters& counters, Scratch& scratch,
                         CycleRows& result) const {
  const MicroOperand& source = op.sources[0];
  const bool wide = source.width == Width::kDoubleLong;
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
    auto broadcast = [&](int half, int pe, uint64_t value) {
      std::fill_n(out + 2 * half * words_ + pe * stride, stride, static_cast<uint32_t>(value >> 32));
      std::fill_n(out + (2 * half + 1) * words_ + pe * stride, stride, static_cast<uint32_t>(value));
    };
    const int halves = wide ? 2 : 1;
    for (int half = 0; half < halves; ++half) {
      for (int pe = 0; pe < isa::kPePerMab; ++pe) {
        switch (op.opcode) {
          case Opcode::kL1bmp:
            broadcast(half, pe, area[c + 4 * half]);
            break;
          case Opcode::kL1bmm:
            broadcast(half, pe, area[4 * halves * c + 4 * half + pe]);
            break;
          case Opcode::kL1bmm4:
            for (int m = 0; m < mabs_; ++m) {
              const uint64_t value = area[halves * mabs_ * c + 4 * halves * (m >> 2) + 4 * half + pe];
              out[2 * half * words_ + pe * stride + m] = static_cast<uint32_t>(value >> 32);
              out[(2 * half + 1) * words_ + pe * stride + m] = static_cast<uint32_t>(value);
            }
            break;
          default: {  // l1bmd
            const uint64_t* from = area + isa::kPePerMab * mabs_ * c + pe;
            uint32_t* upper = out + pe * stride;
            uint32_t* lower = out + words_ + pe * stride;
            if (op.rotation == 0) {
              for (int m = 0; m < mabs_; ++m) {
                const uint64_t value = from[4 * m];
                upper[m] = static_cast<uint32_t>(value >> 32);
                lower[m] = static_cast<uint32_t>(value);
              }
            } else {
              for (int m = 0; m < mabs_; ++m) {
                const uint64_t value = from[4 * ((m - op.rotation + mabs_) % mabs_)];
                upper[m] = static_cast<uint32_t>(value >> 32);
                lower[m] = static_cast<uint32_t>(value);
              }
            }
            break;
          }
        }
      }
    }
    const bool two = wide && op.opcode != Opcode::kL1bmd;
    result[c].word = {out, out + words_, two ? out + 2 * words_ : zero_row_,
                      two ? out + 3 * words_ : zero_row_};
  }
}

int64_t L1b::run_pe_to_l1bm(const MicroOp& op, const CycleRows& source, uint64_t* data) const {
  const bool wide = op.destinations[0].width == Width::kDoubleLong && op.opcode != Opcode::kL1bmd;
  const int halves = wide ? 2 : 1;
  const int stride = shape_.stride;
  std::array<uint64_t, 256> values;
  auto long_of = [&](int c, int half, int pe, int mab) {
    return long_at(source[c].word[2 * half], source[c].word[2 * half + 1], pe * stride + mab);
  };
  if (op.opcode == Opcode::kL1bmrffadd) {
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
    return 16;
  }
  for (int c = 0; c < 4; ++c) {
    for (int half = 0; half < halves; ++half) {
      for (int pe = 0; pe < isa::kPePerMab; ++pe) {
        switch (op.opcode) {
          case Opcode::kL1bmm:
            data[4 * halves * c + 4 * half + pe] = long_of(c, half, pe, op.unit_number);
            break;
          case Opcode::kL1bmr:
            for (int m = 0; m < mabs_; ++m) values[m] = long_of(c, half, pe, m);
            data[4 * halves * c + 4 * half + pe] =
                reduce_long_by_fours({values.data(), static_cast<size_t>(mabs_)}, op.reduce_op, op.precision);
            break;
          case Opcode::kL1bmm4:
            for (int q = 0; 4 * q < mabs_; ++q) {
              data[halves * mabs_ * c + 4 * halves * q + 4 * half + pe] =
                  long_of(c, half, pe, std::min(4 * q + op.unit_number, mabs_ - 1));
            }
            break;
          case Opcode::kL1bmr4:
            for (int q = 0; 4 * q < mabs_; ++q) {
              const int count = std::min(4, mabs_ - 4 * q);
              for (int k = 0; k < count; ++k) values[k] = long_of(c, half, pe, 4 * q + k);
              data[halves * mabs_ * c + 4 * halves * q + 4 * half + pe] =
                  reduce_long({values.data(), static_cast<size_t>(count)}, op.reduce_op, op.precision);
            }
            break;
          default:  // l1bmd
            for (int m = 0; m < mabs_; ++m) {
              data[isa::kPePerMab * (mabs_ * c + m) + pe] = long_of(c, 0, pe, m);
            }
            break;
        }
      }
    }
  }
  switch (op.opcode) {
    case Opcode::kL1bmd:
      return int64_t{16} * mabs_;
    case Opcode::kL1bmm4:
    case Opcode::kL1bmr4:
      return int64_t{4} * halves * mabs_;
    default:
      return int64_t{16} * halves;
  }
}

}  // namespace kodama::simulator
