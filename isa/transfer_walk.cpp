#include "isa/transfer_walk.h"

#include <algorithm>

namespace kodama::isa {
namespace {

int waited_tag(const Statement& statement) {
  if (const auto* nop = std::get_if<Nop>(&statement.kind)) return nop->wait_tag;
  if (const auto* step = std::get_if<Step>(&statement.kind)) {
    for (const Instruction& instruction : step->instructions) {
      if (instruction.opcode == Opcode::kWait) return instruction.tag;
    }
  }
  return 0;
}

/// Whether there is anything to visit.
bool matters(const std::vector<Statement>& statements) {
  return std::ranges::any_of(statements, [](const Statement& statement) {
    if (const auto* loop = std::get_if<Loop>(&statement.kind)) return matters(loop->body);
    return waited_tag(statement) > 0 || std::holds_alternative<Mv>(statement.kind) ||
           std::holds_alternative<Quit>(statement.kind);
  });
}

}  // namespace

void TransferWalk::walk(const std::vector<Statement>& statements) {
  for (const Statement& statement : statements) {
    if (stopped_) return;
    if (const auto* loop = std::get_if<Loop>(&statement.kind)) {
      if (is_idle(*loop) || !matters(loop->body)) continue;
      counters_.push_back(0);
      for (counters_.back() = 0; counters_.back() < loop->count && !stopped_; ++counters_.back())
        walk(loop->body);
      counters_.pop_back();
    } else if (std::holds_alternative<Mv>(statement.kind)) {
      if (mv) mv(std::get<Mv>(resolved(statement, counters_).kind).instruction);
    } else if (std::holds_alternative<Quit>(statement.kind)) {
      stopped_ = true;
    } else if (const int tag = waited_tag(statement); tag > 0 && wait) {
      wait(tag);
    }
  }
}

}  // namespace kodama::isa
