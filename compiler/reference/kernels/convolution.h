#pragma once

#include "compiler/reference/kernels/window.h"

/// Plain convolutions, shared by Conv, ConvInteger and QLinearConv.
namespace kodama::compiler::reference {

struct ConvolutionProblem {
  Window window;
  int64_t groups = 1;
  Shape result_shape;
  /// Multiply-adds.
  int64_t work = 0;
};

/// Checks x [N, C, ...] and weights [M, C / group, ...] of a node against each other and its attributes.
ConvolutionProblem plan_convolution(const NodeContext& context, const Tensor& x, const Tensor& weights);

/// Σ x * w for every result element, in Acc: f(result index, output channel, sum). `x_value` and `w_value`
/// turn an element's index into its value; positions in the padding contribute nothing.
template <typename Acc, typename XValue, typename WValue, typename F>
void convolve(const ConvolutionProblem& problem, const Tensor& x, const Tensor& weights, XValue x_value,
              WValue w_value, F&& f);

}  // namespace kodama::compiler::reference

#include "compiler/reference/kernels/strided.h"

namespace kodama::compiler::reference {

template <typename Acc, typename XValue, typename WValue, typename F>
void convolve(const ConvolutionProblem& problem, const Tensor& x, const Tensor& weights, XValue x_value,
              WValue w_value, F&& f) {
  const Window& window = problem.window;
  const int64_t channels = x.shape()[1];
  const int64_t out_channels = weights.shape()[0];
  const int64_t group_channels = weights.shape()[1];
  const int64_t group_out_channels = out_channels / problem.groups;
  const int64_t in_plane = element_count(window.input);
  const int64_t out_plane = element_count(window.output);
  const int64_t kernel_size = element_count(window.kernel);
  std::vector<WindowElement> elements;
  int64_t position = 0;
  for (IndexIterator output(window.output); output.valid(); output.next(), ++position) {
    window_elements(window, output.index(), elements);
    for (int64_t n = 0; n < x.shape()[0]; ++n) {
      for (int64_t m = 0; m < out_channels; ++m) {
        const int64_t first_channel = m / group_out_channels * group_channels;
        Acc sum = 0;
        for (int64_t c = 0; c < group_channels; ++c) {
          const int64_t x_begin = (n * channels + first_channel + c) * in_plane;
          const int64_t w_begin = (m * group_channels + c) * kernel_size;
          for (const WindowElement& element : elements) {
            sum += static_cast<Acc>(x_value(static_cast<size_t>(x_begin + element.input_offset))) *
                   static_cast<Acc>(w_value(static_cast<size_t>(w_begin + element.kernel_offset)));
          }
        }
        f(static_cast<size_t>((n * out_channels + m) * out_plane + position), static_cast<size_t>(m), sum);
      }
    }
  }
}

}  // namespace kodama::compiler::reference
