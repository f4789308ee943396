#include "scheduler/optimizer/program_emitter.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "isa/costs.h"

namespace kodama::scheduler {

ProgramEmitter::ProgramEmitter(const isa::Program& program, const isa::Chip& chip)
    : chip_(chip), clock_(chip), reach_(isa::longest_gap(chip) + 2) {
  result_.source_name = program.source_name;
}

void ProgramEmitter::scheduled(const StreamSegment& segment, const ClusterScheduler::Times& times) {
  int64_t length = 0;
  for (size_t k = 0; k < times.size(); ++k)
    length = std::max(length, times[k] + (segment.operations[k].is_mv ? 0 : 1));
  std::vector<std::vector<size_t>> at(static_cast<size_t>(length) + 1);
  for (size_t k = 0; k < times.size(); ++k) at[static_cast<size_t>(times[k])].push_back(k);
  for (int64_t t = 0; t <= length; ++t) {
    isa::Step step;
    int32_t line = 0;
    for (const size_t k : at[static_cast<size_t>(t)]) {
      const StreamOperation& operation = segment.operations[k];
      if (operation.is_mv) {
        statement({isa::Mv{operation.instruction}, operation.line});
        continue;
      }
      step.instructions.push_back(operation.instruction);
      line = line == 0 ? operation.line : std::min(line, operation.line);
    }
    if (t == length) break;
    if (step.instructions.empty()) {
      nops(1);
    } else if (step.instructions.size() == 1 && step.instructions[0].opcode == isa::Opcode::kWait) {
      statement({isa::Nop{1, step.instructions[0].tag}, line});
    } else {
      statement({std::move(step), line});
    }
  }
  std::vector<RecentOperation> issued;
  for (size_t k = 0; k < times.size(); ++k)
    issued.push_back({times[k], segment.operations[k].is_mv, segment.operations[k].accesses});
  pass(std::move(issued), length);
}

void ProgramEmitter::verbatim(const ProgramStream& stream, const ProgramSegment& segment) {
  std::vector<RecentOperation> issued;
  for (int k = segment.begin; k < segment.end; ++k) {
    const StreamOperation& operation = stream.operations[static_cast<size_t>(k)];
    issued.push_back({operation.time, operation.is_mv, operation.accesses});
  }
  const int64_t delay = delay_behind(recent_, issued, chip_);
  if (delay > 0) nops(delay);
  for (RecentOperation& recent : recent_) recent.time -= delay;
  for (const isa::Statement& original : segment.original) statement(original);
  pass(std::move(issued), segment.length);
}

isa::Program ProgramEmitter::finish() {
  // Nobody waits for nops at the end.
  while (!result_.statements.empty()) {
    const auto* nop = std::get_if<isa::Nop>(&result_.statements.back().kind);
    if (nop == nullptr || nop->wait_tag > 0) break;
    result_.statements.pop_back();
  }
  return std::move(result_);
}

void ProgramEmitter::statement(const isa::Statement& statement) {
  clock_.run({&statement, 1});
  result_.statements.push_back(statement);
}

void ProgramEmitter::nops(int64_t count) {
  if (!result_.statements.empty()) {
    if (auto* nop = std::get_if<isa::Nop>(&result_.statements.back().kind);
        nop != nullptr && nop->wait_tag == 0) {
      nop->count += count;
      clock_.steps(count);
      return;
    }
  }
  statement({isa::Nop{count, 0}, 0});
}

void ProgramEmitter::pass(std::vector<RecentOperation> issued, int64_t length) {
  std::ranges::move(issued, std::back_inserter(recent_));
  for (RecentOperation& recent : recent_) recent.time -= length;
  std::erase_if(recent_, [&](const RecentOperation& recent) { return recent.time < -reach_; });
}

}  // namespace kodama::scheduler
