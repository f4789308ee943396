#include "compiler/reference/kernels/convolution.h"

#include <algorithm>

#include "compiler/reference/kernels/dnnl_backend.h"

namespace kodama::compiler::reference {

ConvolutionProblem plan_convolution(const NodeContext& context, const Tensor& x, const Tensor& weights) {
  context.require(x.rank() >= 3 && weights.rank() == x.rank(),
                  "X has shape {} and W {}; allowed are [N, C, spatial...] and [M, C/group, kernel...]",
                  shape_to_string(x.shape()), shape_to_string(weights.shape()));
  const Shape kernel(weights.shape().begin() + 2, weights.shape().end());
  if (context.has_attribute("kernel_shape")) {
    const Shape declared = context.ints_attribute("kernel_shape");
    context.require(declared == kernel, "kernel_shape is {}, but W has shape {}", shape_to_string(declared),
                    shape_to_string(weights.shape()));
  }
  ConvolutionProblem problem;
  problem.groups = context.int_attribute("group");
  context.require(problem.groups >= 1 && weights.shape()[0] % problem.groups == 0 &&
                      weights.shape()[1] <= x.shape()[1] && x.shape()[1] % problem.groups == 0 &&
                      weights.shape()[1] == x.shape()[1] / problem.groups,
                  "group {} doesn't fit X {} and W {}: C must be group times W's second extent, and M a "
                  "multiple of group",
                  problem.groups, shape_to_string(x.shape()), shape_to_string(weights.shape()));
  problem.window = window_of(context, x.shape(), kernel);
  problem.result_shape = {x.shape()[0], weights.shape()[0]};
  problem.result_shape.insert(problem.result_shape.end(), problem.window.output.begin(),
                              problem.window.output.end());
  const int64_t results = element_count(problem.result_shape);
  if (__builtin_mul_overflow(results, count_between(weights.shape(), 1, weights.shape().size()),
                             &problem.work)) {
    context.fail("more than 2^63 multiplications for X {} and W {}", shape_to_string(x.shape()),
                 shape_to_string(weights.shape()));
  }
  return problem;
}

namespace {

const Tensor* bias_of(const NodeContext& context, int64_t channels) {
  const Tensor* const bias = context.optional_input(2);
  if (bias != nullptr) {
    context.require(bias->shape() == Shape{channels}, "B has shape {}; allowed is [{}]",
                    shape_to_string(bias->shape()), channels);
  }
  return bias;
}

std::vector<Tensor> run_conv(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& weights = context.input(1);
  const ConvolutionProblem problem = plan_convolution(context, x, weights);
  const Tensor* const bias = bias_of(context, weights.shape()[0]);
  Tensor result(x.type(), problem.result_shape);
  if (problem.work >= kDnnlThreshold && dnnl_supports(problem.window, x)) {
    return {dnnl_convolution(problem.window, problem.groups, x, weights, bias)};
  }
  for_float_type(context, x.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto from = x.data<T>();
    const auto filter = weights.data<T>();
    const auto to = result.data<T>();
    convolve<double>(
        problem, x, weights, [&](size_t i) { return static_cast<double>(from[i]); },
        [&](size_t i) { return static_cast<double>(filter[i]); },
        [&](size_t i, size_t channel, double sum) {
          to[i] = to_element<T>(bias != nullptr ? sum + static_cast<double>(bias->data<T>()[channel]) : sum);
        });
  });
  return {result};
}

/// The gradient of a convolution: every input element adds its multiple of the kernel to the output.
std::vector<Tensor> run_conv_transpose(const NodeContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& weights = context.input(1);  // [C, M / group, kernel...]
  context.require(x.rank() >= 3 && weights.rank() == x.rank() && weights.shape()[0] == x.shape()[1],
                  "X has shape {} and W {}; allowed are [N, C, spatial...] and [C, M/group, kernel...]",
                  shape_to_string(x.shape()), shape_to_string(weights.shape()));
  const int64_t groups = context.int_attribute("group");
  context.require(groups >= 1 && x.shape()[1] % groups == 0, "group is {}, but X has {} channels", groups,
                  x.shape()[1]);
  const size_t rank = x.shape().size() - 2;
  const Shape kernel(weights.shape().begin() + 2, weights.shape().end());
  const auto attribute = [&](const char* name, size_t size, int64_t otherwise, int64_t lowest) {
    const Shape values = context.ints_attribute_if_present(name).value_or(Shape(size, otherwise));
    context.require(values.size() == size, "{} has {} values; allowed is {}", name, values.size(), size);
    for (const int64_t value : values) {
      context.require(value >= lowest && value < (int64_t{1} << 31), "{} holds {}; allowed is {} to 2^31-1",
                      name, value, lowest);
    }
    return values;
  };
  const Shape strides = attribute("strides", rank, 1, 1);
  const Shape dilations = attribute("dilations", rank, 1, 1);
  const Shape output_padding = attribute("output_padding", rank, 0, 0);
  Shape pads = attribute("pads", 2 * rank, 0, 0);
  const std::string auto_pad = context.string_attribute("auto_pad");
  const std::optional<Shape> wanted = context.ints_attribute_if_present("output_shape");
  Shape output;
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t input = x.shape()[axis + 2];
    context.require(
        input >= 1 && input < (int64_t{1} << 31) && kernel[axis] >= 1 && kernel[axis] < (int64_t{1} << 31),
        "X has shape {} and W {}; spatial extents must be 1 to 2^31-1", shape_to_string(x.shape()),
        shape_to_string(weights.shape()));
    const int64_t full =
        strides[axis] * (input - 1) + output_padding[axis] + (kernel[axis] - 1) * dilations[axis] + 1;
    const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
    if (wanted || same) {
      if (wanted) {
        context.require(wanted->size() == rank || wanted->size() == rank + 2,
                        "output_shape has {} values; allowed is {}", wanted->size(), rank);
      }
      const int64_t extent = wanted ? (*wanted)[wanted->size() - rank + axis] : input * strides[axis];
      context.require(extent >= 0 && extent < (int64_t{1} << 31), "output_shape holds {}", extent);
      const int64_t total = std::max<int64_t>(0, full - extent);
      pads[axis] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      pads[rank + axis] = total - pads[axis];
      output.push_back(extent);
    } else {
      if (auto_pad == "VALID") pads[axis] = pads[rank + axis] = 0;
      output.push_back(full - pads[axis] - pads[rank + axis]);
      context.require(output.back() >= 0, "the padding leaves an output of extent {}", output.back());
    }
  }
  const int64_t group_out_channels = weights.shape()[1];
  const int64_t out_channels = group_out_channels * groups;
  const int64_t group_channels = x.shape()[1] / groups;
  const Tensor* const bias = bias_of(context, out_channels);
  Shape shape = {x.shape()[0], out_channels};
  shape.insert(shape.end(), output.begin(), output.end());
  Tensor result(x.type(), shape);
  std::vector<double> sums(static_cast<size_t>(result.size()), 0.0);
  const Shape input(x.shape().begin() + 2, x.shape().end());
  const int64_t in_plane = element_count(input);
  const int64_t out_plane = element_count(output);
  const int64_t kernel_size = element_count(kernel);
  for_float_type(context, x.type(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto from = x.data<T>();
    const auto filter = weights.data<T>();
    int64_t in_offset = 0;
    for (IndexIterator at(input); at.valid(); at.next(), ++in_offset) {
      int64_t kernel_offset = 0;
      for (IndexIterator tap(kernel); tap.valid(); tap.next(), ++kernel_offset) {
        int64_t out_offset = 0;
        bool inside = true;
        for (size_t axis = 0; axis < rank; ++axis) {
          const int64_t to =
              at.index()[axis] * strides[axis] + tap.index()[axis] * dilations[axis] - pads[axis];
          inside = inside && to >= 0 && to < output[axis];
          out_offset = out_offset * output[axis] + to;
        }
        if (!inside) continue;
        for (int64_t n = 0; n < x.shape()[0]; ++n) {
          for (int64_t c = 0; c < x.shape()[1]; ++c) {
            const auto value =
                static_cast<double>(from[static_cast<size_t>((n * x.shape()[1] + c) * in_plane + in_offset)]);
            for (int64_t m = 0; m < group_out_channels; ++m) {
              const int64_t channel = c / group_channels * group_out_channels + m;
              sums[static_cast<size_t>((n * out_channels + channel) * out_plane + out_offset)] +=
                  value * static_cast<double>(filter[static_cast<size_t>(
                              (c * group_out_channels + m) * kernel_size + kernel_offset)]);
            }
          }
        }
      }
    }
    const auto to = result.data<T>();
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto channel = i / static_cast<size_t>(out_plane) % static_cast<size_t>(out_channels);
      to[i] =
          to_element<T>(bias != nullptr ? sums[i] + static_cast<double>(bias->data<T>()[channel]) : sums[i]);
    }
  });
  return {result};
}

}  // namespace

void register_convolution(KernelRegistry& registry) {
  registry.add("Conv", run_conv);
  registry.add("ConvTranspose", run_conv_transpose);
}

}  // namespace kodama::compiler::reference
