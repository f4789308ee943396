#include "simulator/l1b.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "isa/error.h"

namespace kodama::simulator {
namespace {

using isa::Opcode;
using isa::Precision;
using isa::Space;
using isa::Width;

constexpr int kUnitCount = kResultUnits;
/// Rows of a result: four words of four cycles, and as many again for what zero flush leaves of them.
constexpr int kResultRows = 32;

int forward_of(Unit unit) {
  switch (unit) {
    case Unit::kAlu:
      return 0;
    case Unit::kMau:
      return 1;
    case Unit::kL1bm:
    case Unit::kTurnaround:
      return 2;
    default:
      return 3;
  }
}

bool is_l1bm_side(Space space) {
  return space == Space::kL1bm || space == Space::kTurnaround;
}

uint64_t long_at(const uint32_t* upper, const uint32_t* lower, int lane) {
  return (uint64_t{upper[lane]} << 32) | lower[lane];
}

}  // namespace

// ---------------------------------------------------------------------------------------------------
// State.

Scratch::Scratch(const RowShape& shape, int mabs)
    : row_words_(static_cast<size_t>(shape.words())),
      rows_(kSlots * 16 * row_words_),
      flags_(kResultUnits * 4 * row_words_) {
  const size_t window = static_cast<size_t>(std::max(64, 16 * mabs));
  for (auto& data : l1bm_data_) data.resize(window);
  l1bm_window_.resize(window);
}

RowShape L1b::row_shape(const isa::Chip& chip) {
  return {(chip.mab_per_l1b + kRowGranule - 1) / kRowGranule * kRowGranule};
}

int64_t L1b::window_lw(const isa::Chip& chip) {
  return std::max(64, 16 * chip.mab_per_l1b);
}

L1b::L1b(const isa::Chip& chip, const KernelTable& kernels, int l2b, int l1b)
    : chip_(&chip),
      kernels_(&kernels),
      shape_(row_shape(chip)),
      words_(shape_.words()),
      mabs_(chip.mab_per_l1b),
      l2b_number_(l2b),
      l1b_number_(l1b) {
  const auto words = static_cast<size_t>(words_);
  const auto decoded_bytes = size_t{128} * shape_.stride * sizeof(double);
  // One mapping, taken apart in pieces that are multiples of a cache line.
  size_t total = 0;
  auto piece = [&total](size_t bytes) {
    const size_t offset = total;
    total += (bytes + 63) / 64 * 64;
    return offset;
  };
  const size_t row_bytes = words * sizeof(uint32_t);
  const size_t lm0 = piece(chip.memory.lm_words * row_bytes);
  const size_t lm1 = piece(chip.memory.lm_words * row_bytes);
  const size_t grf0 = piece(chip.memory.grf_words * row_bytes);
  const size_t grf1 = piece(chip.memory.grf_words * row_bytes);
  const size_t t = piece(16 * row_bytes);
  const size_t masks = piece(static_cast<size_t>(chip.memory.mask_entries) * 4 * words);
  const size_t bar = piece(2 * row_bytes);
  const size_t raw = piece(2 * 32 * row_bytes);
  const size_t decoded = piece(2 * decoded_bytes);
  const size_t l1bm = piece(static_cast<size_t>(chip.memory.l1bm_lw) * 8);
  const size_t turnaround = piece(static_cast<size_t>(window_lw(chip)) * 8);
  const size_t zero = piece(row_bytes);
  const size_t results = piece(static_cast<size_t>(kUnitCount) * 2 * kResultRows * row_bytes);
  storage_ = MappedMemory(total);
  auto* start = static_cast<unsigned char*>(storage_.data());
  auto at = [start](size_t offset) { return reinterpret_cast<uint32_t*>(start + offset); };
  lm_ = {at(lm0), at(lm1)};
  grf_ = {at(grf0), at(grf1)};
  t_ = at(t);
  masks_ = start + masks;
  bar_ = {at(bar), at(bar + row_bytes)};
  for (size_t i = 0; i < 2; ++i) {
    matrix_[i].raw = at(raw + i * 32 * row_bytes);
    matrix_[i].decoded = start + decoded + i * decoded_bytes;
  }
  l1bm_ = reinterpret_cast<uint64_t*>(start + l1bm);
  turnaround_ = reinterpret_cast<uint64_t*>(start + turnaround);
  zero_row_ = at(zero);
  for (size_t unit = 0; unit < kUnitCount; ++unit) {
    for (size_t k = 0; k < 2; ++k) results_[unit][k] = at(results + (unit * 2 + k) * kResultRows * row_bytes);
  }
  for (CycleRows& forward : forward_) {
    for (Rows& rows : forward) rows.word.fill(zero_row_);
  }
}

uint32_t* L1b::memory_of(Space space) const {
  switch (space) {
    case Space::kLm0:
      return lm_[0];
    case Space::kLm1:
      return lm_[1];
    case Space::kGrf0:
      return grf_[0];
    case Space::kGrf1:
      return grf_[1];
    default:
      return nullptr;
  }
}

int64_t L1b::size_of(Space space) const {
  return space == Space::kLm0 || space == Space::kLm1 ? chip_->memory.lm_words : chip_->memory.grf_words;
}

uint64_t L1b::read(Space space, int mab, int pe, int64_t address) const {
  const int lane = pe * shape_.stride + mab;
  switch (space) {
    case Space::kLm0:
    case Space::kLm1:
    case Space::kGrf0:
    case Space::kGrf1: {
      const uint32_t* rows = memory_of(space) + address * words_;
      return long_at(rows, rows + words_, lane);
    }
    case Space::kT: {
      const uint32_t* rows = t_ + ((address & 3) * 4 + (address >> 2) * 2) * words_;
      return long_at(rows, rows + words_, lane);
    }
    case Space::kAluf:
    case Space::kMauf:
    case Space::kLbf:
    case Space::kMreadf: {
      const size_t which = space == Space::kAluf   ? 0
                           : space == Space::kMauf ? 1
                           : space == Space::kLbf  ? 2
                                                   : 3;
      const Rows& rows = forward_[which][static_cast<size_t>(address & 3)];
      const auto first = static_cast<size_t>(address >> 2) * 2;
      return long_at(rows.word[first], rows.word[first + 1], lane);
    }
    case Space::kTurnaround:
      return turnaround_[address];
    case Space::kOmr:
      return masks_[address * words_ + lane];
    case Space::kBar0:
    case Space::kBar1:
      return bar_[space == Space::kBar1][lane];
    case Space::kMatX:
    case Space::kMatY: {
      const uint32_t* rows = matrix_[space == Space::kMatY].raw + (address >> 2) * 2 * words_;
      return long_at(rows, rows + words_, static_cast<int>(address & 3) * shape_.stride + mab);
    }
    default:
      return l1bm_[address];
  }
}

void L1b::write(Space space, int mab, int pe, int64_t address, uint64_t value) {
  const int lane = pe * shape_.stride + mab;
  auto store = [&](uint32_t* rows, int at) {
    rows[at] = static_cast<uint32_t>(value >> 32);
    rows[words_ + at] = static_cast<uint32_t>(value);
  };
  switch (space) {
    case Space::kLm0:
    case Space::kLm1:
    case Space::kGrf0:
    case Space::kGrf1:
      store(memory_of(space) + address * words_, lane);
      break;
    case Space::kT:
      store(t_ + ((address & 3) * 4 + (address >> 2) * 2) * words_, lane);
      break;
    case Space::kOmr:
      masks_[address * words_ + lane] = static_cast<uint8_t>(value & 15);
      break;
    case Space::kBar0:
    case Space::kBar1:
      bar_[space == Space::kBar1][lane] = static_cast<uint32_t>(value & 0xfff);
      bar_used_[space == Space::kBar1] = true;
      break;
    case Space::kMatX:
    case Space::kMatY: {
      Matrix& matrix = matrix_[space == Space::kMatY];
      store(matrix.raw + (address >> 2) * 2 * words_, static_cast<int>(address & 3) * shape_.stride + mab);
      matrix.valid = 0;
      break;
    }
    default:
      l1bm_[address] = value;
  }
}

void L1b::fill_pseudo_random(uint64_t seed) {
  uint64_t state =
      seed * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(l2b_number_ * chip_->l1b_per_l2b + l1b_number_);
  auto next = [&state] {
    state += 0x9e3779b97f4a7c15ull;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  };
  auto fill = [&](uint32_t* begin, int64_t rows) {
    for (int64_t i = 0; i < rows * words_; ++i) begin[i] = static_cast<uint32_t>(next());
  };
  for (int k = 0; k < 2; ++k) {
    fill(lm_[k], chip_->memory.lm_words);
    fill(grf_[k], chip_->memory.grf_words);
    fill(matrix_[k].raw, 32);
    matrix_[k].valid = 0;
  }
  fill(t_, 16);
  for (int64_t i = 0; i < chip_->memory.mask_entries * 4 * words_; ++i)
    masks_[i] = static_cast<uint8_t>(next() & 15);
  for (int64_t i = 0; i < chip_->memory.l1bm_lw; ++i) l1bm_[i] = next();
}

void L1b::set_block_mask(const isa::MaskControl& control) {
  // There is one block mask: a new statement replaces it.
  block_masks_ = {};
  if (control.entry == 0) return;
  for (int i = 0; i < 6; ++i) {
    if ((control.spaces >> i & 1) == 0) continue;
    block_masks_[i] = {isa::Mask::Kind::kRegister, control.entry, control.double_long, 0};
  }
}

// ---------------------------------------------------------------------------------------------------
// Operands.

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
  return wrap(address, size_of(operand.space)) & ~int64_t{width - 1};
}

