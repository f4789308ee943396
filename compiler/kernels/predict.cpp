#include "compiler/kernels/predict.h"

#include <algorithm>
#include <array>
#include <vector>

#include "compiler/kernels/lowering.h"
#include "isa/chip.h"

namespace kodama::compiler {
namespace {

/// What an operation waits for the one before it, less what others fill: 1 to 2 steps, as forwarding or a
/// register brings it. Measured on expressions with Exp and Div.
constexpr int64_t kWaitCyclesPerOperation = 6;
/// From one combination into a running result to the next.
constexpr int64_t kRunningResultCycles = 2 * isa::kCyclesPerStep;

/// Of an expression of this node alone, its constants left out: they are loaded once for a whole program.
int64_t lowered_operations(ScalarOp op, bool of_doubles) {
  if (scalar_op_arity(op) == 0 || op == ScalarOp::kFloatBits || op == ScalarOp::kFromBits) return 0;
  ScalarExpr expr;
  std::array<int, 3> args{-1, -1, -1};
  const isa::Chip chip;  // recipes are the same on every chip
  MachineBuilder builder(chip, "count");
  std::vector<isa::Operand> inputs;
  const auto input = [&] {
    inputs.push_back(MachineBuilder::operand(builder.value("input", 8, isa::space_bit(isa::Space::kGrf0))));
    return expr.input(static_cast<int>(inputs.size()) - 1);
  };
  for (int k = 0; k < scalar_op_arity(op); ++k) {
    int& arg = args.at(static_cast<size_t>(k));
    arg = input();
    const char kind = scalar_op_kinds(op)[static_cast<size_t>(k)];
    if (kind == 'd' || (of_doubles && (kind == 'r' || kind == 'a'))) {
      const int low = input();
      arg = expr.apply(ScalarOp::kPair, arg, low);
    }
  }
  int made = expr.apply(op, args[0], args[1], args[2]);
  if (expr.is_double(made)) made = expr.apply(ScalarOp::kNarrow, made);
  const isa::Operand result =
      MachineBuilder::operand(builder.value("result", 8, isa::space_bit(isa::Space::kGrf0)));
  lower_scalar(builder, expr, inputs, result);
  int64_t count = 0;
  const scheduler::MachineProgram program = builder.finish();
  for (const scheduler::Node& node : program.body) {
    if (const auto* block = std::get_if<scheduler::Block>(&node.kind))
      count += std::ranges::count(block->operations, scalar_op_name(op), &scheduler::Operation::origin);
  }
  return count;
}

/// Whether a node is of doubles, or takes them.
bool has_doubles(const ScalarExpr& expr, const ScalarNode& node) {
  const int arity = scalar_op_arity(node.op);
  return arity > 0 && expr.is_double(node.args[static_cast<size_t>(arity) - 1]);
}

int64_t longest_chain(const ScalarExpr& expr) {
  std::vector<int64_t> chains;  // up to each node
  for (const ScalarNode& node : expr.nodes()) {
    int64_t longest = 0;
    for (const int arg : node.args) {
      if (arg >= 0) longest = std::max(longest, chains[static_cast<size_t>(arg)]);
    }
    chains.push_back(longest + machine_operations(node.op, has_doubles(expr, node)));
  }
  return chains.empty() ? 0 : chains.back();
}

}  // namespace

int64_t machine_operations(ScalarOp op, bool of_doubles) {
  static const std::array<std::vector<int64_t>, 2> counts = [] {
    std::array<std::vector<int64_t>, 2> all;
    for (int each = 0; each < kScalarOps; ++each) {
      all[0].push_back(lowered_operations(static_cast<ScalarOp>(each), false));
      all[1].push_back(lowered_operations(static_cast<ScalarOp>(each), true));
    }
    return all;
  }();
  return counts[of_doubles ? 1 : 0][static_cast<size_t>(op)];
}

int64_t machine_operations(const ScalarExpr& expr) {
  int64_t operations = 0;
  for (const ScalarNode& node : expr.nodes())
    operations += machine_operations(node.op, has_doubles(expr, node));
  return operations;
}

int64_t predicted_scalar_cycles(const ScalarExpr& expr) {
  return std::max<int64_t>(machine_operations(expr), 1) * isa::kCyclesPerStep;
}

int64_t predicted_map_cycles(const ScalarExpr& expr, int64_t vectors) {
  return predicted_scalar_cycles(expr) * vectors + kWaitCyclesPerOperation * longest_chain(expr);
}

int64_t predicted_reduce_cycles(const ScalarExpr& expr, int64_t vectors, int64_t elements) {
  // Running doubles are kept as words.
  const bool of_doubles = expr.is_double(expr.result());
  const int64_t combination =
      of_doubles ? machine_operations(ScalarOp::kPair) + machine_operations(ScalarOp::kAdd, true) +
                       machine_operations(ScalarOp::kHighWord) + machine_operations(ScalarOp::kLowWord)
                 : 1;
  const int64_t steps = (machine_operations(expr) + combination) * isa::kCyclesPerStep * vectors;
  return elements * std::max(steps, kRunningResultCycles) + kWaitCyclesPerOperation * longest_chain(expr);
}

}  // namespace kodama::compiler
