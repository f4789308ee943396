#include <numeric>

#include "compiler/graph/gradient/windows.h"

/// Pools. Gradients go back to the elements of every window, place by place of the window.
namespace kodama::compiler::gradient {

namespace {

Windows pool_windows(const NodeGradient& n) {
  return windows_of(n, n.x().shape, *n.ints("kernel_shape"), n.y().shape);
}

/// The first element of each window that has the maximum gets the gradient: where the Indices say. A node of
/// their own makes them: on the chip, nobody does (compiler/lowering/pool.h).
void max_pool(NodeGradient& n) {
  const Term x = n.x();
  const Term y = n.y();
  Attributes attributes;
  for (const onnx::AttributeProto& attribute : n.node().attribute()) {
    // Numbers that count by columns are no places in memory.
    if (attribute.name() != "storage_order") attributes.push_back(attribute);
  }
  const Term indices = n.graph().add("MaxPool", {x}, {{x.type, y.shape}, {kInt64, y.shape}}, attributes)[1];
  const Term sums = n.graph().add(
      "ScatterElements",
      {n.graph().filled(0, x.type, {x.size()}), reshape(indices, {y.size()}), reshape(n.dy(), {y.size()})},
      x.type, {x.size()},
      {onnx::MakeAttribute("axis", int64_t{0}), onnx::MakeAttribute("reduction", std::string("add"))});
  n.give(0, reshape(sums, x.shape));
}

/// How many elements each window counts, [1, 1, output...].
Term window_counts(const NodeGradient& n, const Windows& w) {
  const bool counts_pads = n.integer("count_include_pad") != 0;
  const Ints given = n.ints("pads").value_or(Ints(2 * w.rank(), 0));
  const bool is_explicit = n.text("auto_pad", "NOTSET") == "NOTSET";
  std::vector<double> counts = {1};
  Shape shape = {1, 1};
  for (size_t axis = 0; axis < w.rank(); ++axis) {
    // Padding that ceil_mode adds behind is never counted.
    const int64_t behind = is_explicit ? given[w.rank() + axis] : std::max<int64_t>(w.behind[axis], 0);
    const int64_t first = counts_pads ? -w.before[axis] : 0;
    const int64_t last = w.input[axis] + (counts_pads ? behind : 0);
    std::vector<double> longer;
    for (double count : counts) {
      for (int64_t i = 0; i < w.output[axis]; ++i) {
        int64_t inside = 0;
        for (int64_t k = 0; k < w.kernel[axis]; ++k) {
          const int64_t at = i * w.strides[axis] - w.before[axis] + k * w.dilations[axis];
          inside += static_cast<int64_t>(at >= first && at < last);
        }
        longer.push_back(count * static_cast<double>(inside));
      }
    }
    counts = std::move(longer);
    shape.push_back(w.output[axis]);
  }
  return n.graph().constant(tensor_of(n.x().type, shape, counts));
}

void average_pool(NodeGradient& n) {
  const Windows w = pool_windows(n);
  n.give(0, place_back_everywhere(n.dy() / window_counts(n, w), w));
}

/// d y / d x = |x|^(p - 1) sign(x) y^(1 - p), zero where y is; `scaled` is norm_scale's part of it.
Term norm_gradient(const Term& x, double p, const Term& scaled) {
  if (p == 1) return scaled * sign(x);
  if (p == 2) return scaled * x;
  return scaled * sign(x) * pow(abs(x), x.graph->number(p - 1, x.type));
}
Term norm_scale(const Term& y, double p, const Term& dy) {
  if (p == 1) return dy;
  const Term is_zero = equal(y, 0.0);
  const Term safe = select(is_zero, 1.0, y);
  const Term power = p == 2 ? safe : pow(safe, y.graph->number(p - 1, y.type));
  return select(is_zero, 0.0, dy / power);
}

void lp_pool(NodeGradient& n) {
  const Windows w = pool_windows(n);
  const auto p = static_cast<double>(n.integer("p"));
  const Term scaled = place_back_everywhere(norm_scale(n.y(), p, n.dy()), w);
  n.give(0, norm_gradient(n.x(), p, scaled));
}

void global_lp_pool(NodeGradient& n) {
  const auto p = static_cast<double>(n.integer("p"));
  n.give(0, norm_gradient(n.x(), p, norm_scale(n.y(), p, n.dy())));
}

int64_t spatial_size(const Term& x) {
  return std::accumulate(x.shape.begin() + 2, x.shape.end(), int64_t{1}, std::multiplies<>());
}

void global_average_pool(NodeGradient& n) {
  const Term x = n.x();
  n.give(0, expand(n.dy() / static_cast<double>(spatial_size(x)), x.shape));
}

void global_max_pool(NodeGradient& n) {
  const Term x = n.x();
  Ints axes(static_cast<size_t>(x.rank() - 2));
  std::iota(axes.begin(), axes.end(), 2);
  const Term hits = cast(equal(x, n.y()), x.type);
  n.give(0, hits * (n.dy() / reduce_sum(hits, axes)));
}

/// Every element went to a place of its own.
void max_unpool(NodeGradient& n) {
  const Term x = n.x();
  const Term flat = reshape(n.dy(), {n.dy().size()});
  Term places = reshape(n.x(1), {x.size()});
  if (n.has(2)) {
    // Indices are of the shape that the window makes, whose rows are longer or shorter than the result's.
    const Ints kernel = *n.ints("kernel_shape");
    const Ints strides = n.ints("strides").value_or(Ints(kernel.size(), 1));
    const Ints pads = n.ints("pads").value_or(Ints(2 * kernel.size(), 0));
    Shape inferred = {x.extent(0), x.extent(1)};
    for (size_t axis = 0; axis < kernel.size(); ++axis)
      inferred.push_back((x.extent(static_cast<int64_t>(axis) + 2) - 1) * strides[axis] + kernel[axis] -
                         pads[axis] - pads[kernel.size() + axis]);
    if (inferred != n.dy().shape) n.refuse("is differentiated only where output_shape is the inferred one");
  }
  n.give(0, reshape(n.graph().add("Gather", {flat, places}, x.type, places.shape,
                                  {onnx::MakeAttribute("axis", int64_t{0})}),
                    x.shape));
}

/// y = x / D^beta with D = bias + alpha / size * (sum of squares of neighbouring channels).
void local_response(NodeGradient& n) {
  const Term x = n.x();
  const Term dy = n.dy();
  const double alpha = n.number("alpha");
  const double beta = n.number("beta");
  const int64_t size = n.integer("size");
  const int64_t before = (size - 1) / 2;
  // Of channel c the window [c - before, c - before + size), and the other way round for its adjoint.
  const auto window_sum = [&](const Term& t, int64_t front) {
    const Term around = pad(t, 1, front, size - 1 - front);
    std::vector<Term> parts;
    for (int64_t k = 0; k < size; ++k) parts.push_back(slice(around, 1, k, k + t.extent(1)));
    return sum(parts);
  };
  const double scale = alpha / static_cast<double>(size);
  const Term d = window_sum(x * x, before) * scale + n.number("bias");
  const Term factor = pow(d, n.graph().number(-beta, x.type));
  const Term back = window_sum(dy * n.y() / d, size - 1 - before);
  n.give(0, dy * factor - x * back * (2 * beta * scale));
}

}  // namespace

std::vector<GradientRow> pool_gradients() {
  return {
      {"AveragePool", average_pool},
      {"GlobalAveragePool", global_average_pool},
      {"GlobalLpPool", global_lp_pool},
      {"GlobalMaxPool", global_max_pool},
      {"LRN", local_response},
      {"LpPool", lp_pool},
      {"MaxPool", max_pool},
      {"MaxUnpool", max_unpool, nullptr, {1, 2}},
  };
}

}  // namespace kodama::compiler::gradient
