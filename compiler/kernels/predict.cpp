#include "compiler/kernels/predict.h"

#include <algorithm>
#include <vector>

#include "isa/chip.h"

namespace kodama::compiler {
namespace {

/// What an operation waits for the one before it, less what others fill: 1 to 2 steps, as forwarding or a
/// register brings it. Measured on expressions with Exp and Div.
constexpr int64_t kWaitCyclesPerOperation = 6;
/// From one combination into a running result to the next.
constexpr int64_t kRunningResultCycles = 2 * isa::kCyclesPerStep;

int64_t total_operations(const ScalarExpr& expr) {
  int64_t operations = 0;
  for (const ScalarNode& node : expr.nodes()) operations += machine_operations(node.op);
  return operations;
}

int64_t longest_chain(const ScalarExpr& expr) {
  std::vector<int64_t> chains;  // up to each node
  for (const ScalarNode& node : expr.nodes()) {
    int64_t longest = 0;
    for (const int arg : node.args) {
      if (arg >= 0) longest = std::max(longest, chains[static_cast<size_t>(arg)]);
    }
    chains.push_back(longest + machine_operations(node.op));
  }
  return chains.empty() ? 0 : chains.back();
}

}  // namespace

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
  return std::max<int64_t>(total_operations(expr), 1) * isa::kCyclesPerStep;
}

int64_t predicted_map_cycles(const ScalarExpr& expr, int64_t vectors) {
  return predicted_scalar_cycles(expr) * vectors + kWaitCyclesPerOperation * longest_chain(expr);
}

int64_t predicted_reduce_cycles(const ScalarExpr& expr, int64_t vectors, int64_t elements) {
  const int64_t steps = (total_operations(expr) + 1) * isa::kCyclesPerStep * vectors;
  return elements * std::max(steps, kRunningResultCycles) + kWaitCyclesPerOperation * longest_chain(expr);
}

}  // namespace kodama::compiler
