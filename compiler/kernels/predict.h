#pragma once

#include <cstdint>

#include "compiler/layers/scalar_expr.h"

/// What kernels assume about the time of expressions when they rank their candidates. Transfers: load_cycles
/// and store_cycles of lowering.h.
namespace kodama::compiler {

/// Cycles of `expr` for one vector (4 LW per PE) when operations issue one per step.
int64_t predicted_scalar_cycles(const ScalarExpr& expr);

/// Machine operations that one node of an expression becomes.
int64_t machine_operations(ScalarOp op);

}  // namespace kodama::compiler
