#pragma once

#include <vector>

#include "compiler/kernels/kernel.h"
#include "compiler/layers/layer_graph.h"
#include "isa/chip.h"

namespace kodama::compiler {

/// Gives Map layers, which can work on any layout, those in which products make what they read, as further
/// candidates: a gradient of weights is then no relayout away from what it changes. `candidates`: by layer.
/// Of small tensors a relayout takes little, so these are left as they are.
///
/// Example, velocity.next = 0.9 velocity + gradient, weights.next = weights - rate velocity.next: both layers
/// get the layouts of the product that makes the gradient, the second one by way of the first.
void adopt_layouts(const LayerGraph& graph, const isa::Chip& chip,
                   std::vector<std::vector<Candidate>>& candidates);

}  // namespace kodama::compiler
