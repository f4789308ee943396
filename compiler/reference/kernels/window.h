#pragma once

#include <vector>

#include "compiler/reference/kernels/kernel.h"

/// Sliding windows: what convolutions and pooling have in common.
namespace kodama::compiler::reference {

/// One extent per spatial axis in each.
struct Window {
  Shape input;
  Shape kernel;
  Shape strides;
  Shape dilations;
  Shape pads_begin;
  Shape pads_end;
  Shape output;

  size_t rank() const { return kernel.size(); }
};

/// A kernel element that lies inside the input.
struct WindowElement {
  int64_t kernel_offset;  ///< row-major in the kernel
  int64_t input_offset;   ///< row-major in the input's spatial axes
};

/// Reads strides, dilations, pads, auto_pad and ceil_mode of a node with a [N, C, spatial...] input and
/// computes the output's extents. UserError for anything inconsistent.
Window window_of(const NodeContext& context, const Shape& input_shape, const Shape& kernel);
/// The attribute kernel_shape, checked against the input's rank.
Shape kernel_shape_attribute(const NodeContext& context, const Shape& input_shape);

/// The elements of the window at `position` that lie inside the input; returns how many lie inside input or
/// padding.
int64_t window_elements(const Window& window, const std::vector<int64_t>& position,
                        std::vector<WindowElement>& elements);

}  // namespace kodama::compiler::reference
