#pragma once

#include "compiler/lowering/node_lowering.h"

/// The gradient of MaxPool: what comes to a window goes to the first of its elements that has the maximum. In
/// ONNX a ScatterElements adds it where the Indices of a MaxPool say (compiler/graph/gradient):
///
///     y_, i = MaxPool(x)     dx = ScatterElements<reduction = "add">(zeros, i, dy)     all of one axis
///
/// As windows are regular, nothing has to be looked for: two Reduces make it, of which the first says by one
/// bit which of its elements a window takes, and the second adds up, for every element, what the windows over
/// it have, if their bit is that of the element. Windows of 3 x 3, stride 2, padding 1, of 112 rows and
/// columns:
///
///     first   dims  n c oh:56 ow:56        max over kh:3 kw:3  x(n, c, 2 oh + kh - 1, 2 ow + kw - 1) is
///                                          y(n, c, oh, ow) ? bit[kh, kw] : 0
///     dx      dims  n c h:56 p:2 w:56 q:2  sum over i:2 j:2    first(n, c, h + i, w + j) & bit[p, i, q, j] ?
///                                          dy(n, c, h + i, w + j) : 0
///
/// Elements 2 h of an axis are the second of window h; elements 2 h + 1 the last of that window and the first
/// of window h + 1: so of the bits [p, i], one is nobody's.
namespace kodama::compiler {

/// The MaxPool by whose Indices a ScatterElements adds to zeros, of floats of the chip; else nullptr.
const onnx::NodeProto* scattered_pool(const GraphView& view, const onnx::NodeProto& node);
/// Whether a node or the model's user reads a value.
bool is_read(const GraphView& view, const std::string& value);
/// Whether nobody but such nodes reads a value, with other shapes between.
bool is_only_scattered(const GraphView& view, const std::string& indices);
/// Such a node, by the MaxPool.
HostReason lower_pool_gradient(NodeLowering& lowering, const onnx::NodeProto& pool);

}  // namespace kodama::compiler
