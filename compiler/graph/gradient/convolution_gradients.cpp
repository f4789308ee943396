#include <algorithm>

#include "compiler/graph/gradient/windows.h"

/// Convolutions of any number of spatial axes. Their gradients are convolutions again:
///
///   data     dx = ConvTranspose(dy, w)      every product goes back where its factor was
///   weights  dw = Conv(x, dy)               batch and channels exchanged, strides and dilations exchanged
///
/// and the other way round for a transposed convolution, which is the adjoint of one.
namespace kodama::compiler::gradient {

namespace {

Attributes convolution_attributes(const Windows& w, int64_t group) {
  return {onnx::MakeAttribute("strides", w.strides), onnx::MakeAttribute("dilations", w.dilations),
          onnx::MakeAttribute("pads", pads_of(w)), onnx::MakeAttribute("group", group),
          onnx::MakeAttribute("kernel_shape", w.kernel)};
}

/// The elements in windows, and padding that isn't negative: operators have no other.
Term fit(const Term& x, Windows& w) {
  Term cut = x;
  for (size_t axis = 0; axis < w.rank(); ++axis) {
    if (w.behind[axis] >= 0) continue;
    cut = pad(cut, static_cast<int64_t>(axis) + 2, 0, w.behind[axis]);
    w.input[axis] += w.behind[axis];
    w.behind[axis] = 0;
  }
  return cut;
}

/// Adds zeros for elements that no window had.
Term unfit(const Term& x, const Shape& shape) {
  Term whole = x;
  for (int64_t axis = 2; axis < x.rank(); ++axis)
    whole = pad(whole, axis, 0, shape[static_cast<size_t>(axis)] - whole.extent(axis));
  return whole;
}

/// The adjoint of a convolution over data of shape `data`: from `results` [N, M, output...] back to it.
Term convolve_back(const Term& results, const Term& weights, Windows w, int64_t group, const Shape& data) {
  for (size_t axis = 0; axis < w.rank(); ++axis) {
    w.input[axis] += std::min<int64_t>(w.behind[axis], 0);
    w.behind[axis] = std::max<int64_t>(w.behind[axis], 0);
  }
  Shape shape = {data[0], data[1]};
  shape.insert(shape.end(), w.input.begin(), w.input.end());
  const Term dx = results.graph->add("ConvTranspose", {results, weights}, results.type, shape,
                                     convolution_attributes(w, group));
  return unfit(dx, data);
}

/// The gradient of weights [M, C / group, kernel...] of a convolution of `data` whose results have the
/// gradient `results`.
Term weight_gradient(const Term& data, const Term& results, const Windows& windows, int64_t group,
                     const Shape& weights) {
  Windows w = windows;
  const Term x = fit(data, w);
  const int64_t batch = x.extent(0);
  const int64_t channels = x.extent(1) / group;
  Ints exchange = {1, 0};
  for (int64_t axis = 2; axis < x.rank(); ++axis) exchange.push_back(axis);
  // [N, group, C, ...] as pictures [C, group N, ...]: the batch is what is summed over.
  Term turned_x = x;
  if (group == 1) {
    turned_x = transpose(x, exchange);
  } else {
    Shape apart = {batch, group, channels};
    apart.insert(apart.end(), x.shape.begin() + 2, x.shape.end());
    Ints order = {2, 1, 0};
    for (int64_t axis = 3; axis <= x.rank(); ++axis) order.push_back(axis);
    Shape pictures = {channels, group * batch};
    pictures.insert(pictures.end(), x.shape.begin() + 2, x.shape.end());
    turned_x = reshape(transpose(reshape(x, apart), order), pictures);
  }
  const Term turned_dy = transpose(results, exchange);

  Windows over = w;
  over.kernel = w.output;
  over.strides = w.dilations;
  over.dilations = w.strides;
  over.output = w.kernel;
  Shape shape = {channels, results.extent(1)};
  shape.insert(shape.end(), w.kernel.begin(), w.kernel.end());
  const Term products =
      x.graph->add("Conv", {turned_x, turned_dy}, x.type, shape, convolution_attributes(over, group));
  return reshape(transpose(products, exchange), weights);
}

/// Whether windows with few elements (channels and kernel) are laid out one beside the other: that is as many
/// copies of the data, and then one product a picture, whose sums are long. A convolution with kernels of the
/// size of pictures has few results, each of which would be a sum by itself; but what takes it as it is
/// moves neither data nor results ("contract-columns"), which counts where there is much of them, and
/// products of groups are small ones.
bool has_few_elements(const Term& weights, const Term& results, int64_t group) {
  constexpr int64_t kFew = 256, kMostMoved = 1 << 18;
  const int64_t outputs = std::max<int64_t>(weights.extent(0), 1);
  const int64_t elements = weights.size() / outputs;
  const int64_t copied = elements * (results.size() / outputs);
  return group == 1 && elements <= kFew && copied + results.size() <= kMostMoved;
}

/// The same gradient from windows as rows: [N, C kernel, positions] by [N, positions, M], summed over the
/// batch. With `bias`, a row of ones makes its gradient, too.
struct WeightsAndBias {
  Term weights, bias;
};
WeightsAndBias gradients_by_windows(const Term& data, const Term& results, const Windows& w,
                                    const Shape& weights, bool bias) {
  const Term x = padded(data, w, 0);
  const int64_t batch = x.extent(0);
  const int64_t channels = x.extent(1);
  const int64_t outputs = results.extent(1);
  const int64_t positions = results.size() / std::max<int64_t>(batch * results.extent(1), 1);
  std::vector<Term> rows;
  for (const Ints& place : window_places(w))
    rows.push_back(reshape(window_elements(x, w, place), {batch, channels, positions}));
  const auto places = static_cast<int64_t>(rows.size());
  if (bias) {
    std::vector<double> ones(static_cast<size_t>(positions), 1.0);
    const Term row = x.graph->constant(tensor_of(x.type, {1, 1, positions}, ones));
    rows.push_back(expand(row, {batch, 1, positions}));
  }
  const Term dy = transpose_matrix(reshape(results, {batch, outputs, positions}));
  const Term products = reduce_sum(matmul(concat(rows, 1), dy), {0}, false);  // [rows, outputs]
  WeightsAndBias found;
  if (bias) {
    found.bias = reshape(slice(products, 0, places * channels, places * channels + 1), {outputs});
  }
  const Term own = reshape(slice(products, 0, 0, places * channels), {places, channels, outputs});
  found.weights = reshape(transpose(own, {2, 1, 0}), weights);
  return found;
}

/// Sums over space, as pooling makes them, and then over the batch.
void give_bias(NodeGradient& n) {
  if (!n.wants(2)) return;
  Ints axes;
  for (int64_t axis = 2; axis < n.dy().rank(); ++axis) axes.push_back(axis);
  n.give(2, reduce_sum(reduce_sum(n.dy(), axes, false), {0}, false));
}

void convolution(NodeGradient& n) {
  const Term x = n.x(0);
  const Term weights = n.x(1);
  const int64_t group = n.integer("group");
  const Windows w =
      windows_of(n, x.shape, Ints(weights.shape.begin() + 2, weights.shape.end()), n.dy().shape);
  if (n.wants(0)) n.give(0, convolve_back(n.dy(), weights, w, group, x.shape));
  if (n.wants(1) && has_few_elements(weights, n.dy(), group)) {
    const WeightsAndBias found = gradients_by_windows(x, n.dy(), w, weights.shape, n.wants(2));
    n.give(1, found.weights);
    if (n.wants(2)) n.give(2, found.bias);
    return;
  }
  if (n.wants(1)) n.give(1, weight_gradient(x, n.dy(), w, group, weights.shape));
  give_bias(n);
}

/// The convolution that a transposed one is the adjoint of: from its result to its operand.
Windows adjoint_windows(const NodeGradient& n, const Term& x, const Ints& kernel, const Shape& result) {
  Windows w;
  const size_t rank = kernel.size();
  w.kernel = kernel;
  w.input.assign(result.begin() + 2, result.end());
  w.output.assign(x.shape.begin() + 2, x.shape.end());
  w.strides = n.ints("strides").value_or(Ints(rank, 1));
  w.dilations = n.ints("dilations").value_or(Ints(rank, 1));
  const Ints pads = n.ints("pads").value_or(Ints(2 * rank, 0));
  const Ints more = n.ints("output_padding").value_or(Ints(rank, 0));
  const std::string automatic = n.text("auto_pad", "NOTSET");
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t covered = (w.output[axis] - 1) * w.strides[axis] + w.reach(axis);
    int64_t before = pads[axis];
    if (n.has_attribute("output_shape") || automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      // A result of a given extent: padding is what is left over.
      const int64_t total = covered + more[axis] - w.input[axis];
      before = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    }
    w.before.push_back(before);
    w.behind.push_back(covered - before - w.input[axis]);
  }
  return w;
}

void transposed_convolution(NodeGradient& n) {
  const Term x = n.x(0);
  const Term weights = n.x(1);
  const int64_t group = n.integer("group");
  Windows w = adjoint_windows(n, x, Ints(weights.shape.begin() + 2, weights.shape.end()), n.dy().shape);
  // Weights of a transposed convolution have its operand's channels first, as those of the convolution
  // from its result to its operand.
  if (n.wants(0)) {
    Windows forward = w;
    const Term dy = fit(n.dy(), forward);
    n.give(0, n.graph().add("Conv", {dy, weights}, x.type, x.shape, convolution_attributes(forward, group)));
  }
  if (n.wants(1)) n.give(1, weight_gradient(n.dy(), x, w, group, weights.shape));
  give_bias(n);
}

}  // namespace

std::vector<GradientRow> convolution_gradients() {
  return {
      {"Conv", convolution},
      {"ConvTranspose", transposed_convolution},
  };
}

}  // namespace kodama::compiler::gradient
