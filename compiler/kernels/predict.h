#pragma once

#include <cstdint>
#include <vector>

#include "compiler/layers/layer_graph.h"
#include "compiler/layers/scalar_expr.h"
#include "isa/chip.h"
#include "layout/algebra/transport.h"

/// What kernels assume about the time of expressions when they rank their candidates.
namespace kodama::compiler {

/// Cycles of `expr` for one vector (4 LW per PE) when operations issue one per step.
int64_t predicted_scalar_cycles(const ScalarExpr& expr);

/// Cycles of `expr` for `vectors` vectors, computed side by side: the steps, and once what the longest chain
/// of operations waits for its own results.
int64_t predicted_map_cycles(const ScalarExpr& expr, int64_t vectors);
/// The same for `elements` times as many, which are combined into `vectors` running results.
int64_t predicted_reduce_cycles(const ScalarExpr& expr, int64_t vectors, int64_t elements);

/// Machine operations of steps (NormalizeRows) for four columns of `chunks` chunks.
int64_t normalize_operations(const std::vector<NormalizeLayer::Step>& steps, size_t inputs, int64_t chunks);

/// Machine operations that a node becomes (lower_scalar), of doubles or words.
int64_t machine_operations(ScalarOp op, bool of_doubles = false);
/// And all nodes of an expression.
int64_t machine_operations(const ScalarExpr& expr);

/// Predicted cycles of loading or storing `numbers` stream numbers from one address on, transfers waited
/// for, on an otherwise idle chip. `normalize`: the floats become block floats on the way.
int64_t load_cycles(const layout::Transport& transport, int64_t numbers, const isa::Chip& chip,
                    bool normalize = false);
/// The same of constants that come ahead, as far as anybody waits for them: less where others stay in the
/// PEs.
int64_t ahead_cycles(const layout::Transport& transport, int64_t numbers, const isa::Chip& chip,
                     bool others_stay);
int64_t store_cycles(const layout::Transport& transport, int64_t numbers, const isa::Chip& chip);

/// LW of L2BM, from its beginning on, that a load of so many numbers goes through.
int64_t load_l2bm_lw(const layout::Transport& transport, int64_t numbers, const isa::Chip& chip);

}  // namespace kodama::compiler
