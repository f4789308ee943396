#pragma once

#include <string>
#include <vector>

#include "compiler/kernels/kernel.h"
#include "compiler/layers/layer_graph.h"
#include "compiler/tensor/fresh_names.h"

/// Rows that kernels read where a picture has none: a constant of one zero, whose image is a row of zeros.
namespace kodama::compiler {

/// Gives layers that constant, which nobody but their kernel's transfers reads.
class ZeroRows {
 public:
  /// Appends it to the inputs of an epilogue over `dims` dims.
  void add(LayerGraph& graph, FreshNames& tensors, std::vector<TensorAccess>& inputs, size_t dims);

 private:
  TensorId zeros_ = -1;
};

/// Whether an operand is that constant.
bool is_zero_row(const TensorAccess& access, const LayerGraph& graph);

/// Gives it to sums over windows that reach over their picture's first or last row, which "reduce-rows" then
/// does (pool_problem). Example, an AveragePool of 3 x 3 with padding: results of the first row are sums with
/// a row of zeros.
void add_zero_rows(LayerGraph& graph);

/// Its place in DRAM, with a row of at least `row_lw` LW for any picture: one place is that of the constant's
/// element, the others are padding. The layer's dims are `extents`.
StreamPlacement zero_rows_placement(std::string name, const TensorAccess& access, const Shape& extents,
                                    const layout::Transport& transport, int64_t row_lw);

}  // namespace kodama::compiler
