#pragma once

#include <optional>

#include "compiler/kernels/kernel.h"
#include "compiler/layers/affine_map.h"
#include "compiler/layers/layer_graph.h"
#include "isa/chip.h"

namespace kodama::compiler {

/// A candidate of "map-flat" whose operands and result lie as `like` does: a Map can work on any layout, so
/// what another kernel made needs no relayout. `at` tells, for an iteration point of `like`, the result's
/// index. Operands of one element come by themselves. Nothing where `like` holds halves.
///
/// Example: the gradient of a matrix as a product makes it, and the matrix that it changes.
std::optional<Candidate> map_candidate_like(const StreamPlacement& like, const AffineMap& at,
                                            const Layer& layer, const isa::Chip& chip);

}  // namespace kodama::compiler
