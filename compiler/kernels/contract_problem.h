#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "compiler/layers/layer_graph.h"

/// A Contract layer as contract-mau sees it.
namespace kodama::compiler {

/// What is split: batch, rows, columns.
enum ContractAxis : uint8_t { kBatchAxis, kRowAxis, kColumnAxis, kAxisCount };
using AxisSet = std::array<bool, kAxisCount>;

/// The layer, seen as rows and columns.
struct ContractProblem {
  const ContractLayer* contract = nullptr;
  bool swapped = false;  ///< rows = N
  std::array<std::vector<int>, kAxisCount> dims;
  std::vector<int> k_dims;
  std::array<int64_t, kAxisCount> extents{};
  int64_t k = 1;
  Shape all_extents;
  TensorId output = -1;

  const TensorAccess& row_operand() const { return swapped ? contract->b : contract->a; }
  const TensorAccess& column_operand() const { return swapped ? contract->a : contract->b; }
};
ContractProblem contract_problem(const ContractLayer& contract, TensorId output, bool swapped);
/// Which axes an access really depends on.
AxisSet dependence(const TensorAccess& access, const ContractProblem& problem);

}  // namespace kodama::compiler
