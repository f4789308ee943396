#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/layers/layer_graph.h"
#include "compiler/streams/element_forms.h"
#include "layout/algebra/layout.h"
#include "layout/algebra/transport.h"

namespace kodama::compiler {

/// Where the elements of one operand (or the result) are in the streams of the PEs.
///
/// The layer's iteration dims are grouped into the layout's axes: axis k runs over the dims
/// axis_dims[k] in row-major order (the last varies fastest). The layout's address is the stream number, its
/// word the 32-bit half of the long word, of halves the 16-bit quarter. A place that no element maps to holds
/// the layout's padding.
/// Example, the vector operand of a gfloat matrix product, K = 200 split over PEs and words, N over MABs:
/// axes {K dims}, {N dims}, layout ((25:4, 4_PE:1, 2_W:1), (16_MAB:1, 4:1))@LM1.
struct StreamPlacement {
  std::string name;  ///< "a", "b", "x0", "y", …
  bool is_output = false;
  TensorAccess access;  ///< for the output: tensor and the map from iteration point to output index
  Shape extents;        ///< the iteration space the axis_dims refer to
  std::vector<std::vector<int>> axis_dims;
  layout::Layout layout;
  layout::Transport transport;
  int64_t length_lw = 0;  ///< stream numbers per PE, a multiple of the transport's granule
  /// Operands that the host packs (LayerGraph::is_packed) may be halves, each rounded once as the PEs would.
  StreamElement element = StreamElement::kFloat;
  int element_bits() const { return element == StreamElement::kHalf ? 16 : 32; }
  int64_t elements_per_lw() const { return 64 / element_bits(); }
  /// An image of rows (compiler/kernels/rows_kernel.cpp): made and taken as it is by kernels that agree on
  /// it. Relayouts to and from it are few, and only roughly estimated while a plan is sought.
  bool is_rows = false;
};

}  // namespace kodama::compiler
