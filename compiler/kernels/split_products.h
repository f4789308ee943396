#pragma once

#include "compiler/layers/layer_graph.h"
#include "isa/chip.h"

namespace kodama::compiler {

/// Splits products with a constant matrix whose result is read in parts: attention's queries, keys and
/// values, which models make in one product and slice. Each part gets a product of its own, over its part of
/// the matrix, so that it has an image of its own and whoever reads it needs no relayout. A slice that is all
/// of a part is no layer any more. Example:
///
///     qkv [128, 768] = x W;  q, k, v = qkv[:, 0:256], ...    ->    q [128, 256] = x W[:, 0:256];  ...
///
/// Only what "contract-rows" computes is split, between whole chunks of channels.
void split_products(LayerGraph& graph, const isa::Chip& chip);

}  // namespace kodama::compiler
