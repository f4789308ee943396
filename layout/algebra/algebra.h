#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "layout/algebra/layout.h"

/// Questions about layouts, and layouts of tensors seen in another way.
///
/// A view changes what the tensor's axes are, never where an element lives: transposing, splitting, merging
/// or slicing a tensor needs no instruction when the layout of the result can be written down. Where it can't
/// (the boundary falls inside a factor, padding would come to lie inside an axis), the function throws a
/// UserError that names axis and factor, and a conversion is needed.
///
/// Example, shape (4, 6) on 4 PEs, 64-bit elements:
///
///     rows     ((4_PE:1), (6:1))@LM0                 PE i holds row i
///     blocks   ((2_PE:2, 2:3), (2_PE:1, 3:1))@LM0    PE 2*(i/2) + j/3 holds a block of 2 x 3
///
///     split(rows, 1, {2, 3})   ((4_PE:1), (2:3), (3:1))@LM0
///     transposed(rows, {1, 0}) ((6:1), (4_PE:1))@LM0
///     why_incompatible(rows, blocks) = "axis 0: index 1 is at PE 1 on the left, at PE 0 on the right"
///
/// so the sum of a tensor in rows and one in blocks needs a conversion first.
namespace kodama::layout {

/// Lengths of the axes of a tensor; at most the layout's extents.
using Lengths = std::vector<int64_t>;

/// UserError unless there is a length per axis, each from 1 to the extent.
void check_lengths(const Layout& layout, const Lengths& lengths);

/// Axis k of the result is axis permutation[k].
Layout transposed(const Layout& layout, const std::vector<int>& permutation);
/// Axis `axis`, of length product(sizes), as axes of these sizes, the first most significant. Padding, if
/// there is any, ends up behind the first of them.
Layout split(const Layout& layout, int axis, const std::vector<int64_t>& sizes);
/// Axes `axis` and `axis + 1` as one. The second must not be padded.
Layout merged(const Layout& layout, const Lengths& lengths, int axis);
/// The tensor of shape `from` as one of shape `to`, elements in the same order; by splitting and merging.
Layout reshaped(const Layout& layout, const Lengths& from, const Lengths& to);

/// A part of a tensor: its layout, and what to add to every place of it.
struct Part {
  Layout layout;
  Coordinates base;
};
/// Indices begin, begin + step, … (`count` of them) of an axis.
Part slice(const Layout& layout, int axis, int64_t begin, int64_t count, int64_t step = 1);

/// Empty when an elementwise operation can take both operands as they are: every element is at the same PE
/// and the same word in both, whatever its address. An axis of extent 1 on one side is broadcast along the
/// other one's: its element must be replicated to wherever that is. Otherwise which axis or level differs,
/// and where.
std::string why_incompatible(const Layout& left, const Layout& right);

/// Whether `to` only needs a copy, address for address, from one memory to another on the same level: every
/// element has the same coordinates in both. Padding that `to` wants and `from` doesn't have is no plain
/// copy.
bool is_plain_copy(const Layout& from, const Layout& to);

/// What a layout takes up.
struct Footprint {
  int64_t elements = 0;    ///< places, padding and replicas included
  int64_t long_words = 0;  ///< of one instance of the memory: the largest address + 1
  /// Instances that hold something: L2Bs; L1Bs of an L2B; MABs of an L1B; PEs of a MAB. 1 where the memory is
  /// shared.
  int64_t l2bs = 1;
  int64_t l1bs = 1;
  int64_t mabs = 1;
  int64_t pes = 1;
  int64_t instances() const { return l2bs * l1bs * mabs * pes; }
  /// Share of the long words that hold elements.
  double density = 0;
};
Footprint footprint(const Layout& layout, int element_bits);

}  // namespace kodama::layout
