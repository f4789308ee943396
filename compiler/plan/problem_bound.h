#pragma once

#include <map>
#include <string>

#include "compiler/layers/layer_graph.h"
#include "compiler/package/compiled_model.h"
#include "compiler/tile/tile_program.h"
#include "isa/chip.h"

/// The problem's bound: what layers take whatever the plan. A plan's own traffic says nothing about how much
/// of it is needed; this does, so that cycles over it say how far a plan is from the best there could be.
///
///     bound = max(products / peak of the matrix unit in the precision,
///                 vector operations / peak of the vector units,
///                 compulsory DRAM bytes / rate of the DRAM)
///
/// Waiting, latencies, exchange between PEs and the host link are in none of them. Nor are products with
/// channels of a constant that are all zeros, and their bytes: pad_channels adds some.
namespace kodama::compiler {

/// Of constants (their storage), the share that no run loads, because it stays in the PEs: 0 to 1.
using ResidentShares = std::map<TensorId, double>;

/// What a layer must do by itself. DRAM bytes: its constants, once, as far as it reads them; operands and
/// results only if they are larger than LM0 and LM1 of all PEs. A number takes 4 bytes, at half precision 2,
/// and never more than its own type.
ProblemWork problem_work(const Layer& layer, const LayerGraph& graph, const isa::Chip& chip,
                         MatrixPrecision precision, const ResidentShares& resident = {});
/// What the network must do. DRAM bytes: constants once, whoever reads them; tensors that come from the host
/// once and those that it fetches once (ends of the graph and of Host layers alike); tensors between layers
/// that are larger than LM0 and LM1 of all PEs once written, once read, but for results of Rearranges, which
/// need not exist.
ProblemWork problem_work(const LayerGraph& graph, const isa::Chip& chip, MatrixPrecision precision,
                         const ResidentShares& resident = {});

struct ProblemBound {
  double product_cycles = 0;
  double vector_cycles = 0;  ///< MAU and ALU work beside each other, two floats per PE and cycle each
  double dram_cycles = 0;
  double cycles() const;
  /// "MAU", "vector" or "DRAM": which of them is the largest; "" without work.
  std::string resource() const;
};
ProblemBound problem_bound(const ProblemWork& work, const isa::Chip& chip, MatrixPrecision precision);

/// The share, from 0 to 1, of what the matrix unit could do in these cycles; 0 for none.
double share_of_peak(const ProblemWork& work, double cycles, const isa::Chip& chip,
                     MatrixPrecision precision);

}  // namespace kodama::compiler
