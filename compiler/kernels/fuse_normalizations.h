#pragma once

#include "compiler/layers/layer_graph.h"
#include "isa/chip.h"

namespace kodama::compiler {

/// A Map with the Reduce and Map layers that nobody but it and they read becomes one Normalize layer, where a
/// kernel on this chip computes that: softmax, layer normalization, RMS normalization, whatever a model
/// spells them like. What depends on a row alone becomes a step of its own, done once for a row, and a
/// division by it a product with its reciprocal. Example, softmax:
///
///     before                                       after
///     m = max of x                                 Normalize of x: x1 = max of x0;  x2 = exp(sub(x0, x1));
///     e = exp(sub(x, m))                             x3 = sum of x2;  x4 = reciprocal(x3);  mul(x2, x4)
///     s = sum of e
///     y = div(e, s)
void fuse_normalizations(LayerGraph& graph, const isa::Chip& chip);

}  // namespace kodama::compiler
