#include "isa/program.h"

#include <algorithm>
#include <limits>

namespace kodama::isa {
namespace {

int64_t saturating_product(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::numeric_limits<int64_t>::max() : result;
}
void add(int64_t& sum, int64_t value) {
  if (__builtin_add_overflow(sum, value, &sum)) sum = std::numeric_limits<int64_t>::max();
}

void add(const Statement& statement, int64_t times, ProgramCounts& counts) {
  if (const Loop* loop = std::get_if<Loop>(&statement.kind)) {
    if (loop->count <= 0) return;
    for (const Statement& each : loop->body) add(each, saturating_product(times, loop->count), counts);
    return;
  }
  add(counts.statements, times);
  if (const Step* step = std::get_if<Step>(&statement.kind)) {
    add(counts.steps, times);
    add(counts.instructions, saturating_product(times, static_cast<int64_t>(step->instructions.size())));
  } else if (const Nop* nop = std::get_if<Nop>(&statement.kind)) {
    const int64_t steps = saturating_product(times, nop->count);
    add(counts.steps, steps);
    add(counts.nops, steps);
    if (nop->wait_tag > 0) add(counts.instructions, times);
  } else if (std::holds_alternative<Mv>(statement.kind)) {
    add(counts.mvs, times);
    add(counts.instructions, times);
  }
}

}  // namespace

bool is_idle(const Loop& loop) {
  return loop.count <= 0 || std::ranges::all_of(loop.body, [](const Statement& statement) {
           const Loop* inner = std::get_if<Loop>(&statement.kind);
           return inner != nullptr && is_idle(*inner);
         });
}

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
    for (Instruction& instruction : step->instructions.own()) resolve(instruction);
  } else if (auto* mv = std::get_if<Mv>(&statement.kind)) {
    resolve(mv->instruction);
  }
  return statement;
}

ProgramCounts count(const Program& program) {
  ProgramCounts counts;
  for (const Statement& statement : program.statements) add(statement, 1, counts);
  return counts;
}

ProgramCounts count(const Statement& statement) {
  ProgramCounts counts;
  add(statement, 1, counts);
  return counts;
}

int mask_statement_bit(Space space) {
  switch (space) {
    case Space::kGrf0:
      return 0;
    case Space::kGrf1:
      return 1;
    case Space::kT:
      return 2;
    case Space::kLm0:
    case Space::kBar0:
      return 3;
    case Space::kLm1:
    case Space::kBar1:
      return 4;
    case Space::kOmr:
      return 5;
    default:
      return -1;
  }
}

}  // namespace kodama::isa
