#pragma once

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "compiler/kernels/rows.h"
#include "compiler/layers/layer_graph.h"
#include "isa/chip.h"

/// Sums over the images, rows and columns of pictures, one for every channel, as the statistics of a batch
/// and their gradients are: what "sum-pictures" computes (picture_sums_kernel.cpp), and what split_reductions
/// prepares.
namespace kodama::compiler {

/// For every channel, the sum over all places of `expr`, of pictures there and of values for channels. Images
/// and rows are in parts, each with sums of its own; an L2B has whole parts. Where L2Bs have places outside
/// the pictures, all pictures are 0 there, and so must be the expression. Example, the gradient of a
/// normalization's scale, sum of mul(x0, sub(x1, x2)), with pictures x0 and x1 [8, 64, 56, 56] and the means
/// x2 [64]: eight parts of an image each, sums [8, 1, 64].
struct PictureSums {
  Picture picture;               ///< the first input that is one; the others are alike
  std::vector<bool> is_picture;  ///< of the layer's inputs; the others have a value for a channel
  ScalarExpr expr;
  std::array<int64_t, 2> parts{1, 1};      ///< of images, of rows
  std::array<int64_t, 2> part_size{1, 1};  ///< images and rows of one
  Picture sums;                            ///< an image for each part, of a single place

  /// Whether no slot of an L2B's MABs (columns.h) has any place outside.
  bool is_full() const;
  int64_t columns() const {
    return picture.shape[3];
  }  ///< of the tensor, which may be fewer than a picture's
  int64_t pictures() const { return std::ranges::count(is_picture, true); }
};
using ShapeOf = std::function<const Shape&(TensorId)>;
/// Of a layer over parts of images, parts of rows and channels, which sums images of a part, its rows, and
/// columns, as picture_sum_halves makes it. Nothing where it has another form.
std::optional<PictureSums> picture_sums(const ReduceLayer& reduce, TensorId output, const ShapeOf& shape_of);

/// Predicted cycles with the results split in one way; nothing where it doesn't fit.
std::optional<int64_t> picture_sums_cycles(const PictureSums& problem, RowsSplit split,
                                           const isa::Chip& chip);

/// A sum over whole pictures in two: sums of parts, and what they add up to. What isn't 0 outside is made by
/// a Map before.
struct PictureSumHalves {
  std::optional<MapLayer> terms;  ///< the picture that `first` sums then, instead of the layer's inputs
  ReduceLayer first,
      second;  ///< where `second` reads `first`, its tensor is -1; and so where that reads `terms`
};
/// Nothing where the layer is something else, its pictures are small, or the kernel can't do it.
std::optional<PictureSumHalves> picture_sum_halves(const ReduceLayer& reduce, const ShapeOf& shape_of,
                                                   const isa::Chip& chip);

}  // namespace kodama::compiler
