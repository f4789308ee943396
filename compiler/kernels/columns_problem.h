#pragma once

#include <array>
#include <optional>

#include "compiler/kernels/rows.h"
#include "compiler/layers/layer_graph.h"

/// Products of two pictures that are summed over images, rows and columns, as gradients of a convolution's
/// weights are: what "contract-columns" computes (columns_kernel.cpp), and what split_columns prepares.
namespace kodama::compiler {

/// For every channel of `results` and of `operand`, and every position of a kernel, the sum over images n,
/// rows r and columns c of results
///
///     results(n, channel, r, c) * operand(n, channel, stride * (r, c) + dilation * position - pad)
///
/// with 0 outside the operand. In `parts` of images and of rows of the results, each a sum of its own.
/// Example, the weights' gradient of a convolution 64 -> 128 of 3 x 3, stride 2, of 32 pictures of 56 x 56:
/// results are the gradients [32, 128, 28, 28], the operand [32, 64, 56, 56], sums [128, 64, 3, 3].
struct ColumnsProblem {
  bool operand_first = false;  ///< operand a of the contraction is `operand`
  Picture operand, results;
  int64_t operand_columns = 1, result_columns = 1;  ///< of the tensors, which may be fewer than a picture's
  RowsWindow window;
  std::array<int64_t, 2> parts{1, 1};      ///< of images, of rows
  std::array<int64_t, 2> part_size{1, 1};  ///< images and rows of one
  /// The sums: an image for each part and position of the kernel, whose tokens are the operand's channels.
  Picture sums;
  int result_channel = -1;           ///< dim; -1: there is one channel
  int image_dim = -1, row_dim = -1;  ///< of those in a part; -1: there is one
  int64_t positions() const { return window.kernel[0] * window.kernel[1]; }
};
/// Nothing where the layer has another form. Its epilogue must be the sum alone.
std::optional<ColumnsProblem> columns_problem(const ContractLayer& contract, TensorId output,
                                              const LayerGraph& graph);

/// Cycles that are predicted for it on gfloat operands, with parts for a split of the results, one for all
/// L2Bs that have the same channels; nothing where it can't be done so.
std::optional<int64_t> columns_cycles(const ColumnsProblem& whole, RowsSplit results, const isa::Chip& chip);

}  // namespace kodama::compiler
