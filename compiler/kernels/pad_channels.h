#pragma once

#include "compiler/layers/layer_graph.h"
#include "isa/chip.h"

/// Concatenations along channels whose parts are no whole chunks (rows.h) become concatenations of parts that
/// are: channels that nobody wants fill each part up. Who reads the parts one after the other then needs no
/// relayout. What products read of the new channels, their matrices have zeros for. Example:
///
///     x [1, 56, 14, 14] = conv(a, W), y [1, 64, 14, 14], z [1, 120, 14, 14] = x, y
///         ->  x [1, 64, 14, 14] = conv(a, W with eight filters of zeros), z [1, 128, 14, 14]
///
/// That is done where products with constant matrices ("contract-rows") make the parts for the concatenation
/// alone, and such products, or pooling that again only they read, read it; and where it is little that fills
/// parts up.
namespace kodama::compiler {

void pad_channels(LayerGraph& graph, const isa::Chip& chip);

}  // namespace kodama::compiler
