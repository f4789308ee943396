#pragma once

#include "compiler/layers/layer_graph.h"

/// Passes over the layer graph. Each leaves a graph that computes the same outputs. lower_to_layers runs
/// them.
namespace kodama::compiler {

/// A Map whose result only one Map reads, at the same points, becomes part of that layer's expression.
/// Bounded, so that a layer's operands and temporaries still fit a PE.
void fuse_maps(LayerGraph& graph);
/// The same with a Reduce that reads it. After fuse_epilogues: what makes a Map's operand is where it costs
/// least.
void fuse_reductions(LayerGraph& graph);
/// A Map that alone reads the result of a Contract or Reduce, at the same points, becomes its epilogue.
void fuse_epilogues(LayerGraph& graph);
/// A Map that multiplies one tensor by a constant, for a single operand of a Contract that alone reads it,
/// becomes a factor of the Contract's result: attention, where a model scales its queries.
void fuse_scales(LayerGraph& graph);
/// Who reads the result of a Rearrange with one piece reads the Rearrange's source instead, where the
/// composed access is still affine; Rearranges that nobody reads any more go.
void fold_rearranges(LayerGraph& graph);
/// A Reduce that sums up what an earlier one does, as a model's statistics and their gradients do, reads that
/// one's result: it becomes another name of it, or where its epilogue does more, a Map.
void merge_reductions(LayerGraph& graph);
/// Rearranges that nobody reads go.
void drop_unread_rearranges(LayerGraph& graph);
/// A new name of a tensor's elements, in another shape.
TensorId seen_as(LayerGraph& graph, TensorId tensor, const Shape& shape);
/// Gives a layer's result another shape; whoever reads it reads it as it was.
void make_as(LayerGraph& graph, TensorId result, const Shape& shape);
/// Removes tensors that no layer, input, output or used alias refers to; renumbers the rest.
void drop_unused_tensors(LayerGraph& graph);

}  // namespace kodama::compiler
