#pragma once

#include "compiler/layers/layer_graph.h"
#include "isa/chip.h"

namespace kodama::compiler {

/// Cuts Gather layers whose tables are longer than LM0 into slices: a Gather with one result for every slice,
/// which is zero but for the slice that has the place, and a Reduce that adds them up as integers. Slices are
/// as many as both layers together take least with. Example, 100 rows of a table [10000, 64]: results [8,
/// 100, 64] of slices of 1250 rows, which L2Bs have one each; then sums of 8.
void split_gathers(LayerGraph& graph, const isa::Chip& chip);

}  // namespace kodama::compiler
