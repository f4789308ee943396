#pragma once

#include "compiler/layers/layer_graph.h"
#include "isa/chip.h"

namespace kodama::compiler {

/// Splits Reduce layers with few outputs and many elements into two: the first reduces parts of the
/// elements as separate outputs, the second reduces the parts. The parts number about the square root of the
/// elements, but no more than the chip has lanes for, so both layers have short lists. Example, a sum of
/// 1,000,000 numbers: 1000 sums of 1000, then one sum of 1000 (which is split again).
///
/// What "reduce-rows" does, all rows and columns of an image, stays one layer, or becomes two of that kernel,
/// whichever it promises fewer cycles for: of parts of some rows and a quarter of the columns each, as lanes
/// are, which nobody needs others' rows for; and of the image of those.
///
/// An extent without a suitable divisor is split with a last part that is shorter; the elements beyond the
/// end are replaced by the operation's identity through a validity operand.
void split_reductions(LayerGraph& graph, const isa::Chip& chip);

}  // namespace kodama::compiler
