#include "compiler/reference/kernels/window.h"

#include <algorithm>

#include "compiler/reference/kernels/strided.h"

namespace kodama::compiler::reference {

namespace {

/// Keeps products and sums of window parameters far from overflow.
constexpr int64_t kLargestParameter = int64_t{1} << 31;

Shape spatial_attribute(const NodeContext& context, const std::string& name, size_t rank, int64_t otherwise,
                        int64_t lowest) {
  const std::optional<std::vector<int64_t>> given = context.ints_attribute_if_present(name);
  if (!given || given->empty()) return Shape(rank, otherwise);
  context.require(given->size() == rank, "{} has {} values; allowed is {}", name, given->size(), rank);
  for (const int64_t value : *given) {
    context.require(value >= lowest && value < kLargestParameter, "{} holds {}; allowed is {} to 2^31-1",
                    name, value, lowest);
  }
  return *given;
}

}  // namespace

Shape kernel_shape_attribute(const NodeContext& context, const Shape& input_shape) {
  context.require(input_shape.size() >= 3, "the input has shape {}; allowed is [N, C, spatial...]",
                  shape_to_string(input_shape));
  const Shape kernel = context.ints_attribute("kernel_shape");
  context.require(kernel.size() + 2 == input_shape.size(),
                  "kernel_shape has {} values for input {}; allowed is {}", kernel.size(),
                  shape_to_string(input_shape), input_shape.size() - 2);
  return kernel;
}

Window window_of(const NodeContext& context, const Shape& input_shape, const Shape& kernel) {
  const size_t rank = kernel.size();
  context.require(rank >= 1 && input_shape.size() == rank + 2,
                  "a kernel of shape {} doesn't fit an input of shape {}", shape_to_string(kernel),
                  shape_to_string(input_shape));
  for (const int64_t extent : kernel) {
    context.require(extent >= 1 && extent < kLargestParameter,
                    "the kernel has shape {}; allowed are extents of 1 to 2^31-1", shape_to_string(kernel));
  }
  Window window;
  window.input.assign(input_shape.begin() + 2, input_shape.end());
  window.kernel = kernel;
  window.strides = spatial_attribute(context, "strides", rank, 1, 1);
  window.dilations = spatial_attribute(context, "dilations", rank, 1, 1);
  const Shape pads = spatial_attribute(context, "pads", 2 * rank, 0, 0);
  window.pads_begin.assign(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(rank));
  window.pads_end.assign(pads.begin() + static_cast<ptrdiff_t>(rank), pads.end());
  const std::string auto_pad =
      context.has_attribute("auto_pad") ? context.string_attribute("auto_pad") : std::string("NOTSET");
  const bool ceil_mode = context.int_attribute("ceil_mode", 0) != 0;
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  context.require(same || auto_pad == "NOTSET" || auto_pad == "VALID" || auto_pad.empty(),
                  "auto_pad is '{}'; allowed are NOTSET, SAME_UPPER, SAME_LOWER and VALID", auto_pad);
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t input = window.input[axis];
    const int64_t stride = window.strides[axis];
    const int64_t reach = (kernel[axis] - 1) * window.dilations[axis] + 1;
    context.require(input < kLargestParameter, "the input has shape {}; spatial extents must be below 2^31",
                    shape_to_string(input_shape));
    if (same) {
      const int64_t output = (input + stride - 1) / stride;
      const int64_t total = std::max<int64_t>(0, (output - 1) * stride + reach - input);
      const int64_t smaller = total / 2;
      window.pads_begin[axis] = auto_pad == "SAME_UPPER" ? smaller : total - smaller;
      window.pads_end[axis] = total - window.pads_begin[axis];
      window.output.push_back(output);
      continue;
    }
    if (auto_pad == "VALID") window.pads_begin[axis] = window.pads_end[axis] = 0;
    const int64_t room = input + window.pads_begin[axis] + window.pads_end[axis] - reach;
    context.require(room >= 0,
                    "the kernel reaches over {} elements of spatial axis {}, but input and padding have {}",
                    reach, axis, room + reach);
    window.output.push_back((ceil_mode ? room + stride - 1 : room) / stride + 1);
  }
  return window;
}

int64_t window_elements(const Window& window, const std::vector<int64_t>& position,
                        std::vector<WindowElement>& elements) {
  elements.clear();
  int64_t padded_count = 0;
  int64_t kernel_offset = 0;
  for (IndexIterator kernel(window.kernel); kernel.valid(); kernel.next(), ++kernel_offset) {
    int64_t input_offset = 0;
    bool inside = true;
    bool inside_padding = true;
    for (size_t axis = 0; axis < window.rank(); ++axis) {
      const int64_t at = position[axis] * window.strides[axis] - window.pads_begin[axis] +
                         kernel.index()[axis] * window.dilations[axis];
      inside = inside && at >= 0 && at < window.input[axis];
      inside_padding = inside_padding && at < window.input[axis] + window.pads_end[axis];
      input_offset = input_offset * window.input[axis] + at;
    }
    if (inside) elements.push_back({kernel_offset, input_offset});
    if (inside_padding) ++padded_count;
  }
  return padded_count;
}

}  // namespace kodama::compiler::reference
