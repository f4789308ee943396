#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "isa/error.h"
#include "simulator/engine/l1b.h"

/// Operands of PEs: their addresses, their rows, and the conversions e, r and -.
namespace kodama::simulator {
namespace {

using isa::Precision;
using isa::Space;

}  // namespace

bool L1b::has_plain_addresses(const MicroOperand& operand) const {
  if (operand.t_indirect || operand.j >= 0) return false;
  if (operand.space == Space::kLm0) return !bar_used_[0];
  if (operand.space == Space::kLm1) return !bar_used_[1];
  return true;
}

int64_t L1b::lane_address(const MicroOperand& operand, int64_t base, int cycle, int lane) const {
  int64_t address = base + operand.offset[cycle];
  if (operand.space == Space::kLm0) address += bar_[0][lane];
  if (operand.space == Space::kLm1) address += bar_[1][lane];
  const uint32_t* t = stale_ ? stale_t_.data() : t_;
  if (operand.t_indirect) address += t[(cycle * 4 + 1) * words_ + lane] & 0xfff;
  const int width = isa::words(operand.width);
  if (operand.j >= 0 && lane / shape_.stride <= operand.j) address += width;
  return row_address(address, operand.width, size_of(operand.space));
}

const CycleRows& L1b::forwarded(size_t index) const {
  const Forward& forward = forward_[index];
  switch (forward.kind) {
    case Forward::Kind::kResult:
      return result_words_[forward.unit][forward.which];
    case Forward::Kind::kStale:
      return stale_words_[index];
    default:
      return zeros_;
  }
}

LaneAddresses L1b::lane_addresses(const MicroOperand& operand, int64_t base, int cycle) const {
  const int64_t size = size_of(operand.space);
  const int which = operand.space == Space::kLm1 ? 1 : 0;
  return {.base = static_cast<int32_t>(wrap(base + operand.offset[cycle], size)),
          .mask = static_cast<uint32_t>(size - 1),
          .width = isa::words(operand.width),
          .bar = isa::is_local_memory(operand.space) && bar_used_[which] ? bar_[which] : nullptr,
          .t = operand.t_indirect ? (stale_ ? stale_t_.data() : t_) + (cycle * 4 + 1) * words_ : nullptr,
          .further_before = (operand.j + 1) * shape_.stride};
}

std::array<int64_t, 4> L1b::plain_addresses(const MicroOperand& operand, const Counters& counters) const {
  std::array<int64_t, 4> addresses;
  if (operand.loop_depth == 0) {
    std::copy(operand.place.begin(), operand.place.end(), addresses.begin());
    return addresses;
  }
  const int64_t base = operand.resolve(counters), size = size_of(operand.space);
  for (int c = 0; c < 4; ++c) addresses[c] = row_address(base + operand.offset[c], operand.width, size);
  return addresses;
}

int64_t L1b::operand_address(const isa::Operand& operand, int mab, int pe, int cycle) const {
  MicroOperand micro;
  micro.space = operand.space;
  micro.width = operand.width;
  micro.t_indirect = operand.t_indirect;
  micro.j = operand.j;
  return lane_address(micro, operand.address(cycle), cycle, pe * shape_.stride + mab);
}

void L1b::fetch_constant(isa::FixedConstant constant, Precision precision, Scratch& scratch,
                         CycleRows& value) const {
  uint32_t* rows = scratch.rows();
  const int lanes = precision == Precision::kNone ? 1 : isa::lanes(precision);
  for (int pe = 0; pe < isa::kPePerMab; ++pe) {
    for (int mab = 0; mab < shape_.stride; ++mab) {
      uint32_t number = 0;
      bool top = false;
      switch (constant) {
        case isa::FixedConstant::kL2bid:
          number = static_cast<uint32_t>(l2b_number_);
          break;
        case isa::FixedConstant::kL1bid:
          number = static_cast<uint32_t>(l1b_number_);
          break;
        case isa::FixedConstant::kMabid:
          number = static_cast<uint32_t>(mab);
          break;
        case isa::FixedConstant::kPeid:
          number = static_cast<uint32_t>(isa::kPePerMab * mab + pe);
          break;
        case isa::FixedConstant::kSubpeid:
          number = static_cast<uint32_t>(pe);
          break;
        case isa::FixedConstant::kMsb1:
          top = true;
          break;
      }
      uint32_t upper = 0;
      uint32_t lower = 0;
      if (lanes == 1) {
        upper = top ? 0x80000000u : 0;
        lower = number;
      } else if (lanes == 2) {
        upper = lower = top ? 0x80000000u : number;
      } else {
        upper = lower = top ? 0x80008000u : (number << 16 | (number & 0xffff));
      }
      rows[pe * shape_.stride + mab] = upper;
      rows[words_ + pe * shape_.stride + mab] = lower;
    }
  }
  for (Rows& cycle : value) cycle.word = {rows, rows + words_, rows, rows + words_};
}

void L1b::fetch(const MicroOperand& operand, Precision precision, const Counters& counters, Scratch& scratch,
                CycleRows& value) const {
  switch (operand.space) {
    case Space::kLm0:
    case Space::kLm1:
    case Space::kGrf0:
    case Space::kGrf1: {
      const uint32_t* memory = memory_of(operand.space);
      const int width = isa::words(operand.width);
      const int64_t base = operand.resolve(counters);
      if (stale_ && stale_->has_recent(operand.space)) {
        uint32_t* rows = scratch.rows();
        std::vector<int64_t> addresses(static_cast<size_t>(words_));
        for (int c = 0; c < 4; ++c) {
          for (int w = 0; w < width; ++w) {
            uint32_t* out = rows + (c * 4 + w) * words_;
            for (int lane = 0; lane < words_; ++lane) {
              addresses[lane] = lane_address(operand, base, c, lane) + w;
              out[lane] = memory[addresses[lane] * words_ + lane];
            }
            stale_->look(operand.space, isa::is_local_memory(operand.space) ? 0 : c, addresses, out);
          }
          for (int w = 0; w < 4; ++w) value[c].word[w] = w < width ? rows + (c * 4 + w) * words_ : zero_row_;
        }
        return;
      }
      if (has_plain_addresses(operand)) {
        const std::array<int64_t, 4> addresses = plain_addresses(operand, counters);
        for (int c = 0; c < 4; ++c) {
          const uint32_t* first = memory + addresses[c] * words_;
          value[c].word = {first, width > 1 ? first + words_ : zero_row_,
                           width > 2 ? first + 2 * words_ : zero_row_,
                           width > 2 ? first + 3 * words_ : zero_row_};
        }
        return;
      }
      uint32_t* rows = scratch.rows();
      const int64_t size = size_of(operand.space);
      for (int c = 0; c < 4; ++c) {
        if (std::has_single_bit(static_cast<uint64_t>(size)) && size * words_ <= INT32_MAX) {
          kernels_->gather(shape_, memory, lane_addresses(operand, base, c), rows + c * 4 * words_);
          for (int w = 0; w < 4; ++w) value[c].word[w] = w < width ? rows + (c * 4 + w) * words_ : zero_row_;
          continue;
        }
        for (int lane = 0; lane < words_; ++lane) {
          const int64_t address = lane_address(operand, base, c, lane);
          for (int w = 0; w < width; ++w)
            rows[(c * 4 + w) * words_ + lane] = memory[(address + w) * words_ + lane];
        }
        for (int w = 0; w < 4; ++w) value[c].word[w] = w < width ? rows + (c * 4 + w) * words_ : zero_row_;
      }
      return;
    }
    case Space::kT:
      for (int c = 0; c < 4; ++c) {
        const uint32_t* t = stale_ ? stale_t_.data() : t_;
        for (int w = 0; w < 4; ++w) value[c].word[w] = t + (c * 4 + w) * words_;
      }
      return;
    case Space::kAluf:
      value = forwarded(0);
      return;
    case Space::kMauf:
      value = forwarded(1);
      return;
    case Space::kLbf:
      value = forwarded(2);
      return;
    case Space::kMreadf:
      value = forwarded(3);
      return;
    case Space::kConstant:
      fetch_constant(static_cast<isa::FixedConstant>(operand.resolve(counters)), precision, scratch, value);
      return;
    default:
      throw isa::InternalError("internal error in simulator: not a source of a PE");
  }
}

void L1b::fetch_converted(const MicroOperand& operand, Precision precision, bool addend,
                          const Counters& counters, Scratch& scratch, CycleRows& value) const {
  fetch(operand, precision, counters, scratch, value);
  if (operand.reduce) {
    // {h,l} holds four floats; four halves in h result.
    uint32_t* rows = scratch.rows();
    for (int c = 0; c < 4; ++c) {
      uint32_t* out = rows + c * 2 * words_;
      for (int w = 0; w < 2; ++w) {
        kernels_->narrow_float(shape_, value[c].word[2 * w], value[c].word[2 * w + 1], out + w * words_);
      }
      value[c].word = {out, out + words_, zero_row_, zero_row_};
    }
  }
  if (operand.extend) {
    uint32_t* rows = scratch.rows();
    for (int c = 0; c < 4; ++c) {
      uint32_t* out = rows + c * 4 * words_;
      if (precision == Precision::kDouble) {
        kernels_->widen_float(shape_, value[c].word[0], out, out + words_);
        value[c].word = {out, out + words_, zero_row_, zero_row_};
      } else {
        kernels_->widen_half(shape_, value[c].word[0], out, out + words_);
        if (precision == Precision::kHalf) {
          kernels_->widen_half(shape_, value[c].word[1], out + 2 * words_, out + 3 * words_);
          value[c].word = {out, out + words_, out + 2 * words_, out + 3 * words_};
        } else {
          value[c].word = {out, out + words_, zero_row_, zero_row_};
        }
      }
    }
  }
  if (operand.negate) {
    uint32_t* rows = scratch.rows();
    const uint32_t pattern = precision == Precision::kHalf && !addend ? 0x80008000u : 0x80000000u;
    for (int c = 0; c < 4; ++c) {
      for (int w = 0; w < 4; ++w) {
        if (precision == Precision::kDouble && w % 2 == 1) continue;
        uint32_t* out = rows + (c * 4 + w) * words_;
        kernels_->flip(shape_, value[c].word[w], pattern, out);
        value[c].word[w] = out;
      }
    }
  }
}

}  // namespace kodama::simulator
