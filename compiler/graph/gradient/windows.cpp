#include "compiler/graph/gradient/windows.h"

#include <algorithm>

namespace kodama::compiler::gradient {

Windows windows_of(const NodeTerms& n, const Shape& input, const Ints& kernel, const Shape& output) {
  Windows w;
  const size_t rank = kernel.size();
  w.kernel = kernel;
  w.input.assign(input.begin() + 2, input.end());
  w.output.assign(output.begin() + 2, output.end());
  w.strides = n.ints("strides").value_or(Ints(rank, 1));
  w.dilations = n.ints("dilations").value_or(Ints(rank, 1));
  const std::string automatic = n.text("auto_pad", "NOTSET");
  const Ints pads = n.ints("pads").value_or(Ints(2 * rank, 0));
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t needed = (w.output[axis] - 1) * w.strides[axis] + w.reach(axis) - w.input[axis];
    int64_t before = 0;
    if (automatic == "NOTSET") {
      before = pads[axis];
    } else if (automatic != "VALID") {
      const int64_t total = std::max<int64_t>(needed, 0);
      before = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    }
    w.before.push_back(before);
    // Negative where the last elements are in no window.
    w.behind.push_back(needed - before);
  }
  return w;
}

Ints pads_of(const Windows& windows) {
  Ints pads = windows.before;
  pads.insert(pads.end(), windows.behind.begin(), windows.behind.end());
  return pads;
}

Term padded(const Term& x, const Windows& windows, double value) {
  Ints before(x.shape.size());
  Ints behind(x.shape.size());
  Shape shape = x.shape;
  bool is_padded = false;
  Term cut = x;
  for (size_t axis = 0; axis < windows.rank(); ++axis) {
    const auto at = static_cast<int64_t>(axis) + 2;
    if (windows.behind[axis] < 0) cut = pad(cut, at, 0, windows.behind[axis]);
    before[axis + 2] = windows.before[axis];
    behind[axis + 2] = std::max<int64_t>(windows.behind[axis], 0);
    is_padded |= before[axis + 2] != 0 || behind[axis + 2] != 0;
    shape[axis + 2] = cut.extent(at) + before[axis + 2] + behind[axis + 2];
  }
  if (!is_padded) return cut;
  Ints pads = before;
  pads.insert(pads.end(), behind.begin(), behind.end());
  return x.graph->add("Pad", {cut, x.graph->integers(pads), x.graph->number(value, x.type)}, x.type, shape);
}

Term window_elements(const Term& padded_x, const Windows& windows, const Ints& place) {
  TermGraph& g = *padded_x.graph;
  Ints starts, ends, axes;
  Shape shape = padded_x.shape;
  for (size_t axis = 0; axis < windows.rank(); ++axis) {
    starts.push_back(place[axis] * windows.dilations[axis]);
    ends.push_back(starts.back() + (windows.output[axis] - 1) * windows.strides[axis] + 1);
    axes.push_back(static_cast<int64_t>(axis) + 2);
    shape[axis + 2] = windows.output[axis];
  }
  return g.add(
      "Slice",
      {padded_x, g.integers(starts), g.integers(ends), g.integers(axes), g.integers(windows.strides)},
      padded_x.type, shape);
}

namespace {

int64_t floor_div(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}

/// The adjoint of padding and reading along one axis: element k of window i of `parts[k]` is added up where
/// element k of that window was. What comes to every `stride`-th place is added up first, and these *phases*
/// are then laid one between the other: only that is as large as the result.
Term place_along(const std::vector<Term>& parts, const Windows& windows, size_t axis) {
  const auto at = static_cast<int64_t>(axis) + 2;
  const int64_t stride = windows.strides[axis], input = windows.input[axis];
  const int64_t blocks = (input + stride - 1) / stride;
  std::vector<std::vector<Term>> phases(static_cast<size_t>(stride));
  for (size_t place = 0; place < parts.size(); ++place) {
    // Where the first window's element is: in the block `first`, which may be outside.
    const int64_t offset = static_cast<int64_t>(place) * windows.dilations[axis] - windows.before[axis];
    const int64_t first = floor_div(offset, stride);
    if (first >= blocks || first + windows.output[axis] <= 0) continue;
    phases[static_cast<size_t>(offset - first * stride)].push_back(
        pad(parts[place], at, first, blocks - first - windows.output[axis]));
  }
  Shape shape = parts.at(0).shape;
  shape[axis + 2] = blocks;
  std::vector<Term> laid;
  for (const std::vector<Term>& phase : phases)
    laid.push_back(phase.empty() ? parts[0].graph->filled(0, parts[0].type, shape) : sum(phase));
  if (stride == 1) return laid[0];
  for (Term& phase : laid) phase = unsqueeze(phase, {at + 1});
  shape[axis + 2] = blocks * stride;
  return slice(reshape(concat(laid, at + 1), shape), at, 0, input);
}

}  // namespace

Term place_back_everywhere(const Term& gradient, const Windows& windows) {
  Term result = gradient;
  for (size_t axis = windows.rank(); axis-- > 0;)
    result = place_along(std::vector<Term>(static_cast<size_t>(windows.kernel[axis]), result), windows, axis);
  return result;
}

std::vector<Ints> window_places(const Windows& windows) {
  std::vector<Ints> places = {Ints()};
  for (int64_t extent : windows.kernel) {
    std::vector<Ints> longer;
    for (const Ints& place : places) {
      for (int64_t k = 0; k < extent; ++k) {
        longer.push_back(place);
        longer.back().push_back(k);
      }
    }
    places = std::move(longer);
  }
  return places;
}

}  // namespace kodama::compiler::gradient
