#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/kernels/kernel.h"
#include "compiler/layers/layer_graph.h"
#include "compiler/tensor/fresh_names.h"

/// Rows that kernels read where a picture has none: a constant of one number, mostly zero, whose image is a
/// row of it.
namespace kodama::compiler {

/// Gives layers that constant, which nobody but their kernel's transfers reads.
class FillRows {
 public:
  /// Appends it to the inputs of an epilogue over `dims` dims.
  void add(LayerGraph& graph, FreshNames& tensors, std::vector<TensorAccess>& inputs, size_t dims,
           double fill = 0);

 private:
  std::map<double, TensorId> rows_;
};

/// The number, if an operand is such a constant.
std::optional<double> fill_of_rows(const TensorAccess& access, const LayerGraph& graph);

/// Gives it to reductions over windows that reach over their picture's first or last row, which "reduce-rows"
/// then does (pool_problem). Example, an AveragePool of 3 x 3 with padding: results of the first row are sums
/// with a row of zeros. Of a maximum's place, rows outside are less than any number.
void add_fill_rows(LayerGraph& graph);

/// Its place in DRAM, with `row_lw` LW for any picture's rows, by a transport that the PEs of an L2B share:
/// in the part of L2B 0 the constant's element is everywhere.
StreamPlacement fill_rows_placement(std::string name, const TensorAccess& access, int64_t row_lw,
                                    const layout::Transport& transport, const isa::Chip& chip);

}  // namespace kodama::compiler
