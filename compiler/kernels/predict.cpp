#include "compiler/kernels/predict.h"

#include <algorithm>

#include "isa/chip.h"

namespace kodama::compiler {

int64_t machine_operations(ScalarOp op) {
  switch (op) {
    case ScalarOp::kInput:
    case ScalarOp::kConstant:
      return 0;
    case ScalarOp::kSelectNotNegative:
      return 3;
    case ScalarOp::kEqual:
      return 7;
    case ScalarOp::kSqrt:
      return 21;
    case ScalarOp::kDiv:
    case ScalarOp::kReciprocal:
      return 26;
    case ScalarOp::kExp:
      return 17;
    case ScalarOp::kLog:
      return 25;
    case ScalarOp::kTanh:
    case ScalarOp::kErf:
    case ScalarOp::kSigmoid:
      return 44;
    default:
      return 1;
  }
}

int64_t predicted_scalar_cycles(const ScalarExpr& expr) {
  int64_t operations = 0;
  for (const ScalarNode& node : expr.nodes()) operations += machine_operations(node.op);
  return std::max<int64_t>(operations, 1) * isa::kCyclesPerStep;
}

}  // namespace kodama::compiler
