#include <cmath>

#include "compiler/reference/kernels/dnnl_backend.h"
#include "compiler/reference/kernels/strided.h"
#include "compiler/reference/kernels/window.h"

/// Pooling: a reduction of every window of every channel.
namespace kodama::compiler::reference {

namespace {

Shape pooled_shape(const Shape& input, const Window& window) {
  Shape shape = {input[0], input[1]};
  shape.insert(shape.end(), window.output.begin(), window.output.end());
  return shape;
}

bool is_worth_dnnl(const Window& window, const Tensor& x) {
  const double work = static_cast<double>(element_count(window.output)) * static_cast<double>(x.shape()[0]) *
                      static_cast<double>(x.shape()[1]) * static_cast<double>(element_count(window.kernel));
  return dnnl_supports(window, x) && work >= static_cast<double>(kDnnlThreshold);
}

/// Whether every window lies inside input and padding (ceil_mode may make the last one stand out).
bool windows_stay_inside(const Window& window) {
  for (size_t axis = 0; axis < window.rank(); ++axis) {
    const int64_t reach = (window.kernel[axis] - 1) * window.dilations[axis] + 1;
    const int64_t end = (window.output[axis] - 1) * window.strides[axis] + reach;
    if (end > window.input[axis] + window.pads_begin[axis] + window.pads_end[axis]) return false;
  }
  return true;
}

/// Whether every window has at least one element of the input.
bool windows_touch_input(const Window& window) {
  for (size_t axis = 0; axis < window.rank(); ++axis) {
    const int64_t reach = (window.kernel[axis] - 1) * window.dilations[axis] + 1;
    if (window.dilations[axis] > 1 || window.pads_begin[axis] >= reach ||
        (window.output[axis] - 1) * window.strides[axis] - window.pads_begin[axis] >= window.input[axis]) {
      return false;
    }
  }
  return true;
}

/// f(output element, plane begin in the input, elements inside, number inside input and padding) for every
/// output element.
template <typename F>
void for_each_window(const Tensor& x, const Window& window, F&& f) {
  const int64_t planes = x.shape()[0] * x.shape()[1];
  const int64_t in_plane = element_count(window.input);
  const int64_t out_plane = element_count(window.output);
  std::vector<WindowElement> elements;
  int64_t position = 0;
  for (IndexIterator output(window.output); output.valid(); output.next(), ++position) {
    const int64_t padded_count = window_elements(window, output.index(), elements);
    for (int64_t plane = 0; plane < planes; ++plane) {
      f(static_cast<size_t>(plane * out_plane + position), plane * in_plane, elements, padded_count);
    }
  }
}

/// The index of a spatial position when the first spatial axis is the fastest.
int64_t column_major_offset(int64_t offset, const Shape& shape) {
  int64_t result = 0;
  int64_t stride = element_count(shape);
  for (size_t axis = shape.size(); axis-- > 0;) {
    stride /= shape[axis];
    result += offset % shape[axis] * stride;
    offset /= shape[axis];
  }
  return result;
}

std::vector<Tensor> run_max_pool(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const Window window = window_of(context, x.shape(), kernel_shape_attribute(context, x.shape()));
  const bool with_indices = context.has_output(1);
  if (!with_indices && windows_touch_input(window) && is_worth_dnnl(window, x)) {
    return {dnnl_pool(window, PoolKind::kMax, x)};
  }
  const bool column_major = context.int_attribute("storage_order", 0) != 0;
  Tensor result(x.type(), pooled_shape(x.shape(), window));
  Tensor indices(DataType::kInt64, with_indices ? result.shape() : Shape{0});
  for_number_type(context, x.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto from = x.data<T>();
    const auto to = result.data<T>();
    for_each_window(
        x, window, [&](size_t i, int64_t begin, const std::vector<WindowElement>& elements, int64_t) {
          auto best = lowest_value<T>();
          int64_t best_offset = elements.empty() ? -1 : elements[0].input_offset;
          for (const WindowElement& element : elements) {
            const auto value =
                static_cast<Compute<T>>(from[static_cast<size_t>(begin + element.input_offset)]);
            if (value > best || (is_nan(value) && !is_nan(best))) {
              best = value;
              best_offset = element.input_offset;
            }
          }
          to[i] = to_element<T>(best);
          if (with_indices) {
            indices.data<int64_t>()[i] =
                best_offset < 0
                    ? -1
                    : begin + (column_major ? column_major_offset(best_offset, window.input) : best_offset);
          }
        });
  });
  return {result, indices};
}

std::vector<Tensor> run_average_pool(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const Window window = window_of(context, x.shape(), kernel_shape_attribute(context, x.shape()));
  const bool include_padding = context.int_attribute("count_include_pad", 0) != 0;
  if ((include_padding ? windows_stay_inside(window) : windows_touch_input(window)) &&
      is_worth_dnnl(window, x)) {
    return {dnnl_pool(window, include_padding ? PoolKind::kAverageWithPadding : PoolKind::kAverage, x)};
  }
  Tensor result(x.type(), pooled_shape(x.shape(), window));
  for_float_type(context, x.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto from = x.data<T>();
    const auto to = result.data<T>();
    for_each_window(x, window,
                    [&](size_t i, int64_t begin, const std::vector<WindowElement>& elements, int64_t padded) {
                      double sum = 0;
                      for (const WindowElement& element : elements) {
                        sum += static_cast<double>(from[static_cast<size_t>(begin + element.input_offset)]);
                      }
                      const auto count = include_padding ? padded : static_cast<int64_t>(elements.size());
                      to[i] = to_element<T>(count == 0 ? 0.0 : sum / static_cast<double>(count));
                    });
  });
  return {result};
}

