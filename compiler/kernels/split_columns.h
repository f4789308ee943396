#pragma once

#include "compiler/layers/layer_graph.h"
#include "isa/chip.h"

namespace kodama::compiler {

/// Prepares products that are summed over the places of pictures, as gradients of a convolution's weights
/// are, for "contract-columns": they get zeros to read where a picture has ended, and, where that is
/// predicted to cost less, become sums of parts, one for L2Bs with images or rows of their own, which a
/// Reduce adds up. Example, on mncore2:
///
///     dw [64, 64, 3, 3] over x, dy [32, 64, 56, 56]    ->    parts [8, 1, 64, 64, 3, 3], each over 4
///     pictures;
///                                                            dw = sum of parts over the first two axes
///
/// What the kernel can't do, or another one does faster, stays as it is; with `always` only what it can't do.
/// Products are gfloat ones.
void split_columns(LayerGraph& graph, const isa::Chip& chip, bool always = false);

}  // namespace kodama::compiler
