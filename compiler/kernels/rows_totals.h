#pragma once

#include <cstdint>
#include <vector>

#include "compiler/kernels/rows.h"
#include "compiler/kernels/rows_problem.h"
#include "isa/chip.h"

/// Of "contract-rows": L2Bs that have input channels of their own. Each makes parts of all sums from the
/// channels that it has, so that no operand moves; what they add up to goes to where the results will be
/// (SumL2bs), and in the end every L2B takes its rows from there for the epilogue.
///
/// Example, 1024 -> 256 channels, 1 x 1, 14 x 14, rows of 16 columns: an L2B has 128 channels, 14,336 LW, and
/// an eighth of the matrices. With rows of its own it would have all of them, with output channels of its own
/// it would take all 114,688 LW of the operand. Sums are 28,672 LW, which go once.
namespace kodama::compiler {

class RowsTotals {
 public:
  /// `inputs`: of the epilogue, those that are rows.
  RowsTotals(const Picture& result, int64_t inputs, const isa::Chip& chip);

  /// The results: rows everywhere.
  const RowsImage& image() const { return image_; }
  /// Chunks of an L1B, and LW of PE memory for its sums, or another input that is rows.
  int64_t chunks() const { return chunks_; }
  int64_t input_lw() const;
  bool fits() const;
  /// Cycles of the epilogue, in which an element takes `operations`.
  int64_t cycles(int64_t operations) const;

  /// Of what depends on output channels alone, in the PEs for the epilogue.
  layout::Transport values_transport() const;
  std::vector<layout::Factor> value_channels() const;
  std::vector<layout::Factor> value_copies() const;

  /// What takes `count` rows of sums from `row` of an image on, in L2BM at `l2bm`, to where the results will
  /// be.
  SumL2bs sum(int stream, int64_t image, int64_t row, int64_t count, int64_t l2bm) const;
  /// The epilogue's operations. `streams`: of the inputs that are rows, and of the results; `totals`: a
  /// buffer for sums.
  void finish(TileProgram& program, const ScalarExpr& epilogue, const std::vector<RowsInput>& inputs,
              const std::vector<int>& streams, int totals) const;

 private:
  RowOrder staged() const { return {image_.order().groups, chunks_}; }
  int64_t rows_lw() const { return l1b_rows_ * l1bs_of_rows_ * image_.row_lw(); }

  RowsImage image_;
  isa::Chip chip_;
  int64_t inputs_;
  bool by_chunks_ = false;  ///< L1Bs have chunks of the same rows, or else rows
  int64_t l1bs_ = 1, chunks_ = 1;
  int64_t l1b_rows_ = 1, l1bs_of_rows_ = 1;
};

}  // namespace kodama::compiler