std::vector<Tensor> run_lp_pool(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const Window window = window_of(context, x.shape(), kernel_shape_attribute(context, x.shape()));
  const double p = context.number_attribute("p");
  Tensor result(x.type(), pooled_shape(x.shape(), window));
  for_float_type(context, x.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto from = x.data<T>();
    const auto to = result.data<T>();
    for_each_window(
        x, window, [&](size_t i, int64_t begin, const std::vector<WindowElement>& elements, int64_t) {
          double sum = 0;
          for (const WindowElement& element : elements) {
            sum += std::pow(
                std::fabs(static_cast<double>(from[static_cast<size_t>(begin + element.input_offset)])), p);
          }
          to[i] = to_element<T>(std::pow(sum, 1 / p));
        });
  });
  return {result};
}

/// Reduces each plane as a whole: f(span of the plane) in double.
template <typename F>
Kernel global_pool(F reduce_plane) {
  return [reduce_plane](const NodeContext& context) -> std::vector<Tensor> {
    const Tensor& x = context.input(0);
    context.require(x.rank() >= 3, "the input has shape {}; allowed is [N, C, spatial...]",
                    shape_to_string(x.shape()));
    Shape shape(x.shape().size(), 1);
    shape[0] = x.shape()[0];
    shape[1] = x.shape()[1];
    const auto plane = static_cast<size_t>(count_between(x.shape(), 2, x.shape().size()));
    context.require(plane > 0, "the input has shape {} with an empty spatial axis",
                    shape_to_string(x.shape()));
    Tensor result(x.type(), shape);
    for_float_type(context, x.type(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      const auto from = x.data<T>();
      const auto to = result.data<T>();
      for (size_t i = 0; i < to.size(); ++i) {
        to[i] = to_element<T>(reduce_plane(context, from.subspan(i * plane, plane)));
      }
    });
    return {result};
  };
}

constexpr auto kPlaneMean = [](const NodeContext&, const auto plane) {
  double sum = 0;
  for (const auto value : plane) sum += static_cast<double>(value);
  return sum / static_cast<double>(plane.size());
};
constexpr auto kPlaneMax = [](const NodeContext&, const auto plane) {
  auto best = static_cast<double>(plane[0]);
  for (const auto value : plane) best = maximum(best, static_cast<double>(value));
  return best;
};
constexpr auto kPlaneNorm = [](const NodeContext& context, const auto plane) {
  const double p = context.number_attribute("p");
  double sum = 0;
  for (const auto value : plane) sum += std::pow(std::fabs(static_cast<double>(value)), p);
  return std::pow(sum, 1 / p);
};

std::vector<Tensor> run_max_unpool(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& indices = context.input(1);
  const Shape kernel = kernel_shape_attribute(context, x.shape());
  context.require(indices.shape() == x.shape(), "X has shape {} and I {}; they must be the same",
                  shape_to_string(x.shape()), shape_to_string(indices.shape()));
  const Shape strides = context.ints_attribute_if_present("strides").value_or(Shape(kernel.size(), 1));
  const Shape pads = context.ints_attribute_if_present("pads").value_or(Shape(2 * kernel.size(), 0));
  context.require(strides.size() == kernel.size() && pads.size() == 2 * kernel.size(),
                  "strides and pads don't fit kernel_shape {}", shape_to_string(kernel));
  // The indices count in the tensor that was pooled; output_shape may be larger than that.
  Shape pooled = {x.shape()[0], x.shape()[1]};
  for (size_t axis = 0; axis < kernel.size(); ++axis) {
    int64_t extent = 0;
    if (__builtin_mul_overflow(x.shape()[axis + 2] - 1, strides[axis], &extent) ||
        __builtin_add_overflow(extent, kernel[axis] - pads[axis] - pads[kernel.size() + axis], &extent) ||
        extent < 0) {
      context.fail("strides {}, pads {} and kernel_shape {} give no output", shape_to_string(strides),
                   shape_to_string(pads), shape_to_string(kernel));
    }
    pooled.push_back(extent);
  }
  const Shape shape = context.has_input(2) ? context.integers(2) : pooled;
  context.require(
      shape.size() == pooled.size() && std::equal(shape.begin(), shape.begin() + 2, pooled.begin()),
      "output_shape is {}; allowed is {} or larger", shape_to_string(shape), shape_to_string(pooled));
  const Strides pooled_strides = strides_of(pooled);
  const Strides strides_in_result = strides_of(shape);
  Tensor result(x.type(), shape);
  std::vector<int64_t> offsets;
  for (const int64_t index : indices.data<int64_t>()) {
    context.require(index >= 0 && index < element_count(pooled),
                    "index {} is out of range; allowed is 0 to {}", index, element_count(pooled) - 1);
    int64_t offset = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const int64_t coordinate = index / pooled_strides[axis] % pooled[axis];
      context.require(coordinate < shape[axis], "output_shape is {}; allowed is {} or larger",
                      shape_to_string(shape), shape_to_string(pooled));
      offset += coordinate * strides_in_result[axis];
    }
    offsets.push_back(offset);
  }
  put(x, offsets, result);
  return {result};
}

}  // namespace

void register_pool(KernelRegistry& registry) {
  registry.add("MaxPool", run_max_pool);
  registry.add("AveragePool", run_average_pool);
  registry.add("LpPool", run_lp_pool);
  registry.add("GlobalAveragePool", global_pool(kPlaneMean));
  registry.add("GlobalMaxPool", global_pool(kPlaneMax));
  registry.add("GlobalLpPool", global_pool(kPlaneNorm));
  registry.add("MaxUnpool", run_max_unpool);
}

}  // namespace kodama::compiler::reference
