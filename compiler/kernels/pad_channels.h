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
/// So do groups of a convolution of which no whole chunks can be made (RowsSections): each becomes as wide as
/// a power of two or whole chunks, or more of them follow. Example:
///
///     x [1, 408, 14, 14] = conv(a, W), y [1, 408, 14, 14] = conv of x in 17 groups of 24, z = conv(y, V)
///         ->  x and y [1, 576, 14, 14], 18 groups of 32, the last of zeros; W, V with zeros for what is new
///
/// That is done where products with constant matrices ("contract-rows") make the parts for the concatenation,
/// or the operand for the groups, alone; and such products, or pooling and Maps that again only they read,
/// read the result. What a Map reads beside it, products make, or it is constant. Parts must need little to
/// fill them up, groups save more products than the layers beside them have then.
namespace kodama::compiler {

void pad_channels(LayerGraph& graph, const isa::Chip& chip);

}  // namespace kodama::compiler