int64_t L1b::operand_address(const isa::Operand& operand, int mab, int pe, int cycle) const {
  MicroOperand micro;
  micro.space = operand.space;
  micro.width = operand.width;
  micro.t_indirect = operand.t_indirect;
  micro.j = operand.j;
  return lane_address(micro, operand.address(cycle), cycle, pe * shape_.stride + mab);
}

void L1b::fetch_constant(const MicroOperand& operand, Precision precision, Scratch& scratch,
                         CycleRows& value) const {
  uint32_t* rows = scratch.rows();
  const int lanes = precision == Precision::kNone ? 1 : isa::lanes(precision);
  for (int pe = 0; pe < isa::kPePerMab; ++pe) {
    for (int mab = 0; mab < shape_.stride; ++mab) {
      uint32_t number = 0;
      bool top = false;
      switch (static_cast<isa::FixedConstant>(operand.base)) {
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
        const int64_t size = size_of(operand.space);
        for (int c = 0; c < 4; ++c) {
          const int64_t address = wrap(base + operand.offset[c], size) & ~int64_t{width - 1};
          for (int w = 0; w < 4; ++w) {
            value[c].word[w] = w < width ? memory + (address + w) * words_ : zero_row_;
          }
        }
        return;
      }
      uint32_t* rows = scratch.rows();
      for (int c = 0; c < 4; ++c) {
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
      value = forward_[0];
      return;
    case Space::kMauf:
      value = forward_[1];
      return;
    case Space::kLbf:
      value = forward_[2];
      return;
    case Space::kMreadf:
      value = forward_[3];
      return;
    case Space::kConstant:
      fetch_constant(operand, precision, scratch, value);
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
        for (int lane = 0; lane < words_; ++lane) {
          const uint64_t wide = isa::convert(value[c].word[0][lane], isa::kFloatFormat, isa::kDoubleFormat);
          out[lane] = static_cast<uint32_t>(wide >> 32);
          out[words_ + lane] = static_cast<uint32_t>(wide);
        }
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

uint32_t* L1b::result_rows(Unit unit) const {
  const auto index = static_cast<size_t>(unit);
  return results_[index][next_result_[index]];
}

// ---------------------------------------------------------------------------------------------------
// Units.

void L1b::run_alu(const MicroOp& op, const Counters& counters, Scratch& scratch, CycleRows& result,
                  uint8_t* flags) {
  uint32_t* rows = result_rows(Unit::kAlu);
  if (op.opcode == Opcode::kImm) {
    const auto payload = static_cast<uint32_t>(op.sources[0].resolve(counters));
    std::fill_n(rows, words_, payload);
    for (Rows& cycle : result) {
      const uint32_t* other = op.unsigned_op ? zero_row_ : rows;
      cycle.word = {rows, other, rows, other};
    }
    if (op.wants_flags) std::fill_n(flags, 4 * words_, uint8_t{0});
    return;
  }
  CycleRows x;
  CycleRows y;
  for (CycleRows* rows_of : {&x, &y}) {
    for (Rows& cycle : *rows_of) cycle.word.fill(zero_row_);
  }
  if (!op.sources.empty()) fetch_converted(op.sources[0], op.precision, false, counters, scratch, x);
  if (op.sources.size() > 1) fetch_converted(op.sources[1], op.precision, false, counters, scratch, y);
  for (int c = 0; c < 4; ++c) {
    uint32_t* out = rows + c * 4 * words_;
    Results results{{out, out + words_, out + 2 * words_, out + 3 * words_},
                    op.wants_flags ? flags + c * words_ : nullptr};
    op.alu(shape_, x[c], y[c], results, op.parameter);
    for (int w = 0; w < 4; ++w) result[c].word[w] = out + w * words_;
    if (op.writes_l) continue;
    for (int w = 2; w < 4; ++w) {
      if (x[c].word[w] == zero_row_) {
        result[c].word[w] = zero_row_;
      } else {
        std::memcpy(out + w * words_, x[c].word[w], sizeof(uint32_t) * words_);
      }
    }
  }
}

void L1b::run_double_vector(const CycleRows& x, const CycleRows* y, const CycleRows* z, const MicroOp& op,
                            CycleRows& result) const {
  uint32_t* rows = result_rows(Unit::kMau);
  const isa::FloatFormat format = op.round_output ? isa::kFloatFormat : isa::kDoubleFormat;
  for (int c = 0; c < 4; ++c) {
    uint32_t* out = rows + c * 4 * words_;
    for (int pe = 0; pe < isa::kPePerMab; ++pe) {
      const bool multiplies = y == nullptr || (op.half_select == 'u') == (pe < 2);
      for (int lane = pe * shape_.stride; lane < pe * shape_.stride + mabs_; ++lane) {
        std::array<Term, 2> terms;
        if (multiplies) {
          const uint64_t a = long_at(x[c].word[0], x[c].word[1], lane);
          terms[0] = y == nullptr ? value_term(a, isa::kDoubleFormat)
                                  : product_term(a, long_at((*y)[c].word[0], (*y)[c].word[1], lane),
                                                 isa::kDoubleFormat, truncated_bits(Precision::kDouble));
        }
        if (z != nullptr) {
          terms[1] = value_term(long_at((*z)[c].word[0], (*z)[c].word[1], lane), isa::kDoubleFormat);
        }
        const uint64_t value = round_sum(terms, format);
        if (op.round_output) {
          out[lane] = static_cast<uint32_t>(value);
        } else {
          out[lane] = static_cast<uint32_t>(value >> 32);
          out[words_ + lane] = static_cast<uint32_t>(value);
        }
      }
    }
    if (op.round_output) {
      result[c].word.fill(out);
    } else {
      result[c].word = {out, out + words_, out, out + words_};
    }
  }
}

void L1b::scalar_matrix_cycle(const MicroOp& op, const Matrix& matrix, const Rows& v, const Rows& z,
                              const std::array<uint32_t*, 4>& out) const {
  const int stride = shape_.stride;
  // Element j of a row or vector whose LW is in two rows of words. (`words` is a variable of its own because
  // g++ 12 under UBSan miscompiles `(condition ? upper : lower)[index]`.)
  auto element = [&](const uint32_t* upper, const uint32_t* lower, int j, int mab) -> uint64_t {
    switch (op.precision) {
      case Precision::kDouble:
        return long_at(upper, lower, j * stride + mab);
      case Precision::kHalf: {
        const uint32_t* words = (j >> 1 & 1) == 0 ? upper : lower;
        const uint32_t word = words[(j >> 2) * stride + mab];
        return (j & 1) == 0 ? word >> 16 : word & 0xffff;
      }
      case Precision::kFloat:  // upper words only
        return upper[j * stride + mab];
      default: {
        const uint32_t* words = (j & 1) == 0 ? upper : lower;
        return words[(j >> 1) * stride + mab];
      }
    }
  };
  const bool is_double = op.precision == Precision::kDouble;
  const bool is_half = op.precision == Precision::kHalf;
  const int outputs = is_double ? 4 : is_half ? 16 : 8;
  const int terms = op.precision == Precision::kFloat ? 4 : outputs;
  const isa::FloatFormat z_format = is_double ? isa::kDoubleFormat : isa::kFloatFormat;
  const isa::FloatFormat format = !op.round_output ? z_format
                                  : is_double      ? isa::kFloatFormat
                                                   : isa::kHalfFormat;
  std::array<uint64_t, 16> row_values;
  std::array<uint64_t, 16> vector;
  for (int mab = 0; mab < mabs_; ++mab) {
    for (int j = 0; j < terms; ++j) vector[j] = element(v.word[0], v.word[1], j, mab);
    for (int i = 0; i < outputs; ++i) {
      const int per_pe = outputs / 4;
      const int pe = i / per_pe;
      const int k = i % per_pe;
      const int lane = pe * stride + mab;
      DotProduct y;
      if (!is_double || (op.half_select == 'u') == (pe < 2)) {
        const uint32_t* raw = matrix.raw + i * 2 * words_;
        for (int j = 0; j < terms; ++j) row_values[j] = element(raw, raw + words_, j, mab);
        y = block_dot_product({row_values.data(), static_cast<size_t>(terms)},
                              {vector.data(), static_cast<size_t>(terms)}, op.precision);
      }
      uint64_t addend = 0;
      if (z.word[0] != nullptr) addend = is_double ? long_at(z.word[0], z.word[1], lane) : z.word[k][lane];
      const uint64_t value = round_dot_product(y, addend, z_format, format);
      if (is_double && !op.round_output) {
        out[0][lane] = static_cast<uint32_t>(value >> 32);
        out[1][lane] = static_cast<uint32_t>(value);
      } else if (!op.round_output || is_double) {
        out[k][lane] = static_cast<uint32_t>(value);
      } else {
        uint32_t& word = out[k >> 1][lane];
        word = (k & 1) == 0 ? static_cast<uint32_t>(value) << 16 : word | static_cast<uint32_t>(value);
      }
    }
  }
}

void L1b::run_matrix(const MicroOp& op, const CycleRows& v, const CycleRows* z, CycleRows& result,
                     uint32_t* rows) {
  Matrix& matrix = matrix_[op.sources[0].space == Space::kMatY];
  MatrixDecodeKernel decode = nullptr;
  MatrixKernel kernel = nullptr;
  int row_count = 8;
  switch (op.precision) {
    case Precision::kFloat:
      decode = kernels_->decode_float;
      kernel = kernels_->matrix_float[op.round_output];
      break;
    case Precision::kGFloat:
      decode = kernels_->decode_gfloat;
      kernel = kernels_->matrix_gfloat[op.round_output];
      break;
    case Precision::kHalf:
      decode = kernels_->decode_half;
      kernel = kernels_->matrix_half[op.round_output];
      row_count = 16;
      break;
    default:
      break;
  }
  uint32_t kind = 0;
  if (decode == nullptr) {
    kind = kBlockIrregular;
  } else {
    if (matrix.precision != op.precision) {
      matrix.precision = op.precision;
      matrix.valid = 0;
    }
    for (int i = 0; i < row_count; ++i) {
      if ((matrix.valid >> i & 1) == 0) {
        matrix.kind[i] = decode(shape_, matrix.raw + i * 2 * words_, i, matrix.decoded);
        matrix.valid |= 1u << i;
      }
      kind |= matrix.kind[i];
    }
  }
  const Rows no_addend{};
  for (int c = 0; c < 4; ++c) {
    uint32_t* out = rows + c * 4 * words_;
    const std::array<uint32_t*, 4> words{out, out + words_, out + 2 * words_, out + 3 * words_};
    const Rows& addend = z != nullptr ? (*z)[c] : no_addend;
    bool exact = (kind & kBlockIrregular) != 0;
    if (!exact)
      exact = (kernel(shape_, matrix.decoded, kind, v[c], addend, {words, nullptr}) & kBlockIrregular) != 0;
    if (exact) scalar_matrix_cycle(op, matrix, v[c], addend, words);
    for (int w = 0; w < 4; ++w) result[c].word[w] = words[w];
  }
}

void L1b::run_mau(const MicroOp& op, const Counters& counters, Scratch& scratch, CycleRows& result,
                  uint8_t* flags) {
  uint32_t* rows = result_rows(Unit::kMau);
  const bool matrix = op.opcode == Opcode::kMmul || op.opcode == Opcode::kMfma;
  const bool has_factor = op.opcode == Opcode::kVfma || op.opcode == Opcode::kVmul;
  const bool has_addend =
      op.opcode == Opcode::kVfma || op.opcode == Opcode::kVadd || op.opcode == Opcode::kMfma;
  CycleRows x;
  CycleRows y;
  CycleRows z;
  const size_t first = matrix ? 1 : 0;
  fetch_converted(op.sources[first], op.precision, false, counters, scratch, x);
  if (has_factor) fetch_converted(op.sources[1], op.precision, false, counters, scratch, y);
  if (has_addend) fetch_converted(op.sources.back(), op.precision, true, counters, scratch, z);
  int lanes = 0;
  if (matrix) {
    run_matrix(op, x, has_addend ? &z : nullptr, result, rows);
  } else if (op.precision == Precision::kDouble) {
    run_double_vector(x, has_factor ? &y : nullptr, has_addend ? &z : nullptr, op, result);
  } else {
    const VectorMauKernel kernel = op.precision == Precision::kHalf ? kernels_->vector_half[op.round_output]
                                                                    : kernels_->vector_float[op.round_output];
    const Rows absent{};
    for (int c = 0; c < 4; ++c) {
      uint32_t* out = rows + c * 4 * words_;
      const std::array<uint32_t*, 4> words{out, out + words_, out + 2 * words_, out + 3 * words_};
      kernel(shape_, x[c], has_factor ? y[c] : absent, has_addend ? z[c] : absent, {words, nullptr});
      for (int w = 0; w < 4; ++w) result[c].word[w] = words[w];
    }
  }
  // Results narrower than 2LW are repeated.
  for (Rows& cycle : result) {
    const auto word = cycle.word;
    switch (op.precision) {
      case Precision::kDouble:
        lanes = 1;
        cycle.word = op.round_output ? std::array{word[0], word[0], word[0], word[0]}
                                     : std::array{word[0], word[1], word[0], word[1]};
        break;
      case Precision::kHalf:
        lanes = op.round_output ? -4 : 4;
        if (op.round_output) cycle.word = {word[0], word[1], word[0], word[1]};
        break;
      default:
        lanes = op.round_output ? -2 : 2;
        cycle.word = op.round_output ? std::array{word[0], word[0], word[0], word[0]}
                                     : std::array{word[0], word[1], word[0], word[1]};
        break;
    }
  }
  if (op.wants_flags) {
    for (int c = 0; c < 4; ++c) kernels_->sign_flags(shape_, result[c], lanes, flags + c * words_);
  }
}

void L1b::run_mread(const MicroOp& op, const Counters& counters, CycleRows& result) const {
  const MicroOperand& source = op.sources[0];
  const Matrix& matrix = matrix_[source.space == Space::kMatY];
  const bool wide = op.precision == Precision::kHalf && source.width == Width::kDoubleLong;
  const int lanes = isa::lanes(op.precision);
  const int columns = 4 * lanes;
  const int stride = shape_.stride;
  uint32_t* rows = result_rows(Unit::kMread);
  for (int c = 0; c < 4; ++c) {
    uint32_t* out = rows + c * 4 * words_;
    for (int half = 0; half < (wide ? 2 : 1); ++half) {
      const int64_t column = wrap(source.resolve(counters) + (wide ? 2 * c + half : c), columns);
      const int from_pe = static_cast<int>(column) / lanes;
      const int from_lane = static_cast<int>(column) % lanes;
      for (int pe = 0; pe < isa::kPePerMab; ++pe) {
        for (int w = 0; w < 2; ++w) {
          uint32_t* to = out + (2 * half + w) * words_ + pe * stride;
          // Word `word` of row i, at the PE that holds the column.
          auto raw = [&](int i, int word) { return matrix.raw + (i * 2 + word) * words_ + from_pe * stride; };
          if (lanes == 1) {
            std::memcpy(to, raw(pe, w), sizeof(uint32_t) * stride);
          } else if (lanes == 2) {
            std::memcpy(to, raw(2 * pe + w, from_lane), sizeof(uint32_t) * stride);
          } else {
            const uint32_t* upper = raw(4 * pe + 2 * w, from_lane / 2);
            const uint32_t* lower = raw(4 * pe + 2 * w + 1, from_lane / 2);
            const int shift = from_lane % 2 == 0 ? 16 : 0;
            for (int m = 0; m < stride; ++m)
              to[m] = (upper[m] >> shift & 0xffff) << 16 | (lower[m] >> shift & 0xffff);
          }
        }
      }
    }
    result[c].word = {out, out + words_, wide ? out + 2 * words_ : out,
                      wide ? out + 3 * words_ : out + words_};
  }
}

void L1b::commit_mwrite(const MicroOp& op, const CycleRows& source, const Counters& counters) {
  const MicroOperand& destination = op.destinations[0];
  const bool wide = op.precision == Precision::kHalf && destination.width == Width::kDoubleLong;
  const int64_t base = destination.resolve(counters);
  if (!stale_ || chip_->hazard.matrix_write_read == 0) {
    write_matrix(destination, wide, base, source);
    return;
  }
  std::vector<uint32_t> rows;
  for (const Rows& cycle : source) {
    for (const uint32_t* word : cycle.word) rows.insert(rows.end(), word, word + words_);
  }
  stale_->later(chip_->hazard.matrix_write_read, [this, destination, wide, base, rows = std::move(rows)] {
    CycleRows data;
    for (int c = 0; c < 4; ++c) {
      for (int w = 0; w < 4; ++w) data[c].word[w] = rows.data() + (c * 4 + w) * words_;
    }
    write_matrix(destination, wide, base, data);
  });
}

void L1b::write_matrix(const MicroOperand& destination, bool wide, int64_t base, const CycleRows& source) {
  Matrix& matrix = matrix_[destination.space == Space::kMatY];
  for (int c = 0; c < 4; ++c) {
    for (int half = 0; half < (wide ? 2 : 1); ++half) {
      const int64_t index = wrap(base + (wide ? 2 * c + half : c), 16);
      for (int w = 0; w < 2; ++w) {
        std::memcpy(matrix.raw + (index * 2 + w) * words_, source[c].word[2 * half + w],
                    sizeof(uint32_t) * words_);
      }
      matrix.valid &= ~(1u << index);
    }
  }
}

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

// ---------------------------------------------------------------------------------------------------
// Writes.

void L1b::copy_masked(uint32_t* to, const uint32_t* from, int word, const CycleMask& mask) const {
  // Under an l mask the LSB LW is written whatever the mask says.
  const bool governed = mask.double_long || word < 2;
  if (mask.kind == CycleMask::Kind::kAll || !governed) {
    std::memcpy(to, from, sizeof(uint32_t) * words_);
  } else if (mask.kind == CycleMask::Kind::kLanes) {
    const int high = mask.double_long ? 3 - word : 3 - 2 * word;
    const int low = mask.double_long ? 3 - word : 2 - 2 * word;
    kernels_->masked_copy(shape_, from, mask.lanes, high, low, false, to);
  }
}

void L1b::zero_flush(const MicroOp& op, CycleRows& result) const {
  uint32_t* rows = result_rows(op.unit);
  for (int c = 0; c < 4; ++c) {
    const CycleMask mask = cycle_mask(op.zero_flush, c);
    if (mask.kind == CycleMask::Kind::kAll) continue;
    for (int w = 0; w < 4; ++w) {
      if (!mask.double_long && w >= 2) continue;
      if (mask.kind == CycleMask::Kind::kNone) {
        result[c].word[w] = zero_row_;
        continue;
      }
      // Rows of the result may be shared between words and cycles: flush into fresh ones.
      const int high = mask.double_long ? 3 - w : 3 - 2 * w;
      const int low = mask.double_long ? 3 - w : 2 - 2 * w;
      uint32_t* out = rows + (16 + c * 4 + w) * words_;
      kernels_->masked_copy(shape_, result[c].word[w], mask.lanes, high, low, true, out);
      result[c].word[w] = out;
    }
  }
}

void L1b::commit_memory(const MicroOperand& destination, const isa::Mask& mask, const CycleRows& result,
                        const Counters& counters) {
  uint32_t* memory = memory_of(destination.space);
  const int width = isa::words(destination.width);
  const int64_t base = destination.resolve(counters);
  const bool plain = has_plain_addresses(destination);
  const int64_t size = size_of(destination.space);
  // An LM's one port is taken until the last of the step's writes is through.
  int last_cycle = 0;
  for (int c = 0; c < 4; ++c) {
    if (cycle_mask(mask, c).kind != CycleMask::Kind::kNone) last_cycle = c;
  }
  for (int c = 0; c < 4; ++c) {
    const CycleMask cycle = cycle_mask(mask, c);
    const int seen_after = isa::is_local_memory(destination.space) ? last_cycle : c;
    if (plain) {
      const int64_t address = wrap(base + destination.offset[c], size) & ~int64_t{width - 1};
      for (int w = 0; w < width; ++w) {
        if (stale_)
          stale_->before_write(destination.space, seen_after, address + w, row(memory, address + w));
        copy_masked(row(memory, address + w), result[c].word[w], w, cycle);
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
      const int bits = cycle.kind == CycleMask::Kind::kAll    ? 15
                       : cycle.kind == CycleMask::Kind::kNone ? 0
                                                              : cycle.lanes[lane];
      for (int w = 0; w < width; ++w) {
        uint32_t allowed = ~uint32_t{0};
        if (cycle.double_long) {
          allowed = (bits >> (3 - w) & 1) != 0 ? ~uint32_t{0} : 0;
        } else if (w < 2) {
          allowed = ((bits >> (3 - 2 * w) & 1) != 0 ? 0xffff0000u : 0) |
                    ((bits >> (2 - 2 * w) & 1) != 0 ? 0xffffu : 0);
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
            const int bits = cycle.kind == CycleMask::Kind::kLanes ? cycle.lanes[i]
                             : cycle.kind == CycleMask::Kind::kAll ? 15
                                                                   : 0;
            entry[c * words_ + i] = static_cast<uint8_t>(flags[i] & bits);
          }
        }
        uint8_t* to = masks_ + destination.base * 4 * words_;
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
            const int bits = cycle.kind == CycleMask::Kind::kAll    ? 15
                             : cycle.kind == CycleMask::Kind::kNone ? 0
                                                                    : cycle.lanes[i];
            // The 12 bits lie in the lower half of the upper word.
            if ((bits >> (cycle.double_long ? 3 : 2) & 1) != 0)
              written[i] = {result[c].word[0][i] & 0xfff, true};
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

void L1b::put_forward(size_t index, const CycleRows& result) {
  if (!stale_ || chip_->hazard.forward == 0) {
    forward_[index] = result;
    return;
  }
  std::vector<uint32_t> rows;
  for (const Rows& cycle : result) {
    for (const uint32_t* word : cycle.word) rows.insert(rows.end(), word, word + words_);
  }
  stale_->later(chip_->hazard.forward, [this, index, rows = std::move(rows)] {
    stale_forward_[index] = rows;
    for (int c = 0; c < 4; ++c) {
      for (int w = 0; w < 4; ++w)
        forward_[index][c].word[w] = stale_forward_[index].data() + (c * 4 + w) * words_;
    }
  });
}

void L1b::show_stale(bool stale) {
  if (stale_) stale_->finish();
  stale_ = stale ? std::make_unique<StaleView>(*chip_, words_) : nullptr;
  stale_t_.resize(stale ? static_cast<size_t>(16 * words_) : 0);
}

void L1b::refresh_stale_addresses() {
  std::copy_n(t_, 16 * words_, stale_t_.data());
  for (int c = 0; c < 4; ++c) {
    for (int w = 0; w < 4; ++w) stale_->look(Space::kT, c, c * 4 + w, stale_t_.data() + (c * 4 + w) * words_);
  }
}

void L1b::run_step(const Node& node, const Counters& counters, Scratch& scratch) {
  scratch.reset();
  if (stale_) refresh_stale_addresses();
  std::array<CycleRows, kResultUnits> results;
  std::array<PendingWrite, kResultUnits> writes;
  int write_count = 0;
  CycleRows mwrite_source;
  const MicroOp* mwrite = nullptr;
  std::array<PendingL1bm, 2> l1bm_writes;
  int l1bm_count = 0;

  for (const MicroOp& op : node.ops) {
    if (op.unit == Unit::kMwrite) {
      fetch_converted(op.sources[0], op.precision, false, counters, scratch, mwrite_source);
      mwrite = &op;
      continue;
    }
    const bool from_pe =
        (op.unit == Unit::kL1bm || op.unit == Unit::kTurnaround) && !is_l1bm_side(op.sources[0].space);
    if (from_pe) {
      CycleRows source;
      // The sum of halves needs no widening here: it widens itself.
      const bool widen = op.opcode == Opcode::kL1bmrffadd && op.sources[0].extend;
      fetch_converted(op.sources[0], widen ? Precision::kHalf : op.precision, false, counters, scratch,
                      source);
      uint64_t* data = scratch.l1bm_data(l1bm_count);
      const int64_t count = run_pe_to_l1bm(op, source, data);
      l1bm_writes[l1bm_count++] = {&op, data, count};
      continue;
    }
    const auto unit = static_cast<size_t>(op.unit);
    CycleRows& result = results[unit];
    uint8_t* flags = scratch.flags() + unit * 4 * words_;
    switch (op.unit) {
      case Unit::kAlu:
        run_alu(op, counters, scratch, result, flags);
        break;
      case Unit::kMau:
        run_mau(op, counters, scratch, result, flags);
        break;
      case Unit::kMread:
        run_mread(op, counters, result);
        if (op.wants_flags) std::fill_n(flags, 4 * words_, uint8_t{0});
        break;
      default:
        run_l1bm_to_pe(op, counters, scratch, result);
        if (op.wants_flags) std::fill_n(flags, 4 * words_, uint8_t{0});
        break;
    }
    if (op.zero_flush.kind != isa::Mask::Kind::kNone) zero_flush(op, result);
    writes[write_count++] = {&op, &result, flags};
  }

  if (mwrite != nullptr) commit_mwrite(*mwrite, mwrite_source, counters);
  for (int i = 0; i < l1bm_count; ++i) {
    const PendingL1bm& write = l1bm_writes[i];
    const MicroOperand& destination = write.op->destinations[0];
    put_turnaround(write.data, write.count);
    if (destination.space != Space::kL1bm) continue;
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
  for (const CommitPhase phase : {CommitPhase::kMemories, CommitPhase::kAddresses, CommitPhase::kMasks}) {
    for (int i = 0; i < write_count; ++i) commit(writes[i], node, counters, phase);
  }
  if (!node.no_forward) {
    for (int i = 0; i < write_count; ++i) {
      const Unit unit = writes[i].op->unit;
      put_forward(static_cast<size_t>(forward_of(unit)), *writes[i].result);
      // The rows shown by the forwarding register must not be the next target.
      next_result_[static_cast<size_t>(unit)] ^= 1;
    }
  }
}

}  // namespace kodama::simulator
