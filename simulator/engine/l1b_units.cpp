#include <algorithm>
#include <cstring>

#include "simulator/engine/l1b.h"

/// ALU and MAU: the results of their instructions, but for those of the matrix unit.
namespace kodama::simulator {
namespace {

using isa::Precision;

/// A double operand from PE index `first` on.
Rows part_of(const Rows& rows, int first) {
  if (rows.word[0] == nullptr) return {};
  return {{rows.word[0] + first, rows.word[1] + first}};
}

}  // namespace

uint32_t* L1b::result_rows(Unit unit) const {
  const auto index = static_cast<size_t>(unit);
  return results_[index][next_result_[index]];
}

void L1b::run_alu(const MicroOp& op, const Counters& counters, Scratch& scratch, CycleRows& result,
                  uint8_t* flags) {
  uint32_t* rows = result_rows(Unit::kAlu);
  if (op.alu == nullptr) {  // imm
    const auto payload = static_cast<uint32_t>(op.sources[0].resolve(counters));
    std::fill_n(rows, words_, payload);
    for (Rows& cycle : result) {
      const uint32_t* other = op.unsigned_op ? zero_row_ : rows;
      cycle.word = {rows, other, rows, other};
    }
    if (op.wants_flags) std::fill_n(flags, 4 * words_, uint8_t{0});
    return;
  }
  if (!op.sources.empty()) fetch_converted(op.sources[0], op.precision, false, counters, scratch, scratch.x);
  if (op.sources.size() > 1)
    fetch_converted(op.sources[1], op.precision, false, counters, scratch, scratch.y);
  const CycleRows& x = op.sources.empty() ? zeros_ : scratch.x;
  const CycleRows& y = op.sources.size() > 1 ? scratch.y : zeros_;
  for (int c = 0; c < 4; ++c) {
    uint32_t* out = rows + c * 4 * words_;
    Results results{{out, out + words_, out + 2 * words_, out + 3 * words_},
                    op.wants_flags ? flags + c * words_ : nullptr};
    op.alu(shape_, x[c], y[c], results, op.parameter);
    result[c].word = {out, out + words_, out + 2 * words_, out + 3 * words_};
    if (op.writes_l) continue;
    for (int w = 2; w < 4; ++w) {
      if (x[c].word[w] == zero_row_) {
        result[c].word[w] = zero_row_;
      } else {
        kernels_->copy_rows(shape_, x[c].word[w], 1, out + w * words_);
      }
    }
  }
}

void L1b::pass_double_addend(const MicroOp& op, const Rows& z, int first_pe,
                             const std::array<uint32_t*, 4>& out) const {
  const int first = first_pe * shape_.stride;
  const int count = 2 * shape_.stride;
  if (z.word[0] == nullptr) {
    for (int w = 0; w < (op.round_output ? 1 : 2); ++w) std::fill_n(out[w] + first, count, 0u);
    return;
  }
  kernels_->vector_double[op.round_output](shape_.half(), part_of(z, first), {}, {},
                                           {{out[0] + first, out[1] + first}, nullptr});
}

void L1b::run_double_vector(const CycleRows& x, const CycleRows* y, const CycleRows* z, const MicroOp& op,
                            CycleRows& result) const {
  uint32_t* rows = result_rows(Unit::kMau);
  const VectorMauKernel kernel = kernels_->vector_double[op.round_output];
  for (int c = 0; c < 4; ++c) {
    uint32_t* out = rows + c * 4 * words_;
    const std::array<uint32_t*, 4> words{out, out + words_};
    const Rows addend = z != nullptr ? (*z)[c] : Rows{};
    if (y == nullptr) {
      kernel(shape_, x[c], {}, addend, {words, nullptr});
    } else {
      const int first_pe = op.half_select == 'u' ? 0 : 2;
      const int first = first_pe * shape_.stride;
      kernel(shape_.half(), part_of(x[c], first), part_of((*y)[c], first), part_of(addend, first),
             {{out + first, out + words_ + first}, nullptr});
      pass_double_addend(op, addend, 2 - first_pe, words);
    }
    if (op.round_output) {
      result[c].word.fill(out);
    } else {
      result[c].word = {out, out + words_, out, out + words_};
    }
  }
}

void L1b::run_mau(const MicroOp& op, const Counters& counters, Scratch& scratch, CycleRows& result,
                  uint8_t* flags) {
  uint32_t* rows = result_rows(Unit::kMau);
  const bool matrix = op.row->mau.matrix;
  const bool has_factor = op.row->mau.factor >= 0;
  const bool has_addend = op.row->mau.addend >= 0;
  CycleRows& x = scratch.x;
  CycleRows& y = scratch.y;
  CycleRows& z = scratch.z;
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

}  // namespace kodama::simulator
