#pragma once

#include <array>
#include <optional>
#include <vector>

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
///
/// Channels of both may be *sections*, one behind the other, of whole chunks: then the sums are those of a
/// section of results with the same section of the operand.
///
/// An operand of few channels may be a packed picture: the columns of the kernel are channels then, beside
/// the operand's own, and the window has a single one.
struct ColumnsProblem {
  bool operand_first = false;  ///< operand a of the contraction is `operand`
  Picture operand, results;
  int64_t operand_columns = 1, result_columns = 1;  ///< of the tensors, which may be fewer than a picture's
  RowsWindow window;
  int64_t sections = 1;
  int64_t channels = 1;                ///< of the operand, in a section; packed: words of a window
  int64_t column_images = 1;           ///< columns of a packed window that have images of sums of their own
  std::array<int64_t, 2> parts{1, 1};  ///< of images, of rows
  std::array<int64_t, 2> part_size{1, 1};  ///< images and rows of one
  /// The sums: an image for each part and position of the kernel, whose tokens are a section's channels of
  /// the operand. A packed operand's tokens are those of all columns of the kernel, or, where something fills
  /// its columns up, the columns are images.
  Picture sums;
  int result_channel = -1;           ///< dim; -1: there is one channel
  int image_dim = -1, row_dim = -1;  ///< of those in a part; -1: there is one
  /// Positions of the kernel that have vectors of their own.
  int64_t positions() const { return window.kernel[0] * window.kernel[1]; }
  /// Images of the sums of a part.
  int64_t sum_images() const { return positions() * column_images; }
};
/// Ways to see a layer: with a picture as the operand first, then with a packed one, if it can be packed.
/// None where the layer has another form. Its epilogue must be the sum alone.
std::vector<ColumnsProblem> columns_problems(const ContractLayer& contract, TensorId output,
                                             const LayerGraph& graph);

/// Cycles that are predicted for a layer that has no parts, seen in these ways, on gfloat operands, with
/// parts for a split of the results, one for all L2Bs that have the same channels; nothing where it can't be
/// done so.
std::optional<int64_t> columns_cycles(const std::vector<ColumnsProblem>& whole, RowsSplit results,
                                      const isa::Chip& chip);

}  // namespace kodama::compiler
