#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/kernels/kernel.h"
#include "compiler/kernels/rows.h"
#include "compiler/layers/layer_graph.h"
#include "isa/chip.h"

/// Products with a constant matrix, seen as windows of pictures: what "contract-rows" computes.
namespace kodama::compiler {

/// The layer as windows of one picture that make another.
struct RowsProblem {
  ContractLayer contract;
  bool weights_first = true;  ///< operand a is the matrix
  Picture in, out;
  RowsWindow window;
  std::vector<int> out_channels;           ///< dims
  std::vector<int> in_channels;            ///< dims; the second: of the kernel's columns, folded
  std::array<int, 2> kernel_dims{-1, -1};  ///< dims; -1 = the kernel has one position there
  bool constants_stay = false;             ///< KernelOptions
  /// Of the epilogue's inputs: one value for a channel, or else what is read at every place of the result.
  std::vector<std::optional<TensorAccess>> of_rows;

  const TensorAccess& weights() const { return weights_first ? contract.a : contract.b; }
  const TensorAccess& activation() const { return weights_first ? contract.b : contract.a; }
};

/// With the result as picture `number` of pictures_of. Nothing where the layer has another form.
std::optional<RowsProblem> rows_problem(const ContractLayer& contract, TensorId output,
                                        const LayerGraph& graph, size_t number);

/// The same over a packed picture of the operand (Picture::Packed), if it has few channels.
std::optional<RowsProblem> packed_problem(const RowsProblem& problem);

/// A way to do it: the splits of operand and result, and how long it takes.
struct RowsOption {
  RowsSplit in, out;
  int64_t cycles = 0;
  Candidate candidate;
};
/// Those in which pairs of L1Bs have lanes of columns (rows_lanes_kernel.cpp).
std::vector<RowsOption> lanes_options(const RowsProblem& problem, const isa::Chip& chip,
                                      MatrixPrecision precision, const std::string& name);

}  // namespace kodama::compiler
