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
void split_axes(LayerGraph& graph, const isa::Chip& chip);

}  // namespace kodama::compiler
