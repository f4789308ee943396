#include "compiler/kernels/predict.h"

#include <algorithm>

#include "isa/costs.h"

namespace kodama::compiler {

int64_t predicted_transfer_cycles(const layout::Transport& transport, int64_t count, const isa::Chip& chip) {
  isa::Instruction mv;
  mv.opcode = transport.l2b_mode() == layout::L2bMode::kBroadcast ? isa::Opcode::kMvb : isa::Opcode::kMvp;
  mv.size_lw = transport.part_lw(count);
  isa::Operand dram;
  dram.space = isa::Space::kDram;
  isa::Operand l2bm;
  l2bm.space = isa::Space::kL2bm;
  if (mv.opcode == isa::Opcode::kMvb) dram.group = 0;
  mv.sources = {dram};
  mv.destinations = {l2bm};
  const int64_t mv_cycles = isa::transfer_cycles(mv, chip) * transport.parts_per_group();

  const int64_t l1bm_lw = count * transport.l1bm_lw_per_number();
  const int64_t per_step = transport.l1b_mode() == layout::L1bMode::kDistribute ? 32 : 64;
  const int64_t steps = (l1bm_lw + per_step - 1) / per_step + (count + 3) / 4;
  return mv_cycles + steps * isa::kCyclesPerStep;
}

int64_t machine_operations(ScalarOp op) {
  switch (op) {
    case ScalarOp::kInput:
    case ScalarOp::kConstant:
      return 0;
    case ScalarOp::kSelectNotNegative:
      return 3;
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
