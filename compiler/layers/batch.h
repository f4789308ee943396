#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/layers/layer_graph.h"

/// The batch of a model, as its layers show it: what every layer computes for an image (or whatever else the
/// first axis of the inputs counts) is made of the same image's operands and of constants, so that a *slice*,
/// some of the images, can be worked on without the others.
///
/// A tensor has its images along one axis, where an image may have several indices, one after the other: 32
/// images of 64 tokens are [32, 64, 256], [64, 32, 256] or [2048, 256]. A layer goes along with a dimension
/// of its iteration space: image k of that dimension reads image k of operands, and makes image k of the
/// result. The maps alone show it, whatever the layer computes.
namespace kodama::compiler {

struct Batch {
  static constexpr int kSame = -1;  ///< nothing here depends on the image
  int64_t images = 1;
  std::vector<int> axes;        ///< by tensor: the axis that has its images, or kSame
  std::vector<int> dimensions;  ///< by layer: the dimension that goes along with it, or kSame
};

/// Nothing where the inputs don't all begin with an axis of the same extent, 2 at least, or where a layer
/// isn't seen to go along with it; those of the host never are. `why_not`, if not null, receives the reason.
std::optional<Batch> find_batch(const LayerGraph& graph, std::string* why_not = nullptr);

/// The layers for the first `images` images, which must divide all of them. Tensors and layers keep their
/// numbers.
LayerGraph slice_of(const LayerGraph& graph, const Batch& batch, int64_t images);

/// Copies slice number `index` of a tensor whose `axis` has several; `slice` has the shape of one.
Tensor take_slice(const Tensor& whole, int axis, const Shape& slice, int64_t index);
void put_slice(Tensor& whole, int axis, const Tensor& slice, int64_t index);

}  // namespace kodama::compiler
