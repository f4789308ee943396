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
/// Pictures with channels last, [N, H, W, C], get channels first where that is how convolutions and pooling
/// make or read them: who transposes between the two then makes what it reads, and goes. All that go along
/// with each other (maps, products and normalizations of their elements) change together, or none does.
/// Example, a block of ConvNeXt: depthwise convolution, Transpose, normalization, two MatMuls over channels,
/// Transpose, sum.
void channels_first(LayerGraph& graph);
/// A Map that alone reads the result of a Contract or Reduce, at the same points, becomes its epilogue.
void fuse_epilogues(LayerGraph& graph);
/// A Reduce that only adds up what a Contract makes, over dims that both operands have, becomes part of the
/// Contract's own sum: the gradient of weights, of a product for each picture. Results of less than `least`
/// elements stay apart, since their products have something to do for all of the chip only together.
void fuse_sums(LayerGraph& graph, int64_t least);
/// A Map that reads the transpose of what a Contract makes of tensors that layers make, at the same points,
/// becomes its epilogue, which makes the transpose: the update of an optimizer, behind the gradient of a
/// convolution's weights. After split-columns, which takes such Contracts without epilogues.
void fuse_transposed_epilogues(LayerGraph& graph);
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
