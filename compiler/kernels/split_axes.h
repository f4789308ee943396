#pragma once

#include "compiler/layers/layer_graph.h"
#include "isa/chip.h"

namespace kodama::compiler {

/// Splits dims of products that stand for two axes of the tensors they read, and what follows from them:
/// PyTorch's attention has images and heads on one axis, which its reshapes join and take apart again.
/// Kernels can put axes in another order then (compiler/kernels/rows.h). Example, [64, 16, 32] being another
/// shape of [64, 2, 256]:
///
///     dims  e:16 (batch)  m:64  n:64  k:32    ->    dims  e:2 e:8 (batch)  m:64  n:64  k:32
///
/// The results have the split shape, [2, 8, 64, 64]; whoever reads them in the old one reads an alias.
///
/// And the inner dim of a product with a constant matrix that reads one picture as a vector: it becomes a
/// window over the whole picture, so that the picture stays as it is. Example, [1, 400] being another shape
/// of [1, 16, 5, 5], which has columns enough for a vector's and channels enough to fill half a chunk:
///
///     dims  m:1  n:120  k:400    ->    dims  m:1  n:120  k:16 (channels)  k2:5  k3:5        [1, 120, 1, 1]
///
/// The next product reads that as a picture of one place.
void split_axes(LayerGraph& graph, const isa::Chip& chip);

}  // namespace kodama::compiler
