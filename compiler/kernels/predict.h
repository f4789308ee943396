#pragma once

#include <cstdint>

#include "compiler/layers/scalar_expr.h"
#include "isa/chip.h"
#include "layout/transport.h"

/// What kernels assume about time when they rank their candidates; derived from the cost tables.
namespace kodama::compiler {

/// Cycles of one LoadTile or StoreTile of `count` stream numbers, its MVs waited for.
int64_t predicted_transfer_cycles(const layout::Transport& transport, int64_t count, const isa::Chip& chip);

/// Cycles of `expr` for one vector (4 LW per PE) when operations issue one per step.
int64_t predicted_scalar_cycles(const ScalarExpr& expr);

/// Machine operations that one node of an expression becomes.
int64_t machine_operations(ScalarOp op);

}  // namespace kodama::compiler
