#include "isa/program.h"

#include <type_traits>

namespace kodama::isa {
namespace {

void add(const std::vector<Statement>& statements, int64_t times, ProgramCounts& counts) {
  for (const Statement& statement : statements) {
    std::visit(
        [&](const auto& kind) {
          using Kind = std::decay_t<decltype(kind)>;
          if constexpr (std::is_same_v<Kind, Step>) {
            counts.steps += times;
            counts.instructions += times * static_cast<int64_t>(kind.instructions.size());
          } else if constexpr (std::is_same_v<Kind, Nop>) {
            counts.steps += times * kind.count;
            counts.nops += times * kind.count;
            if (kind.wait_tag > 0) counts.instructions += times;
          } else if constexpr (std::is_same_v<Kind, Mv>) {
            counts.mvs += times;
            counts.instructions += times;
          } else if constexpr (std::is_same_v<Kind, Loop>) {
            add(kind.body, times * kind.count, counts);
          }
        },
        statement.kind);
  }
}

}  // namespace

Statement resolved(Statement statement, const std::vector<int64_t>& counters) {
  const auto resolve = [&](Instruction& instruction) {
    for (std::vector<Operand>* operands : {&instruction.sources, &instruction.destinations}) {
      for (Operand& operand : *operands) {
        operand.base = resolved_base(operand, counters);
        operand.loop_strides.clear();
      }
    }
  };
  if (auto* step = std::get_if<Step>(&statement.kind)) {
    for (Instruction& instruction : step->instructions) resolve(instruction);
  } else if (auto* mv = std::get_if<Mv>(&statement.kind)) {
    resolve(mv->instruction);
  }
  return statement;
}

ProgramCounts count(const Program& program) {
  ProgramCounts counts;
  add(program.statements, 1, counts);
  return counts;
}

}  // namespace kodama::isa
