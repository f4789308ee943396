#pragma once

#include <cstdint>
#include <vector>

#include "isa/chip.h"

/// What the kernel of rows and its lowering share (rows_kernel.cpp, rows_lowering.cpp).
namespace kodama::compiler {

/// The first column of every vector of a row of `columns`, at least 4: the last may overlap the one before.
std::vector<int64_t> column_groups(int64_t columns);

/// How L1BM is divided, LW.
struct RowsStaging {
  int64_t windows_lw = 0;  ///< from 0 on: rows on their way to the PEs
  int64_t sums = 0;        ///< sums over quads on their way back to them, in `sum_slots` places
  int64_t sum_slots = 0;
  int64_t results = 0;  ///< rows of results
  int64_t results_lw = 0;
};
RowsStaging rows_staging(const isa::Chip& chip);

}  // namespace kodama::compiler
