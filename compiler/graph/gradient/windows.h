#pragma once

#include <vector>

#include "compiler/graph/gradient/gradient_rules.h"

/// Sliding windows, as gradients of convolutions and pools need them.
namespace kodama::compiler::gradient {

/// A value per spatial axis in each list.
struct Windows {
  Ints input;  ///< extents
  Ints kernel, strides, dilations;
  Ints before, behind;  ///< padding; what ceil_mode adds is in `behind`
  Ints output;

  size_t rank() const { return kernel.size(); }
  int64_t reach(size_t axis) const { return (kernel[axis] - 1) * dilations[axis] + 1; }
};

/// From strides, dilations, pads and auto_pad; `input` and `output` are shapes [N, C, spatial...] of the
/// operand that windows slide over and of the result. Padding behind is such that the last window fits.
Windows windows_of(const NodeTerms& n, const Shape& input, const Ints& kernel, const Shape& output);

/// The pads as an attribute has them.
Ints pads_of(const Windows& windows);

/// x [N, C, spatial...] with `value` around it, as windows see it.
Term padded(const Term& x, const Windows& windows, double value);
/// Of a padded x, the element at place `k` of every window's axis: [N, C, output...]. One per place.
Term window_elements(const Term& padded_x, const Windows& windows, const Ints& place);
/// The adjoint of padding and reading all elements of every window, where every element of a window gets the
/// same gradient: it is added up where the elements were, one axis after the other.
Term place_back_everywhere(const Term& gradient, const Windows& windows);
/// Every place of a window, row-major.
std::vector<Ints> window_places(const Windows& windows);

}  // namespace kodama::compiler::gradient
