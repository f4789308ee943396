#include <cstring>
#include <utility>

#include "simulator/engine/l1b.h"

/// The matrix registers: products with them, reads of columns, writes of rows.
namespace kodama::simulator {
namespace {

using isa::Precision;
using isa::Space;
using isa::Width;

}  // namespace

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
  const bool is_double = op.precision == Precision::kDouble;
  const int first_row = is_double && op.half_select == 'd' ? 2 : 0;
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
      decode = kernels_->decode_double;
      row_count = 2;
      break;
  }
  if (matrix.precision != op.precision) {
    matrix.precision = op.precision;
    matrix.valid = 0;
  }
  uint32_t kind = 0;
  const uint32_t needed = ((1u << row_count) - 1) << first_row;
  const bool all_decoded = (matrix.valid & needed) == needed;
  if (all_decoded && matrix.kinds_of == needed) {
    kind = matrix.kinds;
  } else {
    for (int i = first_row; i < first_row + row_count; ++i) {
      if ((matrix.valid >> i & 1) == 0)
        matrix.kind[i] = decode(shape_, matrix.raw + i * 2 * words_, i, matrix.decoded);
      kind |= matrix.kind[i];
    }
    matrix.valid |= needed;
    matrix.kinds = kind;
    matrix.kinds_of = needed;
  }
  const Rows no_addend{};
  uint32_t irregular = 15;
  if ((kind & kBlockIrregular) == 0 && !is_double)
    irregular = kernel(shape_, matrix.decoded, kind, v.data(), z != nullptr ? z->data() : nullptr, rows);
  for (int c = 0; c < 4; ++c) {
    uint32_t* out = rows + c * 4 * words_;
    const std::array<uint32_t*, 4> words{out, out + words_, out + 2 * words_, out + 3 * words_};
    const Rows& addend = z != nullptr ? (*z)[c] : no_addend;
    bool exact = (irregular >> c & 1) != 0;
    if (is_double && (kind & kBlockIrregular) == 0) {
      const DoubleMatrixKernel pair = kernels_->matrix_double[op.round_output];
      exact = pair(shape_, matrix.decoded, first_row, v[c], addend, {words, nullptr}) == kBlockIrregular;
      if (!exact) pass_double_addend(op, addend, 2 - first_row, words);
    }
    if (exact) scalar_matrix_cycle(op, matrix, v[c], addend, words);
    for (int w = 0; w < 4; ++w) result[c].word[w] = words[w];
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

}  // namespace kodama::simulator
