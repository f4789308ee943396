#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "layout/algebra/algebra.h"
#include "layout/algebra/layout.h"

/// Layouts as pictures: `kodama layout show`, in Python `Layout.draw` and `Layout.svg`.
///
/// The tree of memories that hold something, and in each the elements by address; a long word with several
/// elements shows them from the upper word on. Shape (4, 6) on 4 PEs by rows and as 2 x 2 blocks, 64-bit
/// elements:
///
///             LW 0  1    2    3    4    5                LW 0  1    2    3    4    5
///     PE 0    0,0  0,1  0,2  0,3  0,4  0,5       PE 0    0,0  0,1  0,2  1,0  1,1  1,2
///     PE 1    1,0  1,1  1,2  1,3  1,4  1,5       PE 1    0,3  0,4  0,5  1,3  1,4  1,5
///     ...                                        ...
///
/// `.` is padding, `-` a place that holds nothing of the tensor.
namespace kodama::layout {

struct DrawingLimits {
  int64_t instances = 8;  ///< shown per level of the tree
  int64_t long_words = 16;
};

/// UserError when the shape doesn't fit the layout.
std::string draw(const Layout& layout, const Lengths& lengths, int element_bits,
                 const DrawingLimits& limits = {});

/// The same picture as SVG: a row for each memory, a cell for each element, whose colour goes with its first
/// index. UserError above a million cells.
std::string draw_svg(const Layout& layout, const Lengths& lengths, int element_bits,
                     const DrawingLimits& limits = {});

/// Layout, shape, footprint, and every place with its element (null for padding). UserError above a million
/// places.
nlohmann::ordered_json places_json(const Layout& layout, const Lengths& lengths, int element_bits);

}  // namespace kodama::layout
